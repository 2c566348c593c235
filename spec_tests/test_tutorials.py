"""Each page of tutorials/ runs, prints what it says, and is right about what breaks."""

import ast
import importlib.util
import logging
import re
from pathlib import Path

import pytest

from . import clause
from .selftest import mutants

FOLDER = Path(__file__).resolve().parent.parent / "tutorials"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))
ROWS = re.findall(r"^\| (\d+) \| \[(.*?)\]\((.*?)\) \| (.*?) \| `(.*?)` "
                  r"\| (\d+) min \| (\d+) s \|$",
                  (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE)
each_page = pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("tutorials_run", str(FOLDER / "run.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def page_file(tmp_path, monkeypatch):
    """Return what writes a small page, in a folder to run it in."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "page.md").write_text(text.replace("~~~", "```"))
        return tmp_path / "page.md"

    return write


@each_page
@pytest.mark.filterwarnings("error:::__main__")
def test_a_page_prints_what_it_says(page, runner, monkeypatch, tmp_path):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parent))
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # what a page starts is no test
    logging.getLogger("minilightning").setLevel(logging.WARNING)
    runner.run(page)


@each_page
def test_what_a_page_breaks_turns_its_clause_red(page):
    pytest.importorskip("torch")
    file, old, new, must = broken(page)
    text = (mutants.PACKAGE / file).read_text("utf-8")
    assert text.count(old) == 1, "the lines before the change stand once in " + file
    mutant = mutants.Mutant(page.stem, file, text.replace(old, new), must)
    known = [row for row in mutants.semantic() if row.must == must and row.text == mutant.text]
    assert known, "a change of selftest/semantic.py, which names the same clause"

    named = clause.load()[must]
    assert mutants.judge(mutants.Mutant("none", file, text), [named]) is None
    assert mutants.judge(mutant, [named]) == must


@each_page
def test_a_page_says_where_to_look(page):
    file, old, _, must = broken(page)
    assert re.search(r"`(\w+\.)?%s`" % enclosing(file, old), break_it(page)), enclosing(file, old)


@each_page
def test_a_page_can_be_read_in_one_go(page):
    lines = page.read_text("utf-8").splitlines()
    assert 80 <= len(lines) <= 200
    written = re.sub(r"^```text\n.*?^```$", "", "\n".join(lines), flags=re.DOTALL | re.MULTILINE)
    assert not [line for line in written.splitlines() if len(line) > 100]


@each_page
def test_the_index_has_the_page(page):
    text = page.read_text("utf-8")
    title, first = re.match(r"# (\d+\. [^\n]*)\n\n(.*?\.)(?=\s)", text, re.DOTALL).groups()
    (row,) = [row for row in ROWS if row[2] == page.name]
    number, name, _, sentence, must, _, _ = row
    assert page.name.startswith("%02d_" % int(number))
    assert "%s. %s" % (number, name) == title
    assert sentence == " ".join(first.split())
    assert must == broken(page)[3]


def test_the_index_has_nothing_else_and_counts_upwards():
    assert [row[2] for row in ROWS] == [page.name for page in PAGES]


def test_a_block_that_prints_something_else_is_shown_with_its_line(runner, page_file):
    page = page_file("Text.\n\n~~~python\nprint(1)\n~~~\n\n~~~text\n2\n~~~\n")
    with pytest.raises(runner.Mismatch, match=r"(?s)page.md:4 prints.*- 2.*\+ 1"):
        runner.run(page)


def test_a_block_without_a_text_prints_nothing(runner, page_file):
    runner.run(page_file("~~~python\na = 1\n~~~\n\n~~~python\nprint(a)\n~~~\n\n~~~text\n1\n~~~\n"))
    with pytest.raises(runner.Mismatch, match="page.md:2 prints"):
        runner.run(page_file("~~~python\nprint(1)\n~~~\n"))


def test_a_text_that_no_block_prints_is_refused(runner, page_file):
    with pytest.raises(runner.Mismatch, match="follows no python"):
        runner.run(page_file("~~~sh\nls\n~~~\n\n~~~text\n1\n~~~\n"))


def test_the_command_tells_the_line_of_an_error(runner, page_file, capsys):
    pytest.importorskip("torch")
    page = page_file("Text.\n\n~~~python\na = 1\na / 0\n~~~\n")
    assert runner.main([str(page)]) == 1
    out = capsys.readouterr().out
    assert "page.md\", line 5" in out and "ZeroDivisionError" in out and "run.py" not in out
    assert "1 of 1 pages fail" in out


# What stands in the section "Break it" of a page.


def break_it(page):
    """Return the last section of a page."""
    heading, _, section = page.read_text("utf-8").rpartition("\n## ")
    assert section.startswith("Break it\n"), page.name
    return section


def broken(page):
    """Return the change that a page makes: file, old text, new text, and the clause it names."""
    section = break_it(page)
    ((file, changed),) = re.findall(
        r"^```diff\n--- minilightning/([\w.]+)\n\+\+\+ minilightning/\1\n(.*?)^```$", section,
        re.DOTALL | re.MULTILINE)
    (must,) = re.findall(
        r"^python -m pytest spec_tests -k ([A-Z]+-\d+) --device cpu$", section, re.MULTILINE)
    lines = [line if line.strip() else " \n" for line in changed.splitlines(True)]
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    return file, old, new, must


def enclosing(file, old):
    """Return the name of the function that holds the changed lines."""
    text = (mutants.PACKAGE / file).read_text("utf-8")
    first = text[:text.index(old)].count("\n") + 1
    holding = [node for node in ast.walk(ast.parse(text))
               if isinstance(node, (ast.FunctionDef, ast.ClassDef))
               and node.lineno <= first <= node.end_lineno]
    methods = [node for node in holding if isinstance(node, ast.FunctionDef)]
    return min(methods or holding, key=lambda node: node.lineno).name if holding else file
