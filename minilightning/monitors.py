"""The callbacks that watch a metric: EarlyStopping and ModelCheckpoint.

Both look when the metric is new. Where validation runs once, at the end of every epoch, that is
the end of the training epoch, after the module's `on_train_epoch_end`; else it is the end of each
validation. The sanity check and `fast_dev_run` do not count. With several processes the metrics
of rank 0 decide on every rank. A callback that has been through a fit starts afresh in another
trainer's, unless that one resumes.

Edition 2.2; sources: the traces `early_stopping_*` and `model_checkpoint_*` of 2.2.5, and, where
a docstring names them, the bug reports BR-09 to BR-15.
"""

from __future__ import annotations

import glob
import math
import os
import re
import shutil
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Literal

import torch
from torch import Tensor

from .callback import Callback
from .errors import MisconfigurationException, check_writable, info, listed, log, warn
from .resume import is_leftover

if TYPE_CHECKING:
    from .module import LightningModule
    from .trainer import Trainer

__all__ = ["EarlyStopping", "ModelCheckpoint"]

_BETTER = {"min": torch.lt, "max": torch.gt}
_WORST = {"min": math.inf, "max": -math.inf}
Metrics = dict[str, Tensor]
_FIELD = re.compile(r"\{([^{}:]+)(?::([^{}]*))?\}")  # a template's {name} or {name:spec}


def _check_mode(callback: Callback, mode: str) -> None:
    if mode not in _BETTER:
        raise MisconfigurationException(
            f"{type(callback).__name__}(mode={mode!r}): write one of {listed(_BETTER)}."
        )


def _logged(trainer: Trainer) -> Metrics:
    """Copies of what was logged so far; those of rank 0 on every rank, so that all agree."""
    metrics = {}
    for name, value in trainer.callback_metrics.items():
        metrics[name] = torch.as_tensor(value).detach().clone().cpu().squeeze()
    return trainer.strategy.broadcast(metrics)


def _never_logged(callback: Callback, monitor: str, metrics: Metrics) -> str:
    return (
        f"{type(callback).__name__}(monitor={monitor!r}): nothing was logged under this name. Log"
        f" it with `self.log({monitor!r}, value)`, or monitor one of: {listed(metrics)}."
    )


class EarlyStopping(Callback):
    """Stop training once a metric no longer improves.

    Every check compares the metric with the best value so far; the first value is the best. After
    `patience` checks in a row without improvement `trainer.should_stop` is set (BR-09). The state
    (`wait_count, stopped_epoch, best_score, patience`) is saved and restored with a checkpoint.

    Args:
        monitor: key of the metric, as it was logged.
        min_delta: a change must be larger than this to be an improvement; one that equals it is
            none.
        patience: number of checks, that is of validations or epochs, without improvement.
        verbose: log improvements and the reason for stopping.
        mode: "min" if smaller is better, "max" if larger.
        strict: raise if the metric is not there; otherwise that check does not count.
        check_finite: stop at once when the metric is NaN or infinite.
        stopping_threshold: stop at once when the metric is better than this.
        divergence_threshold: stop at once when the metric is worse than this.
        check_on_train_epoch_end: True or False instead of the choice that the module describes.
        log_rank_zero_only: log on rank 0 only.

    Raises:
        MisconfigurationException: unknown `mode`.
        RuntimeError: at a check, if the metric is not there and `strict` is True.
    """

    _monitors_metric = True  # the dispatcher calls it after the module's on_train_epoch_end
    _STATE = ("wait_count", "stopped_epoch", "best_score", "patience")
    mode_dict = _BETTER
    order_dict = {"min": "<", "max": ">"}

    def __init__(
        self,
        monitor: str,
        min_delta: float = 0.0,
        patience: int = 3,
        verbose: bool = False,
        mode: Literal["min", "max"] = "min",
        strict: bool = True,
        check_finite: bool = True,
        stopping_threshold: float | None = None,
        divergence_threshold: float | None = None,
        check_on_train_epoch_end: bool | None = None,
        log_rank_zero_only: bool = False,
    ) -> None:
        _check_mode(self, mode)
        self.monitor = monitor
        self.min_delta = min_delta if mode == "max" else -min_delta
        self.patience = patience
        self.verbose = verbose
        self.mode = mode
        self.strict = strict
        self.check_finite = check_finite
        self.stopping_threshold = stopping_threshold
        self.divergence_threshold = divergence_threshold
        self.log_rank_zero_only = log_rank_zero_only
        self._check_on_train_epoch_end = check_on_train_epoch_end
        self._start_afresh()

    def _start_afresh(self) -> None:
        self.wait_count = 0
        self.stopped_epoch = 0
        self.best_score = torch.tensor(_WORST[self.mode])
        self._has_trained = False

    @property
    def state_key(self) -> str:
        """One per metric and mode: two that differ only otherwise need keys of their own."""
        return self._generate_state_key(monitor=self.monitor, mode=self.mode)

    @property
    def monitor_op(self) -> Callable[[Any, Any], Tensor]:
        """`torch.lt` or `torch.gt`: whether its first argument is the better value."""
        return self.mode_dict[self.mode]

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._STATE}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name in self._STATE:
            setattr(self, name, state_dict[name])

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit" and self._has_trained and trainer.global_step == 0:
            self._start_afresh()
        if self._check_on_train_epoch_end is None:
            once_per_epoch = trainer.val_check_interval == 1.0
            self._check_on_train_epoch_end = (
                once_per_epoch and trainer.check_val_every_n_epoch == 1
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._has_trained = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._check_on_train_epoch_end and not self._should_skip_check(trainer):
            self._run_early_stopping_check(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self._check_on_train_epoch_end and not self._should_skip_check(trainer):
            self._run_early_stopping_check(trainer)

    def _should_skip_check(self, trainer: Trainer) -> bool:
        return trainer.state.fn != "fit" or trainer.sanity_checking

    def _run_early_stopping_check(self, trainer: Trainer) -> None:
        metrics = _logged(trainer)
        if trainer.fast_dev_run or not self._validate_condition_metric(metrics):
            return
        should_stop, reason = self._evaluate_stopping_criteria(metrics[self.monitor])
        if should_stop:
            trainer.should_stop = True
            self.stopped_epoch = trainer.current_epoch
        if reason and self.verbose:
            say = info if self.log_rank_zero_only else log.info
            say(reason)

    def _validate_condition_metric(self, logs: Metrics) -> bool:
        """Whether the metric is there. If it is not: an error, a warning, or silence."""
        if self.monitor in logs:
            return True
        message = _never_logged(self, self.monitor, logs)
        if self.strict:
            raise RuntimeError(message)
        if self.verbose:
            warn(message, RuntimeWarning)
        return False

    def _evaluate_stopping_criteria(self, current: Tensor) -> tuple[bool, str | None]:
        """Count this value in; return whether to stop, and what there is to tell."""
        is_better, best = self.monitor_op, self.best_score
        goal, limit = self.stopping_threshold, self.divergence_threshold
        value, order = f"{self.monitor} = {current:.3f}", self.order_dict[self.mode]
        is_first = torch.isinf(best)
        if self.check_finite and not torch.isfinite(current):
            return True, f"Stopping: {value} is not finite" + (
                "." if is_first else f"; the best was {best:.3f}.")
        if goal is not None and is_better(current, goal):
            return True, f"Stopping: {value} {order} {goal}, the stopping threshold."
        if limit is not None and is_better(-current, -limit):
            return True, f"Stopping: {value} is beyond {limit}, the divergence threshold."
        if is_better(current - self.min_delta, best):
            self.best_score, self.wait_count = current, 0
            return False, f"{value}, the " + (
                "first." if is_first else f"best so far (before: {best:.3f}).")
        self.wait_count += 1
        if self.wait_count < self.patience:
            return False, None
        return True, f"Stopping: {value}, no better than {best:.3f} for {self.wait_count} checks."


class ModelCheckpoint(Callback):
    """Save checkpoints while training: the best by a metric, every so often, or the latest.

    Of equal scores the earlier file is the better one (BR-12), and NaN is the worst score (BR-10).
    A file is replaced, or deleted once its successor is in place, only if this callback wrote it
    and it has dropped out of the top k; any other file stays, and the new one gets `-v1`, `-v2`,
    ... (BR-13). Nothing is saved twice for one `global_step`.

    Args:
        dirpath: a local folder. None: `checkpoints` in the first logger's folder for this run, or
            in `trainer.default_root_dir` without a logger.
        filename: template with `{epoch}`, `{step}` and logged metrics, formatted as in
            `{val_loss:.2f}`; may name subfolders. None: `"{epoch}-{step}"`.
        monitor: key of the metric to rank by. None: the newest is the best.
        verbose: log every ranking that saved nothing or made a new best.
        save_last: True: also write `last.ckpt` whenever a save is due, whatever its score.
            "link": make it a symbolic link to the newest file saved by rank (a copy where links
            are not allowed).
        save_top_k: how many to keep; -1 all, 0 none. Other numbers than 1 need `monitor`.
        save_weights_only: leave out the states of optimizers, schedulers and callbacks.
        mode: "min" if smaller is better, "max" if larger.
        auto_insert_metric_name: write `epoch=3` rather than `3` for `{epoch}`.
        every_n_train_steps: save every so many optimizer steps.
        train_time_interval: save after a batch once this much time has passed.
        every_n_epochs: save every so many epochs; `save_last` does not wait for it. This and the
            two before exclude each other; with none of them it is 1, and 0 turns it off.
        save_on_train_epoch_end: True or False instead of the choice that the module describes.
        enable_version_counter: False: overwrite whatever has the new file's name.

    Attributes:
        best_model_path, best_model_score: the best file ("" for none), and its score.
        best_k_models: score of each file in the top k, by path.
        kth_best_model_path, kth_value: the worst of a full top k, the next one to go.
        last_model_path: the file of `save_last`.
        current_score: score of the newest file in the top k.

    Raises:
        MisconfigurationException: arguments that exclude each other or are out of range; a folder
            that cannot be written to; at a save, a metric that was not logged although validation
            has run (before that a warning, BR-10).
    """

    _monitors_metric = True  # the dispatcher calls it after the module's on_train_epoch_end
    _is_checkpoint = True  # the trainer keeps it at the end of its list
    _RANKING = (
        "best_model_score", "best_k_models", "kth_best_model_path", "kth_value", "last_model_path"
    )
    _SAVED = (
        "current_score",
        "_last_global_step_saved",
        "_last_checkpoint_saved",
        "_has_validated",
        "_owes_last",
        "_stale",
    )
    CHECKPOINT_JOIN_CHAR = "-"
    CHECKPOINT_EQUALS_CHAR = "="
    CHECKPOINT_NAME_LAST = "last"
    FILE_EXTENSION = ".ckpt"
    STARTING_VERSION = 1

    def __init__(
        self,
        dirpath: str | Path | None = None,
        filename: str | None = None,
        monitor: str | None = None,
        verbose: bool = False,
        save_last: bool | Literal["link"] | None = None,
        save_top_k: int = 1,
        save_weights_only: bool = False,
        mode: Literal["min", "max"] = "min",
        auto_insert_metric_name: bool = True,
        every_n_train_steps: int | None = None,
        train_time_interval: timedelta | None = None,
        every_n_epochs: int | None = None,
        save_on_train_epoch_end: bool | None = None,
        enable_version_counter: bool = True,
    ) -> None:
        self.dirpath = os.path.realpath(os.path.expanduser(dirpath)) if dirpath else None
        self.filename = filename
        self.monitor = monitor
        self.verbose = verbose
        self.save_last = save_last
        self.save_top_k = save_top_k
        self.save_weights_only = save_weights_only
        self.mode = mode
        self.auto_insert_metric_name = auto_insert_metric_name
        self.enable_version_counter = enable_version_counter
        self.every_n_epochs = every_n_epochs or 0
        self._every_n_train_steps = every_n_train_steps or 0
        self._train_time_interval = train_time_interval
        self._save_on_train_epoch_end = save_on_train_epoch_end
        if every_n_train_steps is None and train_time_interval is None and every_n_epochs is None:
            self.every_n_epochs = 1
        self._check_arguments(str(dirpath))
        self._start_afresh()

    def _check_arguments(self, dirpath: str) -> None:
        _check_mode(self, self.mode)
        steps, epochs = self._every_n_train_steps, self.every_n_epochs
        interval, name = self._train_time_interval, self.filename or ""
        # wrong if                                 what it is, what to write instead
        for wrong, message in [
            ("://" in dirpath,
             f"dirpath={dirpath!r}: give a folder of this machine."),
            (re.search("[{}]", _FIELD.sub("", name)),
             f"filename={name!r}: a brace without field; write {{name}} or {{name:.2f}}."),
            (isinstance(self.save_last, str) and self.save_last != "link",
             f"save_last={self.save_last!r}: write True, False or 'link'."),
            (self.save_top_k < -1,
             f"save_top_k={self.save_top_k}: write -1 for all, 0 for none, or how many to keep."),
            (self.monitor is None and self.save_top_k > 1,
             f"save_top_k={self.save_top_k}: ranking needs a metric; add monitor='...'."),
            (interval is not None and not isinstance(interval, timedelta),
             f"train_time_interval={interval!r}: give a datetime.timedelta."),
            (steps < 0, f"every_n_train_steps={steps}: write 0 (never) or more."),
            (epochs < 0, f"every_n_epochs={epochs}: write 0 (never) or more."),
            ((steps >= 1) + (epochs >= 1) + (interval is not None) > 1,
             f"every_n_train_steps={steps}, every_n_epochs={epochs},"
             f" train_time_interval={interval}: keep one of them."),
        ]:
            if wrong:
                raise MisconfigurationException(f"ModelCheckpoint: {message}")

    def _start_afresh(self) -> None:
        self.current_score: Tensor | None = None
        self.best_k_models: Metrics = {}
        self.kth_best_model_path = ""
        self.kth_value = torch.tensor(_WORST[self.mode])
        self.best_model_path = ""
        self.best_model_score: Tensor | None = None
        self.last_model_path = ""
        self._last_global_step_saved = 0  # nothing has been learnt before the first step
        self._last_checkpoint_saved = ""  # the newest ranked file: where "link" points
        self._last_time_checked = 0.0
        self._owes_last = False  # `last` is to be saved, too
        self._stale = ""  # what goes once the newest file is there
        self._has_validated = False
        self._has_trained = False

    @property
    def state_key(self) -> str:
        """One per metric and schedule: two that differ only otherwise need keys of their own."""
        return self._generate_state_key(
            monitor=self.monitor,
            mode=self.mode,
            every_n_train_steps=self._every_n_train_steps,
            every_n_epochs=self.every_n_epochs,
            train_time_interval=self._train_time_interval,
        )

    def state_dict(self) -> dict[str, Any]:
        names = ("monitor", "dirpath", "best_model_path", *self._RANKING, *self._SAVED)
        return {name.lstrip("_"): getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the ranking back; from another folder only the path of the best file."""
        self.best_model_path = state_dict["best_model_path"]
        saved_in = state_dict.get("dirpath", self.dirpath)
        if saved_in != self.dirpath:
            warn(
                f"ModelCheckpoint: the checkpoint ranks files in {saved_in!r}, this run saves to"
                f" {self.dirpath!r}. The ranking starts anew; only `best_model_path` is restored."
            )
            return
        for name in self._RANKING:
            setattr(self, name, state_dict[name])
        for name in self._SAVED:  # a file of Lightning's has not all of them
            if name.lstrip("_") in state_dict:
                setattr(self, name, state_dict[name.lstrip("_")])

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit" and self._has_trained and trainer.global_step == 0:
            self._start_afresh()
        self.dirpath = trainer.strategy.broadcast(self._resolve_ckpt_dir(trainer))
        if stage == "fit" and trainer.is_global_zero and not trainer.fast_dev_run:
            if self.save_top_k != 0 or self.save_last:
                self._check_folder(Path(self.dirpath), trainer.ckpt_path)

    def _resolve_ckpt_dir(self, trainer: Trainer) -> str:
        if self.dirpath is not None:
            return self.dirpath
        if not trainer.loggers:
            return os.path.join(trainer.default_root_dir, "checkpoints")
        logger = trainer.loggers[0]
        root = trainer.default_root_dir if logger.save_dir is None else logger.save_dir
        version = f"version_{logger.version}" if type(logger.version) is int else logger.version
        known = [str(each) for each in (logger.name, version) if each is not None]
        return os.path.join(root, *known, "checkpoints")

    def _check_folder(self, folder: Path, resumed_from: str | None) -> None:
        check_writable(folder, "ModelCheckpoint", "Give another `dirpath`.")
        if resumed_from and folder.absolute() in Path(resumed_from).absolute().parents:
            return  # the run goes on in its own folder
        if self.save_top_k != 0 and folder.is_dir() and any(folder.iterdir()):
            warn(f"ModelCheckpoint: the folder {str(folder)!r} exists and is not empty.")

    # When to save

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._has_trained = True
        self._last_time_checked = time.monotonic()
        claimed = (*self.best_k_models, self.best_model_path, self.last_model_path)
        if trainer.ckpt_path and self._stale not in claimed:  # the run ended before it was gone
            self._remove_checkpoint(trainer, self._stale, "")

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        every = self._every_n_train_steps
        if trainer.global_step % every == 0 if every else self._time_is_up(trainer):
            self._save(trainer)

    def _time_is_up(self, trainer: Trainer) -> bool:
        if self._train_time_interval is None or self._should_skip_saving_checkpoint(trainer):
            return False
        now = time.monotonic()
        passed = now - self._last_time_checked
        is_up = trainer.strategy.broadcast(passed >= self._train_time_interval.total_seconds())
        if is_up:
            self._last_time_checked = now
        return is_up

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._should_save_on_train_epoch_end(trainer):
            self._save(trainer, self._epoch_is_due(trainer))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._has_validated |= trainer.state.fn == "fit" and not trainer.sanity_checking
        if not self._should_save_on_train_epoch_end(trainer):
            self._save(trainer, self._epoch_is_due(trainer))

    def _should_save_on_train_epoch_end(self, trainer: Trainer) -> bool:
        if self._save_on_train_epoch_end is not None:
            return self._save_on_train_epoch_end
        if trainer.check_val_every_n_epoch != 1:
            return False
        return sum(trainer.num_val_batches) == 0 or trainer.val_check_interval == 1.0

    def _epoch_is_due(self, trainer: Trainer) -> bool:
        every = self.every_n_epochs
        return every >= 1 and (trainer.current_epoch + 1) % every == 0

    def _should_skip_saving_checkpoint(self, trainer: Trainer) -> bool:
        is_training = trainer.state.fn == "fit" and not trainer.sanity_checking
        is_saved = self._last_global_step_saved == trainer.global_step
        return bool(trainer.fast_dev_run) or not is_training or is_saved

    # What to save, and what to let go

    def _save(self, trainer: Trainer, ranked: bool = True) -> None:
        """Save by rank if that is due, then `last`, so that its state knows the newest best."""
        goes_on = self._owes_last  # the run that is resumed ended between the two
        if self._should_skip_saving_checkpoint(trainer) and not goes_on:
            return
        candidates = self._monitor_candidates(trainer)
        if ranked and self.save_top_k != 0 and not goes_on:
            with self._unchanged_if_it_fails():
                self._owes_last = bool(self.save_last)
                self._save_topk_checkpoint(trainer, candidates)
        self._owes_last = False
        if self.save_last:
            with self._unchanged_if_it_fails():
                self._save_last_checkpoint(trainer, candidates)

    @contextmanager
    def _unchanged_if_it_fails(self) -> Iterator[None]:
        """The ranking goes into the new file; without that file it is what it was."""
        before = {**vars(self), "best_k_models": dict(self.best_k_models)}
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def _monitor_candidates(self, trainer: Trainer) -> Metrics:
        """The logged metrics, with `epoch` and `step` (the logged ones, if there are)."""
        metrics = _logged(trainer)
        metrics.setdefault("epoch", torch.tensor(trainer.current_epoch))
        metrics.setdefault("step", torch.tensor(trainer.global_step))
        metrics["epoch"] = metrics["epoch"].int()
        metrics["step"] = metrics["step"].int()
        return metrics

    def _save_topk_checkpoint(self, trainer: Trainer, metrics: Metrics) -> None:
        if self.monitor is None:
            stale = self.best_model_path if self.save_top_k == 1 else ""
            path = self._unused_path(trainer, metrics, self.filename, stale)
            self.best_model_path = path
            self._save_ranked(trainer, path, stale)
        elif self.monitor not in metrics:
            message = _never_logged(self, self.monitor, metrics)
            if self._has_validated:
                raise MisconfigurationException(message)
            warn(message)
        elif self.check_monitor_top_k(trainer, metrics[self.monitor]):
            self._update_best_and_save(trainer, metrics, metrics[self.monitor])
        elif self.verbose:
            value, step = metrics[self.monitor], trainer.global_step
            info(f"{self.monitor} = {value:.5f} at step {step} is not in the top {self.save_top_k}")

    def check_monitor_top_k(self, trainer: Trainer, current: Tensor | None = None) -> bool:
        """Whether a model with this score would be saved. A tie with the k-th is not enough.

        Args:
            current: the score, a scalar; None: there is none, and nothing is saved.
        """
        if current is None:
            return False
        if self.save_top_k == -1 or len(self.best_k_models) < self.save_top_k:
            return True
        return bool(_BETTER[self.mode](current, self.best_k_models[self.kth_best_model_path]))

    def _update_best_and_save(self, trainer: Trainer, metrics: Metrics, current: Tensor) -> None:
        if current.isnan():
            current = torch.full_like(current, _WORST[self.mode])
        stale = ""
        if len(self.best_k_models) == self.save_top_k:
            stale = self.kth_best_model_path
        path = self._unused_path(trainer, metrics, self.filename, stale)
        self.best_k_models.pop(stale, None)
        self.best_k_models[path] = self.current_score = current
        self._rank()
        if self.verbose:
            info(f"{self.monitor} = {current:.5f} (best: {self.best_model_score:.5f}): {path}")
        self._save_ranked(trainer, path, stale)

    def _rank(self) -> None:
        """Best and k-th best of the top k. The sort is stable: of equals the first is better."""
        scores = {path: float(score) for path, score in self.best_k_models.items()}
        ranking = sorted(scores, key=scores.__getitem__, reverse=self.mode == "max")
        self.best_model_path = ranking[0]
        self.best_model_score = self.best_k_models[ranking[0]]
        if self.save_top_k in (-1, len(ranking)):
            self.kth_best_model_path = ranking[-1]
            self.kth_value = self.best_k_models[ranking[-1]]

    def _save_ranked(self, trainer: Trainer, path: str, stale: str) -> None:
        self._last_checkpoint_saved, self._stale = path, stale
        self._save_checkpoint(trainer, path)
        self._remove_checkpoint(trainer, stale, path)

    def _save_last_checkpoint(self, trainer: Trainer, metrics: Metrics) -> None:
        previous = self.last_model_path
        path = self._unused_path(trainer, metrics, self.CHECKPOINT_NAME_LAST, previous)
        self.last_model_path, self._stale = path, previous
        if self.save_last == "link" and self._last_checkpoint_saved:
            self._link_checkpoint(trainer, self._last_checkpoint_saved, path)
        else:
            self._save_checkpoint(trainer, path)
        self._remove_checkpoint(trainer, previous, path)

    def _save_checkpoint(self, trainer: Trainer, filepath: str) -> None:
        self._last_global_step_saved = trainer.global_step
        trainer.save_checkpoint(filepath, self.save_weights_only)
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.after_save_checkpoint(self)

    @staticmethod
    def _link_checkpoint(trainer: Trainer, filepath: str, linkpath: str) -> None:
        if trainer.is_global_zero:
            beside = Path(linkpath + ".new")
            beside.unlink(missing_ok=True)
            try:
                beside.symlink_to(os.path.relpath(filepath, os.path.dirname(linkpath)))
            except OSError:  # the file system or the user's rights have no links
                shutil.copy(filepath, beside)
            beside.replace(linkpath)
        trainer.strategy.barrier()

    def _remove_checkpoint(self, trainer: Trainer, stale: str, successor: str) -> None:
        """Delete a file, unless this run resumed from it or it lies outside of `dirpath`."""
        if not stale or stale == successor or not trainer.is_global_zero:
            return
        path = Path(stale).absolute()
        is_resumed_from = trainer.ckpt_path and path == Path(trainer.ckpt_path).absolute()
        if not is_resumed_from and Path(self.dirpath or "").absolute() in path.parents:
            path.unlink(missing_ok=True)

    # Names

    def _unused_path(
        self, trainer: Trainer, metrics: Metrics, template: str | None, own: str
    ) -> str:
        """The path with these metrics; with a version if that file exists and is not `own`."""
        unknown = [name for name, _ in _FIELD.findall(template or "") if name not in metrics]
        if unknown:
            warn(
                f"ModelCheckpoint(filename={template!r}): nothing was logged as {listed(unknown)},"
                f" so 0 is written. There are: {listed(metrics)}."
            )
        path, version = self.format_checkpoint_name(metrics, template), self.STARTING_VERSION
        while self.enable_version_counter and path != own and self.file_exists(path, trainer):
            path = self.format_checkpoint_name(metrics, template, version)
            version += 1
        return path

    def file_exists(self, filepath: str | Path, trainer: Trainer) -> bool:
        """Whether rank 0 sees this file, and it is not one that a resumed run writes again.

        Args:
            filepath: the file.
        """
        exists = os.path.exists(filepath) and not is_leftover(trainer, str(filepath))
        return trainer.strategy.broadcast(exists)

    def format_checkpoint_name(
        self, metrics: Metrics, filename: str | None = None, ver: int | None = None
    ) -> str:
        """Path of the checkpoint that would be written with these metrics.

        Args:
            metrics: value of each field, numbers or tensors of one element; 0 if it is missing.
            filename: template instead of the callback's own.
            ver: version to append.

        Returns:
            The file's name with its suffix, in `dirpath` if that is known.
        """
        template = filename or self.filename
        name = self._format_checkpoint_name(template, metrics, "", self.auto_insert_metric_name)
        if ver is not None:
            name += f"{self.CHECKPOINT_JOIN_CHAR}v{ver}"
        return os.path.join(self.dirpath or "", name + self.FILE_EXTENSION)

    def _format_checkpoint_name(
        self,
        filename: str | None,
        metrics: Metrics,
        prefix: str = "",
        auto_insert_metric_name: bool = True,
    ) -> str:
        def fill(field: re.Match[str]) -> str:
            label = field[1] + self.CHECKPOINT_EQUALS_CHAR if auto_insert_metric_name else ""
            return label + format(metrics.get(field[1], 0), field[2] or "")

        template = filename or f"{{epoch}}{self.CHECKPOINT_JOIN_CHAR}{{step}}"
        start = prefix + self.CHECKPOINT_JOIN_CHAR if prefix else ""
        return start + _FIELD.sub(fill, template)

    def _find_last_checkpoints(self, trainer: Trainer) -> set[str]:
        """The files of `save_last`, versions included; for `ckpt_path="last"`."""
        literals = _FIELD.sub("/", self.CHECKPOINT_NAME_LAST).split("/")
        pattern = f"*{glob.escape(max(literals, key=len))}*{self.FILE_EXTENSION}"
        return {str(path) for path in Path(self._resolve_ckpt_dir(trainer)).glob(pattern)}

    def to_yaml(self, filepath: str | Path | None = None) -> None:
        """Write `best_k_models` as YAML, a line `path: score` each.

        Args:
            filepath: where to; `best_k_models.yaml` in `dirpath` if None.
        """
        target = Path(filepath or os.path.join(self.dirpath or "", "best_k_models.yaml"))
        lines = [f"{path}: {score:#.9g}\n" for path, score in self.best_k_models.items()]
        target.write_text("".join(lines))
