"""Where a trainer is: what it was asked to do, at which stage, and how far it has come."""
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional


class TrainerFn(str, Enum):
    """The entry point that is running."""

    FITTING = "fit"
    VALIDATING = "validate"
    TESTING = "test"
    PREDICTING = "predict"
    TUNING = "tune"


class TrainerStatus(str, Enum):
    """How the last run stands."""

    INITIALIZING = "initializing"
    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


class RunningStage(str, Enum):
    """The loop that is running; `fit` passes through three of them."""

    TRAINING = "train"
    SANITY_CHECKING = "sanity_check"
    VALIDATING = "validate"
    TESTING = "test"
    PREDICTING = "predict"


@dataclass
class TrainerState:
    """`trainer.state`: function, stage and status (edition 2.2).

    Args:
        status: how the run stands.
        fn: the entry point; None: none was called yet.
        stage: the loop that runs; None: between runs.
    """

    status: TrainerStatus = TrainerStatus.INITIALIZING
    fn: Optional[TrainerFn] = None
    stage: Optional[RunningStage] = None

    @property
    def entry_point(self) -> str:
        """The method of `Trainer` that runs, or ran last: "fit" and so on; "" before the first."""
        return self.fn.value if self.fn is not None else ""

    @property
    def finished(self) -> bool:
        """Whether the last run ended as it should."""
        return self.status == TrainerStatus.FINISHED

    @property
    def stopped(self) -> bool:
        """Whether the last run is over, by whatever."""
        return self.status in (TrainerStatus.FINISHED, TrainerStatus.INTERRUPTED)


@dataclass
class Progress:
    """How far training has come: what a checkpoint keeps so that a run can go on from there.

    Args:
        epochs: training epochs whose batches are done; ahead of `current_epoch` inside
            `on_train_epoch_end`, where checkpoints are usually saved.
        batches: batches done in the current epoch.
        total_batches: batches done in all epochs.
        stepping_batches: batches in all epochs after which an optimizer stepped; what loggers
            use as the step of a metric.
        pending: what comes next: "fit_start" (all that precedes the first epoch), "epoch_start"
            (its hooks, until its first batch), "batch" (one that has begun), "batch_end" (its
            hooks), then "validation", "validation_end" (its last hook), "plateau" (schedulers);
            "epoch_end" (its hooks and what follows); "": the next batch or epoch.
        complete: at "epoch_end", whether all batches of the epoch were trained on.
    """

    epochs: int = 0
    batches: int = 0
    total_batches: int = 0
    stepping_batches: int = 0
    pending: str = ""
    complete: bool = True
