"""The Trainer: `fit`, `validate`, `test`, `predict`, and the loops, from top to bottom.

Read `Trainer._fit` first. Every event of a run is one line, `on.hook(arguments)`, in the order in
which it happens; who is called for it, and in which order, is one row of `dispatch.HOOKS`.
"""
from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from . import checkpoint, data, loading, processes, reporting, resume, signals, startup, tuning
from .batches import TrainBatches
from .callback import Callback
from .dispatch import Bound, bind
from .errors import info, note, release_frames, warn
from .flags import resolve_flags, set_default_limits
from .loggers import Logger
from .metrics import Metrics
from .module import LightningDataModule, LightningModule
from .optimizers import (
    LightningOptimizer, LRSchedulerConfig, closure_left_out, configure_optimizers, loss_and_extras,
    manual_outputs, monitored, of_each_optimizer, returns_nothing,
)
from .precision import Precision
from .readings import Readings
from .rng import rng_state, set_rng_state
from .state import Progress, RunningStage, TrainerFn, TrainerState, TrainerStatus
from .strategies import SingleDeviceStrategy, choose_strategy
from .summary import results_table
from .timer import Duration


class Trainer(Readings):
    """Runs a LightningModule: training, validation, testing and prediction."""

    max_epochs: int | None
    min_epochs: int | None
    max_steps: int
    min_steps: int | None
    limit_train_batches: int | float
    limit_val_batches: int | float
    overfit_batches: int | float
    val_check_interval: int | float
    check_val_every_n_epoch: int | None
    num_sanity_val_steps: int | float
    log_every_n_steps: int
    accumulate_grad_batches: int
    gradient_clip_val: int | float | None
    gradient_clip_algorithm: str | None
    inference_mode: bool
    detect_anomaly: bool
    reload_dataloaders_every_n_epochs: int
    fast_dev_run: bool | int
    auto_lr_find: bool | str
    max_time: Duration | None
    default_root_dir: str
    use_distributed_sampler: bool
    precision: str

    # A run begins with these, as `signals.noticing_sigterm` and `resume.forget` set them.
    received_sigterm: bool
    _checkpoint: dict[str, Any]  # the one that is restored, as far as that is still to do
    _ends: bool  # once this batch is over
    _resuming: dict[str, Any]  # where the run goes on, as long as it is not there
    _rest: dict[str, Any]  # what is taken from that at the first epoch
    _unfinished: list[str | Path]  # paths that are to be saved again
    _finished_batch: tuple[Any, ...]
    _batches: TrainBatches | None
    _lineage: dict[str, Any]
    _epoch_rng: dict[str, Any] | None
    _validation_rng: dict[str, Any] | None
    _observe: Callable[..., Any] | None = None  # see lifecycle.trace

    def __init__(
        self, *, accelerator: Any = "auto", strategy: Any = "auto", devices: Any = "auto",
        num_nodes: int = 1, precision: Any = None,
        logger: Logger | list[Logger] | bool | None = None,
        callbacks: list[Callback] | Callback | None = None, fast_dev_run: int | bool = False,
        max_epochs: int | None = None, min_epochs: int | None = None, max_steps: int = -1,
        min_steps: int | None = None, max_time: Duration | None = None,
        limit_train_batches: int | float | None = None,
        limit_val_batches: int | float | None = None,
        limit_test_batches: int | float | None = None,
        limit_predict_batches: int | float | None = None, overfit_batches: int | float = 0.0,
        val_check_interval: int | float | None = None, check_val_every_n_epoch: int | None = 1,
        num_sanity_val_steps: int | None = None, log_every_n_steps: int | None = None,
        enable_checkpointing: bool | None = None, enable_progress_bar: bool | None = None,
        enable_model_summary: bool | None = None, accumulate_grad_batches: int = 1,
        gradient_clip_val: int | float | None = None, gradient_clip_algorithm: str | None = None,
        deterministic: bool | str | None = None, inference_mode: bool = True,
        use_distributed_sampler: bool = True, detect_anomaly: bool = False,
        reload_dataloaders_every_n_epochs: int = 0, auto_lr_find: bool | str = False,
        default_root_dir: str | Path | None = None, **unknown: Any,
    ) -> None:
        """Every flag can be read back under its name. Names and meanings are those of edition 2.2.

        Args:
            accelerator: "cpu", "cuda" or "gpu", "mps", an `Accelerator`, or "auto".
            devices: how many on each node, one process for each; a list of numbers; -1: all.
            strategy: "auto", "ddp", "fsdp", or an object such as `DDPStrategy(...)`.
            num_nodes: how many machines; torchrun has to start them.
            precision: "32-true", "64-true", "bf16-true", "16-true", "bf16-mixed" or "16-mixed".
            logger: a logger or several; True (the default): CSV files; False: none.
            callbacks: called at every hook, in this order, before the module.
            fast_dev_run: run so many batches (True: 1) of each loop, once, and save nothing.
            max_epochs, max_steps: stop after so many epochs or optimizer steps; -1: no limit. The
                default is 1000 epochs.
            min_epochs, min_steps: before that, `should_stop` does not stop.
            max_time: stop training after this time; see `Timer(duration=...)`.
            limit_train_batches, limit_val_batches, limit_test_batches, limit_predict_batches: how
                many batches of each loop: an int counts, a float is a share.
            overfit_batches: use these batches, unshuffled, in every epoch.
            val_check_interval: validate after so many training batches, or that share of an epoch.
            check_val_every_n_epoch: validate in every so many epochs; None: count batches over
                epochs.
            num_sanity_val_steps: validation batches to try before training (default 2; -1: all).
            log_every_n_steps: pass step metrics to the loggers at every so many steps (50).
            enable_checkpointing, enable_progress_bar, enable_model_summary: False leaves out the
                default ModelCheckpoint, ProgressBar and ModelSummary.
            accumulate_grad_batches: batches whose gradients are summed before a step.
            gradient_clip_val, gradient_clip_algorithm: clip gradients to this "norm" (the default)
                or "value" before every step.
            deterministic: use deterministic algorithms only ("warn": where there are any).
            inference_mode: evaluate under `torch.inference_mode`; False: under `no_grad`.
            use_distributed_sampler: give each process its share of a loader's samples.
            detect_anomaly: let autograd look for NaN.
            reload_dataloaders_every_n_epochs: ask for the loaders again at every so many epochs.
            auto_lr_find: `tune` sets `lr` or `learning_rate` of the module, or what has this name.
            default_root_dir: where logs and checkpoints go (default: the working directory).
            unknown: flags that do not exist, which are refused.

        Raises:
            MisconfigurationException, TypeError, ValueError: a flag that does not exist, or whose
                value is not accepted; the message says which are.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        self.__dict__.update(resolve_flags(given))
        self.strategy: SingleDeviceStrategy = choose_strategy(
            accelerator, devices, num_nodes, strategy)
        self.accelerator = self.strategy.accelerator
        self._several = self.strategy.world_size > 1
        self.precision_plugin = Precision(self.precision, self.strategy.root_device)
        self.precision = self.precision_plugin.name
        self.state = TrainerState()
        self.global_step, self.current_epoch, self._progress = 0, 0, Progress()
        self.should_stop = False
        self._metrics = Metrics(self.strategy)
        self.lightning_module: LightningModule = None  # type: ignore[assignment]  # until a run
        self.model: Any = None  # the module as it is called: itself, or wrapped by a strategy
        self.datamodule: LightningDataModule | None = None
        self.ckpt_path: str | None = None
        self.optimizers: list[Optimizer] = []
        self.lr_scheduler_configs: list[LRSchedulerConfig] = []
        self._lightning_optimizers: list[LightningOptimizer] = []
        self._current_fx_name: str | None = None  # the hook that runs, for self.log
        self._epoch_outputs: list[Any] = []
        self._evaluated_batches: dict[tuple[str, int], int] = {}
        self.num_training_batches: float = math.inf
        self.val_check_batch: float = math.inf
        self.num_val_batches: list[float] = []
        self.num_test_batches: list[float] = []
        self.num_predict_batches: list[float] = []
        self.is_last_batch, self._stepped = False, True
        self._given_loaders: dict[str, Any] = {}
        self._forget_loaders()

        self.on = Bound()
        self.callbacks = startup.all_callbacks(self, callbacks)
        self.on.on_init_start()
        self.loggers: list[Logger] = startup.all_loggers(self, logger)
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True, warn_only=deterministic == "warn")
        self.on.on_init_end()

    # Entry points

    def fit(
        self, model: LightningModule, train_dataloaders: Any = None, val_dataloaders: Any = None,
        datamodule: LightningDataModule | None = None, ckpt_path: str | Path | None = None,
        weights_only: bool | None = None,
    ) -> None:
        """Train, with validation.

        Args:
            model: what to train.
            train_dataloaders: a loader, or a dict, list or nesting of them (cycled to the longest,
                each batch of the same shape), or a data module.
            val_dataloaders: a loader, or several, which are run one after another.
            datamodule: instead of loaders.
            ckpt_path: go on from this checkpoint; "best" or "last" of the trainer's own.
            weights_only: False trusts the checkpoint and lets it run code.

        Raises:
            TypeError, MisconfigurationException: what is given does not fit together.
        """
        loaders = {"train": train_dataloaders, "val": val_dataloaders}
        self._run(TrainerFn.FITTING, self._fit, model, loaders, datamodule, ckpt_path, weights_only)

    def validate(
        self, model: LightningModule | None = None, dataloaders: Any = None,
        ckpt_path: str | Path | None = None, verbose: bool = True,
        datamodule: LightningDataModule | None = None, weights_only: bool | None = None,
    ) -> list[Mapping[str, float]]:
        """Run one pass over the validation data.

        Args:
            model: what to validate; by default the last one.
            dataloaders: a loader, or several, which are run one after another.
            ckpt_path: take the weights from this checkpoint ("best", "last" or a path); without a
                model and a path the best one is taken, if there is one.
            verbose: print the results.
            datamodule: instead of loaders.
            weights_only: False trusts the checkpoint and lets it run code.

        Returns:
            What was logged, a dict for each loader.
        """
        run = lambda: self._evaluation("validation", verbose)  # noqa: E731
        results: list[Mapping[str, float]] = self._run(
            TrainerFn.VALIDATING, run, model, {"val": dataloaders}, datamodule, ckpt_path,
            weights_only)
        return results

    def test(
        self, model: LightningModule | None = None, dataloaders: Any = None,
        ckpt_path: str | Path | None = None, verbose: bool = True,
        datamodule: LightningDataModule | None = None, weights_only: bool | None = None,
    ) -> list[Mapping[str, float]]:
        """Run one pass over the test data.

        Args:
            model, dataloaders, ckpt_path, verbose, datamodule, weights_only: those of `validate`.

        Returns:
            What was logged, a dict for each loader.
        """
        run = lambda: self._evaluation("test", verbose)  # noqa: E731
        results: list[Mapping[str, float]] = self._run(
            TrainerFn.TESTING, run, model, {"test": dataloaders}, datamodule, ckpt_path,
            weights_only)
        return results

    def predict(
        self, model: LightningModule | None = None, dataloaders: Any = None,
        datamodule: LightningDataModule | None = None, return_predictions: bool | None = None,
        ckpt_path: str | Path | None = None, weights_only: bool | None = None,
    ) -> list[Any] | list[list[Any]] | None:
        """Run `predict_step` over data.

        Args:
            return_predictions: False keeps nothing. The others are those of `validate`.

        Returns:
            What `predict_step` returned for each batch; with several loaders a list for each.
        """
        run = lambda: self._prediction(return_predictions is not False)  # noqa: E731
        predictions: list[Any] | None = self._run(
            TrainerFn.PREDICTING, run, model, {"predict": dataloaders}, datamodule, ckpt_path,
            weights_only)
        return predictions

    tune = tuning.tune  # a sweep of the learning rate

    def save_checkpoint(self, filepath: str | Path, weights_only: bool | None = False,
                        storage_options: None = None) -> None:
        """Write a checkpoint of the run as it stands; call it on every process.

        Args:
            filepath: where.
            weights_only: leave out what only training needs.
            storage_options: None; there is one kind of storage.

        Raises:
            AttributeError: there is no module yet, as in Lightning 2.2.
        """
        if self.lightning_module is None:
            raise AttributeError(
                "A checkpoint can only be saved once a module is attached: call `fit`, `validate`, "
                "`test` or `predict` first."
            )
        checkpoint.save(self, filepath, bool(weights_only))

    # One run, whatever it does

    def _run(
        self, fn: TrainerFn, job: Callable[[], Any], model: LightningModule | None,
        loaders: dict[str, Any], datamodule: Any, ckpt_path: Any, weights_only: bool | None,
    ) -> Any:
        first = next(iter(loaders))
        if isinstance(loaders[first], LightningDataModule):  # fit(model, datamodule)
            datamodule, loaders[first] = loaders[first], None
        if model is not None or self.lightning_module is None:
            startup.check_model(model, fn.value)
        startup.check_data(loaders, datamodule, fn.value)
        processes.start_all(self.strategy.processes, fn.value)
        self.state = TrainerState(TrainerStatus.RUNNING, fn, _FIRST_STAGE[fn])
        self._attach(model, loaders, datamodule)
        self.strategy.begin_run()
        try:
            bind(self, self.on)
            self.ckpt_path = checkpoint.resolve(self, ckpt_path, model is not None)
            self._weights_only = weights_only
            with signals.noticing_sigterm(self), \
                    torch.autograd.set_detect_anomaly(self.detect_anomaly):
                answer = job()
        except KeyboardInterrupt as interrupt:
            self._fail(interrupt)
            warn(f"`Trainer.{fn.value}` was interrupted; `trainer.interrupted` is True.")
            return None
        except BaseException as error:
            self._fail(error)
            raise
        self.state.status, self.state.stage = TrainerStatus.FINISHED, None
        return answer

    def _attach(self, model: LightningModule | None, loaders: dict[str, Any],
                datamodule: LightningDataModule | None) -> None:
        self.lightning_module = self.lightning_module if model is None else model
        self.lightning_module.trainer = self
        self.datamodule = datamodule
        if datamodule is not None:
            datamodule.trainer = self
        self._forget_loaders()
        self._given_loaders = loaders
        self._metrics.clear()

    def _fail(self, error: BaseException) -> None:
        """Tell every callback and the data module; no handler stops another or hides the error."""
        self.state.status = TrainerStatus.INTERRUPTED
        told: list[tuple[str, tuple[Any, ...]]] = [("on_exception", (error,))]
        if isinstance(error, KeyboardInterrupt):
            told.insert(0, ("on_keyboard_interrupt", ()))
        calls: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
            (hook, handler, arguments) for hook, arguments in told
            for _, handler in self.on.receivers.get(hook, ())
        ]
        calls += [("finalize", logger.finalize, ("failed",)) for logger in self.loggers]
        later = []
        for name, call, arguments in calls:
            self._current_fx_name = name
            try:
                call(*arguments)
            except BaseException as another:  # noqa: BLE001
                later.append(another)
                note(error, f"Then `{name}` raised {another!r}.")
        if later:
            error.later_errors = tuple(later)  # type: ignore[attr-defined]  # new with this line
        self._current_fx_name = self._batches = None
        if self._several:
            processes.name_rank(error, self.strategy.processes)
            self.strategy.disconnect(error)
        if not isinstance(error, KeyboardInterrupt):
            self.state.stage = None
        release_frames(error)

    # What every run begins and ends with

    def _set_up(self) -> None:
        module, stage = self.lightning_module, self.state.entry_point
        on = self.on
        self.callbacks = startup.with_configured(self.callbacks, on.configure_callbacks())
        startup.check_run(self, module, self.datamodule)
        on.prepare_data()
        self.strategy.wait_for_data()
        on.on_before_accelerator_backend_setup()
        self.strategy.connect()
        startup.agree_on_versions(self)
        on.setup(stage)
        bind(self, on)  # setup may have put overrides on instances
        on.on_configure_sharded_model()
        with self.precision_plugin.creating(), self.strategy.root_device:
            on.configure_sharded_model()
            on.configure_model()
        self._checkpoint = {}
        if self.ckpt_path is not None:
            checkpoint.restore(self, stage == "fit")
        self.precision_plugin.convert_module(module)
        module.to(self.strategy.root_device)
        self.model = self.strategy.wrap(module, trains=stage in ("fit", "tune"))
        if self.strategy.wraps_steps:
            bind(self, on)

    def _tear_down(self) -> None:
        self.on.teardown(self.state.entry_point)
        for logger in self.loggers:
            logger.finalize("success")

    # Training

    def _fit(self) -> None:
        on = self.on
        set_default_limits(self)
        self._progress.batches, self._progress.pending = 0, "fit_start"
        self._set_up()
        self._configure_optimizers()
        on.on_fit_start()  # FIT-002
        reporting.introduce(self)
        self._restore_training()
        on.on_pretrain_routine_start()  # FIT-003
        on.on_pretrain_routine_end()
        self.lightning_module.zero_grad()
        self._sanity_check()
        self._train()
        on.on_fit_end()
        self._tear_down()

    def _train(self) -> None:
        on, progress = self.on, self._progress
        if self.limit_train_batches == 0:
            return
        loading.load_train_data(self)
        self.current_epoch = progress.epochs  # a checkpoint is saved before this moves on
        if resume.is_over(self):
            return
        self._metrics.begin(training=True)
        loading.may_load_val_data(self)
        on.on_train_start()  # FIT-001
        if self._resuming:
            resume.enter(self)
        while progress.batches or not self._is_done():
            self._train_epoch()
            if self._several:
                self._agree_to_stop()
        on.on_train_end()

    def _train_epoch(self) -> None:
        on, metrics, progress = self.on, self._metrics, self._progress
        self._validates = self._epoch_validates()
        self._keeps_outputs = bool(on.receivers["training_epoch_end"]) or on.asks_outputs(
            "on_train_epoch_end")
        if progress.batches == 0:
            resume.draw_as_saved(self)
            loading.load_train_data(self)  # again, if it is due
            for loader in data.leaves(self.train_dataloader):
                data.set_epoch(loader, self.current_epoch)
            progress.pending = "epoch_start"
            on.on_epoch_start()
            on.on_train_epoch_start()  # FIT-012
        metrics.begin_batches()
        batches = resume.train_batches(self)
        if progress.batches:
            self._finish_batch()  # of the resumed run, if it was saved before that
        skipped = False
        for batch, self.is_last_batch in batches:
            batch_idx = progress.batches
            progress.pending = "batch"
            batch = self._transfer(batch, 0)  # FIT-021
            metrics.batch = batch
            on.on_batch_start()
            skipped = on.on_train_batch_start(batch, batch_idx) == -1  # FIT-024
            if self._several and on.receivers["on_train_batch_start"]:
                skipped = self.strategy.reduce_boolean_decision(skipped, all=False)
            if skipped:  # the rest of this epoch: no batch end, no validation
                progress.total_batches += 1
                break
            outputs = self._train_batch(batch, batch_idx)
            progress.batches, progress.total_batches = batch_idx + 1, progress.total_batches + 1
            if self.lr_scheduler_configs:
                self._step_schedulers("step")  # OPT-062
                if self.is_last_batch:  # OPT-060
                    self._step_schedulers("epoch")
            progress.pending = "batch_end"
            if self._unfinished:
                resume.save_again(self, outputs, batch, batch_idx)
            on.on_train_batch_end(outputs, batch, batch_idx)
            del outputs  # the next batch needs the memory
            on.on_batch_end()
            if self._stepped and self.loggers:
                reporting.log_train_step(self)
            progress.pending = "validation"
            if self._several:
                self._agree_to_stop()
            self._finish_batch()
            if self._ends:
                signals.end(self)
            if self._epoch_is_cut_short():
                break
        if skipped:
            self._step_schedulers("epoch")
        self._end_epoch(complete=self.is_last_batch and not skipped)

    def _train_batch(self, batch: Any, batch_idx: int) -> Any:
        """Returns what `on_train_batch_end` gets: a dict, or with several optimizers a list."""
        if self._several:
            self.strategy.synchronize_buffers(self.lightning_module)
        self._stepped = self._steps(batch_idx)
        first, *others = self._lightning_optimizers
        outputs: dict[str, Any] | list[dict[str, Any]]
        if not self.lightning_module.automatic_optimization:
            outputs = manual_outputs(self.on.training_step(batch, batch_idx))
        elif others:
            outputs = [self._optimize_alone(batch, batch_idx, i)
                       for i in range(len(self.optimizers))]
        else:
            outputs = self._optimize(batch, batch_idx, first)
        if self._stepped:
            self._progress.stepping_batches += 1
        if self._keeps_outputs:
            self._epoch_outputs.append(outputs)
        return [each for each in outputs if each] if isinstance(outputs, list) else outputs

    def _optimize(
        self, batch: Any, batch_idx: int, optimizer: LightningOptimizer, *optimizer_idx: int
    ) -> dict[str, Any]:
        """One batch in automatic optimization. The optimizer's step runs the closure inside."""
        on, window, own = self.on, self.accumulate_grad_batches, optimizer.optimizer
        several, strategy, precision = self._several, self.strategy, self.precision_plugin
        outputs: dict[str, Any] | None = None

        def closure() -> Tensor | None:
            nonlocal outputs
            loss, extras = loss_and_extras(on.training_step(batch, batch_idx, *optimizer_idx))
            if several and not strategy.reduce_boolean_decision(loss is not None):
                loss = None  # also where another process has none
            outputs = {}
            if batch_idx % window == 0:  # the first batch of a window
                on.on_before_zero_grad(own)
                on.optimizer_zero_grad(self.current_epoch, batch_idx, own)
            if loss is not None:
                loss = loss / window if window > 1 else loss  # also in a last, shorter window
                outputs = {"loss": loss.detach(), **extras}
                if several:
                    loss = strategy.before_backward(loss, averages=self._stepped)
                if precision.scaler is not None:
                    loss = precision.scale(loss)
                on.on_before_backward(loss)
                on.backward(loss)
                on.on_after_backward()
            return loss

        if self._stepped:
            on.optimizer_step(self.current_epoch, batch_idx, optimizer, closure)  # OPT-001
            self.global_step += not precision.skipped  # also if an override did not step
        else:
            closure()
        if outputs is None:
            raise closure_left_out()
        return outputs

    def _optimize_alone(self, batch: Any, batch_idx: int, i: int) -> dict[str, Any]:
        """One of several optimizers, with the parameters of the others frozen, as in 1.5."""
        module, optimizer = self.lightning_module, self._lightning_optimizers[i]
        module.toggle_optimizer(optimizer)
        outputs = self._optimize(batch, batch_idx, optimizer, i)
        module.untoggle_optimizer(optimizer)
        return outputs

    def _step_optimizer(
        self, optimizer: Optimizer, closure: Callable[[], Any], kwargs: dict[str, Any]
    ) -> Any:
        """What `LightningOptimizer.step` does, in automatic and manual optimization."""
        on, automatic = self.on, self.lightning_module.automatic_optimization
        precision = self.precision_plugin

        def closure_then_hooks() -> Any:
            loss = closure()
            if precision.scaler is not None:
                precision.unscale(optimizer)
            on.on_before_optimizer_step(optimizer)
            if automatic:
                on.configure_gradient_clipping(
                    optimizer, self.gradient_clip_val, self.gradient_clip_algorithm
                )
            return loss

        if precision.scaler is None:
            answer = optimizer.step(closure=closure_then_hooks, **kwargs)
        else:
            answer = precision.step(optimizer, closure_then_hooks, automatic, kwargs)
        self.global_step += not automatic and not precision.skipped
        return answer

    def _finish_batch(self) -> None:
        """What follows `on_train_batch_end`; a checkpoint knows which part of it is pending."""
        progress = self._progress
        if progress.pending == "validation":
            if self._validates and self._validation_is_due():
                self._validate()
                if self._several:
                    self._agree_to_stop()
            progress.pending = "plateau"
        if progress.pending == "validation_end":
            resume.end_validation(self)
            progress.pending = "plateau"
        if progress.pending == "plateau":
            if self.lr_scheduler_configs:
                self._step_schedulers("step", plateau=True)
            progress.pending = ""
            if self._unfinished:
                resume.save_again(self)

    def _end_epoch(self, complete: bool) -> None:
        on, metrics, progress = self.on, self._metrics, self._progress
        if progress.pending != "epoch_end":  # a resumed run has been here
            metrics.end_batches()
            if self._batches is not None:
                self._batches.close(complete)
            progress.epochs, progress.batches = progress.epochs + 1, 0
            progress.pending, progress.complete = "epoch_end", complete
            self._epoch_outputs = of_each_optimizer(self._epoch_outputs)
        returns_nothing("training_epoch_end", on.training_epoch_end(self._epoch_outputs))  # FIT-050
        on.on_train_epoch_end()
        on.on_epoch_end()
        self._epoch_outputs = []
        to_log = metrics.collect()
        if complete:
            self._step_schedulers("epoch", plateau=True)  # OPT-070
        reporting.log_metrics(self, to_log, progress.stepping_batches - 1)
        metrics.reset_objects()
        metrics.begin(training=True)
        self.current_epoch, progress.pending = progress.epochs, ""
        if self._unfinished:
            resume.save_again(self)

    def _step_schedulers(self, interval: str, plateau: bool = False) -> None:
        if not self.lightning_module.automatic_optimization:
            return
        if interval == "step" and (not self._stepped or self.precision_plugin.skipped):
            return
        count = self._progress.batches if interval == "step" else self.current_epoch + 1
        for config in self.lr_scheduler_configs:
            if config.interval != interval or config.reduce_on_plateau != plateau:
                continue
            if count % config.frequency:
                continue
            metric = None
            if plateau:
                metric = monitored(config, self.callback_metrics)
                if metric is None:
                    continue
            self.on.lr_scheduler_step(config.scheduler, metric)

    # When training goes on, stops, and is validated

    def _steps(self, batch_idx: int) -> bool:
        """Whether the optimizer steps; the last window of an epoch may be shorter."""
        return (batch_idx + 1) % self.accumulate_grad_batches == 0 or self.is_last_batch

    def _is_done(self) -> bool:
        progress = self._progress
        if self.num_training_batches == 0:
            info("`Trainer.fit` stopped: no training batches.")
            return True
        if self.global_step >= self.max_steps != -1:
            info(f"`Trainer.fit` stopped: `max_steps={self.max_steps}` reached.")
            return True
        if self.max_epochs is not None and progress.epochs >= self.max_epochs != -1:
            info(f"`Trainer.fit` stopped: `max_epochs={self.max_epochs}` reached.")
            return True
        return self.should_stop and self._may_stop()

    def _may_stop(self) -> bool:
        enough_epochs = self._progress.epochs >= (self.min_epochs or 0)
        return enough_epochs and self.global_step >= (self.min_steps or 0)

    def _agree_to_stop(self) -> None:
        """Let all processes stop when one asks for it, or is told to by SIGTERM."""
        any_of = self.strategy.reduce_boolean_decision
        if any_of(self.should_stop or self.received_sigterm, all=False):
            self.should_stop = any_of(self.should_stop, all=False)
            self._ends = any_of(self.received_sigterm, all=False)

    def _epoch_is_cut_short(self) -> bool:
        if self.global_step >= self.max_steps != -1:
            return True
        return self.should_stop and self._may_stop()

    def _epoch_validates(self) -> bool:
        every = self.check_val_every_n_epoch
        return self.enable_validation and (every is None or (self.current_epoch + 1) % every == 0)

    def _validation_is_due(self) -> bool:
        if self.should_stop and self._may_stop():
            return True
        over_epochs = self.check_val_every_n_epoch is None
        if isinstance(self.val_check_interval, float) and self.val_check_interval == 1.0:
            return self.is_last_batch  # also if the loader ends before the length that it declares
        batches = self._progress.total_batches if over_epochs else self._progress.batches
        return batches % self.val_check_batch == 0

    # Evaluation: the sanity check, validation and test share one loop

    def _sanity_check(self) -> None:
        """Try the validation before training; it leaves no trace."""
        inside_epoch = self._progress.batches > 0
        if not self.enable_validation or not self.num_sanity_val_steps or inside_epoch:
            return
        before = rng_state()
        self.state.stage = RunningStage.SANITY_CHECKING
        self.on.on_sanity_check_start()
        with torch.no_grad():
            self._evaluate("validation")
        self.on.on_sanity_check_end()
        self.state.stage = RunningStage.TRAINING
        self._metrics.clear()
        set_rng_state(before)
        if self._unfinished:
            resume.save_again(self)

    def _validate(self) -> None:
        """The validation inside a training epoch."""
        self._metrics.collect()  # what this batch logged is seen in there
        self.state.stage = RunningStage.VALIDATING
        self._validation_rng = rng_state()
        if self._stepped:  # gradients of an unfinished window are still needed
            self.on.on_validation_model_zero_grad()
        with torch.no_grad():
            self._evaluate("validation")
        self.state.stage = RunningStage.TRAINING

    def _evaluation(self, kind: str, verbose: bool) -> list[dict[str, float]]:
        """`validate` and `test`."""
        self._set_up()
        reporting.introduce(self)
        self.lightning_module.zero_grad()
        with self._without_grad():
            results = self._evaluate(kind)
        if verbose and self.is_global_zero and any(results):
            print(results_table(results, self.state.entry_point))
        self._tear_down()
        return results

    def _evaluate(self, kind: str) -> list[dict[str, float]]:
        """One pass over the validation or test loaders; `on.start` is `on_validation_start` or
        `on_test_start`, and so on. Returns what was logged, a dict for each loader."""
        loaders, limits = loading.load_eval_data(self, "val" if kind == "validation" else kind)
        if not self.strategy.reduce_boolean_decision(any(limits), all=False):
            return []
        on, metrics = getattr(self.on, kind), self._metrics
        startup.check_several_loaders(self.lightning_module, f"{kind}_step", len(loaders))
        modes = [(module, module.training) for module in self.lightning_module.modules()]
        around = metrics.begin(training=False)
        outputs_of_loaders, results = [], []
        keeps_outputs = self.on.receivers[f"{kind}_epoch_end"]
        on.model_eval()  # VAL-002, TEST-001
        on.start()
        self.on.on_epoch_start()
        on.epoch_start()
        for dataloader_idx, (loader, limit) in enumerate(zip(loaders, limits)):
            which = (dataloader_idx,) if len(loaders) > 1 else ()
            kept: list[Any] = []
            metrics.begin_batches(*which)
            everywhere = loading.shortest(self, loader, limit)
            for batch_idx, batch in enumerate(self.strategy.evaluated(islice(loader, limit))):
                batch = self._transfer(batch, dataloader_idx)
                metrics.batch, metrics.alike = batch, batch_idx < everywhere
                on.batch_start(batch, batch_idx, *which)
                outputs = on.step(batch, batch_idx, *which)
                on.batch_end(outputs, batch, batch_idx, *which)
                if self._ends:
                    signals.end(self)
                if self.loggers and not self.sanity_checking:
                    reporting.log_eval_step(self, dataloader_idx)
                if keeps_outputs:
                    kept.append(outputs)
                del outputs
            metrics.end_batches()
            outputs_of_loaders.append(kept)
            results.append({} if self.sanity_checking else metrics.collect())
        metrics.dataloader_idx = None
        on.outputs(outputs_of_loaders if len(loaders) > 1 else outputs_of_loaders[0])
        on.epoch_end()
        self.on.on_epoch_end()
        results_of_all = reporting.evaluation_results(self, results)
        resume.validated(self)
        on.end()
        self._restore_modes(kind, modes)
        metrics.reset_objects()
        metrics.end(around)
        return results_of_all

    def _prediction(self, keeps: bool) -> list[Any] | None:
        """`predict`."""
        self._set_up()
        reporting.introduce(self)
        self.lightning_module.zero_grad()
        with self._without_grad():
            predictions = self._predict(keeps)
        self._tear_down()
        return predictions

    def _predict(self, keeps: bool) -> list[Any] | None:
        """One pass over the prediction loaders."""
        loaders, limits = loading.load_eval_data(self, "predict")
        if not self.strategy.reduce_boolean_decision(any(limits), all=False):
            return None
        on = self.on
        startup.check_several_loaders(self.lightning_module, "predict_step", len(loaders))
        modes = [(module, module.training) for module in self.lightning_module.modules()]
        self._epoch_outputs = [[] for _ in loaders]
        keeps_outputs = keeps or on.asks_outputs("on_predict_epoch_end")
        on.on_predict_model_eval()  # PREDICT-001
        on.on_predict_start()
        on.on_predict_epoch_start()
        for dataloader_idx, (loader, limit) in enumerate(zip(loaders, limits)):
            which = (dataloader_idx,) if len(loaders) > 1 else ()
            for batch_idx, batch in enumerate(self.strategy.evaluated(islice(loader, limit))):
                batch = self._transfer(batch, dataloader_idx)
                on.on_predict_batch_start(batch, batch_idx, *which)
                predictions = on.predict_step(batch, batch_idx, *which)
                on.on_predict_batch_end(predictions, batch, batch_idx, *which)
                if self._ends:
                    signals.end(self)
                if keeps_outputs:
                    self._epoch_outputs[dataloader_idx].append(predictions)
                del predictions
        on.on_predict_epoch_end()
        on.on_predict_end()
        self._restore_modes("predict", modes)
        predictions, self._epoch_outputs = self._epoch_outputs, []
        if not keeps:
            return None
        return predictions if len(loaders) > 1 else predictions[0]

    # Small parts of the above

    def _transfer(self, batch: Any, dataloader_idx: int) -> Any:
        on = self.on
        if self.precision_plugin.converts:
            batch = self.precision_plugin.convert_input(batch)
        batch = on.on_before_batch_transfer(batch, dataloader_idx)
        batch = on.transfer_batch_to_device(batch, self.strategy.root_device, dataloader_idx)
        return on.on_after_batch_transfer(batch, dataloader_idx)

    def _without_grad(self) -> AbstractContextManager[Any]:
        fast = self.inference_mode and self.strategy.inference_mode
        return torch.inference_mode() if fast else torch.no_grad()

    def _restore_modes(self, kind: str, modes: list[tuple[torch.nn.Module, bool]]) -> None:
        """Each submodule as it was before, unless the module takes care of it itself."""
        own = f"on_{kind}_model_train"
        if self.on.receivers.get(own):
            getattr(self.on, own)()
            return
        for module, training in modes:
            module.training = training

    def _configure_optimizers(self) -> None:
        module = self.lightning_module
        answer = self.on.configure_optimizers()
        self.optimizers, self.lr_scheduler_configs = configure_optimizers(module, answer)
        startup.one_or_idx(module, len(self.optimizers))
        self.precision_plugin.check(self.optimizers)
        self._lightning_optimizers = [LightningOptimizer(each, self) for each in self.optimizers]

    def _restore_training(self) -> None:
        if self._checkpoint:
            checkpoint.restore_training(self, self._checkpoint)
            self._checkpoint = {}

    # Data

    def _forget_loaders(self) -> None:
        self.train_dataloader: Any = None
        self.val_dataloaders: Any = None
        self.test_dataloaders: Any = None
        self.predict_dataloaders: Any = None
        self._loaded_in: dict[str, float] = {}  # epoch in which a kind of loader was asked for
        resume.forget(self)


_FIRST_STAGE = {
    TrainerFn.FITTING: RunningStage.TRAINING,
    TrainerFn.TUNING: RunningStage.TRAINING,
    TrainerFn.VALIDATING: RunningStage.VALIDATING,
    TrainerFn.TESTING: RunningStage.TESTING,
    TrainerFn.PREDICTING: RunningStage.PREDICTING,
}
