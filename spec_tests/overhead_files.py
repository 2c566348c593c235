"""What it costs to save and to resume 50 million parameters, against torch's own functions.

    python spec_tests/overhead_files.py [FOLDER] [--impl minilightning] [--millions 50] [--rounds 9]

Each in turn, on the disk of FOLDER, brought to the disk by ``fsync``. Printed are the medians of
the seconds, how many times as long as by hand (at most 1.15 is the goal), and how much memory each
takes at its most beyond what it began with, in units of the weights.
"""

import argparse
import importlib
import os
import statistics
import sys
import tempfile
import time
import warnings

if __package__ in (None, ""):
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch

from spec_tests import exact


def classes(package, millions):
    class Module(package.LightningModule):
        """Weights, in pieces of a million; they are not initialised, which would take longest."""

        def __init__(self):
            super().__init__()
            self.pieces = torch.nn.ParameterList(
                torch.nn.Parameter(torch.empty(1000, 1000)) for _ in range(millions))

        def training_step(self, batch, batch_idx):
            return self.pieces[0].sum() * 0

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    return Module


class Ways:
    """To save and to load, by hand and by the trainer of an implementation."""

    def __init__(self, impl, folder, millions):
        self.package = importlib.import_module(impl)
        self.Module = classes(self.package, millions)
        self.by_hand, self.by_trainer = (os.path.join(folder, name) for name in ("hand", "trainer"))
        self.trainer, self.module = self.trained(self.Module())

    def trained(self, module, **resuming):
        """Train for one batch; or, going on from there, for none."""
        trainer = self.package.Trainer(
            max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(module, torch.utils.data.DataLoader([torch.zeros(1)]), **resuming)
        return trainer, module

    def clear(self, what, who):
        """Let every save make a new file, and let no other one's wait for the disk."""
        if what == "save" and os.path.exists(getattr(self, "by_" + who)):
            os.unlink(getattr(self, "by_" + who))
        os.sync()

    def save_by_hand(self):
        state = {"state_dict": self.module.state_dict(),
                 "optimizer_states": [self.trainer.optimizers[0].state_dict()]}
        with open(self.by_hand, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())

    def save_by_trainer(self):
        self.trainer.save_checkpoint(self.by_trainer)

    def load_by_hand(self):
        module = self.Module()
        state = torch.load(self.by_hand)
        module.load_state_dict(state["state_dict"])
        module.configure_optimizers().load_state_dict(state["optimizer_states"][0])

    def load_by_trainer(self):
        self.trained(self.Module(), ckpt_path=self.by_trainer)


WHO = ("hand", "trainer")


def memory(name):
    """Return a line of what the system says about this process, in bytes; 0 where it says nothing.
    """
    try:
        with open("/proc/self/status") as file:
            return sum(1024 * int(line.split()[1]) for line in file if line.startswith(name))
    except OSError:
        return 0


def measured(function):
    """Return the seconds that it takes, and the memory that it takes at its most."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the most begins here
    except OSError:
        pass
    before, began = memory("VmRSS"), time.perf_counter()
    function()
    return time.perf_counter() - began, memory("VmHWM") - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--impl", default="minilightning")
    parser.add_argument("--millions", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    exact.quiet(given.impl)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        ways = Ways(given.impl, folder, given.millions)
        found = {}
        for number in range(given.rounds):
            for what in ("save", "load"):
                for who in WHO[::1 if number % 2 else -1]:  # what the first leaves costs the second
                    ways.clear(what, who)
                    each = measured(getattr(ways, "%s_by_%s" % (what, who)))
                    found.setdefault((what, who), []).append(each)
    for what in ("save", "load"):
        seconds, most = [], []
        for who in WHO:
            taken = list(zip(*found[what, who]))
            seconds.append(statistics.median(taken[0]))
            most.append(statistics.median(taken[1]) / (4e6 * given.millions))
        print("%s: %.2f s by hand, %.2f s by the trainer: %.2f times; memory %.2f and %.2f times "
              "the weights" % (what, *seconds, seconds[1] / seconds[0], *most))


if __name__ == "__main__":
    main()
