"""Train a line in two processes that share each batch, and tell what each of them does.

    python tutorials/two_processes.py                         starts two processes by itself
    torchrun --nproc_per_node=2 tutorials/two_processes.py    is given two
    python tutorials/two_processes.py --devices 1             is one, with batches of twice the size

All three print the same losses.
"""

import argparse

import torch
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

import minilightning as ml

BATCH = 8  # samples of one step, over all processes


class Line(ml.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)

    def say(self, what):
        print(f"rank {self.global_rank}: {what}\n", end="", flush=True)  # in one piece

    def prepare_data(self):
        self.say("prepare_data")

    def setup(self, stage):
        self.say("setup")

    def shared_step(self, batch, name):
        numbers, x, y = batch
        if self.current_epoch == 0:
            self.say(f"{name} of samples {numbers.tolist()}")
        loss = torch.nn.functional.mse_loss(self.layer(x), y)
        self.log(name, loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def training_step(self, batch, batch_idx):
        return self.shared_step(batch, "loss")

    def validation_step(self, batch, batch_idx):
        self.shared_step(batch, "val_loss")

    def on_train_epoch_end(self):
        if self.current_epoch == 2 and self.global_rank == self.trainer.world_size - 1:
            self.trainer.should_stop = True
            self.say("asks to stop")

    def on_train_end(self):
        self.say(f"stops after {self.current_epoch} epochs")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Report(ml.Callback):
    """Print the losses of each epoch, in the first process only."""

    def on_train_epoch_end(self, trainer, pl_module):
        loss, val_loss = (trainer.callback_metrics[name].item() for name in ("loss", "val_loss"))
        at = f"epoch {trainer.current_epoch}"
        pl_module.print(f"{at}: loss {loss:.4f}, val_loss {val_loss:.4f}\n", end="")


def samples(number):
    x = torch.linspace(-1, 1, number)[:, None]
    return TensorDataset(torch.arange(number), x, 3 * x + 1)


def main(devices):
    trainer = ml.Trainer(accelerator="cpu", devices=devices, max_epochs=10, callbacks=[Report()],
                         num_sanity_val_steps=0, logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False)
    train, val, batch_size = samples(16), samples(7), BATCH // trainer.world_size
    order = SubsetRandomSampler(range(len(train)), torch.Generator().manual_seed(1))
    trainer.fit(Line(), DataLoader(train, batch_size, sampler=order), DataLoader(val, batch_size))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=2, help="how many processes")
    main(parser.parse_args().devices)
