"""Runs are shared, failures are grouped, divergences are strict, and each end has its code."""

import json
import sys
import types
from types import SimpleNamespace

import pytest

from .. import cases, clause, conftest, divergences, report, runner
from ..observed import Mismatch


def boom(self, batch, batch_idx):
    raise ValueError("boom")


def test_one_configuration_is_played_once(impl):
    cache = {}
    run = runner.Run(impl, cache)
    first = run.fit(limit_train_batches=1)
    assert run.fit(limit_train_batches=1).events is not first.events
    assert run.fit(limit_train_batches=1).trainer is first.trainer and len(cache) == 1
    assert run.fit(limit_train_batches=1.0).count("M.training_step", 2)
    run.fit(module={"training_step": boom}, fails=True).raises("ValueError", "boom")
    with pytest.raises(Mismatch, match="boom") as caught:
        run.fit(module={"training_step": boom})
    assert caught.value.got == "fit raises ValueError" and len(cache) == 3


def test_what_goes_wrong_outside_of_calls_is_a_mismatch(impl):
    def story(stage):
        raise LookupError("no stage")

    with pytest.raises(Mismatch, match="outside any call, LookupError: no stage"):
        runner.Run(impl, {}).play(story)


def test_failures_of_configurations_are_grouped(impl):
    def check(n):
        if n % 2:
            raise Mismatch("odd", "%d is odd" % n, "n=%d" % n)
        if n == 4:
            raise Mismatch("four", "four", "n=4")

    run = runner.Run(impl, {})
    with pytest.raises(Mismatch) as caught:
        run.each([3, 2, 1, 4, 5], check)
    assert caught.value.got == "four; odd"
    assert "3 of 5 configurations got: odd\nfor one, n=1\n1 is odd" in str(caught.value)
    run.each([2, 6], check)


def test_an_allowed_outcome_holds():
    def fails(run):
        raise Mismatch("another way")

    made = clause.Clause("FIT-999", "It MUST.", "2.2", "fit", "seed", [], {"another way": "so"},
                         "cpu", "")
    made.check = fails
    runner.settle(made, None)
    made.allow = {}
    with pytest.raises(Mismatch):
        runner.settle(made, None)


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    monkeypatch.setattr(divergences, "FOLDER", str(tmp_path))
    return SimpleNamespace(name="pkg.trainer", version="1.0", is_ours=False)


def written(implementation, text):
    with open(divergences.path(implementation), "w") as file:
        file.write(text)


FINE = "# a comment\n\nFIT-001  got: c1.on_x(), not M.on_x  # it # counts\n"


def read(implementation):
    return divergences.read(implementation, lambda id: id.startswith("FIT-"))


def test_divergences_are_read(theirs):
    assert read(theirs) == {}
    written(theirs, FINE)
    assert read(theirs) == {"FIT-001": ("c1.on_x(), not M.on_x", "it # counts")}


@pytest.mark.parametrize("line, complaint", [
    ("FIT-001", "pkg.trainer-1.0.txt:4 is not"),
    ("XYZ-001  got: a  # b", "XYZ-001 is no clause that is asked of it"),
    ("FIT-001  got: a  # b", "FIT-001 stands there twice"),
    ("FIT-002  got: a", "FIT-002 has no reason"),
    ("FIT-002  got: a  #", "FIT-002 has no reason"),
])
def test_divergences_that_cannot_be_believed_are_refused(theirs, line, complaint):
    written(theirs, FINE + line + "\n")
    with pytest.raises(divergences.Stale, match=complaint):
        read(theirs)


def test_our_own_package_has_no_divergences(theirs):
    theirs.is_ours = True
    written(theirs, FINE)
    with pytest.raises(divergences.Stale, match="may not diverge"):
        read(theirs)


def test_a_draft_keeps_reasons_only_of_what_still_comes_so(theirs):
    before = {"FIT-001": ("a", "why"), "FIT-002": ("b", "why"), "FIT-003": ("c", "why"),
              "FIT-004": ("d", "why")}
    divergences.draft(theirs, before, {"FIT-001": "a", "FIT-002": "x", "FIT-003": None,
                                       "FIT-009": "new"})
    rows = open(divergences.path(theirs)).read().splitlines()[1:]
    assert rows == ["FIT-001  got: a  # why", "FIT-002  got: x  #", "FIT-004  got: d  # why",
                    "FIT-009  got: new  #"]
    assert divergences.read(theirs, None, drafting=True)["FIT-009"] == ("new", "")


@pytest.mark.parametrize("outcome, got, expected", [
    ("failed", "so", ("skipped", "diverges")), ("failed", "else", ("failed", "failed")),
    ("passed", "", ("failed", "failed")),
])
def test_a_divergence_is_strict(outcome, got, expected):
    made = SimpleNamespace(outcome=outcome, sections=[], longrepr=None)
    case = dict(outcome=outcome, got=got, key="FIT-001")
    cases._judge(made, case, "so", "because")
    assert (made.outcome, case["outcome"]) == expected


def test_ids_are_clauses_facts_tests_and_nothing_else():
    asked = SimpleNamespace(capabilities={"fit"}, editions=["2.2"])
    known = cases.known(asked, conftest.every_fact())
    assert not cases.known(SimpleNamespace(capabilities={"fit"}, editions=["1.1"]), [])("FIT-024")
    assert not cases.known(SimpleNamespace(capabilities=set(), editions=["2.2"]), [])("FIT-024")
    assert known("FIT-001") and known("FIT-001@cuda") and known("2.2-fit_basic")
    assert known("test_scenario[x]")
    assert not (known("FIT-000") or known("FIT-001@tpu") or known("2.2-x") or known("test_no"))


@pytest.mark.parametrize("error, expected", [
    (Mismatch("a,  not b", "long\ntext"), "a, not b"),
    (AssertionError("assert 1 == 2\n  more"), "AssertionError: assert 1 == 2"),
    (pytest.fail.Exception("name (edition 2.2)\nrule: so\nfit: expected 1, got 2"),
     "fit: expected 1, got 2"),
    (pytest.fail.Exception("name (edition 2.2)\nfit: first\n    a | a\n>>> b   | c"), ">>> b | c"),
    (KeyError(), "KeyError:"),
])
def test_what_came_instead_is_one_line(error, expected):
    assert cases.got(error) == expected


class Refuses:
    """Options of a run that must not start."""

    def __init__(self, **options):
        self.options = options
        self.pluginmanager = SimpleNamespace(register=lambda plugin: None)

    def getoption(self, name):
        return self.options.get(name.strip("-"))


@pytest.mark.parametrize("options, code, words", [
    (dict(edition=["3.0"]), conftest.BAD_REQUEST, "--edition 3.0: there is none"),
    (dict(device=["cpu", "tpu"]), conftest.BAD_REQUEST, "--device tpu: there is none"),
    (dict(report="r.txt"), conftest.BAD_REQUEST, "--report r.txt: write a file that ends in"),
    (dict(report="/no/such/r.md"), conftest.BAD_REQUEST, "in a folder that is there"),
    (dict(impl=["no.such"]), conftest.BROKEN_IMPLEMENTATION, "--impl no.such cannot be imported"),
    (dict(impl=["json"]), conftest.BROKEN_IMPLEMENTATION, "--impl json has no Trainer"),
])
def test_bad_input_is_one_line_and_a_code(options, code, words):
    with pytest.raises(pytest.exit.Exception) as caught:
        conftest.pytest_configure(Refuses(**options))
    assert caught.value.returncode == code
    assert words in caught.value.msg and "\n" not in caught.value.msg


def test_an_implementation_that_fails_while_it_is_imported_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "failing_at_import.py").write_text("raise RuntimeError('one\\ntwo')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(pytest.exit.Exception) as caught:
        conftest.pytest_configure(Refuses(impl=["failing_at_import"]))
    assert caught.value.returncode == conftest.BROKEN_IMPLEMENTATION
    assert caught.value.msg == (
        "--impl failing_at_import cannot be imported: RuntimeError: one two")


def test_a_stale_file_of_divergences_is_one_line_and_a_code(impl, theirs, monkeypatch):
    name = "selftest_elsewhere"
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules[name].__dict__.update(impl.package.__dict__, __file__="/elsewhere/__init__.py")
    written(SimpleNamespace(name=name, version=impl.version), "FIT-000  got: a  # b\n")
    with pytest.raises(pytest.exit.Exception) as caught:
        conftest.pytest_configure(Refuses(impl=[name]))
    assert caught.value.returncode == conftest.STALE_DIVERGENCES
    assert "FIT-000 is no clause" in caught.value.msg and "\n" not in caught.value.msg


def test_a_plain_fit_that_does_not_run_stops_the_run(impl):
    class Broken:
        name = "broken"

        def __getattr__(self, name):
            return getattr(impl, name)

        def trainer(self, **flags):
            raise RuntimeError("no\ntrainer")

    with pytest.raises(pytest.exit.Exception) as caught:
        conftest.smoke(Broken())
    assert caught.value.returncode == conftest.BROKEN_IMPLEMENTATION
    assert caught.value.msg.startswith("adapter or implementation broken: a plain fit of broken")
    assert "\n" not in caught.value.msg


OUTCOMES = [
    dict(implementation="pkg", version="1", device="cpu", kind="clause", id=id, topic="fit",
         editions=["2.2"], sentence="It MUST.", outcome=outcome, got=got, reason=reason)
    for id, outcome, got, reason in [
        ("FIT-001", "passed", "", ""), ("FIT-021", "failed", "nothing", ""),
        ("FIT-022", "diverges", "less", "since ever"), ("FIT-024", "unsupported", "", "")]]


@pytest.mark.parametrize("suffix", ["json", "md"])
def test_the_report_has_denominators_and_what_nobody_ran(tmp_path, suffix):
    made = report.structure(OUTCOMES, {"torch": "2"})
    file = str(tmp_path / ("r." + suffix))
    report.write(file, made)
    text = open(file).read()
    page = report.markdown(report.read([file])) if suffix == "json" else text
    assert made["ran"] == 3 and made["clauses"] == len(clause.load())
    assert "FIT-024" in made["nobody_ran"] and "FIT-001" not in made["nobody_ran"]
    assert "3 of %d clauses ran" % len(clause.load()) in page
    assert "| 2.2 | 1 of 3 passed, 1 diverge, 1 failed; 1 unsupported |" in page
    assert "- **FIT-022** It MUST.\n  - instead: `less`\n  - reason: since ever" in page
    if suffix == "json":
        assert json.loads(text)["outcomes"] == made["outcomes"]


@pytest.mark.parametrize("floor, code", [(0, 0), (1, 0), (2, cases.TOO_FEW)])
def test_a_floor_on_the_clauses_that_ran(floor, code):
    tally = cases.Tally(Refuses(floor=floor))
    tally.outcomes = OUTCOMES[:1]
    session = SimpleNamespace(exitstatus=0)
    tally.pytest_sessionfinish(session)
    assert session.exitstatus == code
