"""A learning-rate range test: `trainer.tune(module)`, or `Tuner(trainer).lr_find(module)`.

The module trains for a moment while the rate grows from step to step. The loss falls where the
rate is right, and explodes where it is too high; the curve of one over the other shows both. All
that the sweep touches is put back afterwards: a fit that follows is the one it would have been.

Editions 1.5 (`Trainer(auto_lr_find=...)`, `trainer.tune`) and 2.2 (`Tuner`). Smoothing and the
suggestion are those of 1.5.10; 2.2.5 divides the first losses by too much.
"""
from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch

from . import data, loading
from .callback import Callback
from .rng import rng_state, set_rng_state
from .dispatch import bind
from .errors import MisconfigurationException, info, warn
from .flags import set_default_limits
from .loggers import Logger, PathLike, _Silent
from .plot import plot_range_test
from .progress import ProgressBar
from .state import Progress, TrainerFn

if TYPE_CHECKING:
    from .module import LightningDataModule, LightningModule
    from .trainer import Trainer

__all__ = ["LRFinder", "Tuner"]

Mode = Literal["exponential", "linear"]
ATTRIBUTES = ("lr", "learning_rate")  # where a module keeps its rate, unless it is said
FORGETS = 0.98  # share of the running mean that stays when a loss joins it


@dataclass
class LRFinder:
    """What a sweep found.

    Args:
        mode: "exponential" or "linear": how the rate goes from one end to the other.
        lr_min: the first rate.
        lr_max: the last rate.
        num_training: how many steps the sweep has at most.
        results: "lr" and the smoothed "loss" of each step, as lists.
    """

    mode: Mode
    lr_min: float
    lr_max: float
    num_training: int
    results: dict[str, list[float]] = field(default_factory=lambda: {"lr": [], "loss": []})

    def suggestion(self, skip_begin: int = 10, skip_end: int = 1) -> float | None:
        """The rate at which the loss falls most steeply from step to step.

        Args:
            skip_begin, skip_end: steps to leave out; the mean is young at first, and the last
                loss may be that of the explosion. Losses that are not finite are left out, too.

        Returns:
            The rate; None, with a warning, if fewer than two steps are left.
        """
        losses = self.results["loss"]
        steps = [i for i in range(skip_begin, len(losses) - skip_end) if math.isfinite(losses[i])]
        if len(steps) < 2:
            warn(f"A learning rate cannot be suggested: of {len(losses)} steps {len(steps)} are "
                 "left. Raise `num_training`, or skip fewer.")
            return None
        values = torch.tensor([losses[i] for i in steps], dtype=torch.float64)
        slopes = torch.gradient(values)[0]
        return self.results["lr"][steps[int(slopes.argmin())]]

    def plot(
        self, suggest: bool = False, show: bool = False, ax: Any = None,
        file: PathLike | None = None,
    ) -> Any:
        """Draw the losses over the rates.

        Args:
            suggest: mark the suggestion.
            show: open a window.
            ax: matplotlib's axes to draw on; by default those of a new figure.
            file: write the picture to this file.

        Returns:
            The figure.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
        """
        marked = self.suggestion() if suggest else None
        rates, losses = self.results["lr"], self.results["loss"]
        return plot_range_test(rates, losses, self.mode, marked, show, ax, file)

    def rate(self, step: int) -> float:
        """The rate of a step.

        Args:
            step: its number, counted from 0.
        """
        share = (step + 1) / self.num_training if step else 0.0  # as in 2.2.5: it ends at lr_max
        if self.mode == "linear":
            return self.lr_min + share * (self.lr_max - self.lr_min)
        return self.lr_min * math.pow(self.lr_max / self.lr_min, share)


class Tuner:
    """`Tuner(trainer).lr_find(module)`, as in 2.x.

    Args:
        trainer: whose runs are tuned.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def lr_find(
        self, model: LightningModule, train_dataloaders: Any = None, val_dataloaders: Any = None,
        dataloaders: Any = None, datamodule: LightningDataModule | None = None,
        method: str = "fit", min_lr: float = 1e-8, max_lr: float = 1, num_training: int = 100,
        mode: Mode = "exponential", early_stop_threshold: float | None = 4.0,
        update_attr: bool = True, attr_name: str = "",
    ) -> LRFinder | None:
        """Sweep the learning rate.

        Args:
            model: what is to be trained; it optimizes automatically, with one optimizer.
            train_dataloaders: as for `Trainer.fit`.
            val_dataloaders, dataloaders: not used; the sweep does not validate.
            datamodule: instead of loaders.
            method: "fit"; nothing else has a rate.
            min_lr, max_lr: where the sweep begins and ends.
            num_training: steps between them.
            mode: "exponential": by the same factor at each step; "linear": by the same amount.
            early_stop_threshold: stop once the loss is so many times the best one, or not finite;
                None: go on to the end.
            update_attr: set the module's rate to the suggestion.
            attr_name: where the rate is, in the module or in its `hparams`; by default `lr` or
                `learning_rate`.

        Returns:
            What was found; None under `fast_dev_run`, where nothing is swept, or after Ctrl-C.

        Raises:
            MisconfigurationException: arguments out of range, a module with several optimizers or
                manual optimization, or one without the attribute.
        """
        trainer, finder = self._trainer, LRFinder(mode, min_lr, max_lr, num_training)
        _check_arguments(finder, early_stop_threshold, method, dataloaders)
        if trainer.fast_dev_run:
            warn("The learning rate is not swept under `fast_dev_run`.")
            return None
        name = _attribute(model, attr_name) if update_attr else ""
        sweep = _Sweep(finder, early_stop_threshold)
        loaders = {"train": train_dataloaders, "val": None}
        found: LRFinder | None = trainer._run(
            TrainerFn.TUNING, lambda: _run(trainer, sweep), model, loaders, datamodule, None, None
        )
        suggested = found.suggestion() if found and update_attr else None
        if suggested is not None:
            _set(model, name, suggested)
            info(f"The learning rate `{name}` is set to {suggested:.3g}.")
        return found


def tune(
    self: Trainer, model: LightningModule, train_dataloaders: Any = None,
    val_dataloaders: Any = None, datamodule: LightningDataModule | None = None,
    lr_find_kwargs: dict[str, Any] | None = None,
) -> dict[str, LRFinder | None]:
    """Find a learning rate before training, with `setup` and `teardown` for the stage "tune".

    With `Trainer(auto_lr_find=True)` the module's rate is set to the suggestion, with
    `auto_lr_find="name"` that of this name. Otherwise the result is only returned.

    Args:
        model, train_dataloaders, val_dataloaders, datamodule: as for `fit`; the sweep does not
            validate.
        lr_find_kwargs: further arguments of `Tuner.lr_find`.

    Returns:
        The `LRFinder` under "lr_find".

    Raises:
        MisconfigurationException: as `Tuner.lr_find`.

    Edition 1.5.
    """
    flag = self.auto_lr_find
    settings = {"update_attr": bool(flag), "attr_name": flag if isinstance(flag, str) else "",
                **(lr_find_kwargs or {})}
    found = Tuner(self).lr_find(
        model, train_dataloaders, val_dataloaders, datamodule=datamodule, **settings
    )
    return {"lr_find": found}


class _Sweep(Callback):
    """Sets the rate before a step and keeps the loss after it; the only callback of a sweep."""

    def __init__(self, finder: LRFinder, threshold: float | None) -> None:
        self.finder, self.threshold = finder, threshold
        self.mean, self.best = 0.0, math.inf
        self.bar: Any = None

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        rate = self.finder.rate(trainer.global_step)
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = rate

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any,
        batch_idx: int,
    ) -> None:
        if not trainer._stepped:  # a window of accumulation goes on
            return
        step, results = trainer.global_step, self.finder.results
        loss = self._smooth(float(outputs["loss"]), step) if outputs else math.nan
        results["lr"].append(self.finder.rate(step - 1))
        results["loss"].append(loss)
        is_over = step == self.finder.num_training or bool(outputs) and self._diverges(loss)
        trainer.should_stop = trainer.strategy.broadcast(is_over)
        if self.bar is not None:
            self.bar.update()

    def _smooth(self, loss: float, step: int) -> float:
        self.mean = FORGETS * self.mean + (1 - FORGETS) * loss
        return self.mean / (1 - FORGETS ** step)

    def _diverges(self, loss: float) -> bool:
        if self.threshold is None:
            return False
        # `threshold` times the best, and where that is below zero the same distance above it
        limit = self.best + (self.threshold - 1) * abs(self.best)
        self.best = min(self.best, loss)
        return not math.isfinite(loss) or loss > limit


def _run(trainer: Trainer, sweep: _Sweep) -> LRFinder:
    """The job of the entry point: a short fit, and everything as it was before."""
    with _unchanged(trainer):
        set_default_limits(trainer)  # for `configure_optimizers` to see
        trainer._set_up()
        with _unchanged(trainer):
            trainer._configure_optimizers()
            _check_optimization(trainer)
            _alone(trainer, sweep)
            loading.load_train_data(trainer)
            with _states_of(trainer):
                trainer.on.on_fit_start()
                trainer.lightning_module.zero_grad()
                trainer._train()
                trainer.on.on_fit_end()
        trainer.on.teardown(TrainerFn.TUNING.value)  # loggers go on: nothing was logged
    finder = sweep.finder
    finder.results = trainer.strategy.broadcast(finder.results)
    if (steps := len(finder.results["lr"])) < finder.num_training:
        info(f"The sweep ended after {steps} of {finder.num_training} steps: the loss diverged.")
    return finder


def _alone(trainer: Trainer, sweep: _Sweep) -> None:
    """No other callback, no logger, no validation, and no end but that of the sweep."""
    shown = trainer.progress_bar_callback
    if isinstance(shown, ProgressBar) and shown.is_enabled:
        sweep.bar = shown._new_bar("Finding a learning rate", leave=False)
        sweep.bar.reset(total=sweep.finder.num_training)
    trainer.callbacks = [sweep]
    trainer.loggers = [_NoLogger()] if trainer.loggers else []
    trainer.lr_scheduler_configs = []
    trainer.global_step, trainer.current_epoch, trainer._progress = 0, 0, Progress()
    trainer.max_epochs = trainer.max_steps = -1
    trainer.min_epochs, trainer.min_steps = 0, None
    trainer.limit_val_batches = trainer.log_every_n_steps = 0


@contextmanager
def _unchanged(trainer: Trainer) -> Iterator[None]:
    """What the trainer knows is what it knew, and so are random numbers, whatever happens."""
    rng, before = rng_state(), dict(vars(trainer))
    before.pop("state")
    try:
        yield
    finally:
        for callback in trainer.callbacks:
            if isinstance(callback, _Sweep) and callback.bar is not None:
                callback.bar.close()
        vars(trainer).update(before)
        trainer._metrics.clear()
        bind(trainer, trainer.on)
        set_rng_state(rng)


@contextmanager
def _states_of(trainer: Trainer) -> Iterator[None]:
    """Weights, buffers, gradients, modes, optimizer and the loader's generators are put back."""
    module, optimizer = trainer.lightning_module, trainer.optimizers[0]
    tensors: list[tuple[Any, ...]] = [
        (store, name, tensor, tensor.detach().clone(), tensor.grad)
        for part in module.modules() for store in (part._parameters, part._buffers)
        for name, tensor in store.items() if tensor is not None
    ]
    modes = [(part, part.training) for part in module.modules()]
    state, precision = copy.deepcopy(optimizer.state_dict()), trainer.precision_plugin
    scaling = copy.deepcopy(precision.state_dict())
    loaders = data.leaves(trainer.train_dataloader)
    generators = [(each, each.get_state()) for loader in loaders for each in _generators(loader)]
    try:
        yield
    finally:
        with torch.no_grad():
            for store, name, tensor, value, grad in tensors:
                store[name] = tensor
                tensor.copy_(value)
                tensor.grad = grad
        for part, training in modes:
            part.training = training
        optimizer.load_state_dict(state)
        precision.load_state_dict(scaling)
        for generator, drawn in generators:
            generator.set_state(drawn)


def _generators(loader: Any) -> list[torch.Generator]:
    """The generators that a loader and its samplers draw from, each once."""
    owners = (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
    found = {id(each): each for owner in owners if (each := getattr(owner, "generator", None))}
    return list(found.values())


class _NoLogger(Logger):
    """Stands for the loggers while the rate is swept."""

    experiment = _Silent()


def _check_arguments(
    finder: LRFinder, threshold: float | None, method: str, dataloaders: Any
) -> None:
    is_linear = finder.mode == "linear"
    # wrong if                                      what it is, what to write instead
    for wrong, message in [
        (finder.mode not in ("exponential", "linear"),
         f"mode={finder.mode!r}: write 'exponential' or 'linear'."),
        (not isinstance(finder.num_training, int) or finder.num_training < 1,
         f"num_training={finder.num_training!r}: write how many steps, 1 or more."),
        (finder.lr_min < 0 or finder.lr_min == 0 and not is_linear,
         f"min_lr={finder.lr_min!r}: write a rate above 0."),
        (finder.lr_max <= finder.lr_min,
         f"max_lr={finder.lr_max!r}: write a rate above min_lr={finder.lr_min!r}."),
        (threshold is not None and threshold <= 1,
         f"early_stop_threshold={threshold!r}: write a factor above 1, or None."),
        (method != "fit", f"method={method!r}: only 'fit' has a learning rate."),
        (dataloaders is not None, "dataloaders=...: write `train_dataloaders`."),
    ]:
        if wrong:
            raise MisconfigurationException(f"lr_find({message}")


def _check_optimization(trainer: Trainer) -> None:
    module, count = trainer.lightning_module, len(trainer.optimizers)
    problem = "" if count == 1 else f"has {count} optimizers"
    if not module.automatic_optimization:
        problem = "optimizes manually"
    if problem:
        raise MisconfigurationException(
            f"lr_find sweeps the rate of one optimizer in automatic optimization, and "
            f"`{type(module).__name__}` {problem}. Choose its rates by hand."
        )


def _attribute(model: LightningModule, name: str) -> str:
    """The attribute that holds the rate.

    Raises:
        MisconfigurationException: it is neither in the module nor in its `hparams`.
    """
    candidates = [name] if name else list(ATTRIBUTES)
    for each in candidates:
        if hasattr(model, each) or each in model.hparams:
            return each
    tried = " or ".join(f"`{each}`" for each in candidates)
    raise MisconfigurationException(
        f"lr_find(update_attr=True): neither `{type(model).__name__}` nor its `hparams` has {tried}"
        " to set. Keep the rate there and use it in `configure_optimizers`, name it with "
        "`attr_name=...` or `Trainer(auto_lr_find='...')`, or leave the update out."
    )


def _set(model: LightningModule, name: str, rate: float) -> None:
    if hasattr(model, name):
        setattr(model, name, rate)
    if name in model.hparams:
        model.hparams[name] = rate
