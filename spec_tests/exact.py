"""One training run that uses all that a checkpoint has to keep, stopped anywhere and gone on with.

``whole`` plays it at once and saves a checkpoint at one place; ``resumed`` plays what is left, from
that file, in objects of its own and with another seed. What both end with has to be the same, bit
for bit. ``PLACES`` and ``LOADERS`` are the rows and columns of the tables that exact_matrix.py
prints. Started by torch's launcher, the processes play the run together, and each compares its own.
"""

import importlib
import logging
import os
import random
import shutil
import tempfile

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

try:
    import numpy
except ImportError:  # it is part of a run only where it is there
    numpy = None
try:
    from torchdata.stateful_dataloader import StatefulDataLoader
except ImportError:  # its columns are there only where it is
    StatefulDataLoader = None

if os.path.isdir("/dev/shm"):  # memory outlives a killed process, too, and is quicker than a disk
    tempfile.tempdir = "/dev/shm"

BATCH, EPOCHS = 3, 3
SHARE = 14  # rows of each process: five batches an epoch, the last one smaller
STREAM = 17  # rows of a stream: no batch of a single row, with two workers either

# Where the checkpoint is saved: a hook, by whom (c: the first callback, m: the module, which comes
# last), and at which call of it.
PLACES = [
    ("on_fit_start", "c", 1), ("on_sanity_check_end", "c", 1), ("on_train_start", "c", 1),
    ("on_train_epoch_start", "c", 2), ("on_train_epoch_start", "m", 1),
    ("on_train_batch_start", "c", 7), ("training_step", "m", 7), ("on_before_zero_grad", "c", 4),
    ("on_before_backward", "c", 8), ("on_after_backward", "c", 9),
    ("on_before_optimizer_step", "c", 5), ("optimizer_step", "m", 5),
    ("lr_scheduler_step", "m", 6), ("lr_scheduler_step", "m", 4),
    ("on_train_batch_end", "c", 1), ("on_train_batch_end", "c", 5), ("on_train_batch_end", "c", 6),
    ("on_train_batch_end", "c", 7), ("on_train_batch_end", "c", 10),
    ("on_train_batch_end", "c", 15), ("on_train_batch_end", "m", 5),
    ("on_train_batch_end", "m", 8), ("on_validation_start", "c", 2), ("validation_step", "m", 4),
    ("on_validation_batch_end", "c", 5), ("on_validation_epoch_end", "c", 3),
    ("on_validation_end", "c", 2), ("on_validation_end", "c", 3), ("on_validation_end", "m", 3),
    ("on_train_epoch_end", "c", 1), ("on_train_epoch_end", "c", 2), ("on_train_epoch_end", "m", 1),
    ("on_train_epoch_end", "c", 3), ("on_train_epoch_end", "m", 3), ("on_train_end", "c", 1),
    ("on_fit_end", "c", 1),
]
# The files that the callbacks of the run write by themselves.
FILES = ["best/epoch=0.ckpt", "best/epoch=1.ckpt", "best/last.ckpt", "steps/step=2.ckpt",
         "steps/step=4.ckpt", "steps/step=6.ckpt", "steps/step=8.ckpt"]


def rank():
    return int(os.environ.get("RANK", 0))


def world():
    return int(os.environ.get("WORLD_SIZE", 1))


class Rows(Dataset):
    """Rows that are augmented with random numbers of the process that fetches them."""

    def __len__(self):
        return SHARE * world()

    def __getitem__(self, i):
        return torch.tensor([i / len(self), 1.0]) + 0.01 * torch.rand(2)


class Fixed(Rows):
    """The same without random numbers: torchdata leaves those of workers to the data set, too."""

    def __getitem__(self, i):
        return torch.tensor([i / len(self), 1.0])


class Stream(IterableDataset):
    """The same without a length; workers share it, and each process has all of it."""

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        return (Rows()[i] for i in range(first, STREAM, step))


class Stateful:
    """A loader that knows where it stands, and can do without being drawn from again.

    As torchdata's, it goes on from a place only if that was loaded, and begins again otherwise.
    """

    def __init__(self):
        self.generator, self.order, self.at, self.is_loaded = torch.Generator(), [], 0, False

    def __iter__(self):
        if not self.is_loaded:
            self.order, self.at = torch.randperm(SHARE, generator=self.generator).tolist(), 0
        self.is_loaded = False
        while self.at < SHARE:
            rows = self.order[self.at:self.at + BATCH]
            self.at += BATCH
            yield torch.stack([torch.tensor([row / SHARE, 1.0]) for row in rows])

    def state_dict(self):
        return dict(order=self.order, at=self.at, generator=self.generator.get_state())

    def load_state_dict(self, state):
        self.order, self.at, self.is_loaded = state["order"], state["at"], True
        self.generator.set_state(state["generator"])


class Sized(Stateful):
    """The same, with a length."""

    def __len__(self):
        return (SHARE + BATCH - 1) // BATCH


def shuffling(workers=0, **options):
    return DataLoader(Rows(), BATCH, shuffle=True, num_workers=workers, **options)


LOADERS = {  # columns of the matrix
    "shuffle": shuffling,
    "2 workers": lambda: shuffling(2),
    # What workers that stay have drawn goes back to the first epoch: it would all have to be drawn
    # again. Their rows are so without random numbers.
    "2 that stay": lambda: DataLoader(Fixed(), BATCH, shuffle=True, num_workers=2,
                                      persistent_workers=True),
    "own generator": lambda: shuffling(generator=torch.Generator()),
    "sampler": lambda: DataLoader(Rows(), BATCH, sampler=torch.utils.data.WeightedRandomSampler(
        [1.0 + i for i in range(len(Rows()))], len(Rows()), generator=torch.Generator())),
    "set_epoch": lambda: DataLoader(Rows(), BATCH, sampler=(
        torch.utils.data.distributed.DistributedSampler(Rows(), world(), rank()))),
    "stream": lambda: DataLoader(Stream(), BATCH),
    "stream, 2": lambda: DataLoader(Stream(), BATCH, num_workers=2),
    "dict of two": lambda: {"a": shuffling(), "b": DataLoader(Rows(), 5, shuffle=True)},
    "stateful": Sized,
    "stateful, no length": Stateful,
    "mixed": lambda: [Sized(), shuffling()],
}
if StatefulDataLoader is not None:
    LOADERS["torchdata"] = lambda: StatefulDataLoader(Rows(), BATCH + world() - 1, shuffle=True)
    LOADERS["torchdata, 2"] = lambda: StatefulDataLoader(Fixed(), BATCH + world() - 1,
                                                         shuffle=True, num_workers=2)
    LOADERS["torchdata, stream"] = lambda: StatefulDataLoader(Stream(), BATCH)
FLAGS = {  # how the trainer is set up, by name
    "window of 2": dict(accumulate_grad_batches=2),
    "val every 2": dict(val_check_interval=2),
    "plain": {},
    "16-mixed": dict(accumulate_grad_batches=2, precision="16-mixed"),
}


class Mean:
    """A metric object without torch."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total, self.count = self.total + float(value), self.count + 1

    def compute(self):
        return torch.tensor(self.total / max(1, self.count))


class Largest(torch.nn.Module):
    """A metric object that is a module, and gives a value for each batch when it is called."""

    def __init__(self):
        super().__init__()
        self.reset()

    def reset(self):
        self.value, self._forward_cache = torch.tensor(-9.0), None

    def forward(self, value):
        self.value = torch.maximum(self.value, value.detach())
        self._forward_cache = value.detach()
        return self._forward_cache

    def compute(self):
        return self.value


def spread(values):
    """Reduce an epoch's values with a function of one's own."""
    return values.max() - values.min()


def classes(impl):
    """Return the classes of the run, derived from the implementation's own."""
    found = importlib.import_module(impl + ".callbacks")
    pl = importlib.import_module(impl)

    class Module(pl.LightningModule):
        saver = None

        def __init__(self):
            super().__init__()
            self.first, self.norm = torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4)
            self.drop, self.last = torch.nn.Dropout(0.5), torch.nn.Linear(4, 1)
            self.mean, self.largest, self.val_mean = Mean(), Largest(), Mean()
            self.register_buffer("average", torch.zeros(4, 2))
            self.seen = []  # what the run did, in order

        def loss(self, batch):
            while not torch.is_tensor(batch):
                batch = list(batch.values() if isinstance(batch, dict) else batch)
                batch = torch.cat(batch)
            return self.last(self.drop(torch.relu(self.norm(self.first(batch))))).square().mean()

        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            draws = [random.random(), torch.rand(()).item()]
            if numpy is not None:
                draws.append(float(numpy.random.rand()))
            if self.scaler() is not None:
                draws.append(self.scaler().get_scale())
            self.seen.append([self.current_epoch, batch_idx, str(batch), draws])
            self.log("loss", loss, on_step=True, on_epoch=True)
            self.log("drawn", draws[0], on_step=False, on_epoch=True, reduce_fx="max")
            self.log("spread", loss, on_step=False, on_epoch=True, reduce_fx=spread)
            self.mean.update(loss)
            self.log("mean", self.mean, on_step=False, on_epoch=True)
            self.largest(loss)
            self.log("largest", self.largest, on_step=True, on_epoch=True)
            return loss

        def validation_step(self, batch, batch_idx):
            loss = self.loss(batch) + torch.rand(())
            self.val_mean.update(loss)
            self.log("val_mean", self.val_mean)
            self.log("val_loss", loss, sync_dist=True)  # or learning rates would differ

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.average = 0.9 * self.average + 0.1 * self.first.weight.detach()
            self.average += float(outputs["loss"])

        def on_train_epoch_end(self):
            self.log("average", self.average.sum())

        def scaler(self):
            return getattr(self.trainer.precision_plugin, "scaler", None)

        def configure_optimizers(self):
            if self.scaler() is not None:
                self.scaler().set_growth_interval(1)  # it grows until a step is skipped
            made = torch.optim.Adam(self.parameters(), lr=0.05)
            steps = torch.optim.lr_scheduler.StepLR(made, 3, 0.9)
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(made, patience=0)
            return [made], [{"scheduler": steps, "interval": "step"},
                            {"scheduler": plateau, "monitor": "val_loss"}]

    class Counter(found.Callback):
        """Counts, in its state, the calls of hooks that a resumed run does not call again."""

        def __init__(self):
            self.counts = {}

        def state_dict(self):
            return dict(self.counts)

        def load_state_dict(self, state):
            self.counts = dict(state)

        def on_save_checkpoint(self, trainer, module, checkpoint):
            checkpoint["rows"] = len(trainer.loggers[0].rows)

    def counting(hook):
        def count(self, trainer, *args):
            self.counts[hook] = self.counts.get(hook, 0) + (not trainer.sanity_checking)
        return count

    for hook in ("on_train_epoch_start", "on_train_batch_start", "on_train_batch_end",
                 "on_before_optimizer_step", "on_validation_start", "on_validation_batch_end",
                 "on_validation_end", "on_train_epoch_end"):
        setattr(Counter, hook, counting(hook))

    class Logger(pl.loggers.Logger if hasattr(pl, "loggers") else object):
        name, version, save_dir = "rows", 0, None

        def __init__(self):
            super().__init__()
            self.rows = []

        def log_hyperparams(self, *args, **kwargs):
            pass

        def log_metrics(self, metrics, step=None):
            self.rows.append([step, sorted(metrics.items())])

    return pl, found, Module, Counter, Logger


class Saver:
    """Saves at one call of one hook, and keeps the files that the run had written by then."""

    def __init__(self, folder, hook, call):
        self.folder, self.hook, self.call, self.calls = folder, hook, call, 0

    def watch(self, trainer):
        """Keep the files of the moment at which the trainer has written one of them itself."""
        self.save, trainer.save_checkpoint = trainer.save_checkpoint, self.save_and_copy

    def save_and_copy(self, path, *args):
        self.save(path, *args)
        if os.path.relpath(path, self.folder) == self.hook:
            self.calls += 1
            if rank() == 0:
                shutil.copy(path, os.path.join(self.folder, "at.ckpt"))
                keep_files(self.folder)

    def at(self, trainer):
        if trainer.sanity_checking and "sanity" not in self.hook:
            return
        self.calls += 1
        if self.calls == self.call:
            self.save, trainer.save_checkpoint = trainer.save_checkpoint, self.save_and_keep
            trainer.save_checkpoint(os.path.join(self.folder, "at.ckpt"))

    def save_and_keep(self, path, *args):
        """Save, and keep the files of this moment; a trainer may save the same once more."""
        self.save(path, *args)
        if path == os.path.join(self.folder, "at.ckpt") and rank() == 0:
            keep_files(self.folder)


def keep_files(folder):
    """Copy what the callbacks have written so far."""
    for name in ("best", "steps"):
        kept = os.path.join(folder, "kept-" + name)
        shutil.rmtree(kept, ignore_errors=True)
        if os.path.isdir(os.path.join(folder, name)):
            shutil.copytree(os.path.join(folder, name), kept)


def files_as_kept(folder):
    """Put back what ``keep_files`` has copied; others may still read what is there."""
    together()
    for name in ("best", "steps") if rank() == 0 else ():
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        if os.path.isdir(os.path.join(folder, "kept-" + name)):
            shutil.copytree(os.path.join(folder, "kept-" + name), os.path.join(folder, name))
    together()


def together():
    """Wait for the other processes, if there are any."""
    if world() > 1 and torch.distributed.is_initialized():
        torch.distributed.barrier()


def play(impl, folder, loader, flags, seed, saver=None, who="c", ckpt_path=None):
    """Play the run, from the start or from a checkpoint; return what it ended with."""
    pl, callbacks, Module, Counter, Logger = classes(impl)
    seed += 1000 * rank()
    torch.manual_seed(seed)
    random.seed(seed)
    if numpy is not None:
        numpy.random.seed(seed)
    members = {}
    if saver is not None and who != "files":
        members[saver.hook] = saving(saver, Module if who == "m" else Counter, who)
    module = type("Mine", (Module,), members if who == "m" else {})()
    counter = type("Counting", (Counter,), members if who == "c" else {})()
    found = [
        counter, callbacks.EarlyStopping("val_loss", patience=50),
        callbacks.ModelCheckpoint(os.path.join(folder, "best"), "{epoch}", monitor="val_loss",
                                  save_top_k=2, save_last=True),
        callbacks.ModelCheckpoint(os.path.join(folder, "steps"), "{step}", save_top_k=-1,
                                  monitor="loss", every_n_train_steps=2),
        Later(callbacks)(),
    ]
    logger = Logger()
    trainer = pl.Trainer(
        accelerator="cpu", devices=world(), max_epochs=EPOCHS, callbacks=found, logger=logger,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        log_every_n_steps=1, num_sanity_val_steps=1, **flags)
    if who == "files":
        saver.watch(trainer)
    val = DataLoader(Rows(), 7)
    trainer.fit(module, LOADERS[loader](), val, ckpt_path=ckpt_path)
    together()
    return summary(trainer, module, found, logger, folder)


def Later(callbacks):
    """Return a callback that counts, like the first one, and stands behind those that save."""
    class Behind(callbacks.Callback):
        count = 0

        def state_dict(self):
            return {"count": self.count}

        def load_state_dict(self, state):
            self.count = state["count"]

        def on_train_batch_end(self, *args):
            self.count += 1

        def on_validation_end(self, trainer, *args):
            self.count += 100 * (not trainer.sanity_checking)

        def on_train_epoch_end(self, *args):
            self.count += 10000

    return Behind


def saving(saver, base, who):
    usual = getattr(base, saver.hook)

    def method(self, *args, **kwargs):
        answer = usual(self, *args, **kwargs)
        saver.at(self.trainer if who == "m" else args[0])
        return answer

    return method


def summary(trainer, module, callbacks, logger, folder):
    """Return what has to be the same, in plain values."""
    state = trainer.optimizers[0].state_dict()
    return {
        "weights": [each.tolist() for each in module.state_dict().values()],
        "optimizer": plain(state),
        "scaler": plain(module.scaler() and module.scaler().state_dict()),
        "schedulers": [plain(each.scheduler.state_dict()) for each in
                       trainer.lr_scheduler_configs],
        "batches and draws": module.seen,
        "callback metrics": plain(dict(trainer.callback_metrics)),
        "callback states": [plain(each.state_dict()) for each in callbacks],
        "logged": logger.rows,
        "counters": [trainer.global_step, trainer.current_epoch, trainer.should_stop],
        "files": [[name, *content(os.path.join(folder, name))] for name in files(folder)],
    }


def files(folder):
    return sorted(os.path.join(name, file) for name in ("best", "steps") for file in
                  os.listdir(os.path.join(folder, name)))


def content(path):
    """Return step and weights of a checkpoint."""
    checkpoint = torch.load(path)
    return checkpoint["global_step"], plain(checkpoint["state_dict"])


def plain(tree):
    """Return tensors as lists, and everything else as a string that shows all digits."""
    if isinstance(tree, dict):
        return {str(key): plain(child) for key, child in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [plain(child) for child in tree]
    return tree.tolist() if torch.is_tensor(tree) else repr(tree)


def differences(impl, folder, place, loader, flags):
    """Play a run that saves at a place, and go on from there; return what is not the same."""
    if isinstance(place, str):
        return from_file(impl, folder, place, loader, flags)
    hook, who, call = place
    saver = Saver(folder, hook, call)
    whole = play(impl, folder, loader, flags, 5, saver, who)
    if saver.calls < saver.call:
        return None
    files_as_kept(folder)
    return compared(impl, folder, whole, os.path.join(folder, "at.ckpt"), loader, flags)


def compared(impl, folder, whole, path, loader, flags):
    """Go on from a file and say what comes out otherwise than in the whole run."""
    resumed = play(impl, folder, loader, flags, 99, ckpt_path=path)
    left = len(resumed["batches and draws"])
    whole["batches and draws"] = whole["batches and draws"][-left:] if left else []
    whole["logged"] = whole["logged"][torch.load(path)["rows"]:]
    return [name for name in whole if repr(whole[name]) != repr(resumed[name])]


def from_file(impl, folder, name, loader, flags):
    """The same, from a file that a ModelCheckpoint of the run has written by itself."""
    saver = Saver(folder, name, 1)
    whole = play(impl, folder, loader, flags, 5, saver, "files")
    if not saver.calls:
        return None
    files_as_kept(folder)
    return compared(impl, folder, whole, os.path.join(folder, "at.ckpt"), loader, flags)


def quiet(impl):
    """Leave out what an implementation tells while it trains."""
    classes(impl)
    for name in (impl, impl.partition(".")[0], "torchdata"):
        logging.getLogger(name).setLevel(logging.ERROR)
