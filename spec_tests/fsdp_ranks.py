"""One of the processes that share a module's parameters; see ``test_fsdp.py``.

    torchrun --nproc_per_node=2 -m spec_tests.fsdp_ranks IMPLEMENTATION FOLDER STRATEGY DEVICE
"""

import importlib
import sys

import torch
from torch.utils.data import DataLoader

EPOCHS = 3
QUIET = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False,
             enable_model_summary=False, num_sanity_val_steps=0)


def make(package):
    """Return a class of modules: some parameters in a list, some in no child at all."""
    class Module(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.scale, self.layers, self.seen = torch.nn.Parameter(torch.ones(3)), None, []

        def configure_model(self):
            if self.layers is None:
                torch.manual_seed(1)
                self.layers = torch.nn.ModuleList(
                    [torch.nn.Linear(4, 3, dtype=torch.float32), torch.nn.Linear(3, 1)])

        def forward(self, x):
            return self.layers[1](self.layers[0](x) * self.scale)

        def training_step(self, batch, batch_idx):
            return (self(batch) - batch.sum(1, keepdim=True)).pow(2).mean() * self.scale.sum()

        def validation_step(self, batch, batch_idx):
            self.seen += batch[:, 0].tolist()
            self.log("v", (self(batch) * self.scale).mean(), sync_dist=True)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.05)

    return Module


def data(rows, batch_size):
    """Return a loader in a fixed order."""
    made = torch.randn(rows, 4, generator=torch.Generator().manual_seed(2))
    made[:, 0] = torch.arange(rows)
    return DataLoader(made, batch_size=batch_size)


def trainer(package, world, **flags):
    """Return a trainer; what all processes see together is what one alone would see."""
    flags = dict(QUIET, devices=world, gradient_clip_val=0.5, accumulate_grad_batches=2, **flags)
    return package.Trainer(**flags)


def played(package, folder, strategy, device, world):
    """Validate, train, save, go on from the file; return what can be compared."""
    flags = dict(strategy=strategy, accelerator=device)
    module, batch = make(package)(), 4 // world
    first = trainer(package, world, max_epochs=EPOCHS - 1, **flags)
    shares = {"before": first.validate(module, data(5, 1), verbose=False)[0]["v"]}
    first.fit(module, Ordered(data(16, batch), first), data(5, 1))
    file = "%s/%s.ckpt" % (folder, strategy)
    first.save_checkpoint(file)
    second = trainer(package, world, max_epochs=EPOCHS, **flags)
    module = make(package)()
    second.fit(module, Ordered(data(16, batch), second), ckpt_path=file)
    second.save_checkpoint("%s/%s_end.ckpt" % (folder, strategy))
    module.seen = []
    shares["after"] = second.validate(module, data(5, 1), ckpt_path=file, verbose=False)[0]["v"]
    shares["seen"], shares["steps"] = module.seen, second.global_step
    shares["held"] = sum(getattr(each, "to_local", lambda each=each: each)().numel()
                         for each in module.parameters())
    return shares


def difference(first, second):
    """Return the largest difference between two nestings of tensors, of the same layout."""
    if isinstance(first, dict):
        assert list(first) == list(second)
        return max([difference(first[key], second[key]) for key in first], default=0)
    if isinstance(first, (list, tuple)):
        assert len(first) == len(second)
        return max([difference(*pair) for pair in zip(first, second)], default=0)
    if isinstance(first, torch.Tensor):
        assert type(second) is torch.Tensor and first.shape == second.shape
        assert first.dtype == second.dtype
        return (first - second).abs().max().item()
    assert first == second
    return 0


class Ordered:
    """The batches of a loader that are this process's, so that all together are as one's."""

    num_replicas = 1

    def __init__(self, loader, trainer):
        self.batches = list(loader)[trainer.global_rank::trainer.world_size]

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def main(name, folder, strategy, device):
    """Play, and leave what was seen."""
    import os

    package = importlib.import_module(name)
    world = int(os.environ.get("WORLD_SIZE", 1))
    seen = played(package, folder, strategy, device, world)
    torch.save(seen, "%s/%s.%s" % (folder, strategy, os.environ.get("RANK", 0)))


if __name__ == "__main__":
    main(*sys.argv[1:])
