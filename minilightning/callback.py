"""The callback: code beside the model, called at the events of a run.

This page is the manual. The hooks stand in the order of a run; each text says when it fires, what
it is given, and which editions have it. "All editions" are 1.1, 1.5 and 2.2; 1.1 counts every hook
that 1.1.8 has, also those its guide leaves out. A hook that only older editions know still fires,
where edition 1.5 fired it; its text names what to write in new code. A callback written for any
edition runs here as it is.

Callbacks are called in list order, before the module. Exceptions: `on_load_checkpoint` comes after
the module's; EarlyStopping and ModelCheckpoint follow the module in `on_train_epoch_end`. What a
hook returns is ignored, `on_save_checkpoint` excepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

    from .module import LightningModule
    from .trainer import Trainer

__all__ = ["Callback"]


class Callback:
    """Base of all callbacks: subclass it and override the hooks you need.

    An override may be a method of the class or a function set on the instance, and may have the
    signature of any edition. When a run starts, each override is matched once with the arguments
    of edition 2.2, the canonical ones, and with the older extras, by the first rule that fits:

    1. `*args`: the canonical arguments.
    2. It can take all canonical arguments: by position, whatever their names. Further required
       parameters get the older extras by position; further optional ones only if their name is
       that of a known extra, so that a `verbose=True` of your own stays yours.
    3. It takes fewer, and knows every required one by its name: by name.
    4. It takes fewer, under names of its own: the first ones, unless a known name stands where
       another argument would go.
    5. Required keyword-only parameters: by name.
    6. Anything else is an error when the run starts, which shows the accepted signatures. So is
       an `on_...` method whose name is a near miss of a hook's.

    The older extras: `dataloader_idx` or `unused` (0) of the training batch hooks, `dataloader_idx`
    of the evaluation batch hooks, `opt_idx`, and the `outputs` of the two epoch ends that had them.

    State. `checkpoint["callbacks"][state_key]` keeps what `on_save_checkpoint` returned, or, if
    that is None or the hook is not overridden, what `state_dict()` returned. Two callbacks that
    both have state need two keys: a clash is an error before training starts. `load_state_dict`
    and an `on_load_checkpoint` that takes the state are called only if the checkpoint has one.
    """

    # What it remembers

    @property
    def state_key(self) -> str:
        """Where the state stands in `checkpoint["callbacks"]`: the class's qualified name.

        Override it if several instances keep state in one run, most simply by
        `return self._generate_state_key(monitor=self.monitor)`. Editions 1.5 and 2.2.
        """
        return type(self).__qualname__

    def _generate_state_key(self, **distinguishing: Any) -> str:
        """The class's qualified name, then the arguments as a dict prints them. 1.5 and 2.2."""
        return f"{type(self).__qualname__}{distinguishing!r}"

    def state_dict(self) -> dict[str, Any]:
        """Asked when a checkpoint is put together, before `on_save_checkpoint`. Edition 2.2.

        Returns:
            What to remember, empty for nothing. Tensors, numbers, strings and containers of them
            can be loaded without trusting the file.
        """
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the saved state back, after every `on_load_checkpoint`. Edition 2.2.

        Args:
            state_dict: what the checkpoint kept under `state_key`; not called without one.
        """

    # Building the trainer

    def on_init_start(self, trainer: Trainer) -> None:
        """First thing in `Trainer(...)`. Editions 1.1 and 1.5; in 2.x use `setup`.

        Args:
            trainer: has neither model nor settings yet.
        """

    def on_init_end(self, trainer: Trainer) -> None:
        """Last thing in `Trainer(...)`; no model yet. Editions 1.1 and 1.5; in 2.x use `setup`."""

    # Before the first batch

    def on_before_accelerator_backend_setup(
        self, trainer: Trainer, pl_module: LightningModule
    ) -> None:
        """After `prepare_data`, before devices and `setup`. Edition 1.5; in 2.x use `setup`."""

    def setup(
        self, trainer: Trainer, pl_module: LightningModule, stage: str | None = None
    ) -> None:
        """A run begins: after the data module's `setup`, before the module's. All editions.

        Args:
            trainer: the running trainer.
            pl_module: the model of this run.
            stage: "fit", "validate", "test" or "predict"; passed as `stage=`.
        """

    def on_configure_sharded_model(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After `setup`, before the module's `configure_model`. Edition 1.5; in 2.x `setup`."""

    def on_load_checkpoint(
        self,
        trainer: Trainer | dict[str, Any],
        pl_module: LightningModule | None = None,
        callback_state: dict[str, Any] | None = None,
    ) -> None:
        """The module's weights are restored from a checkpoint. All editions, in three forms.

        Args:
            trainer: the running trainer; in edition 1.1 the only parameter, and the state.
            pl_module: the model, with its weights; counters and optimizers come later.
            callback_state: the state saved under `state_key`; without one there is no call. In
                2.2 the third parameter is named `checkpoint`: an override with that name gets the
                whole checkpoint, with or without a saved state.
        """

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A fit is set up and its optimizers exist. All editions."""

    def on_pretrain_routine_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Between `on_fit_start` and the sanity check. 1.1 and 1.5; in 2.x `on_fit_start`."""

    def on_pretrain_routine_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Right after `on_pretrain_routine_start`. 1.1 and 1.5; in 2.x `on_fit_start`."""

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A short validation is about to prove that validation works. All editions."""

    def on_sanity_check_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """It worked, and each submodule is back in its own mode. All editions."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After the sanity check, with the training loader at hand. All editions."""

    # An epoch, and one training batch

    def on_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Right before each `on_{train,validation,test}_epoch_start`, sanity check included.

        Not for predict. Editions 1.1 (training only) and 1.5; in 2.x override those three.
        """

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Before the first batch of a training epoch is fetched. All editions."""

    def on_batch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Right before `on_train_batch_start`. 1.1 and 1.5; in 2.x `on_train_batch_start`."""

    def on_train_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        batch: Any,
        batch_idx: int,
        unused: int = 0,
    ) -> None:
        """A training batch is on its device and about to be trained on. All editions.

        Args:
            trainer: the running trainer.
            pl_module: the model.
            batch: what `training_step` is about to receive.
            batch_idx: its place in the epoch, from 0.
            unused: 0; `dataloader_idx` in 1.1, gone in 2.2.
        """

    def on_before_zero_grad(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        """Between `training_step` and `optimizer.zero_grad()`. All editions.

        Args:
            trainer: the running trainer.
            pl_module: the model, its gradients still those of the last step.
            optimizer: the torch optimizer; once per accumulation window, at its first batch.
        """

    def on_before_backward(
        self, trainer: Trainer, pl_module: LightningModule, loss: Tensor
    ) -> None:
        """Right before `loss.backward()`. Editions 1.5 and 2.2.

        Args:
            trainer: the running trainer.
            pl_module: the model.
            loss: a scalar, divided by `accumulate_grad_batches` and scaled under 16-bit AMP.
        """

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Right after `loss.backward()`, gradients still scaled. All editions."""

    def on_before_optimizer_step(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        optimizer: Optimizer,
        opt_idx: int = 0,
    ) -> None:
        """The gradients of a window are complete, unscaled, not yet clipped. 1.5 and 2.2.

        Args:
            trainer: the running trainer.
            pl_module: the model.
            optimizer: the torch optimizer that is about to step.
            opt_idx: its place in `trainer.optimizers`; in 1.5 only.
        """

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, Any] | None,
        batch: Any,
        batch_idx: int,
        unused: int = 0,
    ) -> None:
        """A training batch is done, schedulers included. All editions.

        Args:
            trainer: the running trainer; `global_step` counts this batch's step already.
            pl_module: the model.
            outputs: a dict of what `training_step` returned; "loss" is detached and divided by
                `accumulate_grad_batches`. Empty if there was no loss.
            batch: the batch that was trained on.
            batch_idx: its place in the epoch, from 0.
            unused: 0; `dataloader_idx` in 1.1, gone in 2.2.
        """

    def on_batch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Right after the module's `on_train_batch_end`. 1.1 and 1.5; in 2.x that hook."""

    # Validation, inside a fit, in the sanity check or by itself

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A validation begins, in eval mode and without gradients. All editions."""

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Before the first batch of the first validation loader. All editions."""

    def on_validation_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """A validation batch is on its device, before `validation_step`. All editions.

        Args:
            trainer: the running trainer.
            pl_module: the model.
            batch: what `validation_step` is about to receive.
            batch_idx: its place in its loader, from 0.
            dataloader_idx: which loader, from 0; may be left out by an override for one loader.
        """

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, Any] | None,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """After `validation_step`. All editions.

        Args:
            trainer: the running trainer.
            pl_module: the model.
            outputs: what `validation_step` returned, as it is.
            batch: the batch that was evaluated.
            batch_idx: its place in its loader, from 0.
            dataloader_idx: which loader, from 0; may be left out by an override for one loader.
        """

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After the last batch of the last validation loader. All editions."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A validation is over, still in eval mode. All editions."""

    # The end of an epoch, of training, of the fit

    def on_train_epoch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: list[Any] | None = None
    ) -> None:
        """Last in a training epoch, after its validation. All editions.

        Args:
            trainer: the running trainer.
            pl_module: the model.
            outputs: what `training_step` returned in this epoch, one entry per batch, kept only
                if an override asks; in 1.1 only. In 2.x collect it in `on_train_batch_end`.
        """

    def on_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Right after each `on_{train,validation,test}_epoch_end`, sanity check included.

        Not for predict. Editions 1.1 (training only) and 1.5; in 2.x override those three.
        """

    def on_save_checkpoint(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        checkpoint: dict[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        """A checkpoint is put together, whenever one is saved; the module's turn comes after.

        Args:
            trainer: the running trainer.
            pl_module: the model.
            checkpoint: the content so far, to be added to in place. Editions 1.5 and 2.2.

        Returns:
            The state to keep under `state_key`; it wins over `state_dict()`. None in 2.2, whose
            way is `state_dict`. All editions.
        """

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After the last training epoch, the logger still open. All editions."""

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Last in a fit before `teardown`. All editions."""

    # Test

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A test begins, in eval mode and without gradients. All editions."""

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Before the first batch of the first test loader. All editions."""

    def on_test_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """A test batch is on its device, before `test_step`. All editions.

        Args:
            trainer, pl_module, batch, batch_idx, dataloader_idx: as for validation.
        """

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, Any] | None,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """After `test_step`. All editions.

        Args:
            outputs: what `test_step` returned, as it is.
            trainer, pl_module, batch, batch_idx, dataloader_idx: as for validation.
        """

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After the last batch of the last test loader. All editions."""

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A test is over, still in eval mode. All editions."""

    # Predict

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Prediction begins, in eval mode and without gradients. Editions 1.5 and 2.2."""

    def on_predict_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Before the first batch of the first predict loader. Editions 1.5 and 2.2."""

    def on_predict_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """A predict batch is on its device, before `predict_step`. Editions 1.5 and 2.2.

        Args:
            trainer, pl_module, batch, batch_idx, dataloader_idx: as for validation.
        """

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """After `predict_step`. Editions 1.5 and 2.2.

        Args:
            outputs: what `predict_step` returned, as it is.
            trainer, pl_module, batch, batch_idx, dataloader_idx: as for validation.
        """

    def on_predict_epoch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: list[Any] | None = None
    ) -> None:
        """After the last batch of the last predict loader. Editions 1.5 and 2.2.

        Args:
            trainer: the running trainer.
            pl_module: the model.
            outputs: the predictions, in 1.5 only. In 2.x collect them in `on_predict_batch_end`.
        """

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Prediction is over, still in eval mode. Editions 1.5 and 2.2."""

    # The end of any run

    def on_keyboard_interrupt(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Ctrl-C, just before `on_exception`. Editions 1.1 and 1.5; in 2.x `on_exception`."""

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Something raised: called instead of all that would follow. Editions 1.5 and 2.2.

        Args:
            trainer: the running trainer.
            pl_module: the model.
            exception: what was raised. It goes on to the caller, unless it is a
                KeyboardInterrupt. An error raised here is attached to it and hides nothing.
        """

    def teardown(
        self, trainer: Trainer, pl_module: LightningModule, stage: str | None = None
    ) -> None:
        """A run ends: after the data module's `teardown`, before the module's. All editions.

        Args:
            trainer: the running trainer.
            pl_module: the model of this run.
            stage: "fit", "validate", "test" or "predict"; passed as `stage=`.
        """
