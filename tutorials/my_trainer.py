"""A Trainer of one's own, in four stages: what tutorial 11 builds, with the suite as the judge.

Each stage is the one before and a little more. It needs torch alone, nothing of minilightning.
"""

import torch


class Callback:
    """What is told at every hook; a hook that it does not have is passed over."""

    def on_exception(self, trainer, pl_module, exception):
        pass


class LightningModule(torch.nn.Module):
    """A module that knows its trainer. These hooks do something, so they are there to override."""

    trainer = None
    current_epoch = property(lambda self: self.trainer.current_epoch)
    global_step = property(lambda self: self.trainer.global_step)

    def on_before_batch_transfer(self, batch, dataloader_idx):
        return batch

    def transfer_batch_to_device(self, batch, device, dataloader_idx):
        return batch.to(device)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        return batch

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        optimizer.step(closure=optimizer_closure)

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        optimizer.zero_grad()

    def backward(self, loss):
        loss.backward()

    def on_validation_model_zero_grad(self):
        self.zero_grad()

    def on_validation_model_eval(self):
        self.eval()


class Loop:
    """Stage 1: a loop over epochs and batches."""

    def __init__(self, max_epochs=1, callbacks=()):
        self.max_epochs, self.callbacks = max_epochs, list(callbacks)
        self.current_epoch = self.global_step = 0

    def fit(self, model):
        self.module, model.trainer = model, self
        self.optimizer = model.configure_optimizers()
        self.loader = model.train_dataloader()
        self.train()

    def train(self):
        for _ in range(self.max_epochs):
            self.train_epoch()

    def train_epoch(self):
        for batch_idx, batch in enumerate(self.loader):
            self.train_batch(batch, batch_idx)

    def train_batch(self, batch, batch_idx):
        loss = self.module.training_step(batch, batch_idx)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class Hooks(Loop):
    """Stage 2: every event has a name, and callbacks hear of it before the module does."""

    def tell(self, hook, *args):
        for callback in self.callbacks:
            if hasattr(callback, hook):
                getattr(callback, hook)(self, self.module, *args)
        if hasattr(self.module, hook):
            return getattr(self.module, hook)(*args)

    def fit(self, model):
        self.module, model.trainer = model, self
        self.tell("prepare_data")
        self.tell("setup", "fit")
        self.optimizer = model.configure_optimizers()
        self.tell("on_fit_start")
        self.loader = model.train_dataloader()
        self.tell("on_train_start")
        self.train()
        self.tell("on_train_end")
        self.tell("on_fit_end")
        self.tell("teardown", "fit")

    def train_epoch(self):
        self.tell("on_train_epoch_start")
        for batch_idx, batch in enumerate(self.loader):
            batch = self.transfer(batch)
            if self.tell("on_train_batch_start", batch, batch_idx) == -1:
                break
            outputs = self.train_batch(batch, batch_idx)
            self.tell("on_train_batch_end", outputs, batch, batch_idx)
            self.after_batch(is_last=batch_idx + 1 == len(self.loader))
            if self.is_done():
                break
        self.tell("on_train_epoch_end")

    def after_batch(self, is_last):
        """Nothing yet: this is where stage 3 validates."""

    def is_done(self):
        """Nothing ends training early yet: stage 4 decides that."""

    def transfer(self, batch):
        batch = self.module.on_before_batch_transfer(batch, 0)
        batch = self.module.transfer_batch_to_device(batch, torch.device("cpu"), 0)
        return self.module.on_after_batch_transfer(batch, 0)

    def train_batch(self, batch, batch_idx):
        at, outputs = (self.current_epoch, batch_idx, self.optimizer), {}

        def closure():
            loss = self.module.training_step(batch, batch_idx)
            outputs["loss"] = loss.detach()
            self.tell("on_before_zero_grad", self.optimizer)
            self.module.optimizer_zero_grad(*at)
            self.tell("on_before_backward", loss)
            self.module.backward(loss)
            self.tell("on_after_backward")
            self.tell("on_before_optimizer_step", self.optimizer)
            return loss

        self.module.optimizer_step(*at, closure)
        return outputs


class Validation(Hooks):
    """Stage 3: after the last batch of an epoch, look at other data and change nothing."""

    training, validating = True, False

    def after_batch(self, is_last):
        if is_last and hasattr(self.module, "validation_step"):
            self.validate_now()

    def validate_now(self):
        modes = [(part, part.training) for part in self.module.modules()]
        self.training, self.validating = False, True
        self.module.on_validation_model_zero_grad()
        with torch.no_grad():
            self.evaluate(self.module.val_dataloader())
        self.training, self.validating = True, False
        for part, mode in modes:
            part.training = mode

    def evaluate(self, loader):
        self.module.on_validation_model_eval()
        self.tell("on_validation_start")
        self.tell("on_validation_epoch_start")
        for batch_idx, batch in enumerate(loader):
            batch = self.transfer(batch)
            self.tell("on_validation_batch_start", batch, batch_idx)
            outputs = self.module.validation_step(batch, batch_idx)
            self.tell("on_validation_batch_end", outputs, batch, batch_idx)
        self.tell("on_validation_epoch_end")
        self.tell("on_validation_end")


class Trainer(Validation):
    """Stage 4: it counts, stops when it is told to, and tells callbacks of an error."""

    def __init__(self, max_epochs=1, max_steps=-1, callbacks=()):
        super().__init__(max_epochs, callbacks)
        self.max_steps = max_steps
        self.should_stop = self.interrupted = False

    def fit(self, model):
        try:
            super().fit(model)
        except BaseException as error:
            self.interrupted = True
            for callback in self.callbacks:
                callback.on_exception(self, model, error)
            if not isinstance(error, KeyboardInterrupt):
                raise

    def train(self):
        while self.current_epoch != self.max_epochs and not self.is_done():
            self.train_epoch()
            self.current_epoch += 1

    def is_done(self):
        return self.should_stop or self.global_step >= self.max_steps != -1

    def after_batch(self, is_last):
        super().after_batch(is_last or self.should_stop)

    def train_batch(self, batch, batch_idx):
        outputs = super().train_batch(batch, batch_idx)
        self.global_step += 1
        return outputs
