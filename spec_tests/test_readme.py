"""The Python of README.md runs as it stands, and says what the page says it says."""

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
PACKAGE = README.parent / "minilightning"
TEXT = README.read_text("utf-8")
(CODE,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_the_example_runs_and_finds_the_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (promised,) = re.findall(r"The last epoch prints `(.*)`", TEXT)

    exec(compile(CODE, str(README), "exec"), {"__name__": "readme"})

    told = re.findall(r"\d+ steps: [-\d.]+ x \+ [-\d.]+", capsys.readouterr().out)
    assert len(told) == 20, "once per epoch"
    assert told[-1] == promised
    assert list(tmp_path.iterdir()) == [], "logger and checkpoints were switched off"


def test_the_example_has_at_most_thirty_lines_of_code():
    assert sum(1 for line in CODE.splitlines() if line.strip()) <= 30


def test_the_picture_is_what_the_command_draws(tmp_path):
    from minilightning.__main__ import main

    assert main(["lifecycle", "--svg", str(tmp_path / "lifecycle.svg")]) == 0
    drawn = (tmp_path / "lifecycle.svg").read_text("utf-8")
    assert "(tutorials/lifecycle.svg)" in TEXT
    assert (README.parent / "tutorials" / "lifecycle.svg").read_text("utf-8") == drawn, \
        "python -m minilightning lifecycle --svg tutorials/lifecycle.svg"


def test_the_reading_order_names_every_file_of_the_package():
    table = TEXT[TEXT.index("## Read the source") :]
    table = table[: table.index("\n\n", table.index("| ---"))]
    named = re.findall(r"`(\w+\.py)`", table)
    shown = [path.name for path in PACKAGE.glob("*.py") if path.name != "__init__.py"]
    assert sorted(named) == sorted(shown)


def test_the_lines_it_counts_are_about_the_lines_there_are():
    rows = re.findall(r"^\| (`.*\.py`) \| (\d+) \|", TEXT, re.MULTILINE)
    assert len(rows) > 15
    for files, count in rows:
        lines = sum(len((PACKAGE / name).read_text("utf-8").splitlines())
                    for name in re.findall(r"`(\w+\.py)`", files))
        assert abs(int(count) - lines) <= 10 + lines // 20, "%s: %d lines" % (files, lines)


def test_the_clauses_it_names_are_there():
    from . import clause

    assert set(re.findall(r"[A-Z]{2,}-\d{3}", TEXT)) <= set(clause.load())


def test_the_targets_it_names_are_in_the_makefile():
    made = (README.parent / "Makefile").read_text("utf-8")
    for target in re.findall(r"make (\w[\w-]+)", TEXT):
        assert re.search(r"^%s:" % target, made, re.MULTILINE), target
