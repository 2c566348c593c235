"""What must be right before a run begins, and what a trainer adds by default."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Iterable

import torch

from .callback import Callback
from .checkpoint import check_state_keys
from .signatures import overrides
from .errors import MisconfigurationException, info, warn
from .loading import has_loader
from .loggers import CSVLogger, Logger
from .monitors import ModelCheckpoint
from .progress import ProgressBar, ProgressBarBase
from .summary import ModelSummary
from .timer import Timer

if TYPE_CHECKING:
    from .module import LightningDataModule, LightningModule
    from .trainer import Trainer

STEPS = {  # entry point: the step that it needs
    "fit": "training_step", "validate": "validation_step", "test": "test_step",
    "predict": "predict_step", "tune": "training_step",
}


def all_callbacks(trainer: Trainer, given: Any) -> list[Callback]:
    """The trainer's callbacks: those given, the defaults that its flags ask for, checkpoints last.

    Args:
        given: the flag: one callback, several, or None.

    Raises:
        MisconfigurationException: something that is no callback, a flag that says no to a callback
            that is there, two progress bars, or a `max_time` that is no duration.
    """
    callbacks = [given] if isinstance(given, Callback) else list(_iterable(given))
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise MisconfigurationException(
                f"`Trainer(callbacks=...)` got {callback!r}, which is no `Callback`. Derive its "
                "class from `Callback` and give an instance, not the class."
            )
    if trainer.max_time is not None:
        timer = Timer(trainer.max_time)
        if any(isinstance(callback, Timer) for callback in callbacks):
            info("`Trainer(max_time=...)` is ignored: there is a Timer in `callbacks`.")
        else:
            callbacks.append(timer)
    defaults = (
        ("enable_progress_bar", ProgressBarBase, ProgressBar, True),
        ("enable_model_summary", ModelSummary, ModelSummary, False),
        ("enable_checkpointing", ModelCheckpoint, ModelCheckpoint, True),
    )
    for flag, kind, default, exclusive in defaults:
        wanted = getattr(trainer, flag)
        there = [callback for callback in callbacks if isinstance(callback, kind)]
        if there and wanted is False and exclusive:
            raise MisconfigurationException(
                f"`Trainer({flag}=False)` and a `{type(there[0]).__name__}` in `callbacks` "
                "contradict each other. Leave one out."
            )
        if kind is ProgressBarBase and len(there) > 1:
            raise MisconfigurationException(
                f"`Trainer(callbacks=...)` has {len(there)} progress bars; one is supported."
            )
        if not there and wanted is not False:
            callbacks.append(default())
    return in_order(callbacks)


def _iterable(given: Any) -> Iterable[Any]:
    if given is None or isinstance(given, (list, tuple, set)):
        return given or ()
    raise MisconfigurationException(
        f"`Trainer(callbacks={given!r})`: accepted are a `Callback`, a list of them, and None."
    )


def in_order(callbacks: list[Callback]) -> list[Callback]:
    """The callbacks, checkpoints last, so that the file holds what others change.

    Args:
        callbacks: sorted in place.

    Raises:
        RuntimeError: two keep their states under one key, as in Lightning 2.2.
    """
    callbacks.sort(key=lambda callback: isinstance(callback, ModelCheckpoint))
    check_state_keys(callbacks)
    return callbacks


def with_configured(callbacks: list[Callback], configured: Any) -> list[Callback]:
    """The callbacks with those that the module configures, which replace those of their type.

    Args:
        callbacks: those of the trainer.
        configured: what `configure_callbacks` returned.

    Raises:
        MisconfigurationException: something in there is no callback.

    Source: edition 2.2, trace configure_callbacks_override.
    """
    new = [configured] if isinstance(configured, Callback) else list(configured or ())
    for callback in new:
        if not isinstance(callback, Callback):
            raise MisconfigurationException(
                f"`configure_callbacks` returned {callback!r}, which is no `Callback`."
            )
    kept = [old for old in callbacks if not any(isinstance(each, type(old)) for each in new)]
    return in_order(kept + new)


def all_loggers(trainer: Trainer, given: Any) -> list[Logger]:
    """The trainer's loggers. By default one for CSV files, when logging is on.

    Args:
        given: the flag: a logger, several, True, False or None.

    Raises:
        MisconfigurationException: something in there is no logger.
    """
    if given is None or given is True:
        return [] if trainer.fast_dev_run else [CSVLogger(trainer.default_root_dir)]
    if given is False or trainer.fast_dev_run:
        return []
    loggers = list(given) if isinstance(given, (list, tuple)) else [given]
    for logger in loggers:
        if not callable(getattr(logger, "log_metrics", None)):
            raise MisconfigurationException(
                f"`Trainer(logger=...)` got {logger!r}, which is no logger. Accepted are a "
                "`Logger`, a list of them, True, False and None."
            )
    return loggers


def agree_on_versions(trainer: Trainer) -> None:
    """Let the loggers of all processes write to the version that the first one has chosen."""
    for logger in trainer.loggers:
        if trainer._several and hasattr(logger, "_version"):
            logger._version = trainer.strategy.broadcast(logger.version)


def check_model(model: Any, entry: str) -> None:
    """Refuse what is no module.

    Args:
        model: what the entry point was given.
        entry: its name, for the message.

    Raises:
        TypeError: as Lightning 2.2 does.
        MisconfigurationException: the module's `__init__` leaves out that of its base.
    """
    from .module import LightningModule

    if isinstance(model, LightningModule):
        if "_trainer" not in vars(model):
            raise MisconfigurationException(
                f"`{type(model).__name__}.__init__` does not call `super().__init__()`. Call it "
                "first."
            )
        return
    got = f"the class `{model.__name__}`" if isinstance(model, type) else f"{type(model).__name__}"
    hint = "Give an instance of it." if isinstance(model, type) else (
        "Wrap it in a `LightningModule` with a `training_step`." if isinstance(
            model, torch.nn.Module) else "Give a `LightningModule`."
    )
    raise TypeError(f"`Trainer.{entry}()` requires a `LightningModule`, got {got}. {hint}")


def check_data(loaders: dict[str, Any], datamodule: Any, entry: str) -> None:
    """Refuse loaders beside a data module, and a data module that is none.

    Args:
        loaders: what the entry point was given, by kind.
        datamodule: what it was given as that.
        entry: its name, for the message.

    Raises:
        MisconfigurationException, TypeError: as Lightning 2.2 does.
    """
    from .module import LightningDataModule

    if datamodule is None:
        return
    if any(given is not None for given in loaders.values()):
        raise MisconfigurationException(
            f"`Trainer.{entry}()` got loaders and a data module. Give one of them."
        )
    if not isinstance(datamodule, LightningDataModule):
        raise TypeError(
            f"`Trainer.{entry}(datamodule={datamodule!r})`: that is no `LightningDataModule`."
        )


def check_run(trainer: Trainer, module: LightningModule, datamodule: LightningDataModule | None
              ) -> None:
    """Refuse a module that lacks what this entry point needs, before any hook that does work.

    Args:
        module: of this run.
        datamodule: of this run, if it has one.

    Raises:
        MisconfigurationException: names what is missing.
        RuntimeError: `configure_model` and `configure_sharded_model` are both there.
    """
    name, entry = type(module).__name__, trainer.state.entry_point
    needed = [STEPS[entry]]
    if entry == "predict":
        needed = [] if overrides(module, "forward") else needed
    if entry in ("fit", "tune"):
        needed.append("configure_optimizers")
    for method in needed:
        if not overrides(module, method):
            also = " or `forward`" if method == "predict_step" else ""
            raise MisconfigurationException(
                f"`Trainer.{entry}()` needs `{name}.{method}`{also}, and it is not there. Write it."
            )
    _check_steps(module, name)
    if overrides(module, "configure_model") and overrides(module, "configure_sharded_model"):
        raise RuntimeError(
            f"`{name}` overrides both `configure_model` and `configure_sharded_model`. Keep "
            "`configure_model`, which is the newer name."
        )
    loader = {"fit": "train", "tune": "train", "validate": "val"}.get(entry, entry)
    if not has_loader(trainer, loader):
        raise MisconfigurationException(
            f"`Trainer.{entry}()` has no loader. Pass one, or write `{loader}_dataloader` in "
            f"`{name}` or in a data module."
        )
    if entry == "fit":
        _check_fit(trainer, module, name)


def _check_fit(trainer: Trainer, module: LightningModule, name: str) -> None:
    has_step, loaded = overrides(module, "validation_step"), has_loader(trainer, "val")
    if loaded and not has_step:
        warn(f"There is a validation loader, and `{name}` has no `validation_step`: validation is "
             "skipped.")
    if has_step and not loaded:
        warn(f"`{name}` has a `validation_step`, and there is no `val_dataloader`: validation is "
             "skipped.")
    if module.automatic_optimization:
        return
    for flag, harmless in (("gradient_clip_val", (None, 0)), ("accumulate_grad_batches", (1,))):
        value = getattr(trainer, flag)
        if value not in harmless:
            raise MisconfigurationException(
                f"`Trainer({flag}={value})` belongs to automatic optimization, and "
                f"`{name}.automatic_optimization` is False. Leave the flag out and do it in "
                "`training_step`."
            )


def _check_steps(module: LightningModule, name: str) -> None:
    for step in STEPS.values():
        if overrides(module, step):
            if "dataloader_iter" in inspect.signature(getattr(module, step)).parameters:
                raise MisconfigurationException(
                    f"`{name}.{step}(dataloader_iter)` is not supported. Take `batch, batch_idx`."
                )


def check_several_loaders(module: LightningModule, step: str, loaders: int) -> None:
    """Refuse a step that cannot tell several loaders apart.

    Args:
        module: whose step it is.
        step: its name.
        loaders: how many there are.

    Raises:
        RuntimeError: as Lightning 2.2 does.
    """
    parameters = inspect.signature(getattr(module, step)).parameters.values()
    takes = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    needs = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    tells = "dataloader_idx" in takes or any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if loaders > 1 and not tells and len(needs) < 3:
        raise RuntimeError(
            f"There are {loaders} loaders, and `{type(module).__name__}.{step}` has no "
            f"`dataloader_idx`. Write `def {step}(self, batch, batch_idx, dataloader_idx=0)`."
        )


def one_or_idx(module: LightningModule, optimizers: int) -> None:
    """Refuse several optimizers in automatic optimization, unless the step tells them apart.

    Args:
        module: whose `training_step` it is.
        optimizers: how many there are.

    Raises:
        RuntimeError: as Lightning 2.2 does; with `optimizer_idx` they run as in 1.5.
    """
    if not module.automatic_optimization or optimizers < 2:
        return
    if "optimizer_idx" not in inspect.signature(module.training_step).parameters:
        raise RuntimeError(
            f"`configure_optimizers` returned {optimizers} optimizers. Either set "
            "`self.automatic_optimization = False` and step them in `training_step`, or let it "
            "take `optimizer_idx`: `def training_step(self, batch, batch_idx, optimizer_idx)`."
        )
