"""Play a configuration on an implementation: what ``model.py`` says, but for real."""

import functools
import logging
import shutil
import tempfile
import warnings

import torch

from . import configurations, model, scenarios, subjects
from .trace import Recorder

ERRORS = dict(RuntimeError=RuntimeError, KeyboardInterrupt=KeyboardInterrupt)
LOADERS = dict(fit=["train", "val"], validate=["val"], test=["test"], predict=["predict"])
OVERRIDDEN = ("on_validation_model_train", "on_test_model_train")
_FIELDS = configurations.Configuration._fields
FLAGS = _FIELDS[_FIELDS.index("max_epochs"):_FIELDS.index("train")]


def play(impl, config):
    """Run a configuration and return its events."""
    folder = tempfile.mkdtemp()
    torch.manual_seed(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.disable(logging.WARNING)
            return Play(impl, folder, config).whole()
    finally:
        logging.disable(logging.NOTSET)
        shutil.rmtree(folder, ignore_errors=True)


# The recorded classes are made once for each implementation, and so is the recorder they tell.


@functools.lru_cache(None)
def recorder_and_callback(impl):
    """Return the recorder of all runs, and the class of their callbacks, older hooks included."""
    recorder = Recorder(impl.Trainer)
    table = subjects.hooks(subjects.CALLBACK + subjects.OLDER_CALLBACK, "trainer pl_module")
    table.update(subjects.hooks(subjects.CALLBACK_STATE), **subjects.hooks(
        subjects.OLDER_CALLBACK_INIT))
    return recorder, subjects.callback_class(impl, recorder, table)


@functools.lru_cache(None)
def module_class(impl, extra, without):
    """Return a class of modules."""
    return subjects.module_class(impl, recorder_and_callback(impl)[0], extra, without)


@functools.lru_cache(None)
def datamodule_class(impl):
    """Return the class of data modules."""
    return subjects.datamodule_class(impl, recorder_and_callback(impl)[0])


class Play(scenarios.Run):
    """One configuration, on one implementation."""

    def __init__(self, impl, folder, config):
        self.impl, self.folder, self.config = impl, folder, config
        self.calls, self.results = [], {}
        self.recorder, self.Callback = recorder_and_callback(impl)
        self.recorder.__init__(impl.Trainer)  # forget the run before

    def whole(self):
        """Run it, and return the events."""
        config = self.config
        if config.resume is not None:
            self.first_of_two()
        subject = self.make_module()
        trainer = self.trainer(self.Callback("c1", on_train_batch_end=self.stop),
                               self.Callback("c2"), **self.flags())
        self.fail()
        for entry in config.entry.split():
            path = {} if config.resume is None else {"ckpt_path": self.path("saved.ckpt")}
            self.enter(trainer, entry, subject, **path)
        return self.recorder.events

    def first_of_two(self):
        """Train for one epoch, without mishaps, and save on the way."""
        config = self.config
        self.config = config._replace(skip_at=None, none_at=None)
        subject = self.make_module()
        trainer = self.trainer(self.Callback("c1"), self.Callback("c2", **self.saving()),
                               **dict(self.flags(), max_epochs=1, max_steps=-1))
        self.enter(trainer, "fit", subject)
        if config.resume == "fit" and not self.calls[-1][1].startswith("raises"):
            trainer.save_checkpoint(self.path("saved.ckpt"))
        self.config = config

    def enter(self, trainer, entry, subject, **given):
        """Call an entry point, and note how it ended as if it were an event."""
        loaders = []
        if self.config.data == "arguments":
            loaders = [self.loaders(kind) for kind in LOADERS[entry]]
        elif self.config.data == "datamodule":
            given["datamodule"] = datamodule_class(self.impl)({}, **self.hooks())
        self.call(entry, getattr(trainer, entry), subject, *loaders, **given)
        error = self.calls[-1][1].partition("raises ")[2]
        end = ("raises", "error", [error]) if error else ("returns", "", [])
        with self.recorder.event("trainer", *end, {}):
            pass

    def flags(self):
        """Return the flags of the Trainer."""
        return {name: getattr(self.config, name) for name in FLAGS}

    # What is trained, and on what.

    def make_module(self):
        """Make the module, with the modes it begins with."""
        config = self.config
        does = dict(configure_optimizers=self.configure_optimizers(),
                    training_step=self.training_step(), on_train_batch_start=self.skip)
        if config.plateau:
            does["validation_step"] = scenarios.logs("v")
        if config.model_train == "nothing":
            does.update({hook: scenarios.returns(None) for hook in OVERRIDDEN})
        subject = self.use(module_class(self.impl, OVERRIDDEN if config.model_train else (),
                                        scenarios.NO_VAL if config.val is None else ())())
        subject.does.update(does, **self.hooks())
        subject.automatic_optimization = config.automatic
        for part in config.in_eval.split():
            {"module": subject, "drop": subject.drop, "layer": subject.layer}[part].training = False
        self.recorder.watch = model.PARTS[1:]
        return subject

    def hooks(self):
        """Return what the loader hooks do."""
        return {kind + "_dataloader": lambda owner, kind=kind: self.loaders(kind)
                for kind in ("train", "val", "test", "predict")}

    def loaders(self, kind):
        """Return the loader or loaders of a kind."""
        batches = getattr(self.config, kind)
        if isinstance(batches, int):
            return subjects.rows(batches)
        if batches is None:
            return None
        loaders = [subjects.rows(count) for count in batches]
        return dict(zip("ab", loaders)) if kind == "train" else loaders

    def configure_optimizers(self):
        """Return the hook, with or without a scheduler."""
        if self.config.scheduler is None:
            return None
        interval, frequency = self.config.scheduler
        kind = [scenarios.PLATEAU, "v"] if self.config.plateau else [scenarios.STEP_LR, None, 1]
        return scenarios.scheduled(self, *kind, interval=interval, frequency=frequency)

    def training_step(self):
        """Return the hook: automatic or manual, and None at the place for it."""
        config = self.config

        def step(module, batch, batch_idx):
            if config.none_at == (module.current_epoch, batch_idx):
                return None
            batch = batch["a"] if isinstance(batch, dict) else batch
            if config.automatic:
                return module(batch).sum()
            optimizer = module.optimizers()
            optimizer.zero_grad()
            module.manual_backward(module(batch).sum())
            optimizer.step()

        return step

    # Mishaps.

    def skip(self, module, batch, batch_idx):
        """Skip the rest of the epoch."""
        return -1 if self.config.skip_at == (module.current_epoch, batch_idx) else None

    def stop(self, callback, trainer, module, outputs, batch, batch_idx):
        """Ask for an end of training."""
        if self.config.stop_at == (trainer.current_epoch, batch_idx):
            trainer.should_stop = True

    def fail(self):
        """Let the nth call of a hook raise."""
        error, *failing, nth = self.config.raises or [None, None, None, None]
        calls = []

        def entered(who, hook):
            if [who, hook] == failing:
                calls.append(hook)
                if len(calls) == nth:
                    raise ERRORS[error]("on purpose")

        self.recorder.entered = entered

    def saving(self):
        """Return the hook of c2 that saves, and only once."""
        moment, path = self.config.resume, self.path("saved.ckpt")

        def save_batch(callback, trainer, module, outputs, batch, batch_idx):
            if batch_idx == moment:
                trainer.save_checkpoint(path)

        def save_validation(callback, trainer, module):
            if trainer.validating and "saved" not in self.results:
                self.results["saved"] = True
                trainer.save_checkpoint(path)

        if isinstance(moment, int):
            return dict(on_train_batch_end=save_batch)
        if moment == "validation":
            return dict(on_validation_end=save_validation)
        if moment == "epoch":
            return dict(on_train_epoch_end=lambda callback, trainer, module:
                        trainer.save_checkpoint(path))
        return {}
