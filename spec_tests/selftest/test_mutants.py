"""A few mutants, judged as ``mutants.py`` judges them all, so that it is seen when it breaks."""

import re

import pytest

from .. import clause
from . import mutants
from .semantic import EQUIVALENT, SEMANTIC

CLAUSES = clause.load()

# Some of the hand-written ones by what is wrong; each names its clause in ``semantic.py``.
BY_HAND = [
    "a callback's -1 skips the epoch",
    "after validation everything stays in eval mode",
    "Ctrl-C is raised",
    "setup comes before prepare_data",
    "means are not weighted by batch size",
    "files may run code",
]

# Some of the generated ones by their name, and a clause that notices each.
GENERATED = {
    "on_train_start: receivers dropped": "FIT-001",
    "on_train_batch_end: receivers doubled": "FIT-019",
    "trainer.py Trainer._fit: deleted: on.on_fit_start()": "CB-010",
    "trainer.py Trainer._evaluate: swapped: self.on.on_epoch_start()": "FIT-003",
    "trainer.py Trainer._step_schedulers: deleted: metric = None": "OPT-062",
    "dispatch.py fan_out: negated: not receivers": "FIT-001",
}


@pytest.fixture(autouse=True)
def ours(request):
    if not any(impl.is_ours for impl in request.config.implementations):
        pytest.skip("the mutants are of the package beside this suite")


@pytest.fixture(scope="module")
def generated():
    return {mutant.name: mutant for mutant in mutants.generated()}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_mutant_written_by_hand_is_noticed_by_its_clause(name):
    (mutant,) = [each for each in mutants.semantic() if each.name == name]
    assert mutants.judge(mutant, [CLAUSES[mutant.must]]) == mutant.must


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_mutant_is_noticed(generated, name):
    id = GENERATED[name]
    assert mutants.judge(generated[name], [CLAUSES[id]]) == id


def test_nothing_is_noticed_where_nothing_is_changed():
    chosen = {each.must for each in mutants.semantic() if each.name in BY_HAND}
    chosen |= {"DDP-001", *GENERATED.values()}
    assert mutants.judge(mutants.UNCHANGED, [CLAUSES[id] for id in sorted(chosen)]) is None


def test_who_meets_a_mutant(generated):
    """Whoever executes a line of it, the shortest first; without lines anyone; else nobody."""
    mutant = generated["trainer.py Trainer._fit: deleted: on.on_fit_end()"]
    at, (line,) = (mutant.file, line_of(mutant)), mutant.lines
    recorded = {"FIT-001": (2, {at}), "FIT-002": (1, {at, ("trainer.py", 1)}),
                "FIT-003": (1, {("dispatch.py", line)})}
    assert mutants.meets(mutant, recorded, CLAUSES) == ["FIT-002", "FIT-001"]
    assert mutants.meets(mutant, recorded, CLAUSES, {"FIT-001": 1}) == ["FIT-001", "FIT-002"]
    assert not mutants.meets(mutant, {"FIT-003": recorded["FIT-003"]}, CLAUSES)
    anyone = generated["on_train_start: receivers dropped"]
    assert set(mutants.meets(anyone, recorded, CLAUSES)) == set(recorded)


def line_of(mutant):
    """Return where it begins, and see that this is the line that its name says."""
    text = (mutants.PACKAGE / mutant.file).read_text().splitlines()[mutant.line - 1]
    assert text.split("#")[0].strip() == mutant.name.partition("deleted: ")[2]
    return mutant.line


def test_a_survivor_and_a_row_that_is_no_longer_true_are_counted(monkeypatch, capsys):
    met, told = iter(["FIT-001", None, "FIT-001", None, "hang"]), []
    monkeypatch.setattr(mutants, "judge", lambda *how: next(met))
    monkeypatch.setattr(mutants, "EQUIVALENT", {"c": "why", "d": "why"})
    made = [mutants.Mutant(name, "trainer.py", "", must="FIT-001") for name in "abcde"]
    assert mutants.report("some", made, None, CLAUSES, {}, float("inf"), 1,
                          lambda line, **how: told.append(line)) == 2
    assert told == ["survives 1 of 1: line 0 of b"]
    assert ("some: 5 mutants, 2 killed by a clause, 1 by a crash or hang, 1 equivalent, "
            "1 surviving, 0 not run") in capsys.readouterr().out


def test_a_run_goes_on_where_one_with_the_same_file_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "EQUIVALENT", {"c": "why"})
    kept = mutants.Outcomes(tmp_path / "outcomes")
    for name, outcome in (("a", "FIT-001"), ("b", None), ("c", None)):
        kept[name] = outcome
    assert mutants.Outcomes(tmp_path / "outcomes") == {"a": "FIT-001", "c": None}


def test_rows_about_mutants_are_about_mutants_that_there_are(generated):
    assert mutants.semantic(), "each anchor is there once"
    assert {must for must, *_ in SEMANTIC} <= set(CLAUSES)
    assert not set(EQUIVALENT) - set(generated), "no such mutants"
    for reason in EQUIVALENT.values():
        assert len(reason) > 20 and set(re.findall(r"[A-Z]+-\d{3}", reason)) <= set(CLAUSES)
