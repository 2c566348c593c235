"""Loggers: what is on disk and when, several at once, and what a failing one does to a run.

What is expected was recorded from Lightning 2.2.5. Tests whose name starts with ``test_beyond`` ask
for more, or for something else, and say what Lightning does.
"""

import argparse
import csv
import importlib
import json
import os
import random
import signal
import sys
import time
import types
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from . import forked  # noqa: E402
from .asking import ask  # noqa: E402


class Namespace:
    """The implementation's classes, and a fit of six steps that logs `loss`."""

    def __init__(self, impl, root):
        self.impl, self.root = impl, root

    def csv(self, **arguments):
        """Return a CSVLogger in the folder of the test."""
        return self.impl.CSVLogger(**{**dict(save_dir=str(self.root), version=0), **arguments})

    def recorder(self, **does):
        """Return a logger that keeps what it is told, and does what the test says."""
        told = []

        class Recorder(self.impl.Logger):
            name, version, experiment, save_dir = "recorder", 0, None, None

            def log_metrics(self, metrics, step=None):
                told.append(("log_metrics", step, dict(metrics)))
                does.get("log_metrics", len)(metrics)

            def log_hyperparams(self, params, *args, **kwargs):
                told.append(("log_hyperparams", dict(params)))

            def finalize(self, status):
                told.append(("finalize", status))
                does.get("finalize", len)(status)

        made = Recorder()
        made.told = told
        return made

    def fit(self, logger, module=(), call="fit", **flags):
        """Run a fit with a logger; return the trainer."""
        trainer = self.trainer(logger=logger, **flags)
        getattr(trainer, call)(self.module(**dict(module)))
        return trainer

    def trainer(self, **flags):
        """Return a quiet trainer that logs every step."""
        quiet = {
            "enable_progress_bar": False, "enable_model_summary": False, "max_epochs": 2,
            "enable_checkpointing": False, "accelerator": "cpu", "devices": 1,
            "log_every_n_steps": 1, "default_root_dir": str(self.root / "default"),
        }
        return self.impl.trainer(**{**quiet, **flags})

    def module(self, **hooks):
        """Return a module that logs its loss, and after each epoch its validation's."""
        class Model(self.impl.LightningModule):
            def __init__(self, width=1):
                super().__init__()
                self.save_hyperparameters()
                self.layer = torch.nn.Linear(2, 1)

            def training_step(self, batch, batch_idx):
                loss = self.layer(batch).sum()
                self.log("loss", float(batch_idx))
                return loss

            def validation_step(self, batch, batch_idx):
                self.log("val_loss", 0.5)

            def predict_step(self, batch, batch_idx):
                return 0

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

            def train_dataloader(self):
                return DataLoader(torch.ones(3, 2), batch_size=1)

            val_dataloader = predict_dataloader = train_dataloader

        for name, function in hooks.items():
            setattr(Model, name, function)
        return Model()


pytestmark = pytest.mark.usefixtures("no_noise")


@pytest.fixture
def pl(impl, request, tmp_path):
    """Ask those who claim the edition of the test."""
    ask(request, impl)
    return Namespace(impl, tmp_path)


def lines(logger):
    """Return the lines of the file of metrics."""
    return (Path(logger.log_dir) / "metrics.csv").read_text("utf-8").splitlines()


def table(logger):
    """Return the rows of the file of metrics, each without its empty cells."""
    with open(str(Path(logger.log_dir) / "metrics.csv"), encoding="utf-8", newline="") as file:
        return [{name: cell for name, cell in row.items() if cell} for row in csv.DictReader(file)]


# CSV


def test_folders_and_versions(pl):
    logger = pl.csv(version=None)
    assert (logger.name, logger.version, logger.save_dir) == ("lightning_logs", 0, str(pl.root))
    assert logger.root_dir == str(pl.root / "lightning_logs")
    assert logger.log_dir == str(pl.root / "lightning_logs" / "version_0")
    for taken in ("version_3", "version_x", "other"):
        (pl.root / "lightning_logs" / taken).mkdir(parents=True)
    assert pl.csv(version=None).version == 4
    assert pl.csv(name="", version="mine").log_dir == str(pl.root / "mine")
    assert pl.csv(name=None, version=2).log_dir == str(pl.root / "version_2")


def test_rows_of_a_run(pl):
    logger = pl.csv()
    pl.fit(logger)
    rows = table(logger)
    assert [(int(row["step"]), float(row["loss"])) for row in rows if "loss" in row] == [
        (0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (5, 2)]
    assert [(int(row["step"]), float(row["val_loss"])) for row in rows if "val_loss" in row] == [
        (2, 0.5), (5, 0.5)]
    assert [int(row["epoch"]) for row in rows] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_prefix_stands_before_each_metric(pl):
    logger = pl.csv(prefix="run")
    logger.log_metrics({"loss": 1.0}, 4)
    logger.save()
    assert table(logger) == [{"step": "4", "run-loss": "1.0"}]


def test_a_tensor_is_written_as_its_number(pl):
    logger = pl.csv()
    logger.log_metrics({"loss": torch.tensor(0.5)}, 0)
    logger.save()
    assert table(logger) == [{"step": "0", "loss": "0.5"}]


def test_without_a_step_rows_are_counted(pl):
    logger = pl.csv()
    for _ in range(3):
        logger.log_metrics({"loss": 1.0})
    logger.save()
    assert [row["step"] for row in table(logger)] == ["0", "1", "2"]


def test_rows_are_written_when_so_many_steps_have_passed(pl):
    logger = pl.csv(flush_logs_every_n_steps=4)
    counts = []
    for step in range(9):
        logger.log_metrics({"loss": 1.0}, step)
        exists = (Path(logger.log_dir) / "metrics.csv").exists()
        counts.append(len(table(logger)) if exists else 0)
    assert counts == [0, 0, 0, 4, 4, 4, 4, 8, 8]
    logger.finalize("success")
    assert len(table(logger)) == 9


def test_beyond_a_number_of_steps_below_1_is_refused(pl):
    """2.2.5 and 2.6.6 divide by it."""
    with pytest.raises(Exception, match="flush_logs_every_n_steps=0"):
        pl.csv(flush_logs_every_n_steps=0)


def test_one_file_holds_every_column(pl):
    logger = pl.csv()
    for step, metrics in enumerate([{"a": 1.0}, {"a": 2.0}, {"b,c": 3.0}, {"a": 4.0, "d": 5.0}]):
        logger.log_metrics(metrics, step)
        logger.save()
    assert table(logger) == [
        {"step": "0", "a": "1.0"}, {"step": "1", "a": "2.0"}, {"step": "2", "b,c": "3.0"},
        {"step": "3", "a": "4.0", "d": "5.0"}]
    assert [name for name in os.listdir(logger.log_dir) if "metrics" in name] == ["metrics.csv"]


def test_beyond_a_new_column_leaves_the_rows_above_as_they_are(pl):
    """2.2.5 and 2.6.6 sort the columns and write every row again; killed then, they lose them."""
    logger = pl.csv()
    for step in range(3):
        logger.log_metrics({"z": step / 2}, step)
        logger.save()
    before = lines(logger)
    logger.log_metrics({"a": 1.0}, 3)
    logger.save()
    assert before == ["step,z", "0,0.0", "1,0.5", "2,1.0"]
    assert lines(logger) == ["step,z,a", *before[1:], "3,,1.0"]


def test_beyond_a_version_that_is_there_is_continued(pl):
    """2.2.5 and 2.6.6 delete its file, with a warning."""
    first = pl.csv()
    first.log_metrics({"a": 1.0}, 0)
    first.save()
    with open(str(Path(first.log_dir) / "metrics.csv"), "a") as file:
        file.write("1,0.")  # the process was killed here
    second = pl.csv()
    second.log_metrics({"b": 2.0}, 5)
    second.save()
    assert table(second) == [{"step": "0", "a": "1.0"}, {"step": "5", "b": "2.0"}]


def test_beyond_rows_can_be_read_while_one_is_being_written(pl):
    """Lightning has no reader."""
    logger = pl.csv()
    logger.log_metrics({"a": 1.0, "word": "text"}, 0)
    logger.save()
    with open(str(Path(logger.log_dir) / "metrics.csv"), "a") as file:
        file.write("1,0.")
    read = importlib.import_module(pl.impl.name + ".loggers").read_metrics
    assert read(logger.log_dir) == [{"step": 0, "a": 1.0}]
    with pytest.raises(FileNotFoundError, match="log_dir"):
        read(pl.root / "nowhere")


def test_pandas_reads_the_file(pl):
    pandas = pytest.importorskip("pandas")
    logger = pl.csv()
    pl.fit(logger)
    frame = pandas.read_csv(str(Path(logger.log_dir) / "metrics.csv"))
    assert list(frame["loss"].dropna()) == [0, 1, 2, 0, 1, 2]
    assert list(frame["val_loss"].dropna()) == [0.5, 0.5]


def test_beyond_hyperparameters_are_json(pl):
    """2.2.5 and 2.6.6 write YAML, which needs a package."""
    logger = pl.csv()
    pl.fit(logger)
    assert json.loads((Path(logger.log_dir) / "hparams.json").read_text()) == {"width": 1}


def test_nothing_is_on_disk_before_there_is_something_to_write(pl):
    logger = pl.csv()
    pl.trainer(logger=logger)
    assert list(pl.root.iterdir()) == []


def trains_long(pl):
    """Train until the process is killed; print each step."""
    class Model(pl.impl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch, batch_idx):
            self.log("loss", 0.5)
            if self.global_step % 7 == 3:
                self.log("new_%d" % (self.global_step // 70), 1.0)
            self.logger.log_metrics({"by_hand": 1.0}, self.global_step)
            print(self.global_step, flush=True)
            time.sleep(0.002)
            return self.layer(batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    sys.stderr = open(os.devnull, "w")
    logger = pl.csv(version=0, flush_logs_every_n_steps=10)
    trainer = pl.trainer(logger=logger, log_every_n_steps=25, max_epochs=1)
    trainer.fit(Model(), DataLoader(torch.ones(10 ** 6, 2)))


def test_beyond_a_run_that_is_killed_keeps_all_rows_but_those_of_one_interval(pl):
    """2.2.5 and 2.6.6, too, unless they are killed while a new column makes them rewrite."""
    child, output = forked.start(lambda: trains_long(pl))
    step, last = -1, random.randint(30, 150)
    for line in output:
        step = int(line)
        if step >= last:
            break
    time.sleep(random.random() / 100)
    os.kill(child, signal.SIGKILL)
    with output:
        step = max([step] + [int(line) for line in output.read().splitlines()])
    os.waitpid(child, 0)
    read = importlib.import_module(pl.impl.name + ".loggers").read_metrics
    rows = read(pl.root / "lightning_logs" / "version_0")
    assert step - 10 <= rows[-1]["step"] <= step
    by_hand = [row["step"] for row in rows if "by_hand" in row]
    assert by_hand == list(range(len(by_hand)))
    assert [row["step"] for row in rows if "loss" in row] == list(range(24, len(by_hand), 25))


# TensorBoard


def scalars(logger):
    """Return {tag: [(step, value)]} and the tags of histograms of what TensorBoard would show."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator").EventAccumulator(logger.log_dir)
    accumulator.Reload()
    tags = accumulator.Tags()
    values = {tag: [(each.step, each.value) for each in accumulator.Scalars(tag)]
              for tag in tags["scalars"]}
    return values, tags["histograms"]


def on_before_optimizer_step(self, optimizer):
    # The example of edition 2.2, with a smaller interval.
    if self.trainer.global_step % 2 == 0:  # don't make the tf file huge
        for k, v in self.named_parameters():
            self.logger.experiment.add_histogram(
                tag=k, values=v.grad, global_step=self.trainer.global_step
            )


def test_the_example_of_the_histogram_works_as_written(pl):
    pytest.importorskip("tensorboard")
    logger = pl.impl.TensorBoardLogger(str(pl.root))
    pl.fit(logger, {"on_before_optimizer_step": on_before_optimizer_step})
    values, histograms = scalars(logger)
    assert sorted(histograms) == ["layer.bias", "layer.weight"]
    assert values["loss"] == [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (5, 2)]
    assert values["val_loss"] == [(2, 0.5), (5, 0.5)]
    assert values["hp_metric"] == [(0, -1)]


def test_tensorboard_in_a_sub_folder_with_a_prefix(pl):
    pytest.importorskip("tensorboard")
    logger = pl.impl.TensorBoardLogger(
        str(pl.root), name="n", version="v", prefix="p", sub_dir="s", default_hp_metric=False)
    assert logger.log_dir == str(pl.root / "n" / "v" / "s")
    pl.fit(logger)
    assert sorted(scalars(logger)[0]) == ["p-epoch", "p-loss", "p-val_loss"]


class Writer:
    """Stands for TensorBoard's writer, where that is not installed: keeps what it is told."""

    made = []

    def __init__(self, log_dir):
        self.log_dir, self.told, self.file_writer = log_dir, [], self
        self.made.append(self)

    def __getattr__(self, name):
        return lambda *args: self.told.append((name,) + args)


@pytest.fixture
def writer(pl, monkeypatch):
    """Return the class of the writers that a TensorBoardLogger makes."""
    stand_in = types.ModuleType("torch.utils.tensorboard")
    stand_in.SummaryWriter = type("SummaryWriter", (Writer,), {"made": []})
    stand_in.summary = types.SimpleNamespace(
        hparams=lambda params, metrics: [("params", params), ("metrics", metrics)])
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    return stand_in.SummaryWriter


def test_beyond_what_the_writer_of_tensorboard_is_told(pl, writer):
    """The calls are those that 2.2.5 makes, but for hyperparameters, which it adds in its way."""
    logger = pl.impl.TensorBoardLogger(str(pl.root), name="n", version=3, prefix="p")
    logger.save()
    logger.finalize("success")
    assert writer.made == [], "without anything to write there is no file"
    logger.log_metrics({"a": 1.0, "both": {"x": 1.0, "y": 2.0}}, 7)
    told = writer.made[0].told
    assert writer.made[0].log_dir == logger.log_dir == str(pl.root / "n" / "version_3")
    assert told == [("add_scalar", "p-a", 1.0, 7), ("add_scalars", "p-both", {"x": 1, "y": 2}, 7)]
    logger.save()
    logger.finalize("success")
    assert told[2:] == [("flush",), ("close",)]
    assert logger.experiment is writer.made[0] and len(writer.made) == 1


def test_beyond_hyperparameters_for_tensorboard_are_flat_and_plain(pl, writer):
    """As those of 2.2.5."""
    logger = pl.impl.TensorBoardLogger(str(pl.root), default_hp_metric=False)
    params = {"lr": 0.1, "deep": {"width": 3, "names": ["a"]}, "none": None, "on": True}
    logger.log_hyperparams(params)
    assert writer.made == []
    logger.log_hyperparams(params, {"score": 2.0})
    assert writer.made[0].told == [
        ("add_scalar", "score", 2.0, 0),
        ("add_summary", ("params", {"lr": 0.1, "deep/width": 3, "deep/names": "['a']",
                                    "none": "None", "on": True})),
        ("add_summary", ("metrics", {"score": 2.0}))]
    named = pl.impl.TensorBoardLogger(str(pl.root))
    named.log_hyperparams(argparse.Namespace(lr=0.1))
    assert writer.made[1].told[0] == ("add_scalar", "hp_metric", -1.0, 0)
    assert writer.made[1].told[1] == ("add_summary", ("params", {"lr": 0.1}))


def test_beyond_the_graph_is_drawn_on_demand(pl, writer):
    """As in 2.2.5, of which a warning says what is missing."""
    module, array = pl.module(), torch.ones(1, 2)
    pl.impl.TensorBoardLogger(str(pl.root)).log_graph(module, array)
    drawing = pl.impl.TensorBoardLogger(str(pl.root), log_graph=True)
    drawing.log_graph(module)
    assert writer.made == []
    drawing.log_graph(module, array)
    module.example_input_array = torch.zeros(1, 2)
    drawing.log_graph(module)
    assert [told[0] for told in writer.made[0].told] == ["add_graph", "add_graph"]
    assert writer.made[0].told[0][2] is array
    assert writer.made[0].told[1][2] is module.example_input_array


def test_beyond_a_sub_folder_is_known(pl):
    """It is named as in 2.2.5, which makes no logger without TensorBoard."""
    assert pl.impl.TensorBoardLogger(str(pl.root), sub_dir="s").sub_dir == "s"
    assert pl.impl.TensorBoardLogger(str(pl.root)).sub_dir is None


def test_beyond_without_tensorboard_one_line_says_how_to_get_it(pl, monkeypatch):
    """2.2.5 and 2.6.6 want it when the logger is made."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match="pip install .*tensorboard"):
        pl.fit(pl.impl.TensorBoardLogger(str(pl.root)))


# Others


def test_the_experiment_of_a_csv_logger_takes_metrics(pl):
    logger = pl.csv()
    logger.experiment.log_metrics({"a": 1.0}, 4)
    logger.save()
    assert [(row["step"], float(row["a"])) for row in table(logger)] == [("4", 1.0)]


def test_hyperparameters_may_be_a_namespace(pl):
    logger = pl.csv()
    logger.log_hyperparams(argparse.Namespace(width=3))
    logger.save()
    written = " ".join(each.read_text() for each in Path(logger.log_dir).iterdir())
    assert "width" in written and "3" in written


def test_beyond_rows_can_be_read_by_the_name_of_the_file(pl):
    """Lightning has no reader."""
    logger = pl.csv()
    logger.log_metrics({"a": 1.0}, 0)
    logger.save()
    read = importlib.import_module(pl.impl.name + ".loggers").read_metrics
    assert read(Path(logger.log_dir) / "metrics.csv") == read(logger.log_dir) == [
        {"step": 0, "a": 1.0}]


def test_beyond_a_logger_needs_no_more_than_it_logs(pl):
    """In 2.2.5 it has to have a name and a version."""
    rows = []

    class Least(pl.impl.Logger):
        def log_metrics(self, metrics, step=None):
            rows.append(step)

    logger = Least()
    trainer = pl.fit(logger, enable_checkpointing=True, enable_progress_bar=True)
    assert rows == [0, 1, 2, 2, 3, 4, 5, 5]
    assert [logger.name, logger.version, logger.save_dir, logger.root_dir, logger.log_dir,
            logger.experiment] == [None] * 6
    assert trainer.log_dir in (None, str(pl.root / "default"))
    found = list((pl.root / "default" / "checkpoints").iterdir())
    assert [each.name for each in found] == ["epoch=1-step=6.ckpt"]


# Several, and failing ones


def test_every_logger_gets_everything(pl):
    loggers = [pl.csv(), pl.recorder(), pl.recorder()]
    trainer = pl.fit(loggers)
    assert trainer.loggers == loggers and trainer.logger is loggers[0]
    assert trainer.log_dir == loggers[0].log_dir
    assert loggers[1].told == loggers[2].told
    told = loggers[1].told
    assert told[0] == ("log_hyperparams", {"width": 1}) and told[-1] == ("finalize", "success")
    assert [step for kind, step, *_ in told[1:-1]] == [0, 1, 2, 2, 3, 4, 5, 5]
    assert len(table(loggers[0])) == 8


def test_the_default_logger_writes_below_the_default_folder(pl):
    trainer = pl.fit(True)
    assert len(trainer.loggers) == 1
    assert trainer.log_dir == str(pl.root / "default" / "lightning_logs" / "version_0")
    assert pl.fit(False).loggers == []


def broken(*args):
    raise OSError("no space left")


def test_beyond_a_logger_that_fails_fails_the_run_and_the_others_keep_their_rows(pl):
    """2.2.5 and 2.6.6 finalize no logger after the one that fails to."""
    seen = []

    class Watch(pl.impl.Callback):
        def on_exception(self, trainer, module, exception):
            seen.append(str(exception))

    first = pl.recorder(log_metrics=broken, finalize=broken)
    second = pl.csv(flush_logs_every_n_steps=1000)
    second.save = lambda: None  # nothing is written before the end
    second.log_metrics({"by_hand": 1.0}, 0)
    del second.save
    with pytest.raises(OSError, match="no space left"):
        pl.fit([first, second], callbacks=[Watch()])
    assert seen == ["no space left"]
    assert first.told[-1] == ("finalize", "failed")
    assert table(second) == [{"step": "0", "by_hand": "1.0"}]


def test_after_an_error_loggers_are_told_that_the_run_failed(pl):
    logger = pl.recorder()
    with pytest.raises(ZeroDivisionError):
        pl.fit(logger, {"on_train_end": lambda self: 1 / 0})
    assert logger.told[-1] == ("finalize", "failed")


def test_beyond_a_folder_that_cannot_be_is_refused_before_training(pl):
    """2.2.5 and 2.6.6 raise what the system says, at the first row."""
    (pl.root / "file").write_text("")
    trained = []
    hooks = {"on_train_start": lambda self: trained.append(1)}
    with pytest.raises(Exception, match="cannot write to .*file.* is no folder") as raised:
        pl.fit(pl.csv(save_dir=str(pl.root / "file" / "below")), hooks)
    assert type(raised.value).__name__ == "MisconfigurationException"
    assert trained == []
    with pytest.raises(Exception, match="default_root_dir"):
        pl.fit(True, hooks, default_root_dir=str(pl.root / "file" / "below"))
    pl.fit(pl.csv(save_dir=str(pl.root / "file" / "below")), call="predict",
           module={"save_hyperparameters": lambda self: None})  # nothing is written


@pytest.mark.parametrize("logger", [3, "csv", [3], object()],
                         ids=["number", "text", "list", "object"])
def test_beyond_what_is_no_logger_is_refused(pl, logger):
    """2.2.5 and 2.6.6 take it, and fail at the first row."""
    with pytest.raises(Exception, match="no logger"):
        pl.trainer(logger=logger)
