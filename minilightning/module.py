"""LightningModule and LightningDataModule: what a user writes."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset, IterableDataset

from .checkpoint import load_object
from .signatures import overrides
from .errors import MisconfigurationException, warn
from .hooks import CheckpointHooks, DataHooks, ModelHooks
from .hparams import HasHyperparameters
from .metrics import as_value

if TYPE_CHECKING:
    from .callback import Callback
    from .trainer import Trainer


class LightningModule(ModelHooks, DataHooks, CheckpointHooks, HasHyperparameters, nn.Module):
    """A model together with how it is trained, validated, tested and used.

    Write `training_step` and `configure_optimizers`, and `validation_step`, `test_step`,
    `predict_step` for the loops that you use; override hooks where you need them.

    Attributes:
        automatic_optimization: False leaves `backward` and `step` to `training_step`.
        example_input_array: a batch that a logger may draw the graph with.
        strict_loading: whether the weights of a checkpoint have to have the module's names.

    Source: edition 2.2.
    """

    # Here, so that a subclass may say them in its body, or as a property.
    automatic_optimization: bool = True
    example_input_array: Any = None
    strict_loading: bool = True

    def __init__(self) -> None:
        super().__init__()
        self._trainer: Trainer | None = None
        self._param_requires_grad: dict[Tensor, bool] = {}

    # What a user writes

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """One training batch: `training_step(batch, batch_idx)`. All editions.

        With several optimizers in automatic optimization it also takes `optimizer_idx`, as in 1.5.

        Args:
            args: the batch, its place in the epoch and, with several optimizers, the place of one.
            kwargs: the same by name. Write out those that you take.

        Returns:
            The loss (a scalar tensor with a graph), a dict with the key `loss` and whatever else
            `on_train_batch_end` should get, or None to skip the backward pass for this batch.
        """

    def validation_step(self, *args: Any, **kwargs: Any) -> Any:
        """One validation batch: `validation_step(batch, batch_idx)`; with several loaders it also
        takes `dataloader_idx`. `on_validation_batch_end` gets what it returns. All editions.

        Args:
            args: the batch, its place in its loader and, with several loaders, the place of the
                loader.
            kwargs: the same by name. Write out those that you take.

        Returns:
            Anything.
        """

    def test_step(self, *args: Any, **kwargs: Any) -> Any:
        """One test batch; otherwise as `validation_step`. All editions.

        Args:
            args: as in `validation_step`.
            kwargs: as in `validation_step`.

        Returns:
            Anything; `on_test_batch_end` gets it.
        """

    def predict_step(self, *args: Any, **kwargs: Any) -> Any:
        """One batch of `predict`; by default the module is called with it. Editions 1.5 and 2.2.

        Args:
            args: as in `validation_step`.
            kwargs: as in `validation_step`.

        Returns:
            The predictions, which `Trainer.predict` collects.
        """
        return self(args[0] if args else kwargs["batch"])

    def configure_optimizers(self) -> Any:
        """The optimizers and schedulers of a fit; the module is on its device. All editions.

        Returns:
            One of: an optimizer; a list of them; two lists, optimizers and schedulers; a dict with
            `optimizer` and perhaps `lr_scheduler`; a list of such dicts; None. A scheduler stands
            for itself or for a dict of `scheduler`, `interval` ("epoch" or "step"), `frequency`,
            `monitor`, `strict` and `name`.
        """

    def configure_callbacks(self) -> Callback | list[Callback]:
        """Callbacks of the module; one replaces those of its type in the trainer. 1.5 and 2.2.

        Returns:
            One callback, or several.
        """
        return []

    def training_epoch_end(self, outputs: list[Any]) -> None:
        """The outputs of an epoch's `training_step`s, before `on_train_epoch_end` (edition 1.5).

        Outputs are kept in memory for those who override this only; 2.x has no such hook.

        Args:
            outputs: one for each batch, as `on_train_batch_end` got it; with several optimizers, a
                list of these for each of them.
        """

    def validation_epoch_end(self, outputs: list[Any]) -> None:
        """The outputs of a validation's steps; a list for each of several loaders (edition 1.5).

        Args:
            outputs: one for each batch, as `validation_step` returned it.
        """

    def test_epoch_end(self, outputs: list[Any]) -> None:
        """The outputs of a test's steps; a list for each of several loaders (edition 1.5).

        Args:
            outputs: one for each batch, as `test_step` returned it.
        """

    # What the trainer calls and a user may override

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Any,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """Step; the closure runs `training_step`, zeroing and the backward pass. All editions.

        Args:
            epoch: number of the epoch, counted from 0.
            batch_idx: place of the batch in it.
            optimizer: a `LightningOptimizer`, whose `step` fires the hooks.
            optimizer_closure: has to run, for this batch to be trained on.
        """
        optimizer.step(closure=optimizer_closure)

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Optimizer) -> None:
        """Clear the gradients, on the first batch of an accumulation window. All editions.

        Args:
            epoch: number of the epoch, counted from 0.
            batch_idx: place of the batch in it.
            optimizer: the torch optimizer.
        """
        optimizer.zero_grad()

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Run the backward pass. All editions.

        Args:
            loss: a scalar, divided by `accumulate_grad_batches` and scaled under 16-bit AMP.
            args: what `manual_backward` was given besides.
            kwargs: the same, by name.

        Raises:
            RuntimeError: the loss has no graph, or is no scalar.
        """
        if not loss.requires_grad:
            raise RuntimeError(
                "The loss does not require grad, so nothing can be learnt from it. Was it "
                "detached, made under `torch.no_grad()`, or are all parameters frozen?"
            )
        loss.backward(*args, **kwargs)

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradients, at every step; by default as the flags say. Editions 1.5 and 2.2.

        Args:
            optimizer: the torch optimizer that is about to step; its gradients are unscaled.
            gradient_clip_val: the trainer's flag; None: nothing is clipped.
            gradient_clip_algorithm: the trainer's flag, "norm" or "value"; None: "norm".
        """
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def clip_gradients(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradients of one optimizer's parameters.

        Args:
            optimizer: whose parameters.
            gradient_clip_val: the largest norm or value; None: the trainer's; not above 0: none.
            gradient_clip_algorithm: "norm" (the default) or "value".

        Raises:
            MisconfigurationException: values that differ from the trainer's flags.
        """
        flags = self.trainer
        if gradient_clip_val is None and flags.gradient_clip_val is None:
            return
        value = _same("gradient_clip_val", gradient_clip_val, flags.gradient_clip_val)
        algorithm = _same("gradient_clip_algorithm", gradient_clip_algorithm,
                          flags.gradient_clip_algorithm) or "norm"
        if value <= 0:
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if algorithm == "value":
            nn.utils.clip_grad_value_(parameters, value)
        elif algorithm == "norm":
            nn.utils.clip_grad_norm_(parameters, value)
        else:
            raise MisconfigurationException(
                f"`gradient_clip_algorithm={algorithm!r}`: accepted are 'norm' and 'value'."
            )

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        """Step a scheduler. Edition 2.2.

        Args:
            scheduler: one of those that `configure_optimizers` returned.
            metric: what `ReduceLROnPlateau` monitors; None for others.
        """
        if metric is None:
            scheduler.step()
        else:
            scheduler.step(metric)

    # What a user calls

    def log(
        self, name: str, value: Any, prog_bar: bool = False, logger: bool | None = None,
        on_step: bool | None = None, on_epoch: bool | None = None, reduce_fx: Any = "mean",
        enable_graph: bool = False, sync_dist: bool = False, sync_dist_group: Any = None,
        add_dataloader_idx: bool = True, batch_size: int | None = None,
        metric_attribute: str | None = None, rank_zero_only: bool = False,
    ) -> None:
        """Log one value from a hook.

        Args:
            name: of the value; with `on_step` and `on_epoch` both, `_step` and `_epoch` are added.
            value: a number, a tensor of one element, or a metric object.
            prog_bar: show it in the progress bar.
            logger: pass it to the loggers (the default).
            on_step: keep each value as it comes. The default depends on the hook.
            on_epoch: reduce the values over the epoch. The default depends on the hook.
            reduce_fx: "mean" (weighted by batch size), "sum", "min", "max", or a function.
            enable_graph: accepted; values are kept without their graph.
            sync_dist: reduce the value over all processes, an epoch's mean by its true weights.
            sync_dist_group: the processes of a step value; None: all.
            rank_zero_only: keep what the first process logs, and nothing elsewhere.
            add_dataloader_idx: with several evaluation loaders, add `/dataloader_idx_N`.
            batch_size: weight of the value in a mean; by default that of the batch.
            metric_attribute: the attribute that a metric object is, if it cannot be found among
                the submodules.

        Raises:
            MisconfigurationException: this hook may not log, or not like this; the name was logged
                in this hook with other settings; the size of the batch cannot be told; a metric
                object is none of the submodules.
            ValueError: the value is no single number.

        Source: edition 2.2, traces log_in_each_hook_allowed and log_on_step_and_epoch.
        """
        trainer = self._trainer
        if trainer is None:
            warn(f"`self.log({name!r}, ...)` did nothing: `{type(self).__name__}` is not attached "
                 "to a trainer.")
            return
        if rank_zero_only and not trainer.is_global_zero:
            return
        if logger and not trainer.loggers:
            warn(f"`self.log({name!r}, ..., logger=True)`: the trainer has no logger.")
        trainer._metrics.log(
            trainer._current_fx_name, name, as_value(name, value), prog_bar, logger is not False,
            on_step, on_epoch, reduce_fx, add_dataloader_idx, batch_size,
            (enable_graph, metric_attribute, rank_zero_only),
            self if metric_attribute is None else None, sync_dist and not rank_zero_only,
            sync_dist_group,
        )

    def log_dict(
        self, dictionary: Mapping[str, Any] | nn.Module, prog_bar: bool = False,
        logger: bool | None = None, on_step: bool | None = None, on_epoch: bool | None = None,
        reduce_fx: Any = "mean", enable_graph: bool = False, sync_dist: bool = False,
        sync_dist_group: Any = None, add_dataloader_idx: bool = True,
        batch_size: int | None = None, rank_zero_only: bool = False,
    ) -> None:
        """Log several values at once.

        Args:
            dictionary: name -> value; or a collection of metric objects that has `items`. The
                others are those of `log`, and hold for all values.

        Raises:
            MisconfigurationException, ValueError: as `log` does.

        Source: edition 2.2.
        """
        given: Any = dictionary
        if hasattr(given, "compute_groups"):  # a MetricCollection: its own objects, no copies
            items = given.items(keep_base=False, copy_state=False)
        else:
            items = given.items()
        for name, value in items:
            self.log(
                name, value, prog_bar, logger, on_step, on_epoch, reduce_fx, enable_graph,
                sync_dist, sync_dist_group, add_dataloader_idx, batch_size, None, rank_zero_only,
            )

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print from one process only, above the progress bar if there is one.

        Args:
            args: what is printed.
            kwargs: those of the built-in `print`.
        """
        if not self.trainer.is_global_zero:
            return
        bar = self.trainer.progress_bar_callback
        (bar.print if bar is not None and bar.is_enabled else print)(*args, **kwargs)

    def optimizers(self, use_pl_optimizer: bool = True) -> Any:
        """The optimizers of this fit, for manual optimization.

        Args:
            use_pl_optimizer: wrapped, so that `step` fires the hooks and counts.

        Returns:
            The optimizer, or the list when there are several.
        """
        chosen: list[Any] = self.trainer.optimizers
        if use_pl_optimizer:
            chosen = self.trainer._lightning_optimizers
        return chosen[0] if len(chosen) == 1 else chosen

    def lr_schedulers(self) -> Any:
        """The schedulers of this fit: None, the scheduler, or the list when there are several."""
        schedulers = [config.scheduler for config in self.trainer.lr_scheduler_configs]
        return (schedulers[0] if len(schedulers) == 1 else schedulers) or None

    def manual_backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """The backward pass of manual optimization, with its hooks.

        Args:
            loss: a scalar tensor with a graph.
            args: passed on to `loss.backward`.
            kwargs: passed on to `loss.backward`.

        Raises:
            MisconfigurationException: `automatic_optimization` is on.
        """
        if self.automatic_optimization:
            raise MisconfigurationException(
                "`self.manual_backward` belongs to manual optimization. Set "
                "`self.automatic_optimization = False` in `__init__`, or return the loss."
            )
        trainer, on = self.trainer, self.trainer.on
        loss = trainer.strategy.before_backward(loss, averages=True)
        loss = trainer.precision_plugin.scale(loss)
        on.on_before_backward(loss)
        on.backward(loss, *args, **kwargs)
        on.on_after_backward()

    def toggle_optimizer(self, optimizer: Any) -> None:
        """Freeze the parameters of all other optimizers; `untoggle_optimizer` undoes it.

        Args:
            optimizer: whose parameters stay as they are; wrapped or not.
        """
        own = {p for group in optimizer.param_groups for p in group["params"]}
        for other in self.trainer.optimizers:
            for parameter in (p for group in other.param_groups for p in group["params"]):
                if parameter not in self._param_requires_grad:
                    self._param_requires_grad[parameter] = parameter.requires_grad
                    parameter.requires_grad &= parameter in own

    def untoggle_optimizer(self, optimizer: Any) -> None:
        """Give every parameter the `requires_grad` it had before `toggle_optimizer`.

        Args:
            optimizer: the one of `toggle_optimizer`; it is not looked at.
        """
        for parameter, required in self._param_requires_grad.items():
            parameter.requires_grad = required
        self._param_requires_grad = {}

    def freeze(self) -> None:
        """Freeze all parameters and go to eval mode, for inference."""
        self.requires_grad_(False)
        self.eval()

    def unfreeze(self) -> None:
        """Unfreeze all parameters and go to train mode."""
        self.requires_grad_(True)
        self.train()

    def all_gather(self, data: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """The tensors of all processes, stacked; in one process the tensor itself.

        Args:
            data: a tensor of the same shape on every process, a number, or a nesting of them.
            group: the processes; None: all.
            sync_grads: let gradients flow back to each process.

        Returns:
            Tensors with a new first dimension, one row for each process, in the same nesting.
        """
        return self.trainer.strategy.all_gather(data, group, sync_grads)

    @classmethod
    def load_from_checkpoint(
        cls, checkpoint_path: str | Path, map_location: Any = None,
        hparams_file: str | Path | None = None, strict: bool | None = None,
        weights_only: bool | None = None, **kwargs: Any,
    ) -> Any:
        """Make a module from a checkpoint: its hyperparameters, then its weights.

        Args:
            checkpoint_path: the file.
            map_location: where its tensors go, as in `torch.load`.
            hparams_file: a JSON file of hyperparameters to use instead of the saved ones.
            strict: whether its keys must be those of the module (by default they must).
            weights_only: False trusts the file and lets it run code; by default it may not.
            kwargs: arguments of `__init__` that win over the saved ones.

        Returns:
            The module, in train mode.

        Raises:
            FileNotFoundError: there is no such file.
            RuntimeError: the keys or shapes do not match.

        Source: edition 2.2, trace load_weights_into_other_model.
        """
        return load_object(
            cls, checkpoint_path, map_location, hparams_file, strict, weights_only, kwargs
        )

    # Where it stands

    @property
    def trainer(self) -> Trainer:
        """The trainer of the run.

        Raises:
            RuntimeError: the module is not attached to one, as in Lightning 2.2.
        """
        if self._trainer is None:
            raise RuntimeError(f"{type(self).__qualname__} is not attached to a `Trainer`.")
        return self._trainer

    @trainer.setter
    def trainer(self, trainer: Trainer | None) -> None:
        for module in self.modules():  # also for a LightningModule inside of it
            if isinstance(module, LightningModule):
                module._trainer = trainer

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next((tensor.device for tensor in self._tensors()), torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        """The type of the floating-point parameters."""
        types = (tensor.dtype for tensor in self._tensors() if tensor.is_floating_point())
        return next(types, torch.get_default_dtype())

    def _tensors(self) -> Iterator[Tensor]:
        yield from self.parameters()
        yield from self.buffers()

    @property
    def current_epoch(self) -> int:
        """Training epochs completed; 0 without a trainer."""
        return self._trainer.current_epoch if self._trainer else 0

    @property
    def global_step(self) -> int:
        """Optimizer steps taken; 0 without a trainer."""
        return self._trainer.global_step if self._trainer else 0

    @property
    def global_rank(self) -> int:
        """The process among all; 0 without a trainer."""
        return self._trainer.global_rank if self._trainer else 0

    @property
    def local_rank(self) -> int:
        """The process on this node; 0 without a trainer."""
        return self._trainer.local_rank if self._trainer else 0

    @property
    def logger(self) -> Any:
        """The first logger of the trainer, or None."""
        return self._trainer.logger if self._trainer else None

    @property
    def loggers(self) -> list[Any]:
        """All loggers of the trainer."""
        return self._trainer.loggers if self._trainer else []

    @property
    def on_gpu(self) -> bool:
        """Whether the parameters are on a GPU."""
        return self.device.type == "cuda"

    def _overrides(self, hook: str) -> bool:
        return overrides(self, hook)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_trainer": None}  # a copy of a module has no trainer


def _same(name: str, given: Any, flag: Any) -> Any:
    """The value of a clipping argument, which may come from the call or the trainer, not both."""
    if given is not None and flag is not None and given != flag:
        raise MisconfigurationException(
            f"`clip_gradients({name}={given!r})` and `Trainer({name}={flag!r})` differ. Give it in "
            "one place."
        )
    return flag if given is None else given


class LightningDataModule(DataHooks, CheckpointHooks, HasHyperparameters):
    """Loaders and how their data is prepared, apart from any module.

    Override `prepare_data`, `setup`, the `..._dataloader` hooks, `state_dict` and
    `load_state_dict`, and the transfer hooks if the batches need them.

    Source: edition 2.2; `on_exception` from 2.6.
    """

    name: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.trainer: Trainer | None = None

    def state_dict(self) -> dict[str, Any]:
        """What to keep in a checkpoint, under the name of the class.

        Returns:
            Tensors, numbers, strings and containers of them; empty for nothing.
        """
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` returned.

        Args:
            state_dict: what the checkpoint kept.
        """

    def on_exception(self, exception: BaseException) -> None:
        """Called when a run ends by an exception, after the callbacks' `on_exception`.

        Args:
            exception: what ended the run.
        """

    @classmethod
    def from_datasets(
        cls, train_dataset: Any = None, val_dataset: Any = None, test_dataset: Any = None,
        predict_dataset: Any = None, batch_size: int = 1, num_workers: int = 0, **kwargs: Any,
    ) -> LightningDataModule:
        """A data module over datasets.

        Args:
            train_dataset: one dataset, or a list or dict of them; only training is shuffled.
            val_dataset, test_dataset, predict_dataset: one dataset, or a list of them.
            batch_size: rows of a batch.
            num_workers: worker processes of each loader.
            kwargs: arguments of the data module's `__init__`.

        Returns:
            A data module with a loader for each dataset, or as many as there are of a kind.

        Source: edition 2.2.
        """
        module = cls(**kwargs)

        def loader(dataset: Any, shuffle: bool) -> Any:
            if isinstance(dataset, Mapping):
                return {name: loader(each, shuffle) for name, each in dataset.items()}
            if isinstance(dataset, Iterable) and not isinstance(dataset, Dataset):
                return [loader(each, shuffle) for each in dataset]
            shuffle = shuffle and not isinstance(dataset, IterableDataset)
            return DataLoader(dataset, batch_size, shuffle, num_workers=num_workers,
                              pin_memory=torch.cuda.is_available())

        given = {"train": train_dataset, "val": val_dataset, "test": test_dataset,
                 "predict": predict_dataset}
        for kind, dataset in given.items():
            if dataset is not None:
                hook = f"{kind}_dataloader"
                setattr(module, hook, lambda d=dataset, train=kind == "train": loader(d, train))
        return module

    @classmethod
    def load_from_checkpoint(
        cls, checkpoint_path: str | Path, map_location: Any = None,
        hparams_file: str | Path | None = None, weights_only: bool | None = None, **kwargs: Any,
    ) -> Any:
        """Make a data module from a checkpoint.

        Args:
            checkpoint_path: the file.
            map_location: device of the tensors in it, as for `torch.load`.
            hparams_file: a JSON file with hyperparameters, instead of those in the checkpoint.
            weights_only: False trusts the file and lets it run code.
            kwargs: arguments of `__init__`, instead of those in the file.

        Returns:
            The data module, with its state.
        """
        return load_object(
            cls, checkpoint_path, map_location, hparams_file, None, weights_only, kwargs
        )
