"""Who has only begun to write a Trainer is asked for what there is, and told what is missing."""

import sys
import types

import pytest
import torch

from .. import adapter, collecting, conftest, runner
from ..observed import Mismatch


class Trainer:
    """A loop, and no flag but two."""

    def __init__(self, max_epochs=1, callbacks=()):
        self.max_epochs = max_epochs

    def fit(self, model):
        optimizer = model.configure_optimizers()
        for _ in range(self.max_epochs):
            for batch_idx, batch in enumerate(model.train_dataloader()):
                optimizer.zero_grad()
                model.training_step(batch, batch_idx).backward()
                optimizer.step()


class Obliging(Trainer):
    """Takes any flag."""

    def __init__(self, **flags):
        super().__init__()
        self.flags = flags


class Module(torch.nn.Module):
    """A module."""


CLASSES = dict(Trainer=Trainer, LightningModule=Module, Callback=type("Callback", (), {}))


@pytest.fixture
def begun(monkeypatch):
    """Return a function that makes an implementation with these classes."""
    def make(**classes):
        package = types.ModuleType("begun")
        package.__dict__.update({name: made for name, made in dict(CLASSES, **classes).items()
                                 if made})
        monkeypatch.setitem(sys.modules, "begun", package)
        return adapter.Implementation("begun")

    return make


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class_that_is_missing_is_named(begun, name):
    with pytest.raises(adapter.BrokenImplementation, match="--impl begun has no %s class" % name):
        begun(**{name: None})


def test_flags_that_turn_off_what_is_not_there_are_left_out(begun):
    assert begun().trainer(**dict(runner.scenarios.FLAGS, max_epochs=3, num_sanity_val_steps=0,
                                  callbacks=[], default_root_dir="x")).max_epochs == 3


@pytest.mark.parametrize("flag", [
    dict(accumulate_grad_batches=2), dict(num_sanity_val_steps=1), dict(accelerator="gpu"),
    dict(devices=2), dict(strategy="ddp"), dict(logger=True), dict(enable_checkpointing=True)])
def test_a_flag_that_asks_for_more_is_lacking(begun, flag):
    with pytest.raises(adapter.Lacking, match="the flag %s of Trainer" % list(flag)[0]):
        begun().trainer(**flag)


def test_who_takes_any_flag_is_given_it_under_its_name_of_today(begun):
    flags = dict(max_epochs=2, enable_checkpointing=False, accumulate_grad_batches=2)
    assert begun(Trainer=Obliging).trainer(**flags).flags == flags


def test_a_flag_that_is_lacking_makes_a_clause_unsupported(begun):
    impl = begun()
    with pytest.raises(adapter.Lacking, match="accumulate_grad_batches"):
        runner.Run(impl, {}).fit(accumulate_grad_batches=2)
    item = types.SimpleNamespace(impl=impl, device="cpu", clause=types.SimpleNamespace(
        needs=[], allow={}, check=lambda run: run.fit(accumulate_grad_batches=2)))
    with pytest.raises(pytest.skip.Exception, match="needs the flag accumulate_grad_batches"):
        collecting.ClauseItem.runtest(item)


def test_a_loop_is_a_plain_fit_and_is_asked_about_2_2_in_clauses_alone(begun):
    impl = begun()
    conftest.smoke(impl)
    assert impl.claims == [] and impl.editions == ["2.2"] and not impl.is_ours
    assert {"test", "datamodule"} <= set(impl.lacks) <= adapter.WHOLE
    (header,) = conftest.pytest_report_header(types.SimpleNamespace(implementations=[impl]))
    assert "claims edition none, so that 2.2 is asked of it; lacks datamodule, log" in header
    for_all = types.SimpleNamespace()
    of_it = types.SimpleNamespace(callspec=types.SimpleNamespace(params={"impl": impl}))
    assert conftest._is_for_whole(for_all) and not conftest._is_for_whole(of_it)


def test_what_it_lacks_is_no_reason_for_an_error(begun):
    observed = runner.Run(begun(), {}).fit(max_epochs=2)
    assert observed.after["status"] == observed.after["stage"] == "None"
    with pytest.raises(Mismatch):
        observed.only("C.on_train_start M.on_train_start")


def test_a_fit_that_fails_is_told_with_its_line(begun):
    class Fails(Trainer):
        def fit(self, model):
            raise ValueError("no\nfit")

    with pytest.raises(pytest.exit.Exception) as caught:
        conftest.smoke(begun(Trainer=Fails))
    assert caught.value.returncode == conftest.BROKEN_IMPLEMENTATION
    assert "fit raised ValueError: no fit (test_beginner.py:" in caught.value.msg
    assert caught.value.msg.endswith(", in fit)")
