"""Callbacks about the pace of learning: LearningRateMonitor, GradientAccumulationScheduler."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.optim import Optimizer

from .callback import Callback
from .errors import MisconfigurationException, listed, warn
from .reporting import is_due

if TYPE_CHECKING:
    from .module import LightningModule
    from .trainer import Trainer

__all__ = ["GradientAccumulationScheduler", "LearningRateMonitor"]


class LearningRateMonitor(Callback):
    """Pass the learning rate of every optimizer to the loggers, and to `callback_metrics`.

    A rate is called `lr-SGD` after its optimizer's class, or by the `name` of its scheduler. A
    second optimizer of a class is `lr-SGD-1`. With several parameter groups they are
    `lr-SGD/pg1`, `lr-SGD/pg2`; a group that has a `name` is called by it.

    Args:
        logging_interval: "step" logs at every step that is a multiple of `log_every_n_steps`,
            "epoch" at the start of every epoch; None as each scheduler's own interval says, and
            an optimizer without a scheduler at both.
        log_momentum: log `NAME-momentum`, too: the `momentum` of a group, or its first beta.
        log_weight_decay: log `NAME-weight_decay`, too.

    Raises:
        MisconfigurationException: another `logging_interval`; when training starts, if the trainer
            has no logger or two groups of an optimizer have the same name.

    `lrs` keeps every rate that was logged; `last_momentum_values` and `last_weight_decay_values`
    the last ones. Edition 2.2.
    """

    def __init__(
        self, logging_interval: Literal["step", "epoch"] | None = None,
        log_momentum: bool = False, log_weight_decay: bool = False,
    ) -> None:
        if logging_interval not in (None, "step", "epoch"):
            raise MisconfigurationException(
                f"LearningRateMonitor(logging_interval={logging_interval!r}): accepted are 'step', "
                "'epoch' and None."
            )
        self.logging_interval = logging_interval
        self.log_momentum = log_momentum
        self.log_weight_decay = log_weight_decay
        self.lrs: dict[str, list[float]] = {}
        self.last_momentum_values: dict[str, float | None] = {}
        self.last_weight_decay_values: dict[str, float | None] = {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Find the names."""
        if not trainer.loggers:
            raise MisconfigurationException(
                "LearningRateMonitor has no logger to pass the rates to. Leave out "
                "`Trainer(logger=False)`, or the callback."
            )
        for optimizer in trainer.optimizers:
            if self.log_momentum and not {"momentum", "betas"} & set(optimizer.defaults):
                warn(f"LearningRateMonitor(log_momentum=True): {type(optimizer).__name__} has no "
                     "momentum; 0 is logged for it.", RuntimeWarning)
        names = [name for _, names, _ in _named(trainer) for name in names]
        self.lrs = {name: [] for name in names}
        self.last_momentum_values = dict.fromkeys(f"{name}-momentum" for name in names)
        self.last_weight_decay_values = dict.fromkeys(f"{name}-weight_decay" for name in names)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log what belongs to epochs."""
        if self.logging_interval != "step":
            self._log(trainer, "epoch")

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Log what belongs to steps, when it is due."""
        upcoming = trainer._progress.stepping_batches + 1
        if self.logging_interval != "epoch" and is_due(trainer, upcoming):
            self._log(trainer, "step")

    def _log(self, trainer: Trainer, interval: str) -> None:
        stats: dict[str, float] = {}
        for optimizer, names, own_interval in _named(trainer):
            if self.logging_interval or own_interval in (None, interval):
                for group, name in zip(optimizer.param_groups, names):
                    stats.update(self._read(group, name))
        if not stats:
            return
        trainer.callback_metrics.update(
            {name: torch.tensor(value) for name, value in stats.items()}
        )
        for logger in trainer.loggers:
            logger.log_metrics(stats, step=trainer._progress.stepping_batches)

    def _read(self, group: dict[str, Any], name: str) -> dict[str, float]:
        """What there is to log of one parameter group."""
        if name not in self.lrs:  # groups were added: the first one was called without /pg1
            self.lrs[name] = self.lrs.pop(name.removesuffix("/pg1"), [])
        stats = {name: float(group["lr"])}
        self.lrs[name].append(stats[name])
        if self.log_momentum:
            key = f"{name}-momentum"
            momentum = group["betas"][0] if "betas" in group else group.get("momentum", 0)
            stats[key] = self.last_momentum_values[key] = float(momentum)
        if self.log_weight_decay:
            key = f"{name}-weight_decay"
            decay = group.get("weight_decay", 0)
            stats[key] = self.last_weight_decay_values[key] = float(decay)
        return stats


def _named(trainer: Trainer) -> Iterator[tuple[Optimizer, list[str], str | None]]:
    """Each optimizer, the names of its groups, and the interval of its scheduler if it has one.

    Those with a scheduler come first. A scheduler that has no `optimizer` is passed over.
    """
    scheduled = [
        (config.scheduler.optimizer, config.name, config.interval)
        for config in trainer.lr_scheduler_configs
        if hasattr(config.scheduler, "optimizer")
    ]
    seen = [optimizer for optimizer, _, _ in scheduled]
    free = [each for each in dict.fromkeys(trainer.optimizers) if each not in seen]
    of_type: Counter[type] = Counter()
    for optimizer, given, interval in [*scheduled, *((each, None, None) for each in free)]:
        kind = type(optimizer)
        of_type[kind] += given is None
        name = f"lr-{kind.__name__}" if given is None else given
        if of_type[kind] > 1:
            name = f"{name}-{of_type[kind] - 1}"
        yield optimizer, _names_of_groups(name, optimizer.param_groups), interval


def _names_of_groups(name: str, groups: list[dict[str, Any]]) -> list[str]:
    if len(groups) == 1 and not groups[0].get("name"):
        return [name]
    names = [group.get("name", f"pg{number}") for number, group in enumerate(groups, 1)]
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise MisconfigurationException(
            f"LearningRateMonitor: several parameter groups of {name} are called {listed(twice)}. "
            "Give each group a `name` of its own, or none."
        )
    return [f"{name}/{each}" for each in names]


class GradientAccumulationScheduler(Callback):
    """Set `trainer.accumulate_grad_batches` by epoch.

    Args:
        scheduling: epoch, from 0 -> batches to accumulate from that epoch on. Before the first
            epoch that is given it is 1.

    Raises:
        TypeError: `scheduling` is empty, or no dict.
        MisconfigurationException: an epoch that is no int of at least 0, or a number of batches
            that is no int of at least 1.
        RuntimeError: when training starts, if the module optimizes manually.
        ValueError: when training starts, if the trainer's flag accumulates, too.

    Edition 2.2.
    """

    def __init__(self, scheduling: dict[int, int]) -> None:
        if not isinstance(scheduling, dict) or not scheduling:
            raise TypeError(
                f"GradientAccumulationScheduler(scheduling={scheduling!r}): accepted is a dict "
                "with entries, such as {4: 2} for 2 batches from epoch 4 on."
            )
        _check("an epoch", scheduling, 0)
        _check("a number of batches", scheduling.values(), 1)
        self.scheduling = {0: 1, **scheduling}
        self.epochs = sorted(self.scheduling)
        self._set: int | None = None

    def get_accumulate_grad_batches(self, epoch: int) -> int:
        """How many batches are accumulated in an epoch.

        Args:
            epoch: its number, counted from 0.
        """
        return self.scheduling[max(start for start in self.epochs if start <= epoch)]

    def only_factor(self) -> int:
        """The factor of all epochs.

        Raises:
            MisconfigurationException: there are several.
        """
        if len(self.epochs) > 1:
            raise MisconfigurationException(
                "`trainer.estimated_stepping_batches` cannot be told while "
                f"GradientAccumulationScheduler changes the accumulation ({self.scheduling}). "
                "Count the steps yourself, or use `Trainer(accumulate_grad_batches=...)`."
            )
        return self.scheduling[0]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse what contradicts the schedule."""
        if not pl_module.automatic_optimization:
            raise RuntimeError(
                "GradientAccumulationScheduler needs automatic optimization, and "
                f"`{type(pl_module).__name__}.automatic_optimization` is False. Leave the callback "
                "out and accumulate in `training_step`."
            )
        flag = trainer.accumulate_grad_batches
        if flag not in (1, self._set):  # an earlier fit of this trainer may have left it changed
            raise ValueError(
                f"`Trainer(accumulate_grad_batches={flag})` and GradientAccumulationScheduler "
                "contradict each other. Leave one out."
            )
        self.on_train_epoch_start(trainer, pl_module)  # a resumed epoch does not start again

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Set the factor of the epoch."""
        self._set = self.get_accumulate_grad_batches(trainer.current_epoch)
        trainer.accumulate_grad_batches = self._set


def _check(what: str, numbers: Any, least: int) -> None:
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise MisconfigurationException(
                f"GradientAccumulationScheduler(scheduling=...): {what} is an int of at least "
                f"{least}, not {number!r}."
            )
