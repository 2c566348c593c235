"""The hooks of a module and of a data module: one method per event of a run.

Override what you need; every default does nothing unless its text says otherwise. All fifty are
those of edition 2.2, and the position that each text gives is that of edition 2.2 as well.

At every event the callbacks go first, in list order, and the module last. Exceptions: a data module
is set up and torn down before the callbacks; `on_load_checkpoint` reaches the module before them;
EarlyStopping and ModelCheckpoint follow the module in `on_train_epoch_end`. The data hooks have one
owner: the data module where it overrides them, otherwise the module.

Words that recur in the arguments:

* `batch`: what the loader yielded, after the three transfer hooks, so already on its device.
* `batch_idx`: place of the batch in its epoch (evaluation: in its loader), counted from 0.
* `dataloader_idx`: place of the loader among the loaders of its stage, counted from 0.
* `stage`: one of "fit", "validate", "test" and "predict".
"""

# mypy: disable-error-code="attr-defined"
# A LightningModule brings `trainer` and `zero_grad`; the classes here do not stand alone.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .data import move_data_to_device
from .errors import MisconfigurationException

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.optim import Optimizer

__all__ = ["CheckpointHooks", "DataHooks", "ModelHooks"]


class ModelHooks:
    """Events around the model itself, in the order of a run. Edition 2.2."""

    # Before the first batch

    def configure_sharded_model(self) -> None:
        """Older name of `configure_model`, fired just before it: override one. Edition 2.2."""

    def configure_model(self) -> None:
        """Fires after `setup`, before weights are restored or moved: build large layers here.

        It fires in every fit, validate, test and predict, so guard what must be built once:
        `if self.net is None: self.net = ...`. Edition 2.2.
        """

    def on_fit_start(self) -> None:
        """Fires first in a fit once the optimizers exist, on every process. Edition 2.2."""

    def on_train_start(self) -> None:
        """Fires after the sanity check, with the training loader at hand. Edition 2.2."""

    def on_train_epoch_start(self) -> None:
        """Fires before the first batch of a training epoch is fetched. Edition 2.2."""

    # One training batch

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
        """Fires when a training batch is on its device, before it is used. Edition 2.2.

        Args:
            batch: what `training_step` is about to receive.
            batch_idx: its place in the epoch.

        Returns:
            -1 to drop this batch and the remaining ones of the epoch: no `on_train_batch_end`
            and no validation follow, `on_train_epoch_end` does. Anything else goes on.
        """

    def on_before_zero_grad(self, optimizer: Optimizer) -> None:
        """Fires between `training_step` and `optimizer.zero_grad()`. Edition 2.2.

        Only on the first batch of an accumulation window: the weights are those of the last
        step, the gradients those that led to it.

        Args:
            optimizer: the torch optimizer whose gradients are about to be cleared.
        """

    def on_before_backward(self, loss: Tensor) -> None:
        """Fires right before `loss.backward()`. Edition 2.2.

        Args:
            loss: a scalar, divided by `accumulate_grad_batches` and scaled under 16-bit AMP.
        """

    def on_after_backward(self) -> None:
        """Fires right after `loss.backward()`, gradients not yet unscaled. Edition 2.2."""

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Fires once per accumulation window, when its gradients are complete. Edition 2.2.

        They are unscaled and not yet clipped: the place to look at their norms.

        Args:
            optimizer: the torch optimizer that is about to step.
        """

    def on_train_batch_end(
        self, outputs: Tensor | Mapping[str, Any] | None, batch: Any, batch_idx: int
    ) -> None:
        """Fires when the batch is done, before any validation due now. Edition 2.2.

        The optimizer and the schedulers that were due have stepped.

        Args:
            outputs: what `training_step` returned, as a dict. "loss" is detached and divided by
                `accumulate_grad_batches`; other keys are untouched. `{}` if there was no loss.
            batch: the batch that was trained on.
            batch_idx: its place in the epoch.
        """

    # Validation, inside a fit, in the sanity check or by itself

    def on_validation_model_zero_grad(self) -> None:
        """Fires in a fit before validation takes over; frees the gradients' memory. Edition 2.2."""
        self.zero_grad()

    def on_validation_model_eval(self) -> None:
        """Fires to put the model into eval mode, before `on_validation_start`. Edition 2.2."""
        self.trainer.model.eval()

    def on_validation_start(self) -> None:
        """Fires when a validation begins, in eval mode and without gradients. Edition 2.2."""

    def on_validation_epoch_start(self) -> None:
        """Fires before the first batch of the first validation loader. Edition 2.2."""

    def on_validation_batch_start(
        self, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Fires when a validation batch is on its device, before `validation_step`. Edition 2.2.

        Args:
            batch: what `validation_step` is about to receive.
            batch_idx: its place in its loader.
            dataloader_idx: which loader; passed only if there are several.
        """

    def on_validation_batch_end(
        self,
        outputs: Tensor | Mapping[str, Any] | None,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Fires after `validation_step`. Edition 2.2.

        Args:
            outputs: what `validation_step` returned, as it is.
            batch: the batch that was evaluated.
            batch_idx: its place in its loader.
            dataloader_idx: which loader; passed only if there are several.
        """

    def on_validation_epoch_end(self) -> None:
        """Fires after the last batch of the last validation loader. Edition 2.2."""

    def on_validation_end(self) -> None:
        """Fires when a validation is over, still in eval mode. Edition 2.2."""

    def on_validation_model_train(self) -> None:
        """Fires after a validation, only where it is overridden. Edition 2.2.

        Without an override each submodule gets back the mode it had. The default body is for an
        override that calls `super()`: it sets the whole model to train mode.
        """
        self.trainer.model.train()

    # The end of an epoch, of training, of the fit

    def on_train_epoch_end(self) -> None:
        """Fires last in a training epoch, after its validation. Edition 2.2.

        Keep what you need from the steps in a list of your own, use it here, then clear it.
        """

    def on_train_end(self) -> None:
        """Fires after the last training epoch, while the logger is still open. Edition 2.2."""

    def on_fit_end(self) -> None:
        """Fires last in a fit before `teardown`, on every process. Edition 2.2."""

    # Test

    def on_test_model_eval(self) -> None:
        """Fires to put the model into eval mode, before `on_test_start`. Edition 2.2."""
        self.trainer.model.eval()

    def on_test_start(self) -> None:
        """Fires when a test begins, in eval mode and without gradients. Edition 2.2."""

    def on_test_epoch_start(self) -> None:
        """Fires before the first batch of the first test loader. Edition 2.2."""

    def on_test_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Fires when a test batch is on its device, before `test_step`. Edition 2.2.

        Args:
            batch, batch_idx, dataloader_idx: as in `on_validation_batch_start`.
        """

    def on_test_batch_end(
        self,
        outputs: Tensor | Mapping[str, Any] | None,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Fires after `test_step`. Edition 2.2.

        Args:
            outputs: what `test_step` returned, as it is.
            batch, batch_idx, dataloader_idx: as in `on_validation_batch_end`.
        """

    def on_test_epoch_end(self) -> None:
        """Fires after the last batch of the last test loader. Edition 2.2."""

    def on_test_end(self) -> None:
        """Fires when a test is over, still in eval mode. Edition 2.2."""

    def on_test_model_train(self) -> None:
        """As `on_validation_model_train`, after a test; only where overridden. Edition 2.2."""
        self.trainer.model.train()

    # Predict

    def on_predict_model_eval(self) -> None:
        """Fires to put the model into eval mode, before `on_predict_start`. Edition 2.2."""
        self.trainer.model.eval()

    def on_predict_start(self) -> None:
        """Fires when prediction begins, in eval mode and without gradients. Edition 2.2."""

    def on_predict_epoch_start(self) -> None:
        """Fires before the first batch of the first predict loader. Edition 2.2."""

    def on_predict_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Fires when a predict batch is on its device, before `predict_step`. Edition 2.2.

        Args:
            batch, batch_idx, dataloader_idx: as in `on_validation_batch_start`.
        """

    def on_predict_batch_end(
        self, outputs: Any | None, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Fires after `predict_step`. Edition 2.2.

        Args:
            outputs: what `predict_step` returned, as it is.
            batch, batch_idx, dataloader_idx: as in `on_validation_batch_end`.
        """

    def on_predict_epoch_end(self) -> None:
        """Fires after the last batch of the last predict loader. Edition 2.2."""

    def on_predict_end(self) -> None:
        """Fires when prediction is over, still in eval mode. Edition 2.2."""


class DataHooks:
    """Events around the data, for a module and for a data module. Edition 2.2.

    Attributes:
        prepare_data_per_node: True: `prepare_data` runs on local rank 0 of every node. False: on
            global rank 0 alone, for a file system that all nodes share.
        allow_zero_length_dataloader_with_multiple_devices: True: with several devices a loader
            without batches is accepted rather than an error.

    Raises:
        MisconfigurationException: from a `..._dataloader` hook that a run needs and nobody wrote.
    """

    def __init__(self) -> None:
        super().__init__()
        self.prepare_data_per_node: bool = True
        self.allow_zero_length_dataloader_with_multiple_devices: bool = False

    def prepare_data(self) -> None:
        """Fires first, in one process per node: see `prepare_data_per_node`. Edition 2.2.

        Download, tokenize and write to disk here, where no two processes can race. Attributes set
        here do not exist in the other processes: set them in `setup`. No process group exists
        yet.
        """

    def setup(self, stage: str) -> None:
        """Fires on every process before loaders are requested: split, build. Edition 2.2.

        Args:
            stage: what begins: "fit", "validate", "test" or "predict".
        """

    def teardown(self, stage: str) -> None:
        """Fires last of all, on every process; not after an exception. Edition 2.2.

        Args:
            stage: what ends: "fit", "validate", "test" or "predict".
        """

    def train_dataloader(self) -> Any:
        """Fires in a fit between the sanity check and `on_train_start`. Edition 2.2.

        Returns:
            An iterable of batches, or a dict, list or nesting of several: each step then gets a
            batch of the same shape, drawn from all of them.
        """
        raise _no_loader(self, "train_dataloader", "trainer.fit(model, train_dataloaders=loader)")

    def val_dataloader(self) -> Any:
        """Fires in a validate; in a fit, in the sanity check or else before training. Edition 2.2.

        Returns:
            An iterable of batches, or a list of several, run one after another.
        """
        raise _no_loader(self, "val_dataloader", "trainer.fit(model, val_dataloaders=loader)")

    def test_dataloader(self) -> Any:
        """Fires in a test after `setup`. Edition 2.2.

        Returns:
            An iterable of batches, or a list of several, run one after another.
        """
        raise _no_loader(self, "test_dataloader", "trainer.test(model, dataloaders=loader)")

    def predict_dataloader(self) -> Any:
        """Fires in a predict after `setup`. Edition 2.2.

        Returns:
            An iterable of batches, or a list of several, run one after another.
        """
        raise _no_loader(self, "predict_dataloader", "trainer.predict(model, dataloaders=loader)")

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Fires first of the three transfer hooks, on what the loader yielded. Edition 2.2.

        Args:
            batch: the batch where the loader made it, usually the CPU.
            dataloader_idx: which loader; 0 in training.

        Returns:
            The batch to transfer, for example augmented.
        """
        return batch

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        """Fires second, also on the CPU: override it for your own batch type. Edition 2.2.

        By default tensors and whatever has `.to(device)` move, also inside lists, tuples,
        namedtuples, dicts and dataclasses; other objects pass untouched.

        Args:
            batch: what `on_before_batch_transfer` returned.
            device: where the model is.
            dataloader_idx: which loader; 0 in training.

        Returns:
            The batch on `device`.
        """
        return move_data_to_device(batch, device)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Fires third: the place for augmentation that a GPU does faster. Edition 2.2.

        Args:
            batch: what `transfer_batch_to_device` returned.
            dataloader_idx: which loader; 0 in training.

        Returns:
            The batch that the step and the batch hooks receive.
        """
        return batch


def _no_loader(owner: object, hook: str, call: str) -> MisconfigurationException:
    return MisconfigurationException(
        f"`{type(owner).__name__}` has no `{hook}`, and no loader was passed instead. Write"
        f" `def {hook}(self): return DataLoader(...)` in it, pass the loader as in `{call}`,"
        f" or pass a `datamodule=` that has a `{hook}`."
    )


class CheckpointHooks:
    """Events around a checkpoint; most modules need neither. Edition 2.2."""

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Fires before the weights of a checkpoint are loaded. Edition 2.2.

        Args:
            checkpoint: the whole content of the file; may be changed in place. Epoch, step,
                optimizers and schedulers are restored without your help.
        """

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Fires last while a checkpoint is put together, after all callbacks. Edition 2.2.

        Args:
            checkpoint: the complete content; add entries in place, and read them back in
                `on_load_checkpoint`.
        """
