"""EarlyStopping, ModelCheckpoint and the progress bars: what they decide, keep and count.

What is expected was recorded from Lightning 2.2.5. Tests whose name starts with ``test_beyond``
ask for more, or for something else, and say what Lightning does. Four training batches an epoch
make step 4 the end of epoch 0; files are called ``EPOCH-STEP``. The model logs one score of a
given list per validation.
"""

import importlib
import io
import math
import os
import pickle
import re
import sys
import time
import types
import warnings
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

from . import forked  # noqa: E402
from .asking import ask  # noqa: E402

NAN, INF = float("nan"), float("inf")
VAL = {"monitor": "val_score"}
MAX = {"monitor": "val_score", "mode": "max"}


class Namespace:
    """The implementation's classes, and a trainer that runs quietly."""

    def __init__(self, impl):
        self.name = impl.name
        package = importlib.import_module(self.name)
        callbacks = importlib.import_module(self.name + ".callbacks")
        self.Trainer = package.Trainer
        self.LightningModule = package.LightningModule
        self.Callback = callbacks.Callback
        self.EarlyStopping = callbacks.EarlyStopping
        self.ModelCheckpoint = callbacks.ModelCheckpoint
        # 2.x calls the base of the bars ProgressBar, 1.x so calls the bar itself.
        self.Bar = getattr(callbacks, "TQDMProgressBar", None) or callbacks.ProgressBar
        self.BarBase = getattr(callbacks, "ProgressBarBase", None) or callbacks.ProgressBar

    def trainer(self, root, **flags):
        quiet = {
            "logger": False, "enable_progress_bar": False, "enable_model_summary": False,
            "accelerator": "cpu", "devices": 1, "num_sanity_val_steps": 0, "max_epochs": 4,
            "default_root_dir": str(root),
        }
        if not any(isinstance(c, self.ModelCheckpoint) for c in flags.get("callbacks", ())):
            quiet["enable_checkpointing"] = False
        return self.Trainer(**{**quiet, **flags})

    def model(self, scores=(), train_scores=()):
        class Scripted(self.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)
                self.validations = 0

            def training_step(self, batch, batch_idx):
                if train_scores:
                    score = torch.tensor(train_scores[self.current_epoch])
                    self.log("train_score", score, on_step=False, on_epoch=True)
                return self.layer(batch).sum() * 0

            def validation_step(self, batch, batch_idx):
                if scores and not self.trainer.sanity_checking:
                    self.log("val_score", torch.tensor(scores[self.validations]))

            def on_validation_end(self):
                self.validations += not self.trainer.sanity_checking

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.0)

            def train_dataloader(self):
                return DataLoader(torch.ones(8, 2), batch_size=2)

            def val_dataloader(self):
                return DataLoader(torch.ones(2, 2), batch_size=2)

        return Scripted()


@pytest.fixture
def pl(impl, request):
    """Ask those who claim edition 2.2, or what is beyond it."""
    ask(request, impl)
    return Namespace(impl)


@pytest.fixture(autouse=True)
def no_noise():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(num_workers|deprecated|not empty|GPU|tensorboard).*")
        yield


def short(path):
    """Name a checkpoint file as the tables below do."""
    return re.sub(r"epoch=(\d+)-step=(\d+)", r"\1-\2", os.path.basename(path)).replace(".ckpt", "")


def fit(pl, root, checkpoint=None, stopping=None, scores=(), train_scores=(), **flags):
    """Run one fit; return the callbacks and when checkpoints were written, as EPOCH@STEP."""
    saved = []

    class Saved(pl.Callback):
        def on_save_checkpoint(self, trainer, pl_module, checkpoint):
            saved.append("%d@%d" % (trainer.current_epoch, trainer.global_step))

    callbacks = [Saved()]
    if stopping is not None:
        callbacks.append(pl.EarlyStopping(**stopping))
    if checkpoint is not None:
        callbacks.append(pl.ModelCheckpoint(**{"dirpath": str(root / "ck"), **checkpoint}))
    trainer = pl.trainer(root, callbacks=callbacks, **flags)
    model = pl.model(scores, train_scores)
    trainer.fit(model)
    return trainer, model, callbacks[-1], " ".join(saved)


def kept(root):
    """Return the names of the checkpoints on disk."""
    files = [file for _, _, files in os.walk(str(root)) for file in files if ".ckpt" in file]
    return " ".join(sorted(map(short, files)))


# ModelCheckpoint: name; its arguments; the trainer's; scores; when it wrote; what is kept;
# best path and score; k-th path and value
WRITES = [
    ("no metric: the newest", {}, {}, [],
     "0@4 1@8 2@12 3@16", "3-16", ("3-16", None), ("", INF)),
    ("minimum", VAL, {"max_epochs": 5}, [10.0, 9.0, 2.8, 5.0, 2.5],
     "0@4 1@8 2@12 4@20", "4-20", ("4-20", 2.5), ("4-20", 2.5)),
    ("minimum, three", {**VAL, "save_top_k": 3}, {"max_epochs": 5}, [10.0, 9.0, 2.8, 5.0, 2.5],
     "0@4 1@8 2@12 3@16 4@20", "2-12 3-16 4-20", ("4-20", 2.5), ("3-16", 5.0)),
    ("maximum", MAX, {}, [0.5, 0.7, 0.7, 0.6], "0@4 1@8", "1-8", ("1-8", 0.7), ("1-8", 0.7)),
    ("maximum, none", {**MAX, "save_top_k": 0}, {}, [0.5, 0.7, 0.7, 0.6],
     "", "", ("", None), ("", -INF)),
    ("maximum, all", {**MAX, "save_top_k": -1}, {}, [0.5, 0.7, 0.7, 0.6],
     "0@4 1@8 2@12 3@16", "0-4 1-8 2-12 3-16", ("1-8", 0.7), ("0-4", 0.5)),
    ("NaN is the worst, minimum", VAL, {"max_epochs": 5}, [NAN, 3.0, 2.0, NAN, 1.0],
     "0@4 1@8 2@12 4@20", "4-20", ("4-20", 1.0), ("4-20", 1.0)),
    ("NaN is the worst, maximum", {**MAX, "save_top_k": 2}, {"max_epochs": 5},
     [NAN, 3.0, NAN, 2.0, 1.0], "0@4 1@8 3@16", "1-8 3-16", ("1-8", 3.0), ("3-16", 2.0)),
    ("metric of training", {"monitor": "train_score", "mode": "max"}, {}, [1.0] * 4,
     "0@4 1@8 3@16", "3-16", ("3-16", 4.0), ("3-16", 4.0)),
    ("metric epoch", {"monitor": "epoch", "mode": "max"}, {"max_epochs": 2}, [],
     "0@4 1@8", "1-8", ("1-8", 1), ("1-8", 1)),
    ("metric step", {"monitor": "step", "mode": "max", "save_top_k": 2}, {"max_epochs": 3}, [],
     "0@4 1@8 2@12", "1-8 2-12", ("2-12", 12), ("1-8", 8)),
    ("validation twice an epoch", {**VAL, "save_top_k": -1},
     {"max_epochs": 2, "val_check_interval": 0.5}, [1.0, 2.0, 3.0, 4.0],
     "0@2 0@4 1@6 1@8", "0-2 0-4 1-6 1-8", ("0-2", 1.0), ("1-8", 4.0)),
    ("validation every other epoch", {**VAL, "save_top_k": -1}, {"check_val_every_n_epoch": 2},
     [1.0, 2.0], "1@8 3@16", "1-8 3-16", ("1-8", 1.0), ("3-16", 2.0)),
    ("the same without a metric", {"save_top_k": -1}, {"check_val_every_n_epoch": 2}, [],
     "1@8 3@16", "1-8 3-16", ("3-16", None), ("", INF)),
    ("twice an epoch, saved at its end", {**VAL, "save_top_k": -1, "save_on_train_epoch_end": True},
     {"max_epochs": 2, "val_check_interval": 0.5}, [1.0, 2.0, 3.0, 4.0],
     "0@4 1@8", "0-4 1-8", ("0-4", 2.0), ("1-8", 4.0)),
    ("only after a validation, and there is none", {"save_on_train_epoch_end": False},
     {"limit_val_batches": 0}, [], "", "", ("", None), ("", INF)),
    ("every 3 steps", {"every_n_train_steps": 3, "save_top_k": -1}, {"max_epochs": 2}, [],
     "0@3 1@6", "0-3 1-6", ("1-6", None), ("", INF)),
    ("every 3 steps, by the metric", {**VAL, "every_n_train_steps": 3, "save_top_k": 2},
     {"max_epochs": 3}, [1.0, 2.0, 3.0], "1@6 2@9", "1-6 2-9", ("1-6", 1.0), ("2-9", 2.0)),
    ("every step, not every batch", {"every_n_train_steps": 1, "save_top_k": -1},
     {"accumulate_grad_batches": 2, "max_epochs": 1}, [], "0@1 0@2", "0-1 0-2",
     ("0-2", None), ("", INF)),
    ("last, once per step", {"save_last": True, "every_n_train_steps": 4}, {"max_epochs": 2}, [],
     "0@4 0@4 1@8 1@8", "1-8 last", ("1-8", None), ("", INF)),
    ("twice an epoch, but there is no validation", {"save_top_k": -1},
     {"val_check_interval": 0.5, "limit_val_batches": 0, "max_epochs": 2}, [],
     "0@4 1@8", "0-4 1-8", ("1-8", None), ("", INF)),
    ("every 2 epochs", {"every_n_epochs": 2, "save_top_k": -1}, {}, [],
     "1@8 3@16", "1-8 3-16", ("3-16", None), ("", INF)),
    ("once an hour", {"train_time_interval": timedelta(hours=1)}, {}, [], "", "",
     ("", None), ("", INF)),
    ("last", {**VAL, "save_last": True}, {"max_epochs": 3}, [3.0, 2.0, 1.0],
     "0@4 0@4 1@8 1@8 2@12 2@12", "2-12 last", ("2-12", 1.0), ("2-12", 1.0)),
    ("last, nothing better", {**VAL, "save_last": True}, {"max_epochs": 3}, [1.0, 1.0, 1.0],
     "0@4 0@4 1@8 2@12", "0-4 last", ("0-4", 1.0), ("0-4", 1.0)),
    ("last, every 2 epochs", {**VAL, "save_last": True, "every_n_epochs": 2}, {},
     [4.0, 3.0, 2.0, 1.0], "0@4 1@8 1@8 2@12 3@16 3@16", "3-16 last", ("3-16", 1.0), ("3-16", 1.0)),
    ("last, every 3 steps", {"save_last": True, "every_n_train_steps": 3}, {"max_epochs": 2}, [],
     "0@3 0@3 0@4 1@6 1@6 1@8", "1-6 last", ("1-6", None), ("", INF)),
    ("last alone", {"save_last": True, "every_n_epochs": 0}, {"max_epochs": 2}, [],
     "0@4 1@8", "last", ("", None), ("", INF)),
    ("fixed name", {**VAL, "filename": "a"}, {"max_epochs": 3}, [3.0, 2.0, 1.0],
     "0@4 1@8 2@12", "a", ("a", 1.0), ("a", 1.0)),
    ("fixed name, two", {**VAL, "filename": "a", "save_top_k": 2}, {}, [3.0, 2.0, 1.0, 0.5],
     "0@4 1@8 2@12 3@16", "a a-v1", ("a-v1", 0.5), ("a", 1.0)),
    ("fixed name, all", {**VAL, "filename": "a", "save_top_k": -1}, {"max_epochs": 3},
     [3.0, 2.0, 1.0], "0@4 1@8 2@12", "a a-v1 a-v2", ("a-v2", 1.0), ("a", 3.0)),
    ("fixed name, no versions",
     {**VAL, "filename": "a", "save_top_k": 2, "enable_version_counter": False}, {},
     [3.0, 2.0, 1.0, 0.5], "0@4 1@8 2@12 3@16", "a", ("a", 0.5), ("", INF)),
    ("training ends inside an epoch", {}, {"max_steps": 6, "max_epochs": -1}, [],
     "0@4 1@6", "1-6", ("1-6", None), ("", INF)),
    ("the same, by the metric", VAL, {"max_steps": 6, "max_epochs": -1}, [1.0, 2.0],
     "0@4", "0-4", ("0-4", 1.0), ("0-4", 1.0)),
    ("fast_dev_run", {}, {"fast_dev_run": True}, [], "", "", ("", None), ("", INF)),
    ("sanity check", {"save_on_train_epoch_end": False},
     {"num_sanity_val_steps": 1, "max_epochs": 1}, [], "0@4", "0-4", ("0-4", None), ("", INF)),
]


@pytest.mark.parametrize("case", WRITES, ids=lambda case: case[0])
def test_what_is_saved_and_kept(pl, tmp_path, case):
    _, arguments, flags, scores, saved, files, best, kth = case
    _, _, callback, log = fit(
        pl, tmp_path, arguments, scores=scores, train_scores=[1.0, 3.0, 2.0, 4.0, 5.0], **flags)
    score = callback.best_model_score
    score = None if score is None else round(float(score), 4)
    assert (log, kept(tmp_path)) == (saved, files)
    assert (short(callback.best_model_path), score) == best
    assert (short(callback.kth_best_model_path), round(float(callback.kth_value), 4)) == kth
    last = str(tmp_path / "ck" / "last.ckpt") if "last" in files else ""
    assert callback.last_model_path == last


LINKS = [
    ("to the newest ranked file", {"save_top_k": 2}, [3.0, 2.0, 5.0, 1.0], "3-16"),
    ("nothing better", {}, [3.0, 2.0, 5.0, 4.0], "1-8"),
    ("a file while nothing is ranked", {"save_top_k": 0}, [3.0, 2.0, 5.0, 4.0], None),
]


@pytest.mark.parametrize("case", LINKS, ids=lambda case: case[0])
def test_last_as_a_link(pl, tmp_path, case):
    _, arguments, scores, target = case
    fit(pl, tmp_path, {**VAL, "save_last": "link", **arguments}, scores=scores)
    last = tmp_path / "ck" / "last.ckpt"
    assert last.is_file() and last.is_symlink() == (target is not None)
    assert target is None or short(os.readlink(str(last))) == target


def test_where_there_are_no_links_last_is_a_copy(pl, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no links here")

    monkeypatch.setattr(os, "symlink", refuse)
    arguments = {**VAL, "save_last": "link"}
    _, _, callback, _ = fit(pl, tmp_path, arguments, scores=[0.5, 0.25], max_epochs=2)
    assert not os.path.islink(callback.last_model_path)
    with open(callback.last_model_path, "rb") as last, open(callback.best_model_path, "rb") as best:
        assert last.read() == best.read()
    assert kept(tmp_path) == "1-8 last"


def test_without_a_score_there_is_none_to_rank(pl, tmp_path):
    callback = pl.ModelCheckpoint(str(tmp_path), **VAL)
    trainer = pl.trainer(tmp_path, callbacks=[callback])
    assert callback.check_monitor_top_k(trainer, None) is False
    assert callback.check_monitor_top_k(trainer, torch.tensor(1.0)) is True


def test_beyond_a_link_never_points_to_itself(pl, tmp_path):
    """Lightning links last.ckpt to itself in epoch 1, which loses the file of epoch 0."""
    arguments = {"save_last": "link", "every_n_epochs": 3}
    fit(pl, tmp_path, arguments, max_epochs=2)
    last = tmp_path / "ck" / "last.ckpt"
    assert last.is_file()
    assert torch.load(str(last), weights_only=True)["global_step"] == 8


def test_last_knows_the_newest_best(pl, tmp_path):
    _, _, callback, _ = fit(pl, tmp_path, {**VAL, "save_last": True}, scores=[3.0, 2.0, 1.0, 0.5])
    file = torch.load(callback.last_model_path, weights_only=False)
    state = file["callbacks"][callback.state_key]
    assert short(state["best_model_path"]) == "3-16" and file["global_step"] == 16
    assert state["best_model_path"] == callback.best_model_path


def test_files_of_others_stay(pl, tmp_path):
    other = tmp_path / "ck" / "epoch=0-step=4.ckpt"
    last = tmp_path / "ck" / "last.ckpt"
    other.parent.mkdir()
    for file in (other, last):
        file.write_text("not ours")
    _, _, callback, _ = fit(pl, tmp_path, {"save_last": True}, max_epochs=1)
    assert kept(tmp_path) == "0-4 0-4-v1 last last-v1"
    assert other.read_text() == last.read_text() == "not ours"
    assert short(callback.last_model_path) == "last-v1"


def test_beyond_no_metric_and_a_fixed_name_keep_all_files(pl, tmp_path):
    """Lightning overwrites its own file although it is to keep all (BR-13)."""
    fit(pl, tmp_path, {"filename": "a", "save_top_k": -1}, max_epochs=3)
    assert kept(tmp_path) == "a a-v1 a-v2"


def test_beyond_of_equal_scores_the_earlier_file_stays(pl, tmp_path):
    """Lightning deletes the earlier of the two worst (BR-12)."""
    scores = [0.5, 0.5, 0.7]
    _, _, callback, _ = fit(pl, tmp_path, {**MAX, "save_top_k": 2}, scores=scores, max_epochs=3)
    assert kept(tmp_path) == "0-4 2-12"
    assert short(callback.kth_best_model_path) == "0-4"


def test_beyond_an_interval_of_zero_saves_after_every_step(pl, tmp_path):
    """As in Lightning 2.6.6; 2.2.5 saves nothing."""
    arguments = {"train_time_interval": timedelta(0), "save_top_k": -1}
    _, _, _, log = fit(pl, tmp_path, arguments, max_epochs=1)
    assert log == "0@1 0@2 0@3 0@4"


def test_old_file_goes_only_when_the_new_one_is_there(pl, tmp_path):
    seen = []

    class Look(pl.Callback):
        def on_save_checkpoint(self, trainer, pl_module, checkpoint):
            seen.append(kept(tmp_path))

    checkpoint = pl.ModelCheckpoint(dirpath=str(tmp_path / "ck"))
    trainer = pl.trainer(tmp_path, callbacks=[Look(), checkpoint], max_epochs=3)
    save = trainer.save_checkpoint

    def slow(path, *args, **kwargs):
        save(path, *args, **kwargs)
        seen.append(kept(tmp_path))

    trainer.save_checkpoint = slow
    trainer.fit(pl.model())
    assert seen == ["", "0-4", "0-4", "0-4 1-8", "1-8", "1-8 2-12"]


def test_folder(pl, tmp_path):
    _, _, callback, _ = fit(pl, tmp_path, {"dirpath": None}, max_epochs=1)
    assert callback.dirpath == str(tmp_path / "checkpoints")
    assert os.listdir(callback.dirpath) == ["epoch=0-step=4.ckpt"]


def test_folder_of_a_run_with_a_logger(pl, tmp_path):
    _, _, callback, _ = fit(pl, tmp_path, {"dirpath": None}, max_epochs=1, logger=True)
    assert callback.dirpath == str(tmp_path / "lightning_logs" / "version_0" / "checkpoints")
    assert os.listdir(callback.dirpath) == ["epoch=0-step=4.ckpt"]


def told_of_files(pl, root, **fit_arguments):
    """Run a fit; return whether a warning said that the folder is not empty."""
    model = pl.model()
    trainer = pl.trainer(root, max_epochs=3, callbacks=[pl.ModelCheckpoint(str(root / "ck"))])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(model, **fit_arguments)
    return any("not empty" in str(each.message) for each in caught)


def test_a_folder_with_files_in_it_is_told(pl, tmp_path):
    assert not told_of_files(pl, tmp_path)
    assert told_of_files(pl, tmp_path)


def test_beyond_a_run_that_goes_on_in_its_own_folder_is_told_nothing(pl, tmp_path):
    """2.2.5 and 2.6.6 warn that the file resumed from is there."""
    fit(pl, tmp_path, {"save_top_k": -1}, max_epochs=2)
    file = str(tmp_path / "ck" / "epoch=0-step=4.ckpt")
    assert not told_of_files(pl, tmp_path, ckpt_path=file)


def test_beyond_a_folder_that_cannot_be_is_refused_before_training(pl, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="file"):
        fit(pl, tmp_path, {"dirpath": str(tmp_path / "file" / "ck")}, max_epochs=0)


def test_weights_only(pl, tmp_path):
    _, _, callback, _ = fit(pl, tmp_path, {"save_weights_only": True}, max_epochs=1)
    file = torch.load(callback.best_model_path, weights_only=False)
    assert "state_dict" in file and "optimizer_states" not in file and "callbacks" not in file


# Names: template, metrics, what comes of it with and without the names of the metrics
NAMES = [
    (None, {"epoch": 3, "step": 5}, "epoch=3-step=5", "3-5"),
    ("{epoch}_{epoch}", {"epoch": 1}, "epoch=1_epoch=1", "1_1"),
    ("{epoch:03d}-{acc}", {"epoch": 5, "acc": 0.25}, "epoch=005-acc=0.25", "005-0.25"),
    ("{acc:.5e}", {"acc": 0.03}, "acc=3.00000e-02", "3.00000e-02"),
    ("{val/loss:.2f}", {"val/loss": 1.234}, "val/loss=1.23", "1.23"),
    ("{acc_top}{acc}", {"acc": 0.5, "acc_top": 1.0}, "acc_top=1.0acc=0.5", "1.00.5"),
    ("{a.b}", {"a.b": 1.0}, "a.b=1.0", "1.0"),
    ("{epoch:>4}", {"epoch": 7}, "epoch=   7", "   7"),
    ("{missing:.2f}-{absent}", {}, "missing=0.00-absent=0", "0.00-0"),
    ("plain", {}, "plain", "plain"),
]


@pytest.mark.parametrize("template,metrics,named,bare", NAMES)
def test_names_of_files(pl, template, metrics, named, bare):
    for kind in (torch.tensor, lambda value: value):
        for auto, expected in ((True, named), (False, bare)):
            callback = pl.ModelCheckpoint(filename=template, auto_insert_metric_name=auto)
            values = {name: kind(value) for name, value in metrics.items()}
            assert callback.format_checkpoint_name(values) == expected + ".ckpt"


def test_names_with_folder_version_and_own_characters(pl, tmp_path):
    callback = pl.ModelCheckpoint(dirpath=str(tmp_path), filename="{epoch}-{v:.1f}")
    metrics = {"epoch": torch.tensor(1), "v": torch.tensor(2.0)}
    name = callback.format_checkpoint_name
    assert name(metrics) == str(tmp_path / "epoch=1-v=2.0.ckpt")
    assert name(metrics, ver=3) == str(tmp_path / "epoch=1-v=2.0-v3.ckpt")
    assert name(metrics, "last", ver=0) == str(tmp_path / "last-v0.ckpt")
    callback.CHECKPOINT_EQUALS_CHAR, callback.FILE_EXTENSION = ":", ".pt"
    assert name(metrics) == str(tmp_path / "epoch:1-v:2.0.pt")
    callback.CHECKPOINT_JOIN_CHAR = "_"
    assert pl.ModelCheckpoint().CHECKPOINT_JOIN_CHAR == "-"
    assert name(metrics, ver=1) == str(tmp_path / "epoch:1-v:2.0_v1.pt")


def test_names_in_a_run(pl, tmp_path):
    arguments = {**VAL, "filename": "sub/{epoch:02d}-{val_score:.2f}", "save_top_k": -1}
    fit(pl, tmp_path, arguments, scores=[1.5, 0.25], max_epochs=2)
    names = sorted(os.listdir(str(tmp_path / "ck" / "sub")))
    assert names == ["epoch=00-val_score=1.50.ckpt", "epoch=01-val_score=0.25.ckpt"]


def test_name_of_last_is_a_template_too(pl, tmp_path):
    class Last(pl.ModelCheckpoint):
        CHECKPOINT_NAME_LAST = "{epoch}-last"

    callback = Last(dirpath=str(tmp_path / "ck"), save_last=True, save_top_k=0)
    pl.trainer(tmp_path, callbacks=[callback], max_epochs=2).fit(pl.model())
    assert os.listdir(str(tmp_path / "ck")) == ["epoch=1-last.ckpt"]
    assert callback.last_model_path.endswith("epoch=1-last.ckpt")


def test_yaml(pl, tmp_path):
    callback = pl.ModelCheckpoint(dirpath=str(tmp_path), monitor="v")
    scores = {"/a b.ckpt": 1.5, "/c.ckpt": 1e-5, "/d.ckpt": 3.0}
    callback.best_k_models = {path: torch.tensor(score) for path, score in scores.items()}
    callback.to_yaml()
    lines = (tmp_path / "best_k_models.yaml").read_text().splitlines()
    read = {path: float(score) for path, score in (line.split(": ") for line in lines)}
    assert read == pytest.approx(scores)


WRONG = [
    ("EarlyStopping", {"monitor": "v", "mode": "auto"}, "auto"),
    ("ModelCheckpoint", {"monitor": "v", "mode": "auto"}, "auto"),
    ("ModelCheckpoint", {"save_top_k": -2}, "save_top_k=-2"),
    ("ModelCheckpoint", {"save_top_k": 3}, "save_top_k=3"),
    ("ModelCheckpoint", {"every_n_train_steps": -1}, "every_n_train_steps=-1"),
    ("ModelCheckpoint", {"every_n_epochs": -1}, "every_n_epochs=-1"),
    ("ModelCheckpoint", {"every_n_train_steps": 1, "every_n_epochs": 1}, "every_n_epochs=1"),
    ("ModelCheckpoint", {"every_n_train_steps": 1, "train_time_interval": timedelta(1)}, "1 day"),
    ("ModelCheckpoint", {"every_n_epochs": 1, "train_time_interval": timedelta(1)}, "1 day"),
]
WRONG_BEYOND = [  # Lightning takes these for True or a folder, or fails in the middle of the run
    ("ModelCheckpoint", {"train_time_interval": 60}, "timedelta"),
    ("ModelCheckpoint", {"save_last": "Link"}, "Link"),
    ("ModelCheckpoint", {"dirpath": "nowhere://bucket/run"}, "nowhere"),
    ("ModelCheckpoint", {"filename": "{epoch"}, "{epoch"),
    ("ModelCheckpoint", {"filename": "{}-{step}"}, "{}-"),
]


def refuses(pl, kind, arguments, named):
    with pytest.raises(Exception) as caught:
        getattr(pl, kind)(**arguments)
    assert type(caught.value).__name__ == "MisconfigurationException"
    assert named in str(caught.value)


@pytest.mark.parametrize("kind,arguments,named", WRONG)
def test_wrong_arguments_are_refused(pl, kind, arguments, named):
    refuses(pl, kind, arguments, named)


@pytest.mark.parametrize("kind,arguments,named", WRONG_BEYOND)
def test_beyond_wrong_arguments_are_refused(pl, kind, arguments, named):
    refuses(pl, kind, arguments, named)


@pytest.mark.parametrize("verbose", [True, False])
def test_a_metric_that_may_be_missing_is_told_on_request(pl, tmp_path, verbose):
    stopping = {"monitor": "nowhere", "strict": False, "verbose": verbose}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer, *_ = fit(pl, tmp_path, stopping=stopping, scores=[1.0] * 4)
    told = [each for each in told if "nowhere" in str(each.message)]
    assert trainer.current_epoch == 4
    assert [each.category for each in told] == [RuntimeWarning] * (4 * verbose)


def test_a_metric_that_was_never_logged(pl, tmp_path):
    with pytest.raises(Exception, match="(?s)nope.*val_score") as caught:
        fit(pl, tmp_path, {"monitor": "nope"}, scores=[1.0])
    assert type(caught.value).__name__ == "MisconfigurationException"
    with pytest.raises(RuntimeError, match="(?s)nope.*val_score"):
        fit(pl, tmp_path, stopping={"monitor": "nope"}, scores=[1.0])


@pytest.mark.parametrize("sanity", [0, 1])
def test_a_metric_that_comes_with_the_first_validation(pl, tmp_path, sanity):
    arguments = {**VAL, "save_on_train_epoch_end": True}
    flags = {"check_val_every_n_epoch": 2, "num_sanity_val_steps": sanity}
    _, _, _, log = fit(pl, tmp_path, arguments, scores=[1.0, 2.0], **flags)
    assert log == "1@8"


def test_a_metric_that_never_comes_while_nothing_is_validated(pl, tmp_path):
    with pytest.warns(UserWarning, match="nope"):
        _, _, _, log = fit(pl, tmp_path, {"monitor": "nope", "save_last": True},
                           limit_val_batches=0)
    assert log == "0@4 1@8 2@12 3@16" and kept(tmp_path) == "last"


def test_beyond_a_name_of_something_that_was_never_logged_warns(pl, tmp_path):
    """Lightning writes 0 without a word."""
    with pytest.warns(UserWarning, match="foo"):
        fit(pl, tmp_path, {"filename": "{foo}-{epoch}"}, max_epochs=1)
    assert kept(tmp_path) == "foo=0-epoch=0"


# EarlyStopping: name; its arguments; the trainer's; scores; epochs and validations that ran,
# wait_count, stopped_epoch, best score
FOREVER = [1.0] * 20
STOPS = [
    ("constant", {"patience": 2}, {}, FOREVER, (3, 3, 2, 2, 1.0)),
    ("every other epoch", {"patience": 2}, {"check_val_every_n_epoch": 2}, FOREVER,
     (6, 3, 2, 5, 1.0)),
    ("twice an epoch", {"patience": 2}, {"val_check_interval": 0.5}, FOREVER, (2, 3, 2, 1, 1.0)),
    ("twice an epoch, checked at its end", {"patience": 2, "check_on_train_epoch_end": True},
     {"val_check_interval": 0.5}, FOREVER, (3, 6, 2, 2, 1.0)),
    ("checked after validation", {"patience": 2, "check_on_train_epoch_end": False}, {}, FOREVER,
     (3, 3, 2, 2, 1.0)),
    ("by min_delta is no improvement", {"patience": 1, "min_delta": 0.5}, {}, [3.0, 2.5, 1.0],
     (2, 2, 1, 1, 3.0)),
    ("by more than min_delta is one", {"patience": 2, "min_delta": 0.5}, {},
     [3.0, 2.5, 2.0, 1.0, 1.0, 1.0], (6, 6, 2, 5, 1.0)),
    ("min_delta, maximum", {"patience": 2, "min_delta": 0.5, "mode": "max"}, {},
     [1.0, 1.5, 2.0, 2.5, 2.0], (5, 5, 2, 4, 2.0)),
    ("negative min_delta", {"patience": 1, "min_delta": -0.5}, {}, [1.0, 1.25, 1.5, 1.75, 4.0],
     (5, 5, 1, 4, 1.75)),
    ("no patience", {"patience": 0}, {}, [3.0, 2.0, 2.0], (3, 3, 1, 2, 2.0)),
    ("NaN", {}, {}, [3.0, NAN], (2, 2, 0, 1, 3.0)),
    ("infinite", {}, {}, [3.0, INF], (2, 2, 0, 1, 3.0)),
    ("infinitely good", {}, {}, [3.0, -INF], (2, 2, 0, 1, 3.0)),
    ("NaN allowed", {"check_finite": False, "patience": 2}, {}, [3.0, NAN, 1.0, NAN, NAN],
     (5, 5, 2, 4, 1.0)),
    ("good enough", {"stopping_threshold": 1.0}, {}, [3.0, 1.0, 0.5], (3, 3, 0, 2, 1.0)),
    ("good enough, maximum", {"stopping_threshold": 1.0, "mode": "max"}, {}, [0.5, 1.0, 1.5],
     (3, 3, 0, 2, 1.0)),
    ("diverged", {"divergence_threshold": 5.0}, {}, [3.0, 5.0, 6.0], (3, 3, 1, 2, 3.0)),
    ("diverged, maximum", {"divergence_threshold": 0.5, "mode": "max"}, {}, [3.0, 0.5, 0.25],
     (3, 3, 1, 2, 3.0)),
    ("min_epochs", {"patience": 1}, {"min_epochs": 4}, FOREVER, (4, 4, 3, 3, 1.0)),
    ("metric of training", {"monitor": "train_score", "patience": 1}, {}, FOREVER,
     (2, 2, 1, 1, 3.0)),
    ("sanity check does not count", {"patience": 1}, {"num_sanity_val_steps": 2}, FOREVER,
     (2, 2, 1, 1, 1.0)),
    ("late first validation", {"patience": 1},
     {"check_val_every_n_epoch": 2, "num_sanity_val_steps": 2}, FOREVER, (4, 2, 1, 3, 1.0)),
    ("missing, not strict", {"monitor": "nope", "strict": False}, {"max_epochs": 2}, FOREVER,
     (2, 2, 0, 0, INF)),
    ("fast_dev_run", {"monitor": "nope"}, {"fast_dev_run": True}, FOREVER, (1, 1, 0, 0, INF)),
]


@pytest.mark.parametrize("case", STOPS, ids=lambda case: case[0])
def test_when_training_stops(pl, tmp_path, case):
    _, arguments, flags, scores, expected = case
    trainer, model, callback, _ = fit(
        pl, tmp_path, stopping={**VAL, **arguments}, scores=scores,
        train_scores=[3.0] * 20, **{"max_epochs": 9, **flags})
    epochs, validations, waited, stopped, best = expected
    assert (trainer.current_epoch, model.validations) == (epochs, validations)
    assert (callback.wait_count, callback.stopped_epoch) == (waited, stopped)
    assert float(callback.best_score) == best
    assert trainer.should_stop == (stopped > 0)


def test_states_and_keys(pl, tmp_path):
    stopping = pl.EarlyStopping("v", patience=3, mode="max")
    assert stopping.state_key == "EarlyStopping{'monitor': 'v', 'mode': 'max'}"
    assert {name: stopping.state_dict()[name] for name in ("wait_count", "stopped_epoch")} == {
        "wait_count": 0, "stopped_epoch": 0}
    assert float(stopping.state_dict()["best_score"]) == -INF
    keys = {"monitor": None, "mode": "min", "every_n_train_steps": 2, "every_n_epochs": 0,
            "train_time_interval": None}
    assert pl.ModelCheckpoint(every_n_train_steps=2).state_key == "ModelCheckpoint%r" % keys
    keys.update(every_n_train_steps=0, train_time_interval=timedelta(minutes=3))
    timed = pl.ModelCheckpoint(train_time_interval=timedelta(minutes=3))
    assert timed.state_key == "ModelCheckpoint%r" % keys
    assert set(pl.ModelCheckpoint().state_dict()) >= {
        "monitor", "best_model_score", "best_model_path", "current_score", "dirpath",
        "best_k_models", "kth_best_model_path", "kth_value", "last_model_path"}


def resume(pl, root, scores, after, stopping=None, checkpoint=None, **flags):
    """Fit for the first scores, then in a new trainer from its last checkpoint for the others."""
    def callbacks():
        kinds = [(pl.EarlyStopping, stopping), (pl.ModelCheckpoint, checkpoint)]
        return [kind(**arguments) for kind, arguments in kinds if arguments]

    first = callbacks()
    pl.trainer(root, callbacks=first, max_epochs=len(scores)).fit(pl.model(scores))
    second = callbacks()
    model = pl.model(after)
    trainer = pl.trainer(root, callbacks=second, **{"max_epochs": len(scores + after), **flags})
    trainer.fit(model, ckpt_path=first[-1].last_model_path)
    return first, second, model


def test_patience_goes_on_after_a_resume(pl, tmp_path):
    """BR-15: three of three checks without improvement were two before the resume."""
    first, (stopping, _), model = resume(
        pl, tmp_path, [1.0, 1.125, 1.25], [1.375, 1.5, 1.5, 1.5], {**VAL, "patience": 3},
        {"dirpath": str(tmp_path / "ck"), "save_last": True})
    assert first[0].wait_count == 2
    assert (stopping.wait_count, stopping.stopped_epoch, model.validations) == (3, 3, 1)
    assert float(stopping.best_score) == 1.0


def test_ranking_goes_on_after_a_resume(pl, tmp_path):
    """BR-15: the first model after the resume is worse, and the best file stays."""
    arguments = {"dirpath": str(tmp_path / "ck"), "save_last": True, **MAX}
    first, (callback,), _ = resume(pl, tmp_path, [0.5, 0.625], [0.5625], None, arguments)
    assert short(callback.best_model_path) == "1-8" and kept(tmp_path) == "1-8 last"
    assert float(callback.best_model_score) == 0.625
    assert callback.best_k_models.keys() == first[0].best_k_models.keys()


def test_ranking_in_another_folder_starts_anew(pl, tmp_path):
    callback = pl.ModelCheckpoint(dirpath=str(tmp_path / "a"), monitor="v")
    score = torch.tensor(1.0)
    callback.best_k_models = {"x.ckpt": score}
    callback.best_model_path, callback.best_model_score = "x.ckpt", score
    other = pl.ModelCheckpoint(dirpath=str(tmp_path / "b"), monitor="v")
    with pytest.warns(UserWarning, match="dirpath|folder|files in"):
        other.load_state_dict(callback.state_dict())
    assert (other.best_model_path, other.best_k_models) == ("x.ckpt", {})
    assert other.best_model_score is None


def test_a_ranking_of_lightning_is_taken(pl, tmp_path):
    """The keys of 2.2.5, with none of the implementation's own."""
    score, file = torch.tensor(0.5), str(tmp_path / "a.ckpt")
    state = {"monitor": "v", "best_model_score": score, "best_model_path": file,
             "current_score": score, "dirpath": str(tmp_path), "best_k_models": {file: score},
             "kth_best_model_path": file, "kth_value": score, "last_model_path": "last.ckpt"}
    callback = pl.ModelCheckpoint(dirpath=str(tmp_path), monitor="v")
    callback.load_state_dict(state)
    state.pop("current_score")  # 2.x does not take it back
    assert {name: getattr(callback, name) for name in state} == state


def test_the_file_resumed_from_stays(pl, tmp_path):
    arguments = {"dirpath": str(tmp_path / "ck")}
    _, _, first, _ = fit(pl, tmp_path, arguments, max_epochs=1)
    second = pl.ModelCheckpoint(**arguments)
    trainer = pl.trainer(tmp_path, callbacks=[second], max_epochs=3)
    trainer.fit(pl.model(), ckpt_path=first.best_model_path)
    assert kept(tmp_path) == "0-4 2-12"


def test_beyond_a_callback_starts_afresh_in_another_trainer(pl, tmp_path):
    """BR-15. In Lightning the second fit stops after one epoch, and keeps no file."""
    stopping = pl.EarlyStopping("val_score", patience=2)
    checkpoint = pl.ModelCheckpoint(dirpath=str(tmp_path / "ck"), monitor="val_score")
    for scores in ([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]):
        trainer = pl.trainer(tmp_path, callbacks=[stopping, checkpoint], max_epochs=9)
        trainer.fit(pl.model(scores))
        assert trainer.current_epoch == 3 and stopping.wait_count == 2
        assert float(checkpoint.best_model_score) == scores[0]


def test_a_second_fit_of_the_same_trainer_goes_on(pl, tmp_path):
    checkpoint = pl.ModelCheckpoint(dirpath=str(tmp_path / "ck"), monitor="val_score")
    trainer = pl.trainer(tmp_path, callbacks=[checkpoint], max_epochs=2)
    model = pl.model([1.0, 0.5])
    trainer.fit(model)
    trainer.fit(model)
    assert short(checkpoint.best_model_path) == "1-8" and kept(tmp_path) == "1-8"


# Progress bars


class Endless(IterableDataset):
    """Three samples, and nobody knows in advance."""

    def __iter__(self):
        return iter(torch.ones(3, 2))


def rows(count):
    return DataLoader(torch.ones(count, 2), batch_size=1)


def run_stages(pl, root, bar, callbacks, train, flags):
    model = pl.model()
    model.validation_step = model.test_step = lambda batch, batch_idx, dataloader_idx=0: None
    model.predict_step = lambda batch, batch_idx: batch_idx
    flags = {"max_epochs": 1, "enable_progress_bar": True, **flags}
    trainer = pl.trainer(root, callbacks=[bar] + callbacks, **flags)
    trainer.fit(model, train, [rows(2), rows(3)])
    trainer.test(model, rows(2), verbose=False)
    trainer.predict(model, rows(2))
    trainer.validate(model, rows(2), verbose=False)
    return trainer


TWO_LOADERS = ["Validation DataLoader 0: 1/2", "Validation DataLoader 0: 2/2",
               "Validation DataLoader 1: 1/3", "Validation DataLoader 1: 2/3",
               "Validation DataLoader 1: 3/3"]
ALONE = ["Testing DataLoader 0: 1/2", "Testing DataLoader 0: 2/2",
         "Predicting DataLoader 0: 1/2", "Predicting DataLoader 0: 2/2",
         "Validation DataLoader 0: 1/2", "Validation DataLoader 0: 2/2"]
SHOWN = [
    ("each batch", 1, {"num_sanity_val_steps": 1}, lambda: rows(3),
     ["Sanity Checking DataLoader 0: 1/1", "Sanity Checking DataLoader 1: 1/1",
      "Epoch 0: 1/3", "Epoch 0: 2/3", "Epoch 0: 3/3"] + TWO_LOADERS + ALONE),
    ("each second batch and the last", 2, {}, lambda: rows(5),
     ["Epoch 0: 0/5", "Epoch 0: 2/5", "Epoch 0: 2/5", "Epoch 0: 4/5", "Epoch 0: 5/5"]
     + ["Validation DataLoader 0: 0/2", "Validation DataLoader 0: 2/2",
        "Validation DataLoader 1: 0/3", "Validation DataLoader 1: 2/3",
        "Validation DataLoader 1: 3/3"] + [row.replace(" 1/", " 0/") for row in ALONE]),
    ("unknown number", 1, {}, lambda: DataLoader(Endless()),
     ["Epoch 0: 1/None", "Epoch 0: 2/None", "Epoch 0: 3/None"] + TWO_LOADERS + ALONE),
    ("two epochs", 1, {"max_epochs": 2, "limit_val_batches": 0}, lambda: rows(2),
     ["Epoch 0: 1/2", "Epoch 0: 2/2", "Epoch 1: 1/2", "Epoch 1: 2/2"] + ALONE[:4]),
]


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case[0])
def test_what_the_bar_shows(pl, tmp_path, capsys, case):
    pytest.importorskip("tqdm")
    _, rate, flags, train, expected = case
    bar = pl.Bar(refresh_rate=rate)
    shown = []

    def show(name):
        def hook(self, *args):
            tqdm = getattr(bar, name + "_progress_bar")
            shown.append("%s%s/%s" % (tqdm.desc, tqdm.n, tqdm.total))
        return hook

    class Watch(pl.Callback):
        on_train_batch_end = show("train")
        on_validation_batch_end = show("val")
        on_test_batch_end = show("test")
        on_predict_batch_end = show("predict")

    run_stages(pl, tmp_path, bar, [Watch()], train(), flags)
    assert shown == expected
    assert "Epoch 0" in capsys.readouterr().out


def test_totals(pl, tmp_path):
    seen = {}

    class Count(pl.BarBase):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
            seen["train"] = (self.total_train_batches, self.total_val_batches)

        def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
            if self.has_dataloader_changed(dataloader_idx):
                here = self.total_val_batches_current_dataloader
                seen.setdefault("val", []).append((dataloader_idx, here))

        def on_validation_end(self, trainer, pl_module):
            self.reset_dataloader_idx_tracker()

        on_test_end = on_predict_end = on_validation_end

        def on_test_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
            self.has_dataloader_changed(dataloader_idx)
            seen["test"] = self.total_test_batches_current_dataloader

        def on_predict_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
            self.has_dataloader_changed(dataloader_idx)
            seen["predict"] = self.total_predict_batches_current_dataloader

        def disable(self):
            raise AssertionError("disabled on rank 0")

        def enable(self):
            pass

    trainer = run_stages(pl, tmp_path, Count(), [], rows(4), {})
    assert seen == {"train": (4, 5), "val": [(0, 2), (1, 3), (0, 2)], "test": 2, "predict": 2}
    assert trainer.progress_bar_callback.trainer is trainer


def test_totals_of_the_sanity_check_and_of_an_epoch_without_validation(pl, tmp_path):
    seen = {"sanity": []}

    class Count(pl.BarBase):
        def disable(self):
            pass

        def enable(self):
            pass

        def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
            if self.has_dataloader_changed(dataloader_idx):
                seen["sanity"].append(self.total_val_batches_current_dataloader)

        def on_train_epoch_end(self, trainer, pl_module):
            seen["val"] = self.total_val_batches

    bar, model = Count(), pl.model()
    with pytest.raises(TypeError, match="trainer"):
        assert bar.trainer
    model.validation_step = lambda batch, batch_idx, dataloader_idx=0: None
    trainer = pl.trainer(tmp_path, callbacks=[bar], enable_progress_bar=True, max_epochs=1,
                         num_sanity_val_steps=2, check_val_every_n_epoch=2)
    trainer.fit(model, val_dataloaders=[DataLoader(torch.ones(rows, 1)) for rows in (3, 1)])
    assert seen == {"sanity": [2, 1], "val": 0}


def test_beyond_totals_of_all_loaders(pl, tmp_path):
    """`total_test_batches` and `total_predict_batches` of 1.5; 2.x has them no more."""
    model, bar = pl.model(), pl.Bar(refresh_rate=0)
    model.test_step = lambda batch, batch_idx, dataloader_idx: None
    model.predict_step = lambda batch, batch_idx, dataloader_idx: None
    trainer = pl.trainer(tmp_path, callbacks=[bar], enable_progress_bar=True)
    loaders = [DataLoader(torch.ones(rows, 2)) for rows in (3, 1)]
    trainer.test(model, loaders, verbose=False)
    trainer.predict(model, loaders[:1] + loaders)
    assert (bar.total_test_batches, bar.total_predict_batches) == (4, 7)
    assert bar.main_progress_bar is bar.train_progress_bar


def test_beyond_bars_are_closed_by_an_error(pl, tmp_path):
    """2.2.5 leaves them open; so the next line of the program stands on theirs."""
    class Breaks(pl.Callback):
        def on_validation_batch_end(self, *args, **kwargs):
            raise ValueError("broken")

    bar = pl.Bar()
    trainer = pl.trainer(
        tmp_path, callbacks=[bar, Breaks()], enable_progress_bar=True, max_epochs=1)
    with pytest.raises(ValueError, match="broken"):
        trainer.fit(pl.model())
    assert bar.train_progress_bar.disable and bar.val_progress_bar.disable  # tqdm: is closed


def test_beyond_print_where_no_bar_is_drawn(pl, tmp_path, capsys):
    """2.2.5 prints nothing then."""
    bar = pl.Bar(refresh_rate=0)
    bar.print("plain", 1, sep="-", end="!\n")
    trainer = pl.trainer(tmp_path, callbacks=[bar], enable_progress_bar=True, max_epochs=1)
    trainer.fit(pl.model())
    bar.print("after", 2)
    assert capsys.readouterr().out.splitlines()[-2:] == ["plain-1!", "after 2"]


def test_metrics_beside_the_bar(pl, tmp_path, capsys):
    seen = []

    class Bar(pl.Bar):
        def get_metrics(self, trainer, pl_module):
            metrics = super().get_metrics(trainer, pl_module)
            seen.append(dict(metrics))
            return metrics

    model = pl.model()
    model.validation_step = lambda batch, batch_idx: model.log("v", 0.25, prog_bar=True)
    trainer = pl.trainer(
        tmp_path, callbacks=[Bar()], enable_progress_bar=True, max_epochs=1, logger=True)
    trainer.fit(model)
    assert seen[0] == {"v_num": 0} and seen[-1] == {"v_num": 0, "v": 0.25}
    assert "v_num=0, v=0.250]" in capsys.readouterr().out


def test_a_metric_with_the_name_of_the_version_warns(pl, tmp_path):
    model = pl.model()
    model.validation_step = lambda batch, batch_idx: model.log("v_num", 0.25, prog_bar=True)
    flags = {"enable_progress_bar": True, "max_epochs": 1, "logger": True}
    with pytest.warns(UserWarning, match="v_num"):
        pl.trainer(tmp_path, callbacks=[pl.Bar()], **flags).fit(model)


def test_a_bar_that_is_off_draws_nothing(pl, tmp_path, capsys):
    bar = pl.Bar(refresh_rate=0)
    assert not bar.is_enabled and bar.is_disabled
    run_stages(pl, tmp_path, bar, [], rows(2), {})
    off = pl.Bar()
    off.disable()
    assert off.is_disabled and not off.is_enabled
    run_stages(pl, tmp_path, off, [], rows(2), {})
    off.enable()
    assert off.is_enabled
    assert "Epoch" not in "".join(capsys.readouterr())


def test_bars_of_your_own(pl, tmp_path, capsys):
    """The change that the documentation of the bars has shown since 1.1."""
    class Mine(pl.Bar):
        def init_validation_tqdm(self):
            bar = super().init_validation_tqdm()
            bar.set_description("checking it")
            return bar

    run_stages(pl, tmp_path, Mine(), [], rows(2), {})
    assert "checking it" in capsys.readouterr().out


def test_print_above_the_bar(pl, tmp_path, capsys):
    class Talk(pl.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            pl_module.print("batch", batch_idx, sep=":")

    run_stages(pl, tmp_path, pl.Bar(), [Talk()], rows(2), {})
    lines = [line.split("\r")[-1] for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line.startswith("batch:")] == ["batch:0", "batch:1"]


def screen(text):
    """Return the lines that a terminal shows after this text."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[A|[\r\n]|[^\r\n\x1b]+", text):
        if part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif part == "\x1b[A":
            row = max(0, row - 1)
        else:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + part + line[column + len(part):]
            column += len(part)
    return [line.rstrip() for line in lines]


def test_beyond_messages_and_warnings_stand_above_the_bar(pl, tmp_path, monkeypatch):
    """2.2.5 and 2.6.6 put them on the bar's line, behind its end."""
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    package = importlib.import_module(pl.name)
    console = package.errors._Console()
    monkeypatch.setattr(package.errors.log, "handlers", [console])

    class Talk(pl.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            package.errors.info("message %d" % batch_idx)

    bars = [Talk(), pl.Bar()]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda message, *rest: terminal.write(
            "warning %s\n" % message))
        pl.trainer(tmp_path, callbacks=bars, enable_progress_bar=True, max_epochs=1,
                   limit_val_batches=0).fit(pl.model())
    shown = screen(terminal.getvalue())
    assert [line for line in shown if "message" in line] == ["message %d" % i for i in range(4)]
    assert "`Trainer.fit` stopped: `max_epochs=1` reached." in shown
    assert [line.split(":")[0] for line in shown if "|" in line] == ["Epoch 0"]
    assert all(line.startswith("warning ") for line in shown if "warning" in line)


def test_a_bar_that_has_run_can_be_pickled(pl, tmp_path):
    bar = pl.Bar()
    pl.trainer(tmp_path, callbacks=[bar], enable_progress_bar=True, max_epochs=1).fit(pl.model())
    for name in ("_trainer", "log", "log_dict"):  # they hold the trainer and the module
        vars(bar).pop(name, None)
    assert pickle.loads(pickle.dumps(bar)).refresh_rate == bar.refresh_rate


def test_beyond_counts_of_the_older_bars(pl, tmp_path):
    """`train_batch_idx` and its siblings of 1.1 and 1.5; 2.x has them no more."""
    counts = []

    class Percent(pl.BarBase):
        def __init__(self):
            super().__init__()
            self.enable = True  # as the guide of 1.1 does it

        def disable(self):
            self.enable = False

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx):
            super().on_train_batch_end(
                trainer, pl_module, outputs, batch, batch_idx, dataloader_idx)
            counts.append(100 * self.train_batch_idx // self.total_train_batches)

        def on_validation_batch_end(
                self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx):
            super().on_validation_batch_end(
                trainer, pl_module, outputs, batch, batch_idx, dataloader_idx)
            counts.append(100 * self.val_batch_idx // self.total_val_batches)

    model = pl.model()
    trainer = pl.trainer(tmp_path, callbacks=[Percent()], enable_progress_bar=True, max_epochs=1)
    trainer.fit(model)
    assert counts == [25, 50, 75, 100, 100]


def test_beyond_without_tqdm_training_runs_and_one_warning_tells(pl, tmp_path):
    """Lightning needs tqdm."""
    def trains():
        for name in [each for each in sys.modules if (each + ".").startswith(pl.name + ".")]:
            del sys.modules[name]
        sys.modules["tqdm"] = None
        again = Namespace(types.SimpleNamespace(name=pl.name))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                trainer = again.trainer(tmp_path, enable_progress_bar=True, max_epochs=2)
                trainer.fit(again.model())
                print("steps", trainer.global_step)
        print("told", sum("progress]" in str(one.message) for one in caught))

    status, said = forked.run(trains)
    assert said.count("steps 8") == 2 and "told 1" in said and status == 0, said


def test_beyond_a_fast_loop_is_not_slowed_by_drawing(pl, tmp_path, capsys):
    """Lightning asks for the metrics, and draws, after every batch."""
    asked = []

    class Bar(pl.Bar):
        def get_metrics(self, trainer, pl_module):
            asked.append(time.monotonic())
            return super().get_metrics(trainer, pl_module)

    model = pl.model()
    trainer = pl.trainer(
        tmp_path, callbacks=[Bar()], enable_progress_bar=True, max_epochs=1, limit_val_batches=0)
    begin = time.monotonic()
    trainer.fit(model, DataLoader(torch.ones(400, 2)))
    assert len(asked) <= 3 + math.ceil((asked[-1] - begin) / 0.1)
