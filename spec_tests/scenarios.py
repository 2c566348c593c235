"""The scenarios: short configurations of module, callbacks, data module, flags and calls.

Most are one line of ``FIT``: what differs from one epoch over two training and two validation
batches. The rest are functions of a ``Run``, named as their facts are.
"""

import logging
import os
import shutil
import tempfile
import warnings

import torch

from . import subjects
from .trace import Recorder

FLAGS = dict(
    accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)

STATE = """
global_step current_epoch should_stop interrupted num_training_batches max_epochs min_epochs
max_steps num_sanity_val_steps is_last_batch
""".split()


class Run:
    """One scenario on one implementation: what was called, what came back, what was recorded."""

    def __init__(self, impl, folder):
        self.impl = impl
        self.folder = folder
        self.recorder = Recorder(impl.Trainer)
        self.calls = []
        self.results = {}
        self.Callback = subjects.callback_class(impl, self.recorder)

    def module(self, batches=(), extra=(), without=(), params=None, **does):
        """Make the module under test; keyword arguments say what its hooks do."""
        module = subjects.module_class(self.impl, self.recorder, extra, without, params)()
        module.batches.update(batches)
        module.does.update(does)
        return self.use(module)

    def callback_hooks(self, changed=""):
        """Return the hooks of a recorded callback, some of them added or with other parameters."""
        table = subjects.hooks(subjects.CALLBACK + changed, "trainer pl_module")
        return dict(table, **subjects.hooks(subjects.CALLBACK_STATE))

    def use(self, module):
        """Take a module for the one that arguments and modes refer to."""
        self.recorder.module = module
        self.recorder.name(module, "module")
        return module

    def trainer(self, *callbacks, **flags):
        """Make a trainer with two recorded callbacks, or the given ones."""
        self.recorder.trainer = None
        callbacks = list(callbacks) or [self.Callback("c1"), self.Callback("c2")]
        flags = dict(FLAGS, callbacks=callbacks, default_root_dir=self.folder, **flags)
        trainer = self.impl.trainer(**flags)
        self.recorder.name(trainer, "trainer")
        self.recorder.trainer = trainer
        return trainer

    def call(self, name, function, *args, **kwargs):
        """Call an entry point, and keep what it returned or raised and the trainer's state."""
        start = len(self.recorder.events)
        value = None
        try:
            value = function(*args, **kwargs)
            result = repr(plain(value))
        except BaseException as error:  # also SystemExit and KeyboardInterrupt are results
            result = "raises " + type(error).__name__
        self.calls.append((name, result, self.after(), self.recorder.events[start:]))
        return value

    def after(self):
        """Return what the trainer says of itself now."""
        trainer, module = self.recorder.trainer, self.recorder.module
        said = {key: getattr(trainer, key, "absent") for key in STATE}
        for key in ("status", "stage", "fn"):
            value = getattr(getattr(trainer, "state", None), key, None)
            said[key] = str(getattr(value, "name", value))
        said["grad_enabled"] = torch.is_grad_enabled()
        said["module_training"] = None if module is None else module.training
        return said

    def path(self, name):
        """Return a path in the scenario's own folder."""
        return os.path.join(self.folder, name)


def plain(value):
    """Write a result in plain values: tensors by shape, or by value where they have no shape."""
    if isinstance(value, torch.nn.Module):
        return "module"
    if isinstance(value, torch.Tensor):
        return round(value.item(), 6) if not value.shape else "Tensor%s" % (tuple(value.shape),)
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if type(value).__name__ == "Trainer":
        return "trainer"
    return round(value, 6) if isinstance(value, float) else value


def play(impl, name):
    """Run a scenario and return its Run."""
    folder = tempfile.mkdtemp()
    torch.manual_seed(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.disable(logging.WARNING)
            run = Run(impl, folder)
            fit(run, **FIT[name]) if name in FIT else SCENARIOS[name](run)
        return run
    finally:
        logging.disable(logging.NOTSET)
        shutil.rmtree(folder, ignore_errors=True)


def raises(error):
    """Return a hook that raises."""
    def hook(self, *args, **kwargs):
        raise error
    return hook


def returns(value):
    """Return a hook that returns a value and does nothing."""
    return lambda self, *args, **kwargs: value


def at(batch_idx, value):
    """Return an ``on_train_batch_start`` that returns a value at one batch of epoch 0."""
    def hook(self, *args):
        trainer = args[0] if len(args) > 2 else self.trainer
        return value if args[-1] == batch_idx and trainer.current_epoch == 0 else None
    return hook


def logs(name, value=1.0, **how):
    """Return a step that logs a metric and returns a loss."""
    def step(self, batch, batch_idx, *more, **named):
        self.log(name, torch.tensor(value), **how)
        return self(batch).sum()
    return step


def stop(self, trainer, module, *args):
    """Ask for an end of training."""
    trainer.should_stop = True


def none_at_1(self, batch, batch_idx):
    """Skip the optimization of batch 1."""
    return None if batch_idx == 1 else self(batch).sum()


def with_extra(self, batch, batch_idx):
    """Return more than the loss."""
    return {"loss": self(batch).sum(), "extra": "kept", "t": torch.tensor(1.0)}


def combined(self):
    """Return two training loaders of different lengths."""
    return {"a": subjects.rows(3), "b": subjects.rows(2)}


def fit(run, train=2, val=2, c1=None, c2=None, module=None, without=(), before=None, **flags):
    """The usual scenario: one ``fit``."""
    subject = run.module(dict(train=train, val=val), without=without, **module or {})
    if before:
        before(run, subject)
    trainer = run.trainer(run.Callback("c1", **c1 or {}), run.Callback("c2", **c2 or {}), **flags)
    run.call("fit", trainer.fit, subject)


def eval_before(run, module):
    """Put the module into eval mode by hand, and watch its parts."""
    module.eval()
    run.recorder.watch = ("drop", "layer")


NO_VAL = ("val_dataloader", "validation_step")
QUIET = dict(num_sanity_val_steps=0)
SHORT = dict(QUIET, train=1, val=1)
BOOM = RuntimeError("boom")

# What differs from the usual: number of batches, flags, and what hooks do.
FIT = {
    "fit_basic": {},
    "fit_no_sanity": QUIET,
    "fit_no_val": dict(without=NO_VAL),
    "fit_two_epochs": dict(QUIET, max_epochs=2),
    "fit_two_epochs_check_val_every_2": dict(max_epochs=2, check_val_every_n_epoch=2),
    "fit_val_check_interval_half": dict(QUIET, train=4, val_check_interval=0.5),
    "fit_gradient_clip": dict(train=1, val=1, gradient_clip_val=0.5),
    "fit_max_steps_3_over_epochs_of_2": dict(QUIET, max_epochs=10, max_steps=3),
    "fit_min_epochs_with_should_stop": dict(
        QUIET, max_epochs=4, min_epochs=2, c1=dict(on_train_batch_end=stop)),
    "fit_should_stop_mid_epoch": dict(
        QUIET, train=3, max_epochs=2, c1=dict(on_train_batch_end=stop)),
    "limit_batches_1": dict(limit_train_batches=1, limit_val_batches=1),
    "limit_train_batches_0": dict(limit_train_batches=0),
    "limit_val_batches_0": dict(limit_val_batches=0),
    "empty_train_loader": dict(train=0, val=1),
    "train_batch_start_minus1_module": dict(
        QUIET, train=3, val=1, max_epochs=2, module=dict(on_train_batch_start=at(1, -1))),
    "train_batch_start_minus1_callback": dict(
        QUIET, train=3, val=1, max_epochs=2, c1=dict(on_train_batch_start=at(1, -1))),
    "train_two_dataloaders_combined": dict(QUIET, val=1, module=dict(
        train_dataloader=combined,
        training_step=lambda self, batch, batch_idx: self(batch["a"]).sum())),
    "training_step_returns_none": dict(
        QUIET, train=3, val=1, module=dict(training_step=none_at_1)),
    "training_step_returns_number": dict(QUIET, val=1, module=dict(training_step=returns(1.0))),
    "training_step_returns_dict_with_extra": dict(
        QUIET, val=1, module=dict(training_step=with_extra)),
    "training_step_returns_dict_without_loss": dict(
        QUIET, val=1, module=dict(training_step=returns({"x": 1}))),
    "validation_step_returns_none": dict(train=1, module=dict(validation_step=returns(None))),
    "validation_step_returns_dict": dict(
        train=1, module=dict(validation_step=returns({"i": 0, "x": 1}))),
    "exception_in_callback_setup": dict(c1=dict(setup=raises(ValueError("setup")))),
    "exception_in_configure_optimizers": dict(
        QUIET, module=dict(configure_optimizers=raises(ValueError("optimizers")))),
    "exception_in_training_step": dict(val=1, module=dict(training_step=raises(BOOM))),
    "exception_in_validation_step": dict(QUIET, module=dict(validation_step=raises(BOOM))),
    "exception_in_on_exception": dict(
        QUIET, module=dict(training_step=raises(BOOM)),
        c1=dict(on_exception=raises(ValueError("second")))),
    "keyboard_interrupt_in_training_step": dict(
        val=1, module=dict(training_step=raises(KeyboardInterrupt()))),
    "system_exit_in_training_step": dict(
        QUIET, module=dict(training_step=raises(SystemExit(3)))),
    "reload_dataloaders_every_n_epochs_1": dict(
        train=1, val=1, max_epochs=2, reload_dataloaders_every_n_epochs=1),
    "model_in_eval_before_fit": dict(train=1, val=1, before=eval_before),
}

SCENARIOS = {}


def scenario(function):
    """Register a scenario that needs more than one line."""
    SCENARIOS[function.__name__] = function
    return function


@scenario
def fit_accumulate_2(run):
    losses, outputs = [], []

    def training_step(self, batch, batch_idx):
        loss = self(batch).sum()
        losses.append(loss.item())
        return loss

    def on_train_batch_end(self, trainer, module, out, batch, batch_idx):
        outputs.append(out["loss"].item())

    fit(run, train=3, module=dict(training_step=training_step),
        c1=dict(on_train_batch_end=on_train_batch_end), accumulate_grad_batches=2)
    run.results["loss in outputs / loss returned"] = [
        round(out / loss, 4) for out, loss in zip(outputs, losses)]


@scenario
def fit_loaders_as_arguments(run):
    trainer = run.trainer()
    run.call("fit", trainer.fit, run.module(), subjects.rows(2), subjects.rows(2))


@scenario
def fit_manual_optimization(run):
    def configure_optimizers(self):
        weight, bias = self.layer.weight, self.layer.bias
        return [self.make_optimizer([weight], "OA"), self.make_optimizer([bias], "OB")]

    def training_step(self, batch, batch_idx):
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(self.layer(batch).sum())
            optimizer.step()

    module = run.module(configure_optimizers=configure_optimizers, training_step=training_step)
    module.automatic_optimization = False
    run.call("fit", run.trainer(**QUIET).fit, module)


@scenario
def fit_two_optimizers_automatic(run):
    two_optimizers(run, "batch batch_idx optimizer_idx")


@scenario
def fit_two_optimizers_undeclared(run):
    two_optimizers(run, "batch batch_idx")


def two_optimizers(run, params):
    """Fit with an optimizer for the weight and one for the bias; note which can be trained when."""
    def configure_optimizers(self):
        weight, bias = self.layer.weight, self.layer.bias
        return [self.make_optimizer([weight], "OA"), self.make_optimizer([bias], "OB")]

    def training_step(self, batch, batch_idx, optimizer_idx=None):
        trained.append([optimizer_idx, [p.requires_grad for p in self.layer.parameters()]])
        return self.layer(batch).sum()

    trained = []
    table = run.callback_hooks("on_before_optimizer_step optimizer opt_idx")
    Callback = subjects.callback_class(run.impl, run.recorder, table)
    module = run.module(dict(val=1), params=dict(training_step=params),
                        configure_optimizers=configure_optimizers, training_step=training_step)
    run.call("fit", run.trainer(Callback("c1"), Callback("c2"), **QUIET).fit, module)
    if trained:
        run.results["optimizer_idx, [weight, bias] trained"] = trained


@scenario
def fit_twice_same_trainer(run):
    module, trainer = run.module(dict(train=1, val=1)), run.trainer(**QUIET)
    run.call("fit", trainer.fit, module)
    run.call("fit again", trainer.fit, module)
    run.impl.raise_max_epochs(trainer, 2)
    run.call("fit again with max_epochs=2", trainer.fit, module)


@scenario
def fast_dev_run(run):
    module, trainer = run.module(), run.trainer(fast_dev_run=True)
    run.call("fit", trainer.fit, module)
    run.call("test", trainer.test, module)


@scenario
def legacy_on_batch_start_minus1(run):
    flags = dict(QUIET, max_epochs=2)
    module = run.module(dict(val=1), extra=["on_batch_start"], on_batch_start=returns(-1))
    run.call("module returns -1", run.trainer(**flags).fit, module)
    table = run.callback_hooks("on_batch_start")
    Callback = subjects.callback_class(run.impl, run.recorder, table)
    trainer = run.trainer(Callback("c1", on_batch_start=returns(-1)), Callback("c2"), **flags)
    run.call("callback returns -1", trainer.fit, run.module(dict(val=1)))


# Validation, test and predict.


@scenario
def validate(run):
    module = run.module(validation_step=logs("v"))
    run.call("validate", run.trainer().validate, module)


@scenario
def test(run):
    run.call("test", run.trainer().test, run.module(test_step=logs("t")))


@scenario
def predict(run):
    run.call("predict", run.trainer().predict, run.module())


def two_loaders(self):
    """Return two loaders, of two batches and of one."""
    return [subjects.rows(2), subjects.rows(1)]


@scenario
def validate_two_dataloaders(run):
    module = run.module(validation_step=logs("v"), val_dataloader=two_loaders)
    run.call("validate", run.trainer().validate, module)


@scenario
def predict_two_dataloaders(run):
    run.call("predict", run.trainer().predict, run.module(predict_dataloader=two_loaders))


@scenario
def predict_return_predictions_value(run):
    def one(self):
        return [subjects.rows(2)]

    run.call("predict one loader", run.trainer().predict, run.module())
    run.call("predict two loaders", run.trainer().predict,
             run.module(predict_dataloader=two_loaders))
    run.call("predict list of one loader", run.trainer().predict,
             run.module(predict_dataloader=one))
    run.call("predict return_predictions=False", run.trainer().predict, run.module(),
             return_predictions=False)
    run.call("predict step returning None", run.trainer().predict,
             run.module(predict_step=returns(None)))


@scenario
def keyboard_interrupt_in_validate(run):
    module = run.module(validation_step=raises(KeyboardInterrupt()))
    run.call("validate", run.trainer().validate, module)


@scenario
def grad_mode(run):
    module, trainer = run.module(dict(train=1, val=1, test=1, predict=1)), run.trainer()
    for stage in ("fit", "validate", "test", "predict"):
        run.call(stage, getattr(trainer, stage), module)


@scenario
def trainer_call_order_of_setup_args(run):
    module = run.module(dict(train=1, val=1, test=1, predict=1))
    trainer = run.trainer(**QUIET)
    for stage in ("fit", "validate", "test", "predict"):
        run.call(stage, getattr(trainer, stage), module)


@scenario
def validate_inside_no_ckpt(run):
    module, trainer = run.module(dict(train=1, val=1)), run.trainer(**QUIET)
    run.call("fit", trainer.fit, module)
    run.call("validate(model)", trainer.validate, module)
    run.call("validate()", trainer.validate)
    run.call("validate(ckpt_path='best')", trainer.validate, ckpt_path="best")


# Modes.


@scenario
def model_mode_restored(run):
    module = part_in_eval(run)
    trainer = run.trainer(max_epochs=2)
    run.call("fit", trainer.fit, module)
    run.call("test", trainer.test, module)


@scenario
def on_validation_model_train_not_overridden(run):
    fit_validate_test(run, part_in_eval(run))


@scenario
def on_validation_model_train_overridden_calls_super(run):
    fit_validate_test(run, part_in_eval(run, MODEL_TRAIN))


@scenario
def on_validation_model_train_overridden_noop(run):
    noop = {hook: returns(None) for hook in MODEL_TRAIN}
    fit_validate_test(run, part_in_eval(run, MODEL_TRAIN, **noop))


MODEL_TRAIN = ("on_validation_model_train", "on_test_model_train")


def part_in_eval(run, extra=(), **does):
    module = run.module(dict(train=1, val=1), extra=extra, **does)
    module.drop.eval()
    run.recorder.watch = ("drop", "layer")
    return module


def fit_validate_test(run, module):
    trainer = run.trainer()
    for stage in ("fit", "validate", "test"):
        run.call(stage, getattr(trainer, stage), module)


# Callbacks and models that arrive late.


@scenario
def configure_callbacks_override(run):
    c3 = run.Callback("c3")
    module = run.module(dict(train=1, val=1), configure_callbacks=returns([c3]))
    trainer = run.trainer(**QUIET)
    run.call("fit", trainer.fit, module)
    run.results["callbacks after fit"] = order(trainer)
    run.call("fit again", trainer.fit, module)
    run.results["callbacks after second fit"] = order(trainer)


@scenario
def configure_callbacks_other_type(run):
    c3 = subjects.callback_class(run.impl, run.recorder)("c3")
    module = run.module(dict(train=1, val=1), configure_callbacks=returns([c3]))
    trainer = run.trainer(**QUIET)
    run.call("fit", trainer.fit, module)
    run.results["callbacks after fit"] = order(trainer)


def order(trainer):
    """Return the trainer's callbacks: recorded ones by name, others by class."""
    return [getattr(each, "who", type(each).__name__) for each in trainer.callbacks]


@scenario
def configure_model_each_stage(run):
    module, trainer = run.module(dict(train=1, val=1, test=1)), run.trainer(**QUIET)
    run.call("fit", trainer.fit, module)
    run.call("test", trainer.test, module)


@scenario
def configure_sharded_model_legacy(run):
    batches, extra = dict(train=1, val=1), ["configure_sharded_model"]
    run.call("fit, configure_sharded_model only", run.trainer(**QUIET).fit,
             run.module(batches, extra, without=["configure_model"]))
    run.call("fit, both overridden", run.trainer(**QUIET).fit, run.module(batches, extra))


# Data modules.


def datamodule(run, train=2, val=2, test=2, predict=2, **does):
    """Make the recorded data module."""
    batches = dict(train=train, val=val, test=test, predict=predict)
    return subjects.datamodule_class(run.impl, run.recorder)(batches, **does)


@scenario
def datamodule_hooks(run):
    module, trainer, data = run.module(), run.trainer(), datamodule(run)
    run.call("fit", trainer.fit, module, datamodule=data)
    run.call("test", trainer.test, module, datamodule=data)


@scenario
def datamodule_validate_and_predict(run):
    module, trainer, data = run.module(), run.trainer(), datamodule(run, val=1, predict=1)
    run.call("validate", trainer.validate, module, datamodule=data)
    run.call("predict", trainer.predict, module, datamodule=data)


@scenario
def exception_in_training_step_with_datamodule(run):
    module = run.module(training_step=raises(BOOM))
    run.call("fit", run.trainer(**QUIET).fit, module, datamodule=datamodule(run))


@scenario
def prepare_data_per_node_false(run):
    data = datamodule(run, train=1, val=1)
    module = run.module()
    data.prepare_data_per_node = module.prepare_data_per_node = False
    run.call("fit", run.trainer(**QUIET).fit, module, datamodule=data)


# Learning rate schedulers.


def scheduled(run, base, monitor=None, *args, **config):
    """Return a ``configure_optimizers`` with one recorded scheduler."""
    def configure_optimizers(self):
        optimizer = self.make_optimizer()
        scheduler = subjects.scheduler(run.recorder, base, optimizer, *args)
        config.update(scheduler=scheduler, **{"monitor": monitor} if monitor else {})
        return {"optimizer": optimizer, "lr_scheduler": config}
    return configure_optimizers


STEP_LR = torch.optim.lr_scheduler.StepLR
PLATEAU = torch.optim.lr_scheduler.ReduceLROnPlateau


@scenario
def lr_scheduler_interval_epoch(run):
    fit(run, **QUIET, val=1, max_epochs=2,
        module=dict(configure_optimizers=scheduled(run, STEP_LR, None, 1, interval="epoch")))


@scenario
def lr_scheduler_interval_step(run):
    configure = scheduled(run, STEP_LR, None, 1, interval="step", frequency=2)
    fit(run, **QUIET, train=3, val=1, module=dict(configure_optimizers=configure))


@scenario
def lr_scheduler_reduce_on_plateau(run):
    configure = scheduled(run, PLATEAU, "v")
    fit(run, **SHORT, max_epochs=2,
        module=dict(configure_optimizers=configure, validation_step=logs("v")))


@scenario
def lr_scheduler_manual_optimization(run):
    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self(batch).sum())
        optimizer.step()

    module = run.module(dict(val=1), training_step=training_step,
                        configure_optimizers=scheduled(run, STEP_LR, None, 1, interval="step"))
    module.automatic_optimization = False
    run.call("fit", run.trainer(**QUIET).fit, module)


# EarlyStopping and ModelCheckpoint.


def monitored(run, monitor, flags, module=(), where=1, train=1, val=1, without=(), **config):
    """Fit with the implementation's own callback among the recorded ones; return it."""
    callbacks = [run.Callback("c1"), run.Callback("c2")]
    callbacks.insert(where, monitor)
    trainer = run.trainer(*callbacks, **flags)
    subject = run.module(dict(train=train, val=val), without=without, **dict(module))
    run.call("fit", trainer.fit, subject)
    return trainer


def early_stopping(run, monitor, flags, **config):
    callback = run.impl.EarlyStopping(monitor=monitor, patience=1)
    trainer = monitored(run, callback, flags, **config)
    run.results["stopped_epoch"] = callback.stopped_epoch
    run.results["wait_count"] = callback.wait_count
    return trainer


V_IS_1 = dict(validation_step=logs("v"))


@scenario
def early_stopping_patience(run):
    trainer = early_stopping(run, "v", dict(max_epochs=5), module=V_IS_1)
    run.results["order"] = order(trainer)


@scenario
def early_stopping_train_metric(run):
    early_stopping(run, "t", dict(max_epochs=4), without=NO_VAL,
                   module=dict(training_step=logs("t", on_step=False, on_epoch=True)))


@scenario
def early_stopping_val_check_interval_half(run):
    early_stopping(run, "v", dict(QUIET, max_epochs=3, val_check_interval=0.5), train=4,
                   module=V_IS_1)


@scenario
def early_stopping_missing_monitor(run):
    monitored(run, run.impl.EarlyStopping(monitor="nope"), QUIET)


def checkpointed(run, flags, fit=(), report=True, **config):
    """Fit with a ModelCheckpoint, given first, and report the order, the files and the best."""
    callback = run.impl.ModelCheckpoint(dirpath=run.path("ck"), **config)
    trainer = monitored(run, callback, dict(flags, enable_checkpointing=True), where=0, **dict(fit))
    if report:
        run.results["order"] = order(trainer)
        run.results["best"] = os.path.basename(callback.best_model_path)
        run.results["last"] = os.path.basename(callback.last_model_path)
    run.results["files"] = files(run)
    return callback


def files(run):
    """Return the names of the checkpoints written."""
    folder = run.path("ck")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


TWO = dict(QUIET, max_epochs=2)


@scenario
def model_checkpoint_default(run):
    checkpointed(run, TWO, fit=dict(train=2))


@scenario
def model_checkpoint_no_val(run):
    checkpointed(run, TWO, fit=dict(train=2, without=NO_VAL))


@scenario
def model_checkpoint_epoch_end_with_monitor(run):
    def improving(self, batch, batch_idx, *more, **named):
        self.log("v", torch.tensor(1.0 / (self.current_epoch + 1)))
        return self(batch).sum()

    checkpointed(run, TWO, monitor="v", fit=dict(module=dict(validation_step=improving)))


@scenario
def model_checkpoint_monitor_train_metric(run):
    checkpointed(run, TWO, monitor="t", fit=dict(
        module=dict(training_step=logs("t", on_step=False, on_epoch=True))))


@scenario
def model_checkpoint_missing_monitor(run):
    checkpointed(run, QUIET, monitor="nope")


@scenario
def model_checkpoint_every_n_train_steps(run):
    checkpointed(run, QUIET, fit=dict(train=4), every_n_train_steps=2, save_top_k=-1)


@scenario
def model_checkpoint_sanity_check_does_not_save(run):
    checkpointed(run, dict(num_sanity_val_steps=1), report=False)


@scenario
def model_checkpoint_save_last(run):
    checkpointed(run, TWO, monitor="v", save_last=True, fit=dict(module=V_IS_1))


@scenario
def model_checkpoint_val_check_interval_half(run):
    checkpointed(run, dict(QUIET, val_check_interval=0.5), monitor="v", save_top_k=-1,
                 report=False, fit=dict(train=4, module=V_IS_1))


@scenario
def test_after_fit_ckpt_best(run):
    checkpoint = run.impl.ModelCheckpoint(dirpath=run.path("ck"))
    module = run.module(dict(train=1, val=1, test=1))
    trainer = run.trainer(checkpoint, run.Callback("c1"), run.Callback("c2"),
                          enable_checkpointing=True, **TWO)
    run.call("fit", trainer.fit, module)
    run.call("test()", trainer.test)
    run.call("test(ckpt_path='best')", trainer.test, ckpt_path="best")
    run.call("test(model, ckpt_path='best')", trainer.test, module, ckpt_path="best")
    run.call("test(ckpt_path='last')", trainer.test, ckpt_path="last")
    run.results["order"] = order(trainer)
    run.results["files"] = files(run)
    run.results["best"] = os.path.basename(checkpoint.best_model_path)
    run.results["last"] = os.path.basename(checkpoint.last_model_path)


# Saving, loading, resuming.


def read(path):
    """Return what a checkpoint says, in plain values, as far as the suite has a word in it."""
    try:
        saved = torch.load(path, map_location="cpu", weights_only=False)
    except TypeError:  # torch before 1.13
        saved = torch.load(path, map_location="cpu")
    said = {key: saved[key] for key in ("epoch", "global_step", "mine") if key in saved}
    said["state_dict"] = sorted(saved["state_dict"])
    said["callbacks"] = states(saved)
    for key in ("optimizer_states", "lr_schedulers"):
        said[key] = len(saved.get(key, ()))
    if "RecordedDataModule" in saved:
        said["RecordedDataModule"] = saved["RecordedDataModule"]
    return said


def states(saved):
    """Return the recorded callbacks' states, and of the others that they have one."""
    return {key if key.startswith("recorded") else key.split("{")[0]:
            state if key.startswith("recorded") else "saved"
            for key, state in sorted(saved.get("callbacks", {}).items())}


def fit_and_save(run, c1=None, c2=None, module=None, callbacks=(), data=None):
    """Fit once over one batch, and save by hand."""
    subject = run.module(dict(train=1, val=1), **module or {})
    callbacks = callbacks or [run.Callback("c1", **c1 or {}), run.Callback("c2", **c2 or {})]
    trainer = run.trainer(*callbacks, **QUIET)
    run.call("fit", trainer.fit, subject)
    run.call("save_checkpoint", trainer.save_checkpoint, run.path("m.ckpt"))
    return subject


def resume(run, path="m.ckpt", callbacks=(), batches=None, module=None, **flags):
    """Make a new module and trainer, and go on from the checkpoint."""
    subject = run.module(batches or dict(train=1, val=1), **module or {})
    trainer = run.trainer(*callbacks, **flags)
    run.call("fit(resume)", trainer.fit, subject, ckpt_path=run.path(path))


@scenario
def save_checkpoint_before_fit(run):
    run.call("save_checkpoint", run.trainer().save_checkpoint, run.path("m.ckpt"))


@scenario
def save_checkpoint_manually(run):
    fit_and_save(run, c1=dict(state_dict=returns({"n": 1})))
    run.call("save_checkpoint(weights_only=True)", run.recorder.trainer.save_checkpoint,
             run.path("w.ckpt"), weights_only=True)
    run.results["checkpoint"] = read(run.path("m.ckpt"))
    run.results["checkpoint_weights_only"] = read(run.path("w.ckpt"))


@scenario
def save_checkpoint_with_datamodule(run):
    does = dict(state_dict=returns({"dm": 1}))
    trainer = run.trainer(**QUIET)
    run.call("fit", trainer.fit, run.module(), datamodule=datamodule(run, **does))
    run.call("save_checkpoint", trainer.save_checkpoint, run.path("m.ckpt"))
    run.call("fit(resume)", run.trainer(**TWO).fit, run.module(), ckpt_path=run.path("m.ckpt"),
             datamodule=datamodule(run, **does))
    run.results["checkpoint"] = read(run.path("m.ckpt"))


@scenario
def callback_state_via_state_dict(run):
    def on_save_checkpoint(self, trainer, module, checkpoint):
        checkpoint["mine"] = 1

    fit_and_save(run, c1=dict(state_dict=returns({"n": 7})),
                 c2=dict(on_save_checkpoint=on_save_checkpoint))
    resume(run)
    run.results["checkpoint"] = read(run.path("m.ckpt"))


@scenario
def callback_state_via_return_of_on_save_checkpoint(run):
    fit_and_save(run, c1=dict(on_save_checkpoint=returns({"n": 7})))
    resume(run)
    run.results["checkpoint_callbacks"] = read(run.path("m.ckpt"))["callbacks"]


@scenario
def callback_state_given_to_on_load_checkpoint(run):
    table = run.callback_hooks("on_load_checkpoint callback_state")
    Callback = subjects.callback_class(run.impl, run.recorder, table)

    def callbacks():
        return [Callback("c1", on_save_checkpoint=returns({"n": 7})), Callback("c2")]

    fit_and_save(run, callbacks=callbacks())
    resume(run, callbacks=callbacks())
    run.results["checkpoint_callbacks"] = read(run.path("m.ckpt"))["callbacks"]


@scenario
def callback_state_missing_callback_on_load(run):
    fit_and_save(run, c1=dict(state_dict=returns({"n": 1})))
    nobody = type("Nobody", (run.impl.Callback,), {})()
    resume(run, callbacks=[nobody])


@scenario
def callback_state_two_instances_distinct_state_key(run):
    loaded = []
    table = subjects.hooks(subjects.CALLBACK_STATE)
    Keyed = subjects.callback_class(run.impl, run.recorder, table)

    def keyed():
        return [Keyed("c%d" % n, state_dict=returns({"n": n}),
                      load_state_dict=lambda self, state: loaded.append(state)) for n in (1, 2)]

    fit_and_save(run, callbacks=keyed())
    resume(run, callbacks=keyed())
    run.results["checkpoint_callbacks"] = read(run.path("m.ckpt"))["callbacks"]
    run.results["loaded"] = loaded


@scenario
def callback_state_two_instances_same_class(run):
    class Stateful(run.impl.Callback):
        def state_dict(self):
            return {"n": 1}

    try:
        run.trainer(Stateful(), Stateful())
    except Exception as error:
        run.results["Trainer raised"] = type(error).__name__


@scenario
def checkpoint_with_arbitrary_object(run):
    def on_save_checkpoint(self, checkpoint):
        checkpoint["arbitrary"] = Arbitrary()

    module = fit_and_save(run, module=dict(on_save_checkpoint=on_save_checkpoint))
    path = run.path("m.ckpt")
    resume(run)
    run.call("load_from_checkpoint", type(module).load_from_checkpoint, path)
    trainer = run.trainer()
    run.call("test(ckpt_path=)", trainer.test, run.module(), ckpt_path=path)


class Arbitrary:
    """A class that no checkpoint reader knows."""


@scenario
def load_weights_into_other_model(run):
    def on_save_checkpoint(self, checkpoint):
        checkpoint["mine"] = 1

    module = fit_and_save(run, module=dict(on_save_checkpoint=on_save_checkpoint))
    path, Same = run.path("m.ckpt"), type(module)

    class Other(Same):
        def __init__(self):
            super().__init__()
            self.other = torch.nn.Linear(2, 1)

    loaded = run.call("load_from_checkpoint(same architecture)", Same.load_from_checkpoint, path)
    run.call("load_from_checkpoint(extra layer, strict default)", Other.load_from_checkpoint, path)
    run.call("load_from_checkpoint(extra layer, strict=False)", Other.load_from_checkpoint, path,
             strict=False)
    run.results["weights_equal"] = torch.equal(loaded.layer.weight, module.layer.weight)
    run.results["loaded model.training"] = loaded.training
    module = run.module(dict(train=1, val=1))
    module.layer.load_state_dict(loaded.layer.state_dict())
    run.call("fit with loaded weights", run.trainer(**QUIET).fit, module)


@scenario
def resume_missing_file(run):
    resume(run, "none.ckpt")


@scenario
def resume_already_finished(run):
    trainer = run.trainer(**QUIET)
    run.call("fit", trainer.fit, run.module(dict(val=1)))
    run.call("save_checkpoint", trainer.save_checkpoint, run.path("m.ckpt"))
    resume(run, batches=dict(val=1))


@scenario
def resume_end_of_epoch(run):
    checkpointed(run, QUIET, fit=dict(train=2), save_last=True)
    resume(run, os.path.join("ck", "last.ckpt"), batches=dict(val=1), max_epochs=2)
    run.results["checkpoint"] = read(run.path(os.path.join("ck", "last.ckpt")))


@scenario
def resume_mid_epoch(run):
    steps = []

    def save(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx == 0:
            trainer.save_checkpoint(run.path("mid.ckpt"))

    def training_step(self, batch, batch_idx):
        steps.append([self.current_epoch, batch_idx, round(batch[0][0].item(), 6)])
        return self(batch).sum()

    trainer = run.trainer(run.Callback("c1"), run.Callback("c2", on_train_batch_end=save), **QUIET)
    run.call("fit", trainer.fit, run.module(dict(train=3, val=1)))
    resume(run, "mid.ckpt", batches=dict(train=3, val=1), max_epochs=2,
           module=dict(training_step=training_step))
    run.results["steps after resume"] = steps
    run.results["checkpoint"] = read(run.path("mid.ckpt"))


# Logging.


@scenario
def log_every_n_steps(run):
    def training_step(self, batch, batch_idx):
        self.log("a", torch.tensor(batch_idx + 1.0), on_step=True, on_epoch=True)
        return self(batch).sum()

    logger = subjects.logger(run.impl, run.recorder)
    fit(run, train=5, val=1, **TWO, log_every_n_steps=2, logger=logger,
        module=dict(training_step=training_step))
    run.results["logged"] = logger.logged


METRICS = ("callback_metrics", "logged_metrics", "progress_bar_metrics")


def metrics(trainer):
    """Return all three kinds of metrics, as they are now."""
    return {kind: {name: plain(torch.as_tensor(value).float()) for name, value
                   in sorted(getattr(trainer, kind).items())} for kind in METRICS}


@scenario
def log_on_step_and_epoch(run):
    def training_step(self, batch, batch_idx):
        value = torch.tensor(batch_idx + 1.0)
        self.log("a", value, on_step=True, on_epoch=True, prog_bar=True)
        self.log("d", value)
        self.log("e", value, on_step=False, on_epoch=True)
        return self(batch).sum()

    def validation_step(self, batch, batch_idx, *more, **named):
        value = torch.tensor(batch_idx + 1.0)
        self.log("b", value, on_step=True, on_epoch=True, prog_bar=True)
        self.log("c", value)
        return self(batch).sum()

    def note(hook):
        return lambda self, trainer, *args: seen.setdefault(hook, []).append(metrics(trainer))

    seen = {}
    noted = """on_validation_batch_end on_validation_epoch_end on_validation_end
        on_train_batch_end on_train_epoch_end on_train_end on_fit_end""".split()
    logger = subjects.logger(run.impl, run.recorder)
    trainer = run.trainer(run.Callback("c1", **{hook: note(hook) for hook in noted}),
                          run.Callback("c2"), logger=logger, log_every_n_steps=1)
    module = run.module(training_step=training_step, validation_step=validation_step)
    run.call("fit", trainer.fit, module)
    run.results["after fit"] = metrics(trainer)
    run.results["logged in fit"] = list(logger.logged)
    run.call("validate", trainer.validate, module)
    run.results["after validate"] = metrics(trainer)
    run.results.update({"seen in " + hook: seen.get(hook) for hook in noted})
    run.results["logged in validate"] = logger.logged[len(run.results["logged in fit"]):]


NOT_LOGGABLE = """to zero_grad forward eval train state_dict load_state_dict on_load_checkpoint
    log_dict""".split()
HOW = {"default": {}, "step": dict(on_step=True, on_epoch=False),
       "epoch": dict(on_step=False, on_epoch=True)}


class LogsEverywhere:
    """Logs 1.0, 3.0, ... from each hook in three ways, and keeps what came of it."""

    def __init__(self, run):
        self.run = run
        self.counts = {}
        self.refused = {}
        self.seen = {}

    def entered(self, who, hook):
        """Log from the hook just entered; a refusal is kept and swallowed."""
        if who not in ("c1", "M") or hook in NOT_LOGGABLE:
            return
        at = (who, hook)
        counts = not self.run.recorder.trainer.sanity_checking
        self.counts[at] = self.counts.get(at, 0) + counts
        for how, flags in HOW.items():
            try:
                self.run.recorder.module.log("%s_%s_%s" % (at + (how,)), self.counts[at] * 2 - 1.0,
                                             **flags)
            except Exception as error:
                self.refused[at + (how,)] = type(error).__name__

    def see(self):
        """Keep the callback metrics of the run that has just ended."""
        self.seen.update(metrics(self.run.recorder.trainer)["callback_metrics"])

    def verdicts(self):
        """Return {verdict: "M.hook ..."}, hooks in the order in which they were first called."""
        found = {}
        for at in self.counts:
            outcome = tuple(self.refused.get(at + (how,), self.seen.get("%s_%s_%s" % (at + (how,))))
                            for how in HOW)
            found.setdefault(VERDICTS.get(outcome, str(outcome)), []).append("%s.%s" % at)
        return {verdict: " ".join(sorted(hooks)) for verdict, hooks in found.items()}


NO = "MisconfigurationException"
# What default, on_step and on_epoch came to: the last value is 3.0, the mean 2.0.
VERDICTS = {
    (3.0, 3.0, 2.0): "per step unless asked otherwise",
    (2.0, None, 2.0): "per epoch unless asked otherwise",
    (1.0, NO, 1.0): "per epoch only",
    (NO, NO, NO): "refused",
}


@scenario
def log_in_each_hook_allowed(run):
    logs = LogsEverywhere(run)
    run.recorder.entered = logs.entered
    module = run.module(configure_optimizers=scheduled(run, STEP_LR, None, 1))
    trainer = run.trainer()
    for stage in ("fit", "test", "predict"):
        getattr(trainer, stage)(module)
        logs.see()
        if stage == "fit":
            trainer.save_checkpoint(run.path("m.ckpt"))
    trainer = run.trainer(**QUIET)
    module.does["training_step"] = raises(BOOM)
    try:
        trainer.fit(module)
    except RuntimeError:
        pass
    run.results.update(logs.verdicts())


# The callback hooks of the editions 1.1 and 1.5.


def older(run, entry="fit", flags=(), **does):
    """Call one entry point with callbacks that have the older hooks too."""
    table = run.callback_hooks(subjects.OLDER_CALLBACK)
    table.update(subjects.hooks(subjects.OLDER_CALLBACK_INIT))
    Callback = subjects.callback_class(run.impl, run.recorder, table)
    module = run.module(extra=["configure_sharded_model"], without=["configure_model"], **does)
    run.call("Trainer", run.trainer, Callback("c1"), Callback("c2"), **dict(flags))
    run.call(entry, getattr(run.recorder.trainer, entry), module)


@scenario
def older_fit(run):
    older(run)


@scenario
def older_configure_sharded_model(run):
    older(run, "validate", validation_step=logs("v"))


@scenario
def older_validate(run):
    older(run, "validate", validation_step=logs("v"))


@scenario
def older_test(run):
    older(run, "test", test_step=logs("t"))


@scenario
def older_predict(run):
    older(run, "predict")


@scenario
def older_keyboard_interrupt(run):
    older(run, flags=QUIET, training_step=raises(KeyboardInterrupt()))


@scenario
def older_exception(run):
    older(run, flags=QUIET, training_step=raises(BOOM))
