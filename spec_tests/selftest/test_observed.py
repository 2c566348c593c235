"""The comparisons that clauses make, on hand-made runs, good and bad."""

from types import SimpleNamespace

import pytest

from ..observed import Mismatch, Observed
from ..trace import Event


def event(call, depth=0, step=0, epoch=0, mode="T", grad="G", stage="training"):
    who, _, rest = call.partition(".")
    hook, _, args = rest.partition("(")
    return Event(who, hook, args.rstrip(")"), depth, step, epoch, mode, grad, stage, "")


EVENTS = [
    event("c1.setup(fit)"), event("c2.setup(fit)"), event("M.setup(fit)"),
    event("M.optimizer_step(0, 0)"), event("M.training_step(Tensor, 0)", depth=1),
    event("M.forward(Tensor)", depth=2),
    event("c1.on_validation_start()", step=1, mode="E", grad="g", stage="validating"),
    event("M.training_step(Tensor, 1)", step=1, epoch=1),
]


def seen(events=EVENTS, error=None, **more):
    stage = SimpleNamespace(
        calls=[("fit", "None", {"global_step": 1}, list(events))], values={"fit": 7},
        errors={"fit": error} if error else {}, rank=0, notes={"loss": [1.0, 2.0]},
        looks={"M.setup": [True]}, warnings=[SimpleNamespace(message="Mind the gap")], **more)
    return Observed(stage, "fit()")


GOOD = [
    lambda t: t.only("C.setup M.setup"),
    lambda t: t.only("C.setup(fit) M.setup(fit)", absent="D.setup"),
    lambda t: t.only("M.optimizer_step { M.training_step { M.forward } } M.training_step"),
    lambda t: t.only("M.optimizer_step M.training_step M.forward M.training_step"),
    lambda t: t.only("[step=0 T G training] M.optimizer_step "
                     "[step+1 E g validating] c1.on_validation_start"),
    lambda t: t.none("M.teardown D.setup"),
    lambda t: t.args("M.training_step", "Tensor, 0", "Tensor, 1"),
    lambda t: t.state("M.training_step", "0/0 TG training", "1/1 TG training"),
    lambda t: t.count("setup", 3),
    lambda t: t.where(epoch=1).only("M.training_step(Tensor, 1)", absent="M.setup"),
    lambda t: t.inside("M.optimizer_step").count("M.training_step", 1),
    lambda t: t.looked("M.setup", True),
    lambda t: t.noted("loss", 1.0, 2.000001),
    lambda t: t.equal("value", t.value, 7),
    lambda t: t.equal("nested", {"a": [1.0]}, {"a": [1.0000001]}),
    lambda t: t.true("a step was made", t.after["global_step"] == 1),
    lambda t: t.warned("MIND", "gap"),
]

# What fails, and what it says came instead.
BAD = [
    (lambda t: t.only("M.setup C.setup"), "c1.setup, not M.setup"),
    (lambda t: t.only("C.setup M.setup M.teardown"), "nothing more, not M.teardown"),
    (lambda t: t.only("c1.setup M.setup", absent="c2.setup"), "c2.setup, not M.setup"),
    (lambda t: t.only("M.setup(test)"), "M.setup(fit), not M.setup(test)"),
    (lambda t: t.only("M.training_step"), "M.training_step, not the end"),
    (lambda t: t.only("M.optimizer_step M.training_step { M.forward } M.training_step"),
     "M.training_step, not M.training_step"),
    (lambda t: t.only("[step=1] M.optimizer_step"),
     "step=0 M.optimizer_step, not step=1 M.optimizer_step"),
    (lambda t: t.only("[E] c1.on_validation_start [T] M.forward"),
     "mode=T M.forward, not mode=E c1.on_validation_start"),
    (lambda t: t.none("M.setup"), "M.setup(fit), not the end"),
    (lambda t: t.args("M.training_step", "Tensor, 0"),
     "M.training_step(Tensor, 1), not the end"),
    (lambda t: t.state("M.training_step", "0/0 TG training", "1/0 TG training"),
     "1/1 TG training M.training_step, not 1/0 TG training M.training_step"),
    (lambda t: t.count("M.setup", 2), "M.setup calls = 1"),
    (lambda t: t.looked("M.setup", 1), "seen at M.setup = [True]"),
    (lambda t: t.noted("loss", 1.0), "noted loss = [1.0, 2.0]"),
    (lambda t: t.noted("nothing", 1.0), "noted nothing = []"),
    (lambda t: t.equal("flag", 1, True), "flag = 1"),
    (lambda t: t.true("it rains", False), "not: it rains"),
    (lambda t: t.raises("ValueError"), "nothing raised"),
    (lambda t: t.warned("gap", "lift"), "no warning with gap, lift"),
]


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_what_is_so_is_accepted(number):
    GOOD[number](seen())


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_not_so_is_refused_with_what_came(number):
    check, got = BAD[number]
    with pytest.raises(Mismatch) as caught:
        check(seen())
    assert caught.value.got == got and caught.value.config == "fit()"


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_nothing_that_is_so_of_the_run_is_so_of_an_empty_one(number):
    if number not in (5, 13, 14, 15, 16, 11, 12):  # of no events, or not about events
        with pytest.raises(Mismatch):
            GOOD[number](seen([]))


@pytest.mark.parametrize("spoil", [
    lambda events: events[:2] + events[3:], lambda events: events[:3] + events[2:],
    lambda events: [events[1], events[0]] + events[2:],
], ids=["dropped", "doubled", "swapped"])
def test_a_spoilt_order_is_refused(spoil):
    with pytest.raises(Mismatch):
        seen(spoil(EVENTS)).only("C.setup M.setup")


def test_an_error_is_told_by_class_and_words():
    t = seen(error=KeyError("boom in c1"))
    t.raises("KeyError", "BOOM", "c1")
    t.raises("LookupError")
    for kind, words in (("ValueError", ()), ("KeyError", ("c2",))):
        with pytest.raises(Mismatch):
            t.raises(kind, *words)


def test_both_sides_stand_side_by_side():
    with pytest.raises(Mismatch) as caught:
        seen().only("M.setup C.setup")
    assert [line.split("|") for line in str(caught.value).splitlines()[2:4]] == [
        [">>> M.setup  ", " "], ["    c1.setup ", " c1.setup"]]


def test_what_is_no_event_is_an_error_of_the_clause():
    with pytest.raises(ValueError, match="not events"):
        seen().only("on_train_start")
