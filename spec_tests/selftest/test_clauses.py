"""The clauses themselves: their form, the page of them, and that none holds on nothing."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .. import adapter, clause, listing, runner
from . import null

SUITE = Path(__file__).resolve().parent.parent
CLAUSES = clause.load()
FILES = sorted((SUITE / "clauses").glob("*.py"))
KEYWORD = re.compile(r"\b(?:MUST NOT|MUST|MAY|SHOULD|SHALL|REQUIRED)\b")


@pytest.mark.parametrize("each", CLAUSES.values(), ids=list(CLAUSES))
def test_form(each):
    assert re.match(r"[A-Z]+-\d{3}$", each.id), "AREA-NNN"
    assert each.id not in clause.RETIRED, "an id is never given again"
    assert each.check.__name__ == each.id.lower().replace("-", "_")
    assert each.check.__module__.endswith(".clauses." + each.area), "it stands in its area's file"
    assert each.sentence.endswith(".") and not re.search(r"[.!?]\s+[A-Z]", each.sentence), \
        "one sentence"
    (keyword,) = KEYWORD.findall(each.sentence)
    assert keyword in clause.KEYWORDS
    assert each.editions and set(each.editions) <= set(clause.EDITIONS)
    assert each.needs and set(each.needs) <= set(adapter.CAPABILITIES)
    assert each.devices and set(each.devices) <= set(clause.DEVICES)
    assert len(each.source) > 3, "where it is said"
    assert all(reason for reason in each.allow.values()), "an alternative has a reason"
    assert all(re.match(r"[A-Z]\w+(\.\w+)?\.\w+$", said) for said in each.arguments)
    for said in each.hooks:
        event, *aspects = said.split()
        assert re.match(r"[CMD]+\.\w+$", event) and aspects and set(aspects) <= set(clause.ASPECTS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_of_clauses_compares_with_run_and_names_no_implementation(file):
    text = file.read_text("utf-8")
    for named in ("minilightning", "pytorch_lightning", "lightning.pytorch", ".impl.name"):
        assert named not in text
    for node in ast.walk(ast.parse(text)):
        assert not isinstance(node, ast.Assert), "line %d: a bare assert" % node.lineno
        if isinstance(node, ast.Import):
            assert not any(name.name.startswith("torch") for name in node.names), node.lineno
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("torch"), node.lineno


    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert len(names) == len(set(names)), "two functions of one name: the later hides the other"


def test_an_id_is_given_once():
    with pytest.raises(ValueError, match="the id of two clauses"):
        clause.clause(next(iter(CLAUSES)), "It MUST.", "2.2", "fit", "seed")(lambda run: None)


def test_the_page_is_printed_without_torch_and_is_the_one_committed():
    code = ("import sys, runpy; sys.modules['torch'] = None; sys.argv[1:] = ['clauses'];"
            "runpy.run_module('spec_tests', run_name='__main__')")
    done = subprocess.run([sys.executable, "-c", code], cwd=str(SUITE.parent), check=True,
                          stdout=subprocess.PIPE)
    assert done.stdout.decode("utf-8") == listing.page()
    assert (SUITE / "CLAUSES.md").read_text("utf-8") == listing.page(), \
        "python -m spec_tests clauses > spec_tests/CLAUSES.md"


def test_the_clauses_that_a_viewer_shows_are_these(request):
    for impl in request.config.implementations:
        file = Path(impl.package.__file__ or "").parent / "clauses.txt"
        if impl.is_ours:
            assert file.read_text("utf-8") == listing.by_hook(), \
                "python -m spec_tests hooks > %s/%s" % (file.parent.name, file.name)


def test_every_hook_of_the_seeds_has_a_clause_for_each_aspect():
    covered, every = listing.cells()
    assert covered == every, "see the table at the end of CLAUSES.md for the empty cells"


def test_what_has_no_clause_has_a_reason_and_the_ids_in_it_are_clauses():
    for row in listing.lines("unchecked.txt"):
        seed, sentence, reason = [part.strip() for part in row.split("|")]
        assert seed in clause.EDITIONS and sentence.endswith(".") and len(reason) > 20
        assert set(re.findall(r"[A-Z]+-\d{3}", reason)) <= set(CLAUSES)


@pytest.fixture(scope="module")
def nothing(request):
    return null.make(request.config.implementations[0])


@pytest.mark.parametrize("each", CLAUSES.values(), ids=list(CLAUSES))
def test_no_clause_holds_where_nothing_happens(nothing, each):
    if not set(each.needs) <= nothing.capabilities or "cpu" not in each.devices:
        return
    with pytest.raises(Exception):  # noqa: B017  a Mismatch, or what the check could not even read
        runner.check(each, nothing, "cpu")


ARGUED = """EarlyStopping ModelCheckpoint LearningRateMonitor GradientAccumulationScheduler
    GPUStatsMonitor TQDMProgressBar LambdaCallback Timer ModelSummary CSVLogger TensorBoardLogger
    LightningModule.log LightningModule.log_dict Trainer.tune Tuner.lr_find""".split()


@pytest.mark.parametrize("name", ARGUED)
def test_each_argument_of_a_built_in_class_has_a_clause(request, name):
    covered = {argument.rpartition(".")[2] for argument in listing.argued(CLAUSES)
               if argument.rpartition(".")[0] == name}
    for impl in request.config.implementations:
        if impl.is_ours:
            owner, _, method = name.partition(".")
            function = getattr(getattr(impl, owner), method or "__init__")
            code = function.__code__
            known = code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount]
            has_keywords = code.co_flags & inspect.CO_VARKEYWORDS
            assert set(known) - covered == set(), "arguments that no clause says the meaning of"
            assert has_keywords or covered - set(known) == set(), "no arguments"


def test_the_ids_on_lines_of_the_package_are_of_clauses_about_these_lines(request):
    for impl in request.config.implementations:
        folder = Path(impl.package.__file__ or "").parent
        for file in [folder / "trainer.py", folder / "dispatch.py"] if impl.is_ours else []:
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
                assert not _stray(line), "%s:%d names %s" % (file.name, number, _stray(line))


def test_the_clauses_about_the_order_of_the_loops_stand_on_lines_of_them(request):
    """The other way round: who reads what a loop must do finds the line that does it."""
    ordered = {id for id, each in CLAUSES.items() if each.area in ("fit", "val", "test", "opt") and
               re.search(r"in (the|this) order", each.sentence)} | {"FIT-001", "PREDICT-001"}
    assert len(ordered) >= 7
    for impl in request.config.implementations:
        file = Path(impl.package.__file__ or "").parent / "trainer.py"
        text = file.read_text("utf-8") if impl.is_ours else ""
        assert not impl.is_ours or ordered <= set(re.findall(r"[A-Z]+-\d{3}", text))


def _stray(line):
    """Return the ids on a line that are no clause's, or of a clause about other hooks."""
    code, _, comment = line.partition("#")
    called = tuple(re.findall(r"\bon\.(\w+)\(", code))  # of an evaluation, without its prefix
    return [id for id in re.findall(r"\b[A-Z]+-\d{3}\b", comment) if id not in CLAUSES
            or called and not any(hook.endswith(called) for hook in _hooks(CLAUSES[id]))]


def _hooks(each):
    return {said.split()[0].partition(".")[2] for said in each.hooks}


def test_a_stray_id_is_noticed():
    assert not _stray("on.on_train_start()  # FIT-001")
    assert not _stray("if skipped:  # FIT-024: skips the rest")
    assert _stray("on.on_train_end()  # FIT-001") == ["FIT-001"]
    assert _stray("x = 1  # FIT-000") == ["FIT-000"]
