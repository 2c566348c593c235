"""The notation, the recorder and the comparison, on hand-made traces, good and bad."""

import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
import torch

from .. import conftest, facts, scenarios, subjects, trace, verdict

Played = namedtuple("Played", "calls results")

TINY = """
block batch(e, i)
  CM.on_train_batch_start(Tensor, $i) M.optimizer_step($e, $i) { M.training_step(Tensor, $i) }
  [step+1]

fact tiny
fit -> None | step=2 batches=2 last=True
  [training drop=T] M.setup(fit) @batch(0, 0) @batch(0, 1) [g validating] M.eval { M.train(False) }
  [E drop=E] C.on_validation_start [T G training epoch+1] M.teardown(fit)
= files: ['a.ckpt',
  'b.ckpt']
"""


def mirror(fact):
    """Return the run that is exactly as the fact says."""
    calls = [(call.name, call.result, dict(call.after), list(call.events)) for call in fact.calls]
    return Played(calls, dict(fact.results))


def tiny():
    return facts.parse(TINY)["tiny"]


def test_notation_is_read_as_explained():
    lines = [trace.line(event) for event in tiny().calls[0].events]
    assert lines == [
        "0/0 TG training drop=T M.setup(fit)",
        "0/0 TG training drop=T c1.on_train_batch_start(Tensor, 0)",
        "0/0 TG training drop=T c2.on_train_batch_start(Tensor, 0)",
        "0/0 TG training drop=T M.on_train_batch_start(Tensor, 0)",
        "0/0 TG training drop=T M.optimizer_step(0, 0)",
        "0/0 TG training drop=T   M.training_step(Tensor, 0)",
        "1/0 TG training drop=T c1.on_train_batch_start(Tensor, 1)",
        "1/0 TG training drop=T c2.on_train_batch_start(Tensor, 1)",
        "1/0 TG training drop=T M.on_train_batch_start(Tensor, 1)",
        "1/0 TG training drop=T M.optimizer_step(0, 1)",
        "1/0 TG training drop=T   M.training_step(Tensor, 1)",
        "2/0 Tg validating drop=T M.eval()",
        "2/0 Tg validating drop=T   M.train(False)",
        "2/0 Eg validating drop=E c1.on_validation_start()",
        "2/0 Eg validating drop=E c2.on_validation_start()",
        "2/1 TG training drop=E M.teardown(fit)",
    ]
    assert tiny().calls[0].after["num_training_batches"] == 2
    assert tiny().results == {"files": ["a.ckpt", "b.ckpt"]}


@pytest.mark.parametrize("text", ["fact a\nfit -> None\n  M.setup(fit", "fact a\nso be it"])
def test_what_is_not_the_notation_is_refused(text):
    with pytest.raises(ValueError, match="not a fact|not understood"):
        facts.parse(text)


# One change at a time to the good run, and what the failure must show.
CHANGES = {
    "who": (4, dict(who="c1"), "c1.optimizer_step"),
    "hook": (3, dict(hook="on_batch_start"), "M.on_batch_start"),
    "arguments": (5, dict(args="Tensor, 1"), ">>>"),
    "nesting": (5, dict(depth=0), ">>>"),
    "global_step": (6, dict(step=0), "0/0 TG training"),
    "current_epoch": (15, dict(epoch=0), "2/0 TG training"),
    "module mode": (13, dict(mode="T"), "2/0 Tg validating"),
    "grad mode": (13, dict(grad="i"), "2/0 Ei validating"),
    "stage": (13, dict(stage="sanity_checking"), "sanity_checking"),
    "submodule mode": (13, dict(parts="drop=T"), "drop=T"),
}


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_each_part_of_an_event_counts(change):
    at, replaced, shown = CHANGES[change]
    run = mirror(tiny())
    events = run.calls[0][3]
    events[at] = events[at]._replace(**replaced)
    text = verdict.differences(tiny(), run)
    assert "first difference at line %d of" % (at + 1) in text and shown in text


def without(run):
    del run.calls[0][3][3]


def doubled(run):
    run.calls[0][3].insert(3, run.calls[0][3][3])


def swapped(run):
    events = run.calls[0][3]
    events[1:3] = reversed(events[1:3])


def truncated(run):
    del run.calls[0][3][-1]


def other_result(run):
    run.calls[0] = (run.calls[0][0], "raises ValueError") + run.calls[0][2:]


def other_state(run):
    run.calls[0][2]["is_last_batch"] = False


def other_call(run):
    run.calls.append(run.calls[0])


def other_files(run):
    run.results["files"].append("c.ckpt")


def unexpected_result(run):
    run.results["more"] = 1


def lacking_result(run):
    run.results.clear()


SPOILS = [without, doubled, swapped, truncated, other_result, other_state, other_call, other_files,
          unexpected_result, lacking_result]


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda each: each.__name__)
def test_a_spoilt_run_differs(spoil):
    run = mirror(tiny())
    assert verdict.differences(tiny(), run) == ""
    spoil(run)
    assert verdict.differences(tiny(), run) != ""


def every_fact():
    blocks = {}
    return [fact for file in conftest.FILES for fact in facts.load(file, blocks).values()]


@pytest.mark.parametrize("fact", every_fact(), ids=lambda fact: fact.edition + "-" + fact.name)
def test_no_fact_is_vacuous(fact):
    """Nothing at all, and nothing but the entry points returning, must both be told apart."""
    assert verdict.differences(fact, mirror(fact)) == ""
    assert verdict.differences(fact, Played([], {}))
    silent = [(call.name, "None", dict(call.after), []) for call in fact.calls]
    assert verdict.differences(fact, Played(silent, {}))


@pytest.mark.parametrize("fact", every_fact(), ids=lambda fact: fact.edition + "-" + fact.name)
def test_every_event_of_a_fact_counts(fact):
    for at, call in enumerate(fact.calls):
        for number in range(0, len(call.events), 17):
            run = mirror(fact)
            del run.calls[at][3][number]
            assert verdict.differences(fact, run)


def test_every_fact_has_a_scenario_and_every_scenario_a_fact():
    assert {fact.name for fact in every_fact()} == set(scenarios.FIT) | set(scenarios.SCENARIOS)


def test_every_rule_says_why():
    assert all(fact.rule for fact in facts.load("rules", _blocks()).values())


def _blocks():
    blocks = {}
    facts.load("lightning-2.2.5", blocks)
    return blocks


def test_projection_keeps_the_nesting_among_what_is_kept():
    events = [event for event in tiny().calls[0].events if event.step == 0]
    kept = trace.project(events, lambda event: event.hook in ("setup", "training_step"))
    assert [trace.call(event) for event in kept] == ["M.setup(fit)", "M.training_step(Tensor, 0)"]


def test_the_difference_stands_side_by_side():
    text = trace.difference(["a", "b", "c", "d"], ["a", "c", "d"])
    assert text.splitlines() == [
        "first difference at line 2 of 4 expected, 3 actual",
        "    expected   actual",
        "    a        | a",
        ">>> b        | ",
        "    c        | c",
        "    d        | d",
    ]


def test_events_are_recorded_on_entry_with_bound_arguments():
    recorder = trace.Recorder()

    class Base:
        who = "M"

        def setup(self, stage):
            self.outer(1, flag=True)

        def outer(self, number, flag=True):
            raise ValueError

    table = {"setup": "stage", "outer": "number flag=True"}
    subject = subjects.recorded(Base, table, recorder)()
    for call in (lambda: subject.setup("fit"), lambda: subject.setup(stage="fit")):
        with pytest.raises(ValueError):
            call()
    subject.does = {"outer": lambda self, *args, **kwargs: None}
    subject.outer(2, False)
    subject.outer(number=torch.zeros(1), other=1)
    assert [trace.call(event) for event in recorder.events] == [
        "M.setup(fit)", "  M.outer(1)", "M.setup(fit)", "  M.outer(1)",
        "M.outer(2, False)", "M.outer(Tensor, True, other=1)"]


def test_words_for_values():
    recorder = trace.Recorder()
    saved = {"epoch": 0, "global_step": 0, "state_dict": {}, "mine": 1}
    full = dict(saved, callbacks={}, optimizer_states=[], lr_schedulers=[], rng=0)
    optimizer = subjects.optimizer(recorder, [torch.nn.Parameter(torch.zeros(1))])
    wrapper = type("Wrapper", (), {"optimizer": optimizer})()
    values = [None, 1, "fit", torch.zeros(1), {"b": 1, "a": 2}, saved, full, optimizer, wrapper,
              ValueError(), torch.device("cpu"), [torch.zeros(1), 0], print, object()]
    assert [recorder.word(value) for value in values] == [
        "None", "1", "fit", "Tensor", "dict(a,b)", "weights(mine)", "checkpoint(mine)", "O",
        "wrapped(O)", "ValueError", "cpu", "[Tensor,0]", "closure", "<object>"]


def test_a_broken_implementation_is_one_line_and_its_own_exit_code():
    """From outside; what else is refused is in test_running.py."""
    name, words = "json", "--impl json has no Trainer class"
    suite = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite),
               "--impl", name]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           universal_newlines=True, cwd=str(suite.parent))
    said = [line for line in ended.stdout.splitlines() if words in line]
    assert ended.returncode == conftest.BROKEN_IMPLEMENTATION and len(said) == 1
    assert "Traceback" not in ended.stdout
