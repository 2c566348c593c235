"""Progress bars: ProgressBarBase, which counts, and ProgressBar, which draws with tqdm.

Names are those of editions 1.1 and 1.5; what they do is that of 2.2 (`TQDMProgressBar` of 2.2.5,
`leave` of 2.6.6). What 2.x calls `ProgressBar`, the base of all bars, is `ProgressBarBase` here.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO, Union

from . import errors
from .callback import Callback
from .errors import MisconfigurationException, warn

if TYPE_CHECKING:
    from .module import LightningModule
    from .trainer import Trainer

__all__ = ["ProgressBar", "ProgressBarBase", "TQDMProgressBar"]

Count = Union[int, float]  # float("inf") for a loader without length


class ProgressBarBase(Callback):
    """Base for bars of your own: it counts, names and totals, and draws nothing.

    An override of a hook calls `super()` to keep the counts right. `train_batch_idx` is the number
    of batches done in this epoch; `val_batch_idx`, `test_batch_idx` and `predict_batch_idx` are
    that of the current evaluation, over all its loaders. The totals are those of an epoch, of all
    loaders, or of the loader at work.
    """

    sanity_check_description = "Sanity Checking"
    train_description = "Training"
    validation_description = "Validation"
    test_description = "Testing"
    predict_description = "Predicting"

    train_batch_idx = 0
    _evaluated = 0
    _trainer: Trainer | None = None
    _dataloader_idx: int | None = None
    _is_on = True

    @property
    def trainer(self) -> Trainer:
        """The trainer of the current run. TypeError: there was none yet."""
        if self._trainer is None:
            raise TypeError(f"{type(self).__name__}.trainer is there once a run has started.")
        return self._trainer

    @property
    def is_enabled(self) -> bool:
        """Whether it draws."""
        return self._is_on

    @property
    def is_disabled(self) -> bool:
        """Whether it draws nothing."""
        return not self.is_enabled

    def disable(self) -> None:
        """Draw nothing from now on; done on every rank but the first."""
        self._is_on = False

    def enable(self) -> None:
        """Draw again."""
        self._is_on = True

    @property
    def val_batch_idx(self) -> int:
        """Batches of this validation that are done."""
        return self._evaluated

    test_batch_idx = predict_batch_idx = val_batch_idx

    @property
    def total_train_batches(self) -> Count:
        """Training batches of an epoch."""
        return self.trainer.num_training_batches

    @property
    def total_val_batches(self) -> Count:
        """0 in an epoch of `fit` without validation."""
        every = self.trainer.check_val_every_n_epoch or 1
        if self.trainer.state.fn == "fit" and (self.trainer.current_epoch + 1) % every:
            return 0
        return _total(self.trainer.num_val_batches)

    @property
    def total_test_batches(self) -> Count:
        """Test batches of all loaders."""
        return _total(self.trainer.num_test_batches)

    @property
    def total_predict_batches(self) -> Count:
        """Prediction batches of all loaders."""
        return _total(self.trainer.num_predict_batches)

    @property
    def total_val_batches_current_dataloader(self) -> Count:
        """Validation batches of the loader at work."""
        if self.trainer.sanity_checking:
            return self._at_work(self.trainer.num_sanity_val_batches)
        return self._at_work(self.trainer.num_val_batches)

    @property
    def total_test_batches_current_dataloader(self) -> Count:
        """Test batches of the loader at work."""
        return self._at_work(self.trainer.num_test_batches)

    @property
    def total_predict_batches_current_dataloader(self) -> Count:
        """Prediction batches of the loader at work."""
        return self._at_work(self.trainer.num_predict_batches)

    def _at_work(self, counts: list[float] | float) -> Count:
        return counts[self._dataloader_idx or 0] if isinstance(counts, list) else counts

    def has_dataloader_changed(self, dataloader_idx: int) -> bool:
        """Whether this loader is another than at the last call, which is forgotten for this one.

        Args:
            dataloader_idx: place of the loader at work, counted from 0.
        """
        previous, self._dataloader_idx = self._dataloader_idx, dataloader_idx
        return previous != dataloader_idx

    def reset_dataloader_idx_tracker(self) -> None:
        """Forget the loader, so that any next one counts as another."""
        self._dataloader_idx = None

    def print(
        self, *args: Any, sep: str = " ", end: str = "\n", file: TextIO | None = None
    ) -> None:
        """Print beside the bar.

        Args:
            args: what is printed.
            sep: what stands between them.
            end: what stands behind them.
            file: where it goes; None: to standard output.
        """
        print(*args, sep=sep, end=end, file=file)

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        """What stands beside the bar; override it to add to it or to take away.

        Args:
            trainer: the running trainer.
            pl_module: its module.

        Returns:
            What was logged with `prog_bar=True`, after `v_num`, the first logger's version (of
            text the last four characters). A metric called `v_num` hides it, with a warning.
        """
        logged = trainer.progress_bar_metrics
        version = trainer.loggers[0].version if trainer.loggers else None
        if version in (None, ""):
            return dict(logged)
        if "v_num" in logged:
            warn(
                "The progress bar shows the logger's version as `v_num`, and a metric logged under"
                " this name hides it. Log the metric as something else, or override"
                f" `{type(self).__name__}.get_metrics`."
            )
        return {"v_num": version[-4:] if isinstance(version, str) else version, **logged}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._trainer = trainer
        if not trainer.is_global_zero:
            self.disable()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.train_batch_idx = 0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any,
        batch_idx: int, dataloader_idx: int = 0,
    ) -> None:
        """Count the batch.

        Args:
            dataloader_idx: what edition 1.5 passed; it is not looked at.
        """
        self.train_batch_idx = batch_idx + 1

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._evaluated = 0
        self.reset_dataloader_idx_tracker()

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any,
        batch_idx: int, dataloader_idx: int = 0,
    ) -> None:
        self._evaluated += 1

    on_test_start = on_predict_start = on_validation_start
    on_test_batch_end = on_predict_batch_end = on_validation_batch_end


class ProgressBar(ProgressBarBase):
    """A bar for training, one below it for validation, and one each for the other stages.

    Drawn on rank 0, at most ten times a second and always after the last batch. Without tqdm a
    run goes on without a bar, and one warning says how to get it. To change a bar override
    `init_{sanity,train,validation,test,predict}_tqdm`, each of which makes and returns one; to
    change what stands beside it, `get_metrics`.

    Args:
        refresh_rate: number of batches between two updates; 0 turns the bar off.
        process_position: pairs of lines to leave free for other bars of this terminal.
        leave: keep the finished bar of every epoch.

    Raises:
        MisconfigurationException: negative `refresh_rate` or `process_position`.
    """

    BAR_FORMAT = (
        "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"
    )
    _BARS = ("train_progress_bar", "val_progress_bar", "test_progress_bar", "predict_progress_bar")

    def __init__(
        self, refresh_rate: int = 1, process_position: int = 0, leave: bool = False
    ) -> None:
        if refresh_rate < 0 or process_position < 0:
            raise MisconfigurationException(
                f"ProgressBar(refresh_rate={refresh_rate}, process_position={process_position}):"
                " write 0 or more for both."
            )
        self.refresh_rate = refresh_rate
        self.process_position = process_position
        self.leave = leave
        self._last_drawn = 0.0
        self.train_progress_bar: Any = None
        self.val_progress_bar: Any = None
        self.test_progress_bar: Any = None
        self.predict_progress_bar: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the bars, which hold a terminal and cannot be copied or sent elsewhere."""
        return {**vars(self), **dict.fromkeys(self._BARS), "_bar": None}

    @property
    def main_progress_bar(self) -> Any:
        """The training bar, by its name in 1.1."""
        return self.train_progress_bar

    @property
    def is_enabled(self) -> bool:
        """Whether it draws: it is not disabled, and `refresh_rate` is above 0."""
        return self._is_on and self.refresh_rate > 0

    def init_sanity_tqdm(self) -> Any:
        """The bar of the sanity check, new; override it for one of your own."""
        return self._new_bar(self.sanity_check_description, leave=False)

    def init_train_tqdm(self) -> Any:
        """The bar of a training epoch, new; override it for one of your own."""
        return self._new_bar(self.train_description)

    def init_validation_tqdm(self) -> Any:
        """The bar of a validation, new; override it for one of your own."""
        is_nested = self.trainer.state.fn == "fit"
        return self._new_bar(self.validation_description, int(is_nested), leave=not is_nested)

    def init_test_tqdm(self) -> Any:
        """The bar of a test, new; override it for one of your own."""
        return self._new_bar(self.test_description)

    def init_predict_tqdm(self) -> Any:
        """The bar of a prediction, new; override it for one of your own."""
        return self._new_bar(self.predict_description)

    def _new_bar(self, description: str, line: int = 0, leave: bool = True) -> Any:
        return _tqdm()(
            desc=description, position=2 * self.process_position + line, leave=leave,
            disable=self.is_disabled, file=sys.stdout, dynamic_ncols=True, smoothing=0,
            bar_format=self.BAR_FORMAT,
        )

    def print(
        self, *args: Any, sep: str = " ", end: str = "\n", file: TextIO | None = None
    ) -> None:
        """Print above the bar."""
        for name in self._BARS:
            bar = getattr(self, name)
            if bar is not None and not bar.disable:
                bar.write(sep.join(map(str, args)), file=file, end=end)
                return
        print(*args, sep=sep, end=end, file=file)

    # Training

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.leave:
            self.train_progress_bar = self.init_train_tqdm()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_epoch_start(trainer, pl_module)
        if self.leave:
            self.train_progress_bar = self.init_train_tqdm()
        _start(self.train_progress_bar, f"Epoch {trainer.current_epoch}", self.total_train_batches)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any,
        batch_idx: int, dataloader_idx: int = 0,
    ) -> None:
        self.train_batch_idx = done = batch_idx + 1
        if self._may_draw(self.train_progress_bar, done):
            self._show_metrics(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._show_metrics(trainer, pl_module)
        if self.leave:
            self.train_progress_bar.close()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.train_progress_bar.close()

    def _show_metrics(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.train_progress_bar.disable:
            metrics = self.get_metrics(trainer, pl_module)
            shown = {name: _fixed_width(value) for name, value in metrics.items()}
            self.train_progress_bar.set_postfix(shown)

    def _should_update(self, current: int, total: Count | None) -> bool:
        return self.is_enabled and (current % self.refresh_rate == 0 or current == total)

    def _may_draw(self, bar: Any, done: int) -> bool:
        """Count the batches done. The last is always drawn, others if some time has passed."""
        if bar.disable or not self._should_update(done, bar.total):
            return False
        bar.n = done
        now = time.monotonic()
        if now - self._last_drawn < 0.1 and done != bar.total:
            return False
        self._last_drawn = now
        return True

    # Evaluation: what validation, test and prediction share works on the bar of `_begin`

    def _begin(self, bar: Any, description: str, counts: str) -> Any:
        self._bar, self._description, self._counts = bar, description, counts
        return bar

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.val_progress_bar = self._begin(
            self.init_sanity_tqdm(), self.sanity_check_description, "num_sanity_val_batches"
        )

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_validation_start(trainer, pl_module)
        if not trainer.sanity_checking:
            self.val_progress_bar = self._begin(
                self.init_validation_tqdm(), self.validation_description, "num_val_batches"
            )

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_test_start(trainer, pl_module)
        self.test_progress_bar = self._begin(
            self.init_test_tqdm(), self.test_description, "num_test_batches"
        )

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_predict_start(trainer, pl_module)
        self.predict_progress_bar = self._begin(
            self.init_predict_tqdm(), self.predict_description, "num_predict_batches"
        )

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if self.has_dataloader_changed(dataloader_idx):
            total = self._at_work(getattr(trainer, self._counts))
            _start(self._bar, f"{self._description} DataLoader {dataloader_idx}", total)

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any,
        batch_idx: int, dataloader_idx: int = 0,
    ) -> None:
        self._evaluated += 1
        if self._may_draw(self._bar, batch_idx + 1):
            self._bar.refresh()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._bar.close()
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._show_metrics(trainer, pl_module)

    on_test_batch_start = on_predict_batch_start = on_validation_batch_start
    on_test_batch_end = on_predict_batch_end = on_validation_batch_end
    on_test_end = on_predict_end = on_validation_end

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        for name in self._BARS:
            bar = getattr(self, name)
            if bar is not None:
                bar.close()


TQDMProgressBar = ProgressBar  # its name in 2.x


def _total(counts: Any) -> Count:
    return sum(counts) if isinstance(counts, list) else counts


def _start(bar: Any, description: str, total: Count) -> None:
    bar.total = None if total == float("inf") else total  # reset() would keep an older one
    bar.reset(total=bar.total)
    bar.set_description(description)


def _fixed_width(value: Any) -> Any:
    return f"{value:#.3g}" if isinstance(value, float) else value


class _NoBar:
    """Stands in for a bar where tqdm is not installed: takes any call."""

    disable = True
    total = None

    def __init__(self, **settings: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **settings: None


@lru_cache(maxsize=None)
def _tqdm() -> Any:
    """tqdm's bar, in notebooks that of widgets; without tqdm a stand-in, and one warning."""
    try:
        if find_spec("ipywidgets"):
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm
    except ImportError:
        warn(
            "No progress bar, since tqdm is not installed. Get it with `pip install"
            " minilightning[progress]`, or be silent with `Trainer(enable_progress_bar=False)`."
        )
        return _NoBar
    errors.aside = lambda: tqdm.external_write_mode(file=sys.stderr)
    return tqdm
