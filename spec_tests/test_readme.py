"""The Python of README.md runs as it stands, and says what the page says it says."""

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
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
    table = table[: table.index("\n## ", 1)]
    named = re.findall(r"`(\w+\.py)`", table)
    package = README.parent / "minilightning"
    shown = [path.name for path in package.glob("*.py") if path.name != "__init__.py"]
    assert sorted(named) == sorted(shown)
