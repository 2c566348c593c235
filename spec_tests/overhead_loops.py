"""The loops whose cost is compared: one by hand, and the same through an implementation's Trainer.

Started by overhead.py, one process for each; reads one request per line, answers each with one
number. What is measured in two processes is started by torchrun with its request, and the first
process answers. All loops share one network, one loss and one kind of loader. Runs on Python 3.8.
"""

import gc
import importlib
import json
import logging
import os
import resource
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

BY_HAND = "hand"
# What a run may be asked for; a request names what differs.
SETTING = {
    "loop": "train", "big": False, "epochs": 1, "callbacks": 0, "idle": 0, "logs": 0, "window": 1,
    "clip": None, "shared": False,
}
LOGGED = ["loss_%d" % number for number in range(5)]


def network(base):
    """Return the class of the network all loops share, as a child of ``base``."""

    class Network(base):
        def __init__(self, big=False):
            super().__init__()
            self.layer = nn.Linear(32, 2) if not big else nn.Sequential(
                nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
            self.big = big

        def forward(self, x):
            return self.layer(x)

        def configure_optimizers(self):
            kind, rate = (torch.optim.Adam, 1e-3) if self.big else (torch.optim.SGD, 0.1)
            return kind(self.parameters(), lr=rate)

    return Network


class Watched(Dataset):
    """So many times one batch, which takes a note whenever so many of them were fetched."""

    def __init__(self, batch, length, every, note):
        self.batch, self.length, self.every, self.note = batch, length, every, note
        self.fetched, self.notes = 0, []

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.fetched += 1
        if self.fetched % self.every == 0:
            self.notes.append(self.note())
        return self.batch


def batches(steps, big=False):
    """Return a loader over so many batches that are in memory as they are."""
    return DataLoader([batch(big)] * steps, batch_size=None)


def batch(big=False):
    """Return inputs and classes: 8 rows of 32 numbers, or 128 rows of 784."""
    rows, columns, classes = (128, 784, 10) if big else (8, 32, 2)
    return torch.randn(rows, columns), torch.randint(0, classes, (rows,))


class ByHand:
    """The loops one would write without a Trainer."""

    Network = network(nn.Module)
    version = torch.__version__

    def run(self, loader, loop, **setting):
        """Run a loop once, from making the network to its last step."""
        getattr(self, loop)(self.Network(setting["big"]), loader, **setting)

    def train(self, model, loader, epochs, callbacks, logs, window, clip, shared, **_):
        """Train; what a callback, a log and clipping amount to is one plain call each."""
        optimizer = model.configure_optimizers()
        if shared:
            model = DistributedDataParallel(model)
        parameters, logged, last = list(model.parameters()), {}, len(loader) - 1
        called, names = [lambda batch, index: None] * callbacks, LOGGED[:logs]
        for _ in range(epochs):
            for index, (x, y) in enumerate(loader):
                loss = cross_entropy(model(x), y)
                for name in names:
                    logged[name] = loss.detach()
                if window > 1:
                    loss = loss / window
                if index % window == 0:
                    optimizer.zero_grad()
                loss.backward()
                if (index + 1) % window == 0 or index == last:
                    if clip:
                        nn.utils.clip_grad_norm_(parameters, clip)
                    optimizer.step()
                for function in called:
                    function(x, index)

    def validate(self, model, loader, **_):
        """Compute the loss of each batch."""
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                cross_entropy(model(x), y)

    def predict(self, model, loader, **_):
        """Keep the outputs for each batch."""
        model.eval()
        outputs = []
        with torch.no_grad():
            for x, _ in loader:
                outputs.append(model(x))

    def saver(self):
        """Return a function that saves a trained network and its optimizer to a path."""
        model = self.Network(big=True)
        optimizer = model.configure_optimizers()
        x, y = batch(big=True)
        cross_entropy(model(x), y).backward()
        optimizer.step()
        return lambda path: torch.save(
            {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

    def load(self, path):
        """Make a network from a file that ``saver`` wrote."""
        model = self.Network(big=True)
        model.load_state_dict(torch.load(path, weights_only=True)["state_dict"])


class ByTrainer:
    """The same through the Trainer of an implementation with the names of Lightning 2.x."""

    def __init__(self, name):
        package = importlib.import_module(name)
        self.Trainer, self.version = package.Trainer, package.__version__

        class Plain(network(package.LightningModule)):
            def training_step(self, batch, batch_idx):
                x, y = batch
                return cross_entropy(self(x), y)

            def validation_step(self, batch, batch_idx):
                x, y = batch
                return cross_entropy(self(x), y)

            def predict_step(self, batch, batch_idx):
                x, _ = batch
                return self(x)

        class LogsOne(Plain):
            def training_step(self, batch, batch_idx):
                x, y = batch
                loss = cross_entropy(self(x), y)
                self.log("loss", loss)
                return loss

        class LogsFive(Plain):
            def training_step(self, batch, batch_idx):
                x, y = batch
                loss = cross_entropy(self(x), y)
                self.log_dict({name: loss for name in LOGGED})
                return loss

        class Idle(package.Callback):
            pass

        class OnBatchEnd(package.Callback):
            def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
                pass

        self.modules = {0: Plain, 1: LogsOne, 5: LogsFive}
        self.idle, self.on_batch_end = Idle, OnBatchEnd

    def trainer(self, epochs=1, callbacks=0, idle=0, window=1, clip=None, shared=False, **_):
        """Make a Trainer that only trains: it logs to nowhere, saves and shows nothing."""
        return self.Trainer(
            accelerator="cpu", devices=2 if shared else 1, strategy="ddp" if shared else "auto",
            use_distributed_sampler=False, max_epochs=epochs, accumulate_grad_batches=window,
            gradient_clip_val=clip, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
            callbacks=[self.on_batch_end() for _ in range(callbacks)]
            + [self.idle() for _ in range(idle)],
        )

    def run(self, loader, loop, **setting):
        """Run a loop once, from making the module to the return of the entry point."""
        model, trainer = self.modules[setting["logs"]](setting["big"]), self.trainer(**setting)
        if loop == "train":
            trainer.fit(model, loader)
        elif loop == "validate":
            trainer.validate(model, loader, verbose=False)
        else:
            trainer.predict(model, loader)

    def saver(self):
        """Return a function that saves the state of a fit to a path."""
        trainer = self.trainer()
        trainer.fit(self.modules[0](big=True), batches(1, big=True))
        return trainer.save_checkpoint

    def load(self, path):
        """Make a module from a checkpoint."""
        self.modules[0].load_from_checkpoint(path, big=True)


# What can be measured. Each takes the loops and the setting, and returns one number.


def calls(loops, steps, **setting):
    """Python and C function calls per step: the difference of two runs, so nothing else counts.

    Source: the events of ``sys.setprofile``; exact, and the same on every machine.
    """
    counted = []
    for length in (2, 8, 8 + steps):  # the first is not used: it does what is done only once
        loader, count = batches(length, setting["big"]), 0

        def see(frame, event, function):
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(see)
        try:
            loops.run(loader, **setting)
        finally:
            sys.setprofile(None)
        counted.append(count)
    return (counted[2] - counted[1]) / steps


def step_time(loops, steps, **setting):
    """Microseconds of processor time per step."""
    return fastest(loops, steps, steps, setting)


def epoch_time(loops, steps, **setting):
    """Microseconds of processor time per epoch of one batch."""
    return fastest(loops, steps, 1, dict(setting, epochs=steps))


def shared_time(loops, steps, **setting):
    """Microseconds per step of two processes that average their gradients, waiting included."""
    return fastest(loops, steps, steps, dict(setting, shared=True), clock=time.perf_counter)


def fastest(loops, steps, length, setting, window=20, clock=time.process_time):
    """Return the time of a step, in microseconds, in the fastest tenth of the windows of a run.

    What else the machine does only ever adds: the fastest windows tell most about the loop.
    """
    watched = Watched(batch(setting["big"]), length, window, clock)
    gc.collect()
    loops.run(DataLoader(watched, batch_size=None), **setting)
    times = sorted(b - a for a, b in zip(watched.notes, watched.notes[1:]))
    return 1e6 * times[len(times) // 10] / window


def run_time(loops, steps, **setting):
    """Milliseconds of processor time of a run of one batch, from start to end, once it is warm."""
    loops.run(batches(1), **setting)
    return 1e3 * statistics.median(
        processor_time(loops.run, batches(1), **setting) for _ in range(steps))


def save_time(loops, steps, **setting):
    """Milliseconds to write a checkpoint of the larger network and its optimizer."""
    save = loops.saver()
    with tempfile.TemporaryDirectory() as folder:
        return 1e3 * statistics.median(
            wall_time(save, os.path.join(folder, "%d.ckpt" % step)) for step in range(steps))


def load_time(loops, steps, **setting):
    """Milliseconds to make the larger network from a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "some.ckpt")
        loops.saver()(path)
        return 1e3 * statistics.median(wall_time(loops.load, path) for _ in range(steps))


def growth(loops, steps, **setting):
    """Megabytes that the process gains over so many steps, after a tenth as many."""
    watched = Watched(batch(), steps * 11 // 10, steps // 10, resident)
    loops.run(DataLoader(watched, batch_size=None), **setting)
    return watched.notes[-1] - watched.notes[0]


def peak(loops, steps, **setting):
    """Megabytes of memory at the most since the process began."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


MEASURES = {each.__name__: each for each in (
    calls, step_time, shared_time, epoch_time, run_time, save_time, load_time, growth, peak)}


def processor_time(function, *args, **kwargs):
    """Seconds on the processor; what other processes do meanwhile does not count."""
    gc.collect()
    begin = time.process_time()
    function(*args, **kwargs)
    return time.process_time() - begin


def wall_time(function, *args):
    """Seconds, waiting for the disk included."""
    begin = time.perf_counter()
    function(*args)
    return time.perf_counter() - begin


def resident():
    """Megabytes that the process has in memory now; on systems without /proc, had at the most."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(name, *requests):
    """Answer the requests that are given, or else those that come in, one JSON object per line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an implementation prints does not come between the answers
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    loops = ByHand() if name == BY_HAND else ByTrainer(name)
    for each in logging.root.manager.loggerDict:
        logging.getLogger(each).setLevel(logging.ERROR)
    if requests and name == BY_HAND:
        torch.distributed.init_process_group("gloo")
    if not requests:
        hello = {"version": loops.version, "torch": torch.__version__,
                 "python": ".".join(map(str, sys.version_info[:3]))}
        print(json.dumps(hello), file=answers, flush=True)
    for line in requests or sys.stdin:
        request = dict(SETTING, **json.loads(line))
        answer = MEASURES[request.pop("measure")](loops, **request)
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
