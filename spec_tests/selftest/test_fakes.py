"""Wrong on purpose: the implementation under test, spoilt at its public face, and what notices.

Each row of ``FAKES`` says what is wrong, how it is made so, the clauses that must then fail, and
some that must still hold: a clause fails for what it is about, and for nothing else. What is wrong
is put around hooks and entry points, so that it can be done to any implementation.
"""

import functools
import inspect
import sys
import types

import pytest
import torch

from .. import adapter, clause, runner
from ..observed import Mismatch

NAME = "wrong_implementation"
ENTRIES = ("fit", "validate", "test", "predict")


# Around a hook: called with the hook as it was, and its arguments.


def twice(call, *args):
    call(*args)
    return call(*args)


def never(call, *args):
    return None


def first_alone(call, trainer, module, *args):
    return call(trainer, module, *args) if call.__self__ is trainer.callbacks[0] else None


def module_first(call, trainer, module, *args):
    if call.__self__ is trainer.callbacks[0]:
        getattr(type(module), call.__name__)(module, *args)
    return call(trainer, module, *args)


def next_index(call, trainer, module, batch, batch_idx, *more):
    return call(trainer, module, batch, batch_idx + 1, *more)


def without_outputs(call, trainer, module, outputs, *more):
    return call(trainer, module, None, *more)


def of_training(call, *args):
    return call(*args[:-1], "train")


def obeyed(call, trainer, module, *args):
    module.skips = call(trainer, module, *args)


def obeying(call, *args):
    answer = call(*args)
    return getattr(call.__self__, "skips", None) or answer


def with_gradients(call, *args):
    with torch.enable_grad():
        return call(*args)


def in_eval_mode(call, trainer, module, *args):
    module.eval()
    return call(trainer, module, *args)


def drawing(call, trainer, *args):
    if trainer.num_sanity_val_steps:
        torch.rand(1)
    return call(trainer, *args)


def going_on(call, trainer, module, *args):
    answer = call(trainer, module, *args)
    trainer.should_stop = False
    return answer


def unchanged(call, batch, *args):
    call(batch, *args)
    return batch


def without_callbacks(call, checkpoint):
    checkpoint.get("callbacks", {}).clear()
    return call(checkpoint)


def a_step_late(call, checkpoint):
    checkpoint["global_step"] += 1
    return call(checkpoint)


# Around an entry point: called with the trainer, the entry point as it was, and its arguments.


def swallowing(trainer, call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except Exception:
        return None


def wrapping(trainer, call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except Exception as error:
        raise RuntimeError("training has failed") from error


def raising_interrupts(trainer, call, *args, **kwargs):
    answer = call(*args, **kwargs)
    if getattr(trainer, "interrupted", False):
        raise KeyboardInterrupt
    return answer


def tearing_down(trainer, call, model=None, *args, **kwargs):
    try:
        return call(model, *args, **kwargs)
    except Exception:
        for callback in trainer.callbacks:
            callback.teardown(trainer, model, "fit")
        raise


def empty(trainer, call, *args, **kwargs):
    call(*args, **kwargs)
    return []


def without(name):
    """Return what forgets an argument."""
    def forgetting(trainer, call, model=None, *args, **kwargs):
        kwargs.pop(name, None)
        return call(model, *(() if name == "loaders" else args), **kwargs)
    return forgetting


def all_of_it(trainer, call, path, weights_only=False):
    return call(path)


# Instead of a class.


def patient(EarlyStopping):
    def __init__(self, *args, **kwargs):
        EarlyStopping.__init__(self, *args, **dict(kwargs, patience=kwargs.get("patience", 3) + 1))
    return dict(__init__=__init__)


def contrary(ModelCheckpoint):
    def __init__(self, *args, **kwargs):
        mode = "min" if kwargs.get("mode") == "max" else "max"
        ModelCheckpoint.__init__(self, *args, **dict(kwargs, mode=mode))
    return dict(__init__=__init__)


def unweighted(LightningModule):
    def log(self, *args, **kwargs):
        LightningModule.log(self, *args, **dict(kwargs, batch_size=1))
    return dict(log=log)


def negative(LightningModule):
    def log(self, name, value, *args, **kwargs):
        LightningModule.log(self, name, -value, *args, **kwargs)
    return dict(log=log)


# What is wrong; how: hooks (C of callbacks, M of the module), entry points, flags, classes; the
# clauses that fail, and some that hold.
FAKES = [
    ("a hook is called twice", {"CM.on_train_start": twice},
     "FIT-001 FIT-002 CB-013", "VAL-002 TEST-001 OPT-001 CB-014"),
    ("a hook is called twice on callbacks", {"C.on_validation_batch_end": twice},
     "VAL-002 CB-035", "FIT-012 CB-036"),
    ("the end of the training epoch is missing", {"CM.on_train_epoch_end": never},
     "FIT-012 CB-018", "VAL-002 TEST-001"),
    ("the end of the validation epoch is missing", {"CM.on_validation_epoch_end": never},
     "FIT-013 VAL-002 CB-035", "FIT-012 TEST-001"),
    ("one callback alone is called", {"C.on_fit_start": first_alone},
     "CB-010 FIT-002", "FIT-001 CB-013"),
    ("the module comes before the callbacks",
     {"C.on_train_epoch_start": module_first, "M.on_train_epoch_start": never},
     "FIT-012 CB-017", "FIT-001 VAL-002"),
    ("the module is set up before the callbacks", {"C.setup": module_first, "M.setup": never},
     "CB-004 DATA-002", "CB-005 FIT-012"),
    ("callbacks run in reverse order", {"flags.callbacks": lambda given: given[::-1]},
     "FIT-001 CB-005", "FIT-008 VAL-010 LOG-006"),
    ("an index is off by one", {"C.on_train_batch_start": next_index},
     "FIT-022", "FIT-012 FIT-018"),
    ("outputs are left out", {"C.on_train_batch_end": without_outputs},
     "FIT-018 CB-032", "FIT-022 FIT-012"),
    ("setup gets the wrong stage", {"CM.setup": of_training},
     "CB-004 VAL-014 TEST-002", "CB-005 TEST-001"),
    ("-1 is ignored", {"M.on_train_batch_start": lambda call, *args: call(*args) and None},
     "FIT-024 FIT-026", "FIT-023 FIT-030 FIT-022"),
    ("a callback's -1 is obeyed",
     {"C.on_train_batch_start": obeyed, "M.on_train_batch_start": obeying},
     "FIT-030", "FIT-024 FIT-022"),
    ("gradients are on in validation", {"CM.on_validation_batch_start": with_gradients},
     "VAL-006 CB-039", "VAL-002 VAL-010 FIT-009"),
    ("eval mode is not left after the validation", {"C.on_train_epoch_end": in_eval_mode},
     "CB-039 FIT-009", "VAL-006 FIT-012"),
    ("eval mode is not left after the evaluation", {"C.teardown": in_eval_mode},
     "TEST-008 PREDICT-010 DATA-004", "TEST-001 TEST-003 PREDICT-006"),
    ("the validation shows no eval mode", {"M.on_validation_model_eval": never},
     "VAL-002 VAL-007", "FIT-012 TEST-001"),
    ("errors are swallowed", {"fit validate test predict": swallowing},
     "FIT-090 CB-047 TEST-010", "FIT-093 FIT-001 CB-005"),
    ("errors are wrapped in others", {"fit": wrapping},
     "FIT-090 CB-047", "FIT-093 TEST-010"),
    ("Ctrl-C is raised again", {"fit": raising_interrupts},
     "FIT-093 CB-058", "FIT-090 CB-047"),
    ("Ctrl-C is told twice", {"C.on_keyboard_interrupt": twice},
     "CB-056", "CB-058 CB-047"),
    ("teardown runs after an error", {"fit": tearing_down},
     "CB-049", "CB-005 FIT-090"),
    ("on_exception is not called", {"C.on_exception": never},
     "FIT-093 CB-047", "CB-005 FIT-012"),
    ("on_exception is called on one callback", {"C.on_exception": first_alone},
     "CB-047 CB-050", "CB-005 FIT-012"),
    ("states of callbacks are lost", {"C.state_dict C.on_save_checkpoint": never},
     "CKPT-021 CKPT-022", "CKPT-011"),
    ("the checkpoint lacks the callbacks", {"M.on_save_checkpoint": without_callbacks},
     "CKPT-021 CKPT-022", "CKPT-011"),
    ("states are not given back", {"C.load_state_dict C.on_load_checkpoint": never},
     "CKPT-025 CKPT-029", "CKPT-045"),
    ("a checkpoint counts a step too many", {"M.on_save_checkpoint": a_step_late},
     "CKPT-009 CKPT-011", "CKPT-010 CKPT-021"),
    ("weights_only is ignored", {"save_checkpoint": all_of_it},
     "CKPT-012 CKPT-014", "CKPT-011"),
    ("ckpt_path is ignored in fit", {"fit": without("ckpt_path")},
     "CKPT-040 CKPT-046", "FIT-001 CKPT-043"),
    ("ckpt_path is ignored in evaluation", {"validate test predict": without("ckpt_path")},
     "CKPT-090 CKPT-092", "CKPT-040 TEST-001"),
    ("accumulation is ignored", {"flags.accumulate_grad_batches": lambda given: 1},
     "OPT-020 OPT-023 OPT-027", "OPT-001 OPT-003"),
    ("gradients are not cleared", {"M.optimizer_zero_grad": never},
     "OPT-001 OPT-006 CB-033", "FIT-012 CB-030"),
    ("gradients are not clipped", {"M.configure_gradient_clipping": never},
     "OPT-001 OPT-011 OPT-012", "OPT-006 OPT-023"),
    ("a scheduler steps twice", {"M.lr_scheduler_step": twice},
     "OPT-060 OPT-062", "OPT-001 OPT-003"),
    ("the sanity check is left out", {"flags.num_sanity_val_steps": lambda given: 0},
     "FIT-014 CB-015", "VAL-002 CB-016"),
    ("the sanity check draws random numbers", {"C.on_train_start": drawing},
     "FIT-016", "FIT-014 FIT-015"),
    ("limits are ignored", {"flags.limit_train_batches": lambda given: 1.0},
     "DATA-016", "FIT-012 VAL-022"),
    ("should_stop is ignored", {"C.on_train_batch_end C.on_train_epoch_end": going_on},
     "FIT-034 FIT-039", "FIT-012 FIT-031"),
    ("val_check_interval is ignored", {"flags.val_check_interval": lambda given: 1.0},
     "VAL-022", "VAL-001 VAL-021"),
    ("inference_mode=False is ignored", {"flags.inference_mode": lambda given: True},
     "VAL-009", "VAL-008 TEST-003"),
    ("max_steps is ignored", {"flags.max_steps": lambda given: -1},
     "FIT-031 OPT-028", "FIT-012 FIT-034"),
    ("predictions and results are lost", {"validate test predict": empty},
     "PREDICT-006 PREDICT-007 TEST-006 VAL-013", "PREDICT-001 TEST-001 VAL-014"),
    ("the data module is ignored", {"fit": without("datamodule")},
     "DATA-006 DATA-007", "DATA-008 FIT-012"),
    ("loaders given to fit are ignored", {"fit": without("loaders")},
     "DATA-013", "DATA-006 FIT-012"),
    ("the answer of a transfer hook is lost", {"M.on_after_batch_transfer": unchanged},
     "DATA-010", "DATA-008 FIT-020"),
    ("early stopping waits a check longer", {"EarlyStopping": patient},
     "CKPT-062", "FIT-034 CKPT-021"),
    ("the worst checkpoint is kept", {"ModelCheckpoint": contrary},
     "CKPT-064", "CKPT-062 CKPT-010"),
    ("epoch means are not weighted", {"LightningModule": unweighted},
     "LOG-006 LOG-007", "LOG-001 LOG-008"),
    ("the wrong value is logged", {"LightningModule": negative},
     "LOG-001 LOG-002 TEST-006", "FIT-012 VAL-010"),
]


@pytest.mark.parametrize("wrong, how, red, green", FAKES, ids=[row[0] for row in FAKES])
def test_what_is_wrong_fails_its_clauses_and_no_others(impl, wrong, how, red, green):
    if not _are_hooks(impl, _hooks(how)):
        pytest.skip("it has no such hook to get wrong")
    fake = make(impl, how)
    asked = [clause.CLAUSES[id] for id in red.split() + green.split()]
    asked = [each for each in asked if set(each.needs) <= impl.capabilities
             and set(each.editions) & set(impl.editions) and each.id not in impl.divergences]
    if not any(each.id in red.split() for each in asked):
        pytest.skip("it is asked for none of these clauses")
    for each in asked:
        assert not fails(each, impl), "%s: it fails without that" % each.id
        assert fails(each, fake) == (each.id in red.split()), each.id


def fails(each, impl):
    """Return whether a clause fails on an implementation."""
    try:
        runner.check(each, impl, "cpu")
    except Mismatch:
        return True
    return False


def make(real, how):
    """Return an implementation that is ``real`` but for what is wrong."""
    for name in [each for each in sys.modules if each.split(".")[0] == NAME]:
        del sys.modules[name]
    sys.modules[NAME] = types.ModuleType(NAME)
    for name in adapter.CLASSES:
        if hasattr(real, name):
            made = getattr(real, name)
            if name == "Trainer":
                made = _trainer(made, how)
            elif name in how:
                made = type(name, (made,), how[name](made))
            _put(adapter.CLASSES[name][0], made)
    fake = adapter.Implementation(NAME)
    fake.editions, fake.divergences = real.editions, {}
    return fake


def _put(place, made):
    at = NAME
    for part in place.split(".")[:-1]:
        at += "." + part
        sys.modules.setdefault(at, types.ModuleType(at))
    setattr(sys.modules[at], place.split(".")[-1], made)


def _trainer(Trainer, how):
    """Return a Trainer whose flags, hooks and entry points are as ``how`` says."""
    flags = {name[6:]: change for name, change in how.items() if name.startswith("flags.")}
    hooks = _hooks(how)
    entries = {name: change for names, change in how.items() for name in names.split()
               if hasattr(Trainer, name)}

    @functools.wraps(Trainer.__init__)
    def __init__(self, **given):
        given.update({name: change(given[name]) for name, change in flags.items() if name in given})
        for callback in given["callbacks"]:
            _spoil(callback, "C", hooks)
        Trainer.__init__(self, **given)

    members = {name: _entry(getattr(Trainer, name), name, entries, hooks)
               for name in ENTRIES + ("save_checkpoint",) if hasattr(Trainer, name)}
    return type("Trainer", (Trainer,), dict(members, __init__=__init__))


def _entry(function, name, entries, hooks):
    @functools.wraps(function)
    def entry(self, *args, **kwargs):
        if args and name in ENTRIES:
            _spoil(args[0], "M", hooks)
        change = entries.get(name)
        call = functools.partial(function, self)
        return change(self, call, *args, **kwargs) if change else call(*args, **kwargs)
    return entry


def _hooks(how):
    """Return {(C or M, hook): what is put around it}."""
    return {(who, what.partition(".")[2]): change for names, change in how.items()
            for what in names.split() for who in what.partition(".")[0]
            if set(what.partition(".")[0]) <= set("CM")}


def _are_hooks(impl, hooks):
    """Return whether the implementation knows all these hooks, {(C or M, name): ...}."""
    owners = dict(C=impl.Callback, M=impl.LightningModule)
    return all(hasattr(owners[who], hook) for who, hook in hooks)


def _spoil(receiver, who, hooks):
    """Put what is wrong around the hooks of a callback or module; once."""
    for (of, hook), change in hooks.items():
        if of == who and hasattr(receiver, hook) and hook not in vars(receiver):
            setattr(receiver, hook, _around(getattr(receiver, hook), change))


def _around(call, change):
    @functools.wraps(call)
    def around(*args, **kwargs):
        try:
            args = signature.bind(*args, **kwargs).args
        except TypeError:  # an older edition passes more
            return change(call, *args, **kwargs)
        return change(call, *args)
    signature = around.__signature__ = inspect.signature(call)
    return around
