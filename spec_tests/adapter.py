"""Load an implementation by its dotted name, and know how implementations differ in names.

This file translates the names of flags, classes and entry points, and nothing else: where two
implementations *behave* differently, the suite must see it. What an implementation can do is
asked of the implementation (``capabilities``), never of its name.
"""

import importlib
import importlib.util
import inspect
from pathlib import Path


class BrokenImplementation(Exception):
    """The module asked for cannot be the subject of this suite; the message is one line."""


class Lacking(Exception):
    """The implementation has no flag of this name, so that it cannot be asked."""


# The flag of today, and the older one with the value that means the same.
OLDER_FLAGS = {
    "accelerator": lambda value: {"gpus": 1} if value == "gpu" else {},
    "strategy": lambda value: {"accelerator": value + "_cpu"},
    "devices": lambda value: {"num_processes": value},
    "enable_progress_bar": lambda value: {} if value else {"progress_bar_refresh_rate": 0},
    "enable_model_summary": lambda value: {} if value else {"weights_summary": None},
    "enable_checkpointing": lambda value: {"checkpoint_callback": value},
    "use_distributed_sampler": lambda value: {"replace_sampler_ddp": value},
    "reload_dataloaders_every_n_epochs": lambda value: {
        "reload_dataloaders_every_epoch": bool(value)},
}

# Flags that turn off, or leave alone, what a Trainer without the flag does not have: {name: value}.
NEEDLESS = dict(devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                enable_model_summary=False, num_sanity_val_steps=0)

# The class, and where it has been found over the years, below the implementation or its parents.
CLASSES = {
    "Trainer": ["Trainer"],
    "LightningModule": ["LightningModule"],
    "LightningDataModule": ["LightningDataModule"],
    "Callback": ["Callback", "callbacks.Callback"],
    "EarlyStopping": ["callbacks.EarlyStopping"],
    "ModelCheckpoint": ["callbacks.ModelCheckpoint"],
    "LambdaCallback": ["callbacks.LambdaCallback"],
    "LearningRateMonitor": ["callbacks.LearningRateMonitor"],
    "GradientAccumulationScheduler": ["callbacks.GradientAccumulationScheduler"],
    "GPUStatsMonitor": ["callbacks.GPUStatsMonitor"],
    "ProgressBarBase": ["callbacks.ProgressBarBase"],
    "ProgressBar": ["callbacks.ProgressBar", "callbacks.TQDMProgressBar"],
    "TQDMProgressBar": ["callbacks.TQDMProgressBar", "callbacks.ProgressBar"],
    "Timer": ["callbacks.Timer"],
    "ModelSummary": ["callbacks.ModelSummary"],
    "Tuner": ["tuner.Tuner", "tuning.Tuner", "tuner.tuning.Tuner"],
    "CSVLogger": ["loggers.CSVLogger"],
    "TensorBoardLogger": ["loggers.TensorBoardLogger"],
    "seed_everything": ["seed_everything"],
    "trace": ["lifecycle.trace"],
    "Logger": ["loggers.Logger", "loggers.logger.Logger", "loggers.base.LightningLoggerBase"],
}


class Implementation:
    """One implementation under test: its classes as attributes, and what it is able to do."""

    def __init__(self, name):
        self.name = name
        self.runs = {}  # what has been played on it: {device: {configuration: Stage}}
        self.verdicts = None  # {clause: what is wrong} of several processes, once they have run
        try:
            self.package = importlib.import_module(name)
        except Exception as error:  # whatever importing it runs into
            said = " ".join(("%s: %s" % (type(error).__name__, error)).split())
            raise BrokenImplementation("--impl %s cannot be imported: %s" % (name, said)) from error
        for needed in ("Trainer", "LightningModule", "Callback"):
            if not inspect.isclass(getattr(self, needed, None)):
                raise BrokenImplementation("--impl %s has no %s class" % (name, needed))
        parameters = inspect.signature(self.Trainer.__init__).parameters.values()
        self.flags = {each.name for each in parameters}
        self.takes_any_flag = any(each.kind is each.VAR_KEYWORD for each in parameters)
        self.capabilities = {what for what, (_, can) in CAPABILITIES.items() if can(self)}
        self.lacks = sorted(WHOLE - self.capabilities)
        self.claims = [each for each, needs in EDITIONS.items() if needs <= self.capabilities]
        self.editions = self.claims or ["2.2"]  # who has begun is asked about the order of a run

    def __getattr__(self, name):
        parts = self.__dict__["name"].split(".")
        for count in range(len(parts), 0, -1):
            for place in CLASSES.get(name, ()):
                found = _find(".".join(parts[:count]) + "." + place)
                if found is not None:
                    setattr(self, name, found)
                    return found
        raise AttributeError("%s has no %s" % (self.__dict__["name"], name))

    @property
    def version(self):
        """Return the version the implementation states of itself, or "unknown"."""
        return getattr(self.package, "__version__", "unknown")

    @property
    def is_ours(self):
        """Return whether it stands beside this suite, so that it has to follow every clause."""
        root = Path(__file__).resolve().parent.parent
        file = Path(getattr(self.package, "__file__", None) or "").resolve()
        return file.name == "__init__.py" and file.parent.parent == root

    def trainer(self, **flags):
        """Make a Trainer from today's flags, under whatever names it knows them.

        Raises:
            Lacking: it knows one of them under no name, and the flag asks for something.
        """
        known = {}
        for name, value in flags.items():
            known.update(self._flag(name, value))
        return self.Trainer(**known)

    def _flag(self, name, value):
        # Before there was `devices`, `accelerator` meant what `strategy` means today.
        renamed = (name == "accelerator" and "devices" not in self.flags
                   and "num_processes" in self.flags)
        if name in self.flags and not renamed:
            return {name: value}
        older = OLDER_FLAGS[name](value) if name in OLDER_FLAGS else None
        if older is not None and set(older) <= self.flags:
            return older
        if self.takes_any_flag:
            return {name: value}
        if name == "default_root_dir" or name in NEEDLESS and NEEDLESS[name] == value:
            return {}
        raise Lacking("the flag %s of Trainer" % name)

    def raise_max_epochs(self, trainer, epochs):
        """Let a trainer that has finished go on to ``epochs``."""
        holder = getattr(trainer, "fit_loop", trainer)
        holder.max_epochs = epochs


def _find(dotted):
    module, _, name = dotted.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def _has(owner, hook):
    return lambda impl: hasattr(getattr(impl, owner, None), hook)


def _is_installed(package):
    return importlib.util.find_spec(package) is not None


def _torch_has(folder):
    """Look without an import, which takes seconds."""
    return Path(importlib.util.find_spec("torch").origin).parent.joinpath(folder).is_dir()


def _is_there(name):
    return lambda impl: hasattr(impl, name)


# Named abilities that a fact or clause may need: what the name means, and how it is asked of the
# classes, so that no implementation is listed by name.
CAPABILITIES = {
    "fit": ("Trainer.fit", _has("Trainer", "fit")),
    "validate": ("Trainer.validate", _has("Trainer", "validate")),
    "test": ("Trainer.test", _has("Trainer", "test")),
    "predict": ("Trainer.predict", _has("Trainer", "predict")),
    "save_checkpoint": ("Trainer.save_checkpoint", _has("Trainer", "save_checkpoint")),
    "log": ("LightningModule.log", _has("LightningModule", "log")),
    "older_hooks": ("the callback hooks that only editions 1.1 and 1.5 have",
                    _has("Callback", "on_epoch_start")),
    "on_exception": ("Callback.on_exception", _has("Callback", "on_exception")),
    "state_key": ("Callback.state_key, which tells instances of a class apart",
                  _has("Callback", "state_key")),
    "callback_state_dict": ("Callback.state_dict and load_state_dict",
                            _has("Callback", "state_dict")),
    "hooks_2.2": ("the module hooks of edition 2.2",
                  _has("LightningModule", "on_validation_model_zero_grad")),
    "epoch_end_outputs": ("LightningModule.training_epoch_end and its siblings, with the outputs",
                          _has("LightningModule", "training_epoch_end")),
    "configure_model": ("LightningModule.configure_model",
                        _has("LightningModule", "configure_model")),
    "manual_optimization": ("LightningModule.manual_backward",
                            _has("LightningModule", "manual_backward")),
    "datamodule": ("a LightningDataModule", _is_there("LightningDataModule")),
    "datamodule_on_exception": ("LightningDataModule.on_exception",
                                _has("LightningDataModule", "on_exception")),
    "early_stopping": ("callbacks.EarlyStopping", _is_there("EarlyStopping")),
    "model_checkpoint": ("callbacks.ModelCheckpoint", _is_there("ModelCheckpoint")),
    "progress_bar": ("callbacks.ProgressBarBase, to make one's own bar",
                     _is_there("ProgressBarBase")),
    "lr_monitor": ("callbacks.LearningRateMonitor", _is_there("LearningRateMonitor")),
    "gradient_accumulation_scheduler": ("callbacks.GradientAccumulationScheduler",
                                        _is_there("GradientAccumulationScheduler")),
    "gpu_stats_monitor": ("callbacks.GPUStatsMonitor", _is_there("GPUStatsMonitor")),
    "lambda_callback": ("callbacks.LambdaCallback", _is_there("LambdaCallback")),
    "tqdm_bar": ("a progress bar that tqdm draws, and tqdm",
                 lambda impl: hasattr(impl, "TQDMProgressBar") and _is_installed("tqdm")),
    "bar_leave": ("a progress bar of tqdm that may stay, epoch by epoch",
                  lambda impl: _is_installed("tqdm") and "leave" in inspect.signature(
                      getattr(impl, "TQDMProgressBar", object)).parameters),
    "timer": ("callbacks.Timer", _is_there("Timer")),
    "model_summary": ("callbacks.ModelSummary", _is_there("ModelSummary")),
    "tune": ("Trainer.tune", _has("Trainer", "tune")),
    "tuner": ("Tuner(trainer).lr_find", _has("Tuner", "lr_find")),
    "tensorboard": ("loggers.TensorBoardLogger, and TensorBoard", lambda impl: hasattr(
        impl, "TensorBoardLogger") and _is_installed("tensorboard")),
    "logger": ("a Logger to derive from", _is_there("Logger")),
    "csv_logger": ("loggers.CSVLogger", _is_there("CSVLogger")),
    "trace": ("lifecycle.trace, which watches a run", _is_there("trace")),
    "fully_shard": ("torch's fully_shard, of torch 2.6 and later",
                    lambda impl: _torch_has("distributed/fsdp/_fully_shard")),
    "beyond": ("three generations of callbacks at once: who offers that claims edition beyond",
               lambda impl: _has("Callback", "on_epoch_start")(impl)
               and _has("LightningModule", "on_validation_model_zero_grad")(impl)),
}

# Whoever lacks one of these has only begun: clauses alone are asked of it, and not whole runs.
WHOLE = {"test", "datamodule", "log", "save_checkpoint", "model_checkpoint"}

# What an implementation must be able to do for the facts of an edition to be asked of it.
EDITIONS = {
    "1.1": {"older_hooks"},
    "1.5": {"older_hooks", "on_exception"},
    "2.2": {"hooks_2.2"},
    "beyond": {"beyond"},
}
