"""What can be read off a trainer: the part of its public state that follows from the rest."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from . import loading
from .callback import Callback
from .dispatch import CallbackList, bind
from .learning_rate import GradientAccumulationScheduler
from .monitors import EarlyStopping, ModelCheckpoint
from .progress import ProgressBarBase
from .signatures import overrides
from .state import RunningStage, TrainerStatus
from .tuning import Tuner

if TYPE_CHECKING:
    from .loggers import Logger
    from .trainer import Trainer


class Readings:
    """Properties of `Trainer`, with Lightning 2.2's names."""

    # Callbacks and loggers

    @property
    def callbacks(self: Trainer) -> list[Callback]:
        """In the order in which they are called; a change takes effect at the next event."""
        return self._callbacks

    @callbacks.setter
    def callbacks(self: Trainer, callbacks: list[Callback]) -> None:
        before, own = getattr(self, "_callbacks", None), list(callbacks)
        self._callbacks = CallbackList(own, lambda: bind(self, self.on))
        if before is None or [*map(id, own)] != [*map(id, before)]:
            bind(self, self.on)

    def _all(self: Trainer, kind: type) -> list[Any]:
        return [callback for callback in self.callbacks if isinstance(callback, kind)]

    @property
    def checkpoint_callbacks(self: Trainer) -> list[ModelCheckpoint]:
        """All callbacks that save checkpoints."""
        return self._all(ModelCheckpoint)

    @property
    def checkpoint_callback(self: Trainer) -> ModelCheckpoint | None:
        """The first callback that saves checkpoints."""
        return next(iter(self.checkpoint_callbacks), None)

    @property
    def early_stopping_callbacks(self: Trainer) -> list[EarlyStopping]:
        """All callbacks that stop early."""
        return self._all(EarlyStopping)

    @property
    def early_stopping_callback(self: Trainer) -> EarlyStopping | None:
        """The first callback that stops early."""
        return next(iter(self.early_stopping_callbacks), None)

    @property
    def progress_bar_callback(self: Trainer) -> ProgressBarBase | None:
        """The progress bar."""
        return next(iter(self._all(ProgressBarBase)), None)

    @property
    def logger(self: Trainer) -> Logger | None:
        """The first logger."""
        return self.loggers[0] if self.loggers else None

    @logger.setter
    def logger(self: Trainer, logger: Logger | None) -> None:
        self.loggers = [logger] if logger else []

    @property
    def log_dir(self: Trainer) -> str | None:
        """Where the first logger writes; without one, the default root directory."""
        return self.loggers[0].log_dir if self.loggers else self.default_root_dir

    @property
    def tuner(self: Trainer) -> Tuner:
        """`trainer.tuner.lr_find(module)`, as in 1.5."""
        return Tuner(self)

    # Metrics

    @property
    def callback_metrics(self: Trainer) -> dict[str, torch.Tensor]:
        """What was logged, for callbacks to monitor."""
        self._metrics.collect()
        return self._metrics.callback

    @property
    def logged_metrics(self: Trainer) -> dict[str, torch.Tensor]:
        """What was logged for loggers."""
        self._metrics.collect()
        return self._metrics.logged

    @property
    def progress_bar_metrics(self: Trainer) -> dict[str, float]:
        """What was logged for the progress bar."""
        self._metrics.collect()
        return self._metrics.progress_bar

    # Processes and devices

    @property
    def global_rank(self: Trainer) -> int:
        """This process among all."""
        return self.strategy.global_rank

    @property
    def local_rank(self: Trainer) -> int:
        """This process on its node."""
        return self.strategy.local_rank

    @property
    def node_rank(self: Trainer) -> int:
        """This node among all."""
        return self.strategy.node_rank

    @property
    def world_size(self: Trainer) -> int:
        """How many processes there are."""
        return self.strategy.world_size

    def print(self: Trainer, *args: Any, **kwargs: Any) -> None:
        """Print from one process of each node.

        Args:
            args: what is printed.
            kwargs: those of the built-in `print`.
        """
        if self.local_rank == 0:
            print(*args, **kwargs)

    @property
    def num_devices(self: Trainer) -> int:
        """Devices that this node uses."""
        return len(self.device_ids)

    @property
    def device_ids(self: Trainer) -> list[int]:
        """Numbers of the devices that this node uses."""
        return self.strategy.device_ids

    @property
    def is_global_zero(self: Trainer) -> bool:
        """Whether this is the process that prints and writes."""
        return self.strategy.is_global_zero

    # Stage

    @property
    def interrupted(self: Trainer) -> bool:
        """Whether the last run ended by an exception or Ctrl-C."""
        return self.state.status == TrainerStatus.INTERRUPTED

    @property
    def training(self: Trainer) -> bool:
        """Whether a training loop runs, outside its validation."""
        return self.state.stage == RunningStage.TRAINING

    @property
    def validating(self: Trainer) -> bool:
        """Whether a validation runs, inside or outside fit."""
        return self.state.stage == RunningStage.VALIDATING

    @property
    def testing(self: Trainer) -> bool:
        """Whether `test` runs."""
        return self.state.stage == RunningStage.TESTING

    @property
    def predicting(self: Trainer) -> bool:
        """Whether `predict` runs."""
        return self.state.stage == RunningStage.PREDICTING

    @property
    def sanity_checking(self: Trainer) -> bool:
        """Whether the sanity check runs."""
        return self.state.stage == RunningStage.SANITY_CHECKING

    @property
    def evaluating(self: Trainer) -> bool:
        """Whether any validation or test runs."""
        return self.validating or self.testing or self.sanity_checking

    # Loops

    @property
    def fit_loop(self: Trainer) -> Trainer:
        """The loop is the trainer itself; `trainer.fit_loop.max_epochs = n` works as in 2.x."""
        return self

    @property
    def epoch_loop(self: Trainer) -> Trainer:
        """As `fit_loop`: `trainer.fit_loop.epoch_loop.max_steps = n` works as in 2.x."""
        return self

    @property
    def num_sanity_val_batches(self: Trainer) -> list[float]:
        """Batches of each validation loader that the sanity check takes."""
        return [min(self.num_sanity_val_steps, count) for count in self.num_val_batches]

    @property
    def enable_validation(self: Trainer) -> bool:
        """Whether a fit validates: there are a step, a loader and a limit above 0."""
        has_step = overrides(self.lightning_module, "validation_step")
        return has_step and loading.has_loader(self, "val") and self.limit_val_batches > 0

    @property
    def estimated_stepping_batches(self: Trainer) -> float:
        """Optimizer steps that this fit will take; for schedulers in `configure_optimizers`.

        Asks for the training loader, if that was not done yet. Infinity when nothing limits it.

        Raises:
            MisconfigurationException: accumulation changes between epochs, so that no one number
                holds.
        """
        if self.limit_train_batches and loading.has_loader(self, "train"):
            loading.load_train_data(self)
        window = self.accumulate_grad_batches
        for schedule in self._all(GradientAccumulationScheduler):
            window = schedule.only_factor()
        steps_per_epoch = self.num_training_batches / window
        limit = math.inf if self.max_steps == -1 else self.max_steps
        if self.max_epochs == -1 or steps_per_epoch == math.inf:
            return limit
        epochs = 1000 if self.max_epochs is None else max(self.max_epochs, 1)
        return min(math.ceil(steps_per_epoch) * epochs, limit)
