"""The model equals what real implementations did, and the implementation equals the model.

The first part needs no implementation. In the second, each configuration is one run, and what
differs is grouped by the first diverging event, so that one hook that has moved is one line.
"""

import functools

import pytest

from . import configurations, facts, model, trace
from .configurations import Configuration
from .play import play

# Part one: the model and the recordings.

FLAT = dict(num_sanity_val_steps=0)  # as most scenarios
SHORT = dict(FLAT, train=1, val=1)
BOOM = ("RuntimeError", "M", "training_step", 1)
CTRL_C = "KeyboardInterrupt"
ALL = "fit validate test predict"

# The scenarios that can be written as a configuration.
RECORDED = {
    "fit_basic": {},
    "fit_accumulate_2": dict(train=3, accumulate_grad_batches=2),
    "fit_gradient_clip": dict(train=1, val=1, gradient_clip_val=0.5),
    "fit_loaders_as_arguments": dict(data="arguments"),
    "fit_max_steps_3_over_epochs_of_2": dict(FLAT, max_epochs=10, max_steps=3),
    "fit_min_epochs_with_should_stop": dict(FLAT, max_epochs=4, min_epochs=2, stop_at=(0, 0)),
    "fit_no_sanity": FLAT,
    "fit_no_val": dict(val=None),
    "fit_should_stop_mid_epoch": dict(FLAT, train=3, max_epochs=2, stop_at=(0, 0)),
    "fit_two_epochs": dict(FLAT, max_epochs=2),
    "fit_two_epochs_check_val_every_2": dict(max_epochs=2, check_val_every_n_epoch=2),
    "fit_val_check_interval_half": dict(FLAT, train=4, val_check_interval=0.5),
    "limit_batches_1": dict(limit_train_batches=1, limit_val_batches=1),
    "limit_train_batches_0": dict(limit_train_batches=0),
    "limit_val_batches_0": dict(limit_val_batches=0),
    "empty_train_loader": dict(train=0, val=1),
    "train_batch_start_minus1_callback": dict(FLAT, train=3, val=1, max_epochs=2),
    "train_batch_start_minus1_module": dict(FLAT, train=3, val=1, max_epochs=2, skip_at=(0, 1)),
    "train_two_dataloaders_combined": dict(FLAT, train=(3, 2), val=1),
    "training_step_returns_none": dict(FLAT, train=3, val=1, none_at=(0, 1)),
    "reload_dataloaders_every_n_epochs_1": dict(
        train=1, val=1, max_epochs=2, reload_dataloaders_every_n_epochs=1),
    "exception_in_callback_setup": dict(raises=("ValueError", "c1", "setup", 1)),
    "exception_in_configure_optimizers": dict(
        raises=("ValueError", "M", "configure_optimizers", 1)),
    "exception_in_training_step": dict(val=1, raises=BOOM),
    "exception_in_training_step_with_datamodule": dict(FLAT, data="datamodule", raises=BOOM),
    "exception_in_validation_step": dict(FLAT, raises=("RuntimeError", "M", "validation_step", 1)),
    "keyboard_interrupt_in_training_step": dict(val=1, raises=(CTRL_C, "M", "training_step", 1)),
    "keyboard_interrupt_in_validate": dict(
        entry="validate", raises=(CTRL_C, "M", "validation_step", 1)),
    "system_exit_in_training_step": dict(FLAT, raises=("SystemExit", "M", "training_step", 1)),
    "validate": dict(entry="validate"),
    "validate_two_dataloaders": dict(entry="validate", val=(2, 1)),
    "predict": dict(entry="predict"),
    "predict_two_dataloaders": dict(entry="predict", predict=(2, 1)),
    "test": dict(entry="test"),
    "grad_mode": dict(entry=ALL, train=1, val=1, test=1, predict=1),
    "trainer_call_order_of_setup_args": dict(SHORT, entry=ALL, test=1, predict=1),
    "configure_model_each_stage": dict(SHORT, entry="fit test", test=1),
    "model_in_eval_before_fit": dict(train=1, val=1, in_eval="module drop layer"),
    "model_mode_restored": dict(entry="fit test", train=1, val=1, max_epochs=2, in_eval="drop"),
    "on_validation_model_train_not_overridden": dict(
        entry="fit validate test", train=1, val=1, in_eval="drop"),
    "on_validation_model_train_overridden_calls_super": dict(
        entry="fit validate test", train=1, val=1, in_eval="drop", model_train="super"),
    "on_validation_model_train_overridden_noop": dict(
        entry="fit validate test", train=1, val=1, in_eval="drop", model_train="nothing"),
    "datamodule_hooks": dict(entry="fit test", data="datamodule"),
    "datamodule_validate_and_predict": dict(
        entry="validate predict", data="datamodule", val=1, predict=1),
    "prepare_data_per_node_false": dict(SHORT, data="datamodule"),
    "lr_scheduler_interval_epoch": dict(FLAT, val=1, max_epochs=2, scheduler=("epoch", 1)),
    "lr_scheduler_interval_step": dict(FLAT, train=3, val=1, scheduler=("step", 2)),
    "lr_scheduler_manual_optimization": dict(
        FLAT, val=1, scheduler=("step", 1), automatic=False),
    "lr_scheduler_reduce_on_plateau": dict(
        SHORT, max_epochs=2, scheduler=("epoch", 1), plateau=True),
    "resume_mid_epoch": dict(FLAT, train=3, val=1, max_epochs=2, resume=0),
    # Of these only the second run: how the first one saved is another story.
    "resume_end_of_epoch": dict(val=1, max_epochs=2, resume="file"),
    "resume_already_finished": dict(val=1, resume="fit"),
    # Edition 1.5, with the hooks that it alone has.
    "older_fit": {},
    "older_validate": dict(entry="validate"),
    "older_test": dict(entry="test"),
    "older_predict": dict(entry="predict"),
    "older_keyboard_interrupt": dict(FLAT, raises=(CTRL_C, "M", "training_step", 1)),
    "older_exception": dict(FLAT, raises=BOOM),
}
SECOND_RUN = ("resume_end_of_epoch", "resume_already_finished")


@functools.lru_cache(None)
def recordings():
    """Return {scenario: fact}, our own rules in the place of the recordings they replace."""
    blocks, chosen = {}, {}
    for file in ("lightning-2.2.5", "pytorch_lightning-1.5.10", "rules"):
        chosen.update(facts.load(file, blocks))
    return chosen


@pytest.mark.parametrize("name", RECORDED)
def test_model_equals_recording(name):
    """What was recorded, events and results, is what the model says."""
    fact = recordings()[name]
    events = model.events(Configuration(**RECORDED[name]), older=name.startswith("older_"))
    calls = fact.calls
    if name in SECOND_RUN:
        calls, events = calls[-1:], last_call(events)
    recorded = [event for call in calls for event in call.events]
    write = trace.call if fact.stateless else trace.line
    if not any(event.parts for event in recorded):
        events = [event._replace(parts="") for event in events]
    seen = trace.project(events, lambda event: event.who != "trainer" and (
        fact.only is None or {event.hook, event.who + "." + event.hook} & fact.only))
    different = trace.difference([write(event) for event in recorded],
                                 [write(event) for event in seen])
    assert not different, different
    raised = [event.args for event in events if event.who == "trainer"]
    assert raised == [call.result.partition("raises ")[2] for call in calls
                      if call.name != "Trainer"]


def last_call(events):
    """Return the events of the last call: each begins with configure_callbacks."""
    begins = [at for at, event in enumerate(events) if event.hook == "configure_callbacks"]
    return events[begins[-1]:]


def test_enough_configurations():
    """At least 400 different ones of fit, and any two values of two factors occur together."""
    every = [config for group in configurations.GROUPS.values() for config in group()]
    assert len({written(config) for config in every if config.entry == "fit"}) >= 400
    factors = dict(configurations.USUAL, **configurations.LIMITS)
    together = [frozenset(map(repr, config._asdict().items()))
                for config in configurations.covering(factors)]
    for pair in configurations.combinations(factors, 2):
        wanted = {repr((name, factors[name][at])) for name, at in pair}
        assert any(wanted <= each for each in together), wanted


# Part two: an implementation and the model.


@pytest.mark.parametrize("group", configurations.GROUPS)
def test_implementation_equals_model(impl, group):
    """Each run, event for event; failures are grouped by their first diverging event."""
    if "hooks_2.2" not in impl.capabilities:
        pytest.skip("needs hooks_2.2")
    older = "older_hooks" in impl.capabilities
    groups, count = {}, 0
    for config in configurations.GROUPS[group]():
        expected = model.events(config, older)
        if not configurations.needs(config, expected) <= impl.capabilities:
            continue
        count += 1
        try:
            actual = play(impl, config)
            key = expected != actual and first_difference(expected, actual)
        except Exception as error:  # outside any entry point: in the making of a trainer
            actual, key = [], "cannot be played: %r" % error
        if key:
            groups.setdefault(key, []).append((config, expected, actual))
    if groups:
        pytest.fail("%d of %d configurations differ\n%s" % (
            sum(map(len, groups.values())), count, report(groups)), pytrace=False)
    assert count


def first_difference(expected, actual):
    """Name the first diverging event by what stands there and what stands before it."""
    at = next((at for at, (one, other) in enumerate(zip(expected, actual)) if one != other),
              min(len(expected), len(actual)))
    before = call(expected, at - 1) if at else "the beginning"
    one, other = call(expected, at), call(actual, at)
    if one == other:
        fields = [field for field in model.Event._fields
                  if getattr(expected[at], field) != getattr(actual[at], field)]
        return "%s: other %s" % (one, ", ".join(fields))
    return "after %s: expected %s, got %s" % (before, one, other)


def call(events, at):
    """Name the call at a place."""
    return "%s.%s" % (events[at].who, events[at].hook) if at < len(events) else "nothing"


def report(groups):
    """Write a line for each group, and of the largest ones both sides of the smallest case."""
    groups = sorted(groups.items(), key=lambda group: -len(group[1]))
    smallest = [min(cases, key=lambda case: len(written(case[0]))) for _, cases in groups]
    lines = ["%4d times %s\n     as in %s" % (len(cases), key, written(case[0]))
             for (key, cases), case in zip(groups, smallest)]
    for config, expected, actual in smallest[:3]:
        lines += ["", written(config), trace.difference(
            [trace.line(event) for event in expected], [trace.line(event) for event in actual])]
    return "\n".join(lines)


def written(config):
    """Write a configuration: what is not as usual."""
    usual = Configuration()
    return "Configuration(%s)" % ", ".join(
        "%s=%r" % (name, value) for name, value in config._asdict().items()
        if repr(value) != repr(getattr(usual, name)))
