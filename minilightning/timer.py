"""Timer: how long each stage took, and the end of training once its time is up."""
from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Union

from .callback import Callback
from .errors import MisconfigurationException, info
from .state import RunningStage

if TYPE_CHECKING:
    from .module import LightningModule
    from .trainer import Trainer

__all__ = ["Timer"]

Duration = Union[str, timedelta, dict[str, int]]
_TRAIN = RunningStage.TRAINING


class Timer(Callback):
    """Measure training, validation and test, and stop training after `duration`.

    The training time that a checkpoint keeps counts when a run resumes from it. Stages are called
    "train", "validate" and "test"; times are in seconds, on a clock that never goes back.

    Args:
        duration: "DD:HH:MM:SS" (days, hours, minutes, seconds), a `timedelta`, or a dict of its
            arguments; None measures only.
        interval: "step" looks after every batch, "epoch" after every epoch.
        verbose: say so when the time is up.

    Raises:
        MisconfigurationException: another `interval`, or something that is no duration.
        TypeError: a dict with keys that `timedelta` does not know.

    Edition 2.2. Beyond it: a timer that is used in a second fit starts again; in 2.2.5 it then
    never stops.
    """

    def __init__(
        self,
        duration: Duration | None = None,
        interval: Literal["step", "epoch"] = "step",
        verbose: bool = True,
    ) -> None:
        if interval not in ("step", "epoch"):
            raise MisconfigurationException(
                f"Timer(interval={interval!r}): accepted are 'step' and 'epoch'."
            )
        self._duration = None if duration is None else _seconds(duration)
        self._interval = interval
        self._verbose = verbose
        self._start_time: dict[RunningStage, float] = {}
        self._end_time: dict[RunningStage, float] = {}
        self._offset = 0.0  # training time of the runs that this one goes on from

    def start_time(self, stage: str = _TRAIN) -> float | None:
        """When the stage last began, in seconds of `time.monotonic`; None: not yet.

        Args:
            stage: "train", "validate", "test", "sanity_check" or "predict".

        Raises:
            ValueError: there is no such stage.
        """
        return self._start_time.get(RunningStage(stage))

    def end_time(self, stage: str = _TRAIN) -> float | None:
        """When the stage last ended, in seconds of `time.monotonic`; None: not yet, or it runs.

        Args:
            stage: as in `start_time`.

        Raises:
            ValueError: there is no such stage.
        """
        return self._end_time.get(RunningStage(stage))

    def time_elapsed(self, stage: str = _TRAIN) -> float:
        """How long the stage took, or has taken so far, in seconds.

        Args:
            stage: as in `start_time`.

        Raises:
            ValueError: there is no such stage.
        """
        start = self.start_time(stage)
        end = self.end_time(stage)
        earlier = self._offset if stage == _TRAIN else 0
        if start is None:
            return earlier
        if end is None:
            end = time.monotonic()
        return end - start + earlier

    def time_remaining(self, stage: str = _TRAIN) -> float | None:
        """What is left of `duration`, in seconds, below 0 once it is exceeded; None without one.

        Args:
            stage: as in `start_time`.

        Raises:
            ValueError: there is no such stage.
        """
        if self._duration is None:
            return None
        return self._duration - self.time_elapsed(stage)

    def state_dict(self) -> dict[str, Any]:
        elapsed = {
            stage.value: self.time_elapsed(stage)
            for stage in RunningStage
        }
        return {"time_elapsed": elapsed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        elapsed = state_dict.get("time_elapsed", {})
        self._offset = elapsed.get(_TRAIN.value, 0)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Forget an earlier fit, before a checkpoint is read."""
        if stage == "fit" and self._start_time.pop(_TRAIN, None) is not None:
            self._offset = 0.0

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop at once if the run that this one goes on from has used up the time."""
        self._stop_if_over(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin(_TRAIN)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if self._interval == "step":
            self._stop_if_over(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._interval == "epoch":
            self._stop_if_over(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end_time[_TRAIN] = time.monotonic()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin(RunningStage.VALIDATING)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end_time[RunningStage.VALIDATING] = time.monotonic()

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin(RunningStage.TESTING)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end_time[RunningStage.TESTING] = time.monotonic()

    def _begin(self, stage: RunningStage) -> None:
        self._start_time[stage] = time.monotonic()
        self._end_time.pop(stage, None)

    def _stop_if_over(self, trainer: Trainer) -> None:
        if self._duration is None:
            return
        elapsed = self.time_elapsed()
        if trainer.strategy.broadcast(elapsed >= self._duration):  # all ranks stop together
            trainer.should_stop = True
            if self._verbose:
                info(f"Timer: the time is up, after {timedelta(seconds=int(elapsed))}.")


def _seconds(duration: Any) -> float:
    given = duration
    if isinstance(given, str) and re.fullmatch(r"\d+(:\d+){3}", given.strip()):
        numbers = map(int, given.split(":"))
        duration = dict(zip(("days", "hours", "minutes", "seconds"), numbers))
    if isinstance(duration, dict):
        try:
            duration = timedelta(**duration)
        except TypeError:
            raise TypeError(
                f"The duration {given!r} is not what `timedelta` takes: numbers of `weeks`, "
                "`days`, `hours`, `minutes`, `seconds`, `milliseconds` or `microseconds`."
            ) from None
    if not isinstance(duration, timedelta):
        raise MisconfigurationException(
            f"{given!r} is no duration. `Timer(duration=...)` and `Trainer(max_time=...)` accept "
            "'DD:HH:MM:SS', a `timedelta`, or a dict such as {'hours': 2, 'minutes': 30}."
        )
    return duration.total_seconds()
