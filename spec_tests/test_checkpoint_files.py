"""Checkpoint files: none is half written, and none that is read runs code.

What is asked here no implementation promises yet; the behaviour follows bug reports BR-19 (a kill
while saving) and BR-21 (pickles that run code). Lightning 2.x writes atomically, too, and refuses
what needs code, in torch's words.
"""

import collections
import errno
import functools
import importlib
import os
import pickle
import shutil
import socket
import stat
import struct
import subprocess
import warnings
import zipfile

import pytest

torch = pytest.importorskip("torch")

from .asking import ask  # noqa: E402

PLAIN = {"epoch": 0, "global_step": 1, "callbacks": {}, "loops": {}, "optimizer_states": [],
         "lr_schedulers": []}


def rows():
    return torch.utils.data.DataLoader(torch.ones(6, 2), 3)


@pytest.fixture
def pl(impl, request, tmp_path, monkeypatch):
    """A small trained module and its trainer, for those who claim to go beyond."""
    ask(request, impl, "beyond")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    return Played(impl, tmp_path)


class Played:
    """A module, and the trainer that has trained it."""

    def __init__(self, impl, folder):
        class Mine(impl.LightningModule):
            planted = None

            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)

            def training_step(self, batch, batch_idx):
                loss = self.layer(batch).sum()
                self.log("loss", loss)
                return loss

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

            def on_save_checkpoint(self, checkpoint):
                if self.planted is not None:
                    checkpoint["late"] = [torch.ones(1000), self.planted]

        self.impl, self.folder, self.Mine = impl, folder, Mine
        self.callbacks = importlib.import_module(impl.name + ".callbacks")
        self.module, self.trainer = Mine(), self.new_trainer()
        self.trainer.fit(self.module, rows())

    def new_trainer(self, *callbacks, **flags):
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False,
                 "enable_checkpointing": bool(callbacks), "max_epochs": 1, "accelerator": "cpu",
                 "devices": 1, "default_root_dir": str(self.folder), "callbacks": list(callbacks)}
        return self.impl.Trainer(**{**quiet, **flags})

    def read(self, path):
        return self.Mine.load_from_checkpoint(path)


class Breaks:
    def __reduce__(self):
        raise ValueError("cannot be saved")


class Calls:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class Table(dict):
    """A mapping of one's own."""


class Rows(list):
    """A list of one's own."""


class Wakes:
    """Runs code when its state comes back."""

    def __getstate__(self):
        return {"state": 1}

    def __setstate__(self, state):
        os.mkdir("ran")


# Writing


def test_beyond_a_failed_save_costs_nothing(pl):
    pl.trainer.save_checkpoint("a.ckpt")
    with open("a.ckpt", "rb") as file:
        before = file.read()
    pl.module.planted = Breaks()
    with pytest.raises(ValueError, match="cannot be saved") as caught:
        pl.trainer.save_checkpoint("a.ckpt")
    notes = " ".join(getattr(caught.value, "__notes__", ["a.ckpt checkpoint['late']"]))
    assert "a.ckpt" in notes and "checkpoint['late']" in notes
    with open("a.ckpt", "rb") as file:
        assert file.read() == before
    assert os.listdir(".") == ["a.ckpt"]


def test_beyond_a_full_disk_is_told_by_name_and_leaves_the_old_file(pl):
    small = pl.folder / "small"
    small.mkdir()
    mounted = shutil.which("mount") and not subprocess.call(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)],
        stderr=subprocess.DEVNULL)
    if not mounted:
        pytest.skip("no file system of 64 KiB can be mounted here")
    try:
        path = small / "a.ckpt"
        pl.trainer.save_checkpoint(path)
        pl.module.planted = torch.ones(40000)
        with pytest.raises(OSError, match="No space left.*a.ckpt"):
            pl.trainer.save_checkpoint(path)
        assert os.listdir(str(small)) == ["a.ckpt"]
        pl.read(path)
        pl.module.planted = None
        pl.trainer.save_checkpoint(path)
    finally:
        subprocess.call(["umount", str(small)])


@pytest.mark.parametrize("where", ["file/a.ckpt", "folder"])
def test_beyond_a_place_that_cannot_be_written_is_told_by_name(pl, where):
    (pl.folder / "file").write_text("")
    (pl.folder / "folder").mkdir()
    with pytest.raises(OSError, match=where):
        pl.trainer.save_checkpoint(where)
    assert sorted(os.listdir(".")) == ["file", "folder"]
    assert not os.listdir("folder")


def test_beyond_a_file_is_as_readable_as_any_other(pl):
    pl.trainer.save_checkpoint("a.ckpt")
    (pl.folder / "other").write_text("")
    assert os.stat("a.ckpt").st_mode == os.stat("other").st_mode


def test_beyond_what_a_killed_process_left_is_cleared_away(pl):
    child = os.fork()
    if not child:
        pl.module.planted = Calls(os._exit, 9)
        Calls.__reduce__ = lambda self: os._exit(9)
        pl.trainer.save_checkpoint("a.ckpt")
    assert os.waitpid(child, 0)[1] >> 8 == 9
    assert len(os.listdir(".")) == 1  # half a file, under a name of its own
    pl.trainer.save_checkpoint("b.ckpt")
    assert os.listdir(".") == ["b.ckpt"]


def test_beyond_what_another_process_writes_is_let_alone(pl):
    """The first process of this machine runs; what has no number is nobody's."""
    names = [".a.ckpt.%s-%s.tmp" % (socket.gethostname(), who) for who in ("1", "notes")]
    for name in names:
        (pl.folder / name).write_text("")
    pl.trainer.save_checkpoint("b.ckpt")
    assert sorted(os.listdir(".")) == sorted(names + ["b.ckpt"])


@pytest.mark.parametrize("number, told", [(errno.EINVAL, None), (errno.EIO, "Input/output error")])
def test_beyond_folders_that_cannot_be_synchronized(pl, monkeypatch, number, told):
    """Some file systems have no such thing; others have it, and it fails."""
    synchronize = os.fsync

    def fsync(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        synchronize(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    if told:
        with pytest.raises(OSError, match=told + ".*a.ckpt"):
            pl.trainer.save_checkpoint("a.ckpt")
    else:
        pl.trainer.save_checkpoint("a.ckpt")
        pl.read("a.ckpt")


def test_beyond_folders_that_cannot_be_opened_are_not_synchronized(pl, monkeypatch):
    """As on Windows."""
    opened = os.open

    def refuse(path, *args, **more):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "denied")
        return opened(path, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    pl.trainer.save_checkpoint("a.ckpt")
    pl.read("a.ckpt")


def test_beyond_the_best_file_goes_only_when_the_next_is_there(pl, monkeypatch):
    """A save that fails leaves the file that it was to replace."""
    saver = pl.callbacks.ModelCheckpoint(str(pl.folder / "ck"), "{epoch}", monitor="loss")
    trainer = pl.new_trainer(saver, max_epochs=3)

    def plant(self, trainer, module):
        module.planted = Breaks() if trainer.current_epoch == 2 else None

    planter = type("Planter", (pl.callbacks.Callback,), {"on_train_epoch_start": plant})()
    trainer.callbacks.insert(0, planter)
    with pytest.raises(ValueError):
        trainer.fit(pl.Mine(), rows())
    assert os.listdir("ck") == ["epoch=1.ckpt"]
    pl.read("ck/epoch=1.ckpt")
    assert saver.best_model_path.endswith("epoch=1.ckpt")
    assert list(saver.best_k_models) == [saver.best_model_path]


# Reading


def save(path, **more):
    torch.save({**PLAIN, "state_dict": {"layer.weight": torch.ones(1, 2),
                                        "layer.bias": torch.ones(1)}, **more}, path)


def damaged(path, change):
    """Write a whole file, and change its bytes."""
    save(path)
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(change(content))


def claims_gigabytes(content):
    """Let the zip's directory claim 3 GiB for the first tensor."""
    content, at = bytearray(content), content.find(b"PK\1\2")
    while b"data/0" not in content[at + 46:at + 46 + content[at + 28]]:
        at = content.find(b"PK\1\2", at + 4)
    content[at + 20:at + 28] = struct.pack("<II", 3 << 30, 3 << 30)
    return bytes(content)


def inflates(path):
    """Write a file of 100 KB that would unfold to 100 MB."""
    save("whole")
    with zipfile.ZipFile("whole") as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, bytes(100 << 20) if name.endswith("/0") else old.read(name))


def other_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")


def pickled(path):
    with open(path, "wb") as file:
        pickle.dump(Calls(os.mkdir, "ran"), file)


CODE = [  # what a file that would run code is refused with: where it stands, and who put it there
    ("a call in a callback's state", dict(callbacks={"Mine": [{"x": Calls(os.mkdir, "ran")}]}),
     ["mkdir", "checkpoint['callbacks']['Mine'][0]['x']", "state of the callback 'Mine'"]),
    ("eval", dict(extra={"k": Calls(eval, "__import__('os').mkdir('ran')")}),
     ["eval", "checkpoint['extra']['k']", "on_save_checkpoint"]),
    ("a partial", dict(hyper_parameters={"f": Calls(functools.partial, os.mkdir, "ran")}),
     ["functools.partial", "mkdir", "save_hyperparameters"]),
    ("a call as an argument", dict(optimizer_states=[Calls(len, Calls(os.mkdir, "ran"))]),
     ["mkdir", "optimizer"]),
    ("an object that wakes", dict(lr_schedulers=[Wakes()]), ["Wakes", "scheduler"]),
    ("a mapping", dict(extra=Table(x=Calls(os.mkdir, "ran"))),
     ["Table", "mkdir", "checkpoint['extra']"]),
    ("a list of one", dict(extra=Rows([Calls(os.mkdir, "ran")])), ["Rows", "mkdir"]),
    ("a list of two", dict(extra=Rows([1, Calls(os.mkdir, "ran")])), ["Rows", "mkdir"]),
    ("below a pair as a key", dict(extra={(1, 2): Calls(os.mkdir, "ran")}),
     ["mkdir", "checkpoint['extra']"]),
    ("as a part of a key", dict(extra={(1, Calls(str, "ran")): 2}), ["str", "checkpoint['extra']"]),
    ("beside a type that is fine", dict(extra=[collections.OrderedDict, Calls(os.mkdir, "ran")]),
     ["mkdir", "checkpoint['extra'][1]"]),
]
BROKEN = [
    ("a bare pickle", pickled, ["mkdir"]),
    ("half of it", lambda path: damaged(path, lambda all: all[:len(all) // 2]), []),
    ("its end missing", lambda path: damaged(path, lambda all: all[:-10]), []),
    ("another zip", other_zip, []),
    ("a torn directory", lambda path: damaged(path, lambda all: all.replace(b"PK\1\2", b"pk\1\2")),
     ["damaged"]),
    ("empty", lambda path: open(path, "w").close(), ["empty"]),
    ("a folder", os.mkdir, ["folder"]),
    ("text", lambda path: contents(path, "these are words\n"), []),
    ("3 GiB claimed", lambda path: damaged(path, claims_gigabytes), ["3,221,"]),
    ("unfolds", inflates, ["104,85"]),
    ("64 GiB of bytes claimed",
     lambda path: contents(path, b"\x80\4\x8e" + struct.pack("<Q", 64 << 30) + b"x."), []),
]


def contents(path, content):
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def refused(pl, path):
    """What each reader says; none may have run anything."""
    said = []
    readers = [lambda: pl.read(path)]
    readers += [lambda name=name: getattr(pl.new_trainer(), name)(
        pl.Mine(), rows(), ckpt_path=path) for name in ("fit", "validate")]
    pl.Mine.validation_step = lambda self, batch, batch_idx: None
    for reader in readers:
        with pytest.raises(Exception) as caught:
            reader()
        said.append("%s: %s" % (type(caught.value).__name__, caught.value))
        assert not os.path.exists("ran"), "the payload ran"
        assert path in said[-1]
    return said


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("kind, more, words", CODE, ids=[kind for kind, _, _ in CODE])
def test_beyond_a_file_that_would_run_code_is_refused_with_who_put_it_there(
        pl, kind, more, words, legacy):
    save("bad.ckpt", **more)
    if legacy:
        torch.save({**PLAIN, "state_dict": {}, **more}, "bad.ckpt",
                   _use_new_zipfile_serialization=False)
    for said in refused(pl, "bad.ckpt"):
        assert said.startswith("UnpicklingError")
        for word in words + ["weights_only=False"]:
            assert word in said


@pytest.mark.parametrize("kind, make, words", BROKEN, ids=[kind for kind, _, _ in BROKEN])
def test_beyond_a_file_that_is_none_is_refused_by_name(pl, kind, make, words):
    make("bad.ckpt")
    for said in refused(pl, "bad.ckpt"):
        assert "Error" in said or "Exception" in said
        for word in words:
            assert word in said


def test_beyond_a_file_that_may_not_be_read_is_not_called_broken(pl, monkeypatch):
    pl.trainer.save_checkpoint("a.ckpt")

    def denied(*args, **more):
        raise PermissionError(errno.EACCES, "denied", "a.ckpt")

    monkeypatch.setattr(torch, "load", denied)
    with pytest.raises(PermissionError, match="denied"):
        pl.read("a.ckpt")


def test_beyond_a_trusted_file_may_run_code(pl):
    pl.trainer.save_checkpoint("good.ckpt")
    content = torch.load("good.ckpt")
    content["callbacks"] = {"X": Calls(os.mkdir, "ran")}
    torch.save(content, "good.ckpt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pl.new_trainer(max_epochs=2).fit(pl.Mine(), rows(), ckpt_path="good.ckpt",
                                         weights_only=False)
    assert os.path.isdir("ran")


@pytest.mark.parametrize("batches", [0, 1])
def test_beyond_another_number_of_processes_is_told_and_training_goes_on(pl, batches):
    pl.trainer.save_checkpoint("two.ckpt")
    content = torch.load("two.ckpt")
    place = content["loops"]["minilightning"]
    place["batches"] = batches
    content["loops"]["minilightning"] = dict(place, ranks=[dict(place), dict(place)])
    torch.save(content, "two.ckpt")
    trainer = pl.new_trainer(max_epochs=2)
    with pytest.warns(Warning, match="with processes: 2, and there are now: 1") as said:
        trainer.fit(pl.Mine(), rows(), ckpt_path="two.ckpt")
    assert any("some rows come again" in str(each.message) for each in said) == bool(batches)
    assert trainer.current_epoch == 2
    assert trainer.global_step == 2 * pl.trainer.global_step - batches


# Weights that do not fit


def test_beyond_keys_and_shapes_that_differ_are_listed_with_the_nearest_names(pl):
    weights = {"body.weight": torch.ones(1, 2), "layers.bias": torch.ones(1)}
    torch.save({**PLAIN, "state_dict": weights}, "renamed.ckpt")
    torch.save({**PLAIN, "state_dict": {"layer.weight": torch.ones(4, 2),
                                        "layer.bias": torch.ones(3)}}, "larger.ckpt")
    for path, words in (
        ("renamed.ckpt", ["layer.weight", "layer.bias", "body.weight",
                          "`layers.bias` in the checkpoint may be `layer.bias` here"]),
        ("larger.ckpt", ["layer.weight", "[4, 2]", "[1, 2]", "layer.bias", "[3]", "[1]"]),
    ):
        for reader in (pl.read, lambda path: pl.new_trainer().fit(
                pl.Mine(), rows(), ckpt_path=path)):
            with pytest.raises(RuntimeError) as caught:
                reader(path)
            for word in words:
                assert word in str(caught.value)
