"""LearningRateMonitor, GradientAccumulationScheduler, Timer and GPUStatsMonitor.

What is expected was recorded from Lightning 2.2.5, and for GPUStatsMonitor, which 2.x does not
have, from 1.5.10. Tests whose name starts with ``test_beyond`` ask for more, or for something else,
and say what Lightning does. Clocks and GPUs are made up here, so that every number is exact.
"""

import importlib
import logging
import sys
import time
import types
import warnings
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")

from torch.optim import SGD, Adagrad, Adam  # noqa: E402
from torch.optim.lr_scheduler import StepLR  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from .asking import ask  # noqa: E402


class Namespace:
    """The implementation's classes, and a trainer that runs quietly."""

    def __init__(self, impl, root):
        self.impl, self.root = impl, root
        self.Trainer, self.LightningModule, self.Callback = (
            impl.Trainer, impl.LightningModule, impl.Callback)
        callbacks = importlib.import_module(impl.name + ".callbacks")
        for name in ("LearningRateMonitor", "GradientAccumulationScheduler", "Timer",
                     "GPUStatsMonitor", "ModelSummary"):
            setattr(self, name, getattr(callbacks, name, None))

    def trainer(self, *callbacks, **flags):
        quiet = {
            "logger": False, "enable_progress_bar": False, "enable_model_summary": False,
            "enable_checkpointing": False, "num_sanity_val_steps": 0, "accelerator": "cpu",
            "devices": 1, "default_root_dir": str(self.root),
        }
        return self.impl.trainer(callbacks=list(callbacks), **{**quiet, **flags})

    def recorder(self):
        """Return a logger that keeps what it is given, as (step, metrics)."""

        class Recorder(self.impl.Logger):
            name, version, experiment, save_dir = "recorder", 0, None, None

            def __init__(self):
                super().__init__()
                self.rows = []

            def log_metrics(self, metrics, step=None):
                self.rows.append((step, {name: round(x, 6) for name, x in metrics.items()}))

            def log_hyperparams(self, *args, **kwargs):
                pass

        return Recorder()

    def model(self, optimizers=None, batches=2, automatic=True):
        """Return a module of three layers; without automatic optimization it steps them all."""

        class Model(self.LightningModule):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 1) for _ in range(3))
                self.automatic_optimization = automatic

            def training_step(self, batch, batch_idx):
                if automatic:
                    return sum(layer(batch).sum() for layer in self.layers) * 0
                optimizers = self.optimizers()
                for each in optimizers if isinstance(optimizers, list) else [optimizers]:
                    each.step()

            def configure_optimizers(self):
                made = optimizers or (lambda a, b, c: SGD(a, lr=0.1))
                return made(*(layer.parameters() for layer in self.layers))

            def train_dataloader(self):
                return DataLoader(torch.ones(2 * batches, 2), batch_size=2)

        return Model()


@pytest.fixture
def pl(impl, request, tmp_path):
    """Ask those who claim the edition of the test."""
    ask(request, impl, "1.5" if "test_gpu" in request.node.name else None)
    return Namespace(impl, tmp_path)


@pytest.fixture(autouse=True)
def no_noise():
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(num_workers|deprecated|GPU|step).*")
        yield


@pytest.fixture
def clock(monkeypatch):
    """Stop the clocks; a test moves them on by hand."""
    now = types.SimpleNamespace(seconds=1000.0)
    for name in ("time", "monotonic"):
        monkeypatch.setattr(time, name, lambda: now.seconds)
    return now


# LearningRateMonitor


def halved(optimizer, **settings):
    """Return a scheduler that halves the rate, with its settings."""
    return {"scheduler": StepLR(optimizer, 1, 0.5), **settings}


def sgd(parameters, rate=0.1, **arguments):
    return SGD(parameters, lr=rate, **arguments)


def scheduled(*settings):
    """Return what makes optimizers with rates 0.1, 0.2 and 0.3, each with a scheduler."""
    def make(*layers):
        optimizers = [sgd(layer, rate) for layer, rate in zip(layers, (0.1, 0.2, 0.3))]
        schedulers = [halved(each, **given) for each, given in zip(optimizers, settings)]
        return optimizers[:len(settings)], schedulers
    return make


def two_and_one_free(a, b, c):
    """Epochs, no scheduler, steps."""
    first, free, last = sgd(a), sgd(b, 0.2), Adam(c, lr=0.3)
    return [first, free, last], [halved(first), halved(last, interval="step")]


def twice_scheduled(a, b, c):
    optimizer = sgd(a)
    return [optimizer], [halved(optimizer), halved(optimizer)]


def grouped(*names, **settings):
    """Return what makes one optimizer with a parameter group per name."""
    def make(*layers):
        groups = []
        for layer, name in zip(layers, names):
            groups.append({"params": layer, "lr": 0.1 * (len(groups) + 1)})
            if name:
                groups[-1]["name"] = name
        optimizer = sgd(groups)
        return [optimizer], [halved(optimizer, **settings)]
    return make


NAMES = [
    ("one", scheduled({}), {"lr-SGD": 0.1}),
    ("two of a class", scheduled({}, {}), {"lr-SGD": 0.1, "lr-SGD-1": 0.2}),
    ("three of a class", scheduled({}, {}, {}), {"lr-SGD": 0.1, "lr-SGD-1": 0.2, "lr-SGD-2": 0.3}),
    ("a name", scheduled({"name": "warm"}), {"warm": 0.1}),
    ("a name does not count", scheduled({"name": "warm"}, {}), {"warm": 0.1, "lr-SGD": 0.2}),
    ("a name after two", scheduled({}, {}, {"name": "x"}),
     {"lr-SGD": 0.1, "lr-SGD-1": 0.2, "x-1": 0.3}),
    ("two schedulers of one", twice_scheduled, {"lr-SGD": 0.1, "lr-SGD-1": 0.1}),
    ("groups", grouped(None, None), {"lr-SGD/pg1": 0.1, "lr-SGD/pg2": 0.2}),
    ("a named group", grouped(None, "head"), {"lr-SGD/pg1": 0.1, "lr-SGD/head": 0.2}),
    ("one group, named", grouped("body"), {"lr-SGD/body": 0.1}),
    ("a name and groups", grouped(None, None, name="w"), {"w/pg1": 0.1, "w/pg2": 0.2}),
]


@pytest.mark.parametrize("optimizers, names", [row[1:] for row in NAMES], ids=[r[0] for r in NAMES])
def test_rates_are_named_after_optimizers_schedulers_and_groups(pl, optimizers, names):
    monitor, recorder = pl.LearningRateMonitor(), pl.recorder()
    trainer = pl.trainer(monitor, logger=recorder, max_epochs=1)

    trainer.fit(pl.model(optimizers, automatic=False))

    assert recorder.rows == [(0, names)]
    assert monitor.lrs == {name: [pytest.approx(rate)] for name, rate in names.items()}
    seen = {name: round(rate.item(), 6) for name, rate in trainer.callback_metrics.items()}
    assert seen == names


E_, S_, ALL_ = ({"lr-SGD": 0.1, "lr-SGD-1": 0.2}, {"lr-Adam": 0.3, "lr-SGD-1": 0.2},
                {"lr-SGD": 0.1, "lr-Adam": 0.3, "lr-SGD-1": 0.2})
INTERVALS = [
    (None, [(0, E_), (0, S_), (1, S_), (2, E_), (2, S_), (3, S_)]),
    ("step", [(step, ALL_) for step in range(4)]),
    ("epoch", [(0, ALL_), (2, ALL_)]),
]


@pytest.mark.parametrize("interval, rows", INTERVALS, ids=str)
def test_rates_are_logged_at_the_scheduler_s_or_at_one_interval(pl, interval, rows):
    monitor, recorder = pl.LearningRateMonitor(interval), pl.recorder()

    pl.trainer(monitor, logger=recorder, max_epochs=2, log_every_n_steps=1).fit(
        pl.model(two_and_one_free, automatic=False))

    assert recorder.rows == rows


def per_step(a, b, c):
    optimizer = sgd(a)
    return [optimizer], [halved(optimizer, interval="step")]


STEPS = [
    ("each", {"log_every_n_steps": 1}, [(0, 0.1), (1, 0.05), (2, 0.025), (3, 0.0125)]),
    ("every other", {"log_every_n_steps": 2}, [(1, 0.05), (3, 0.0125)]),
    ("never", {"log_every_n_steps": 0}, []),
    ("both batches of a window", {"log_every_n_steps": 1, "accumulate_grad_batches": 2},
     [(0, 0.1), (0, 0.1), (1, 0.05), (1, 0.05)]),
]


@pytest.mark.parametrize("flags, rows", [row[1:] for row in STEPS], ids=[row[0] for row in STEPS])
def test_rates_of_steps_are_those_before_the_step(pl, flags, rows):
    recorder = pl.recorder()

    pl.trainer(pl.LearningRateMonitor(), logger=recorder, max_epochs=1, **flags).fit(
        pl.model(per_step, batches=4))

    assert recorder.rows == [(step, {"lr-SGD": rate}) for step, rate in rows]


def test_once_training_is_asked_to_stop_every_step_is_logged(pl):
    class Stop(pl.Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            trainer.should_stop = batch_idx >= 2

    recorder = pl.recorder()

    # `min_steps` makes `min_epochs` 1, so that the whole epoch runs.
    pl.trainer(Stop(), pl.LearningRateMonitor("step"), logger=recorder, max_epochs=1,
               min_steps=1).fit(pl.model(per_step, batches=4))

    assert recorder.rows == [(2, {"lr-SGD": 0.025}), (3, {"lr-SGD": 0.0125})]


def test_momentum_and_weight_decay_are_logged_beside_the_rate(pl):
    monitor = pl.LearningRateMonitor("epoch", log_momentum=True, log_weight_decay=True)
    recorder = pl.recorder()
    model = pl.model(lambda a, b, c: [sgd(a, momentum=0.9), Adam(b, lr=0.2, weight_decay=0.01),
                                      Adagrad(c, lr=0.3)], automatic=False)

    with pytest.warns(RuntimeWarning, match="momentum"):
        pl.trainer(monitor, logger=recorder, max_epochs=1).fit(model)

    momentum = {"lr-SGD-momentum": 0.9, "lr-Adam-momentum": 0.9, "lr-Adagrad-momentum": 0}
    decay = {"lr-SGD-weight_decay": 0, "lr-Adam-weight_decay": 0.01, "lr-Adagrad-weight_decay": 0}
    rates = {"lr-SGD": 0.1, "lr-Adam": 0.2, "lr-Adagrad": 0.3}
    assert recorder.rows == [(0, {**rates, **momentum, **decay})]
    assert monitor.last_momentum_values == momentum
    assert monitor.last_weight_decay_values == decay


def test_without_them_momentum_and_weight_decay_are_none(pl):
    monitor = pl.LearningRateMonitor()
    pl.trainer(monitor, logger=pl.recorder(), max_epochs=1).fit(pl.model())
    assert monitor.last_momentum_values == {"lr-SGD-momentum": None}
    assert monitor.last_weight_decay_values == {"lr-SGD-weight_decay": None}


def test_a_group_that_joins_gets_a_name_and_the_first_keeps_its_rates(pl):
    class Unfreeze(pl.Callback):
        def on_train_epoch_start(self, trainer, pl_module):
            if trainer.current_epoch == 1:
                late = pl_module.layers[1].parameters()
                trainer.optimizers[0].add_param_group({"params": list(late), "lr": 0.7})

    monitor = pl.LearningRateMonitor("epoch")
    pl.trainer(Unfreeze(), monitor, logger=pl.recorder(), max_epochs=2).fit(pl.model())
    assert monitor.lrs == {"lr-SGD/pg1": [0.1, 0.1], "lr-SGD/pg2": [0.7]}


def test_every_logger_gets_the_rates(pl):
    loggers = [pl.recorder(), pl.recorder()]
    pl.trainer(pl.LearningRateMonitor("epoch"), logger=loggers, max_epochs=1).fit(pl.model())
    assert [each.rows for each in loggers] == [[(0, {"lr-SGD": 0.1})]] * 2


def test_nothing_is_logged_without_an_optimizer(pl):
    recorder = pl.recorder()
    model = pl.model()
    model.configure_optimizers = lambda: None
    pl.trainer(pl.LearningRateMonitor(), logger=recorder, max_epochs=1).fit(model)
    assert recorder.rows == []


MONITOR_REFUSALS = [
    ("interval", "batch", {}, None, "epoch"),
    ("logger", None, {"logger": False}, None, "logger"),
    ("names", None, {}, grouped("h", "h"), "h"),
]


@pytest.mark.parametrize("interval, flags, optimizers, told", [row[1:] for row in MONITOR_REFUSALS],
                         ids=[row[0] for row in MONITOR_REFUSALS])
def test_the_monitor_refuses(pl, interval, flags, optimizers, told):
    with pytest.raises(Exception, match=told) as refusal:
        flags = {"logger": pl.recorder(), **flags}
        pl.trainer(pl.LearningRateMonitor(interval), max_epochs=1, **flags).fit(
            pl.model(optimizers, automatic=False))
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_beyond_a_scheduler_of_one_s_own_needs_no_optimizer(pl):
    """Lightning 2.2.5 and 2.6.6: AttributeError."""
    class Own:
        def state_dict(self):
            return {}

    model, recorder = pl.model(lambda a, b, c: ([sgd(a)], [Own()])), pl.recorder()
    model.lr_scheduler_step = lambda scheduler, metric: None
    pl.trainer(pl.LearningRateMonitor("epoch"), logger=recorder, max_epochs=1).fit(model)
    assert recorder.rows == [(0, {"lr-SGD": 0.1})]


# GradientAccumulationScheduler


def steps_and_factors(pl, scheduling, batches=5, fits=1, ckpt_path=None, **flags):
    """Return the steps done after each batch, an inner list per epoch, and the epochs' factors."""
    steps, factors = [], []

    class Record(pl.Callback):
        def on_train_epoch_start(self, trainer, pl_module):
            steps.append([])

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            steps[-1].append(trainer.global_step)

        def on_train_epoch_end(self, trainer, pl_module):
            factors.append(trainer.accumulate_grad_batches)

    scheduler = pl.GradientAccumulationScheduler(scheduling)
    trainer = pl.trainer(scheduler, Record(), **{"max_epochs": 4, **flags})
    model = pl.model(batches=batches)
    trainer.fit(model)
    for _ in range(fits - 1):
        pl.impl.raise_max_epochs(trainer, trainer.max_epochs + 1)
        trainer.fit(model)
    return steps, factors


def test_the_factor_changes_at_the_start_of_its_epoch(pl):
    steps, factors = steps_and_factors(pl, {1: 2, 3: 4})
    assert steps == [[1, 2, 3, 4, 5], [5, 6, 6, 7, 8], [8, 9, 9, 10, 11], [11, 11, 11, 12, 13]]
    assert factors == [1, 2, 2, 4]


def test_a_schedule_may_begin_with_epoch_0(pl):
    assert steps_and_factors(pl, {0: 3}, max_epochs=1) == ([[0, 0, 1, 1, 2]], [3])


def test_before_the_first_epoch_of_the_schedule_the_factor_is_1(pl):
    scheduler = pl.GradientAccumulationScheduler({2: 8, 4: 3})
    assert [scheduler.get_accumulate_grad_batches(epoch) for epoch in range(6)] == [
        1, 1, 8, 8, 3, 3]
    assert scheduler.epochs == [0, 2, 4]
    assert scheduler.scheduling == {0: 1, 2: 8, 4: 3}


SCHEDULES = [
    ({}, "TypeError"), (None, "TypeError"), ({"a": 2}, "MisconfigurationException"),
    ({1.0: 2}, "MisconfigurationException"), ({-1: 2}, "MisconfigurationException"),
    ({1: 0}, "MisconfigurationException"), ({1: 2.0}, "MisconfigurationException"),
    ({1: "x"}, "MisconfigurationException"),
]


@pytest.mark.parametrize("scheduling, error", SCHEDULES, ids=lambda value: str(value))
def test_a_schedule_of_something_else_is_refused(pl, scheduling, error):
    with pytest.raises(Exception) as refusal:
        pl.GradientAccumulationScheduler(scheduling)
    assert type(refusal.value).__name__ == error


@pytest.mark.parametrize("flags, automatic, error", [
    ({"accumulate_grad_batches": 2}, True, ValueError), ({}, False, RuntimeError)])
def test_a_schedule_is_refused_beside_the_flag_and_in_manual_optimization(
        pl, flags, automatic, error):
    trainer = pl.trainer(pl.GradientAccumulationScheduler({0: 2}), max_epochs=1, **flags)
    with pytest.raises(error, match="GradientAccumulationScheduler"):
        trainer.fit(pl.model(automatic=automatic))


def test_beyond_the_same_trainer_fits_again(pl):
    """Lightning 2.2.5 and 2.6.6 take the factor of the first fit for the flag: ValueError."""
    steps, factors = steps_and_factors(pl, {1: 2}, max_epochs=2, fits=2)
    assert factors == [1, 2, 2]
    assert steps[-1] == [8, 9, 9, 10, 11]


def test_beyond_a_fit_that_resumes_inside_an_epoch_has_that_epoch_s_factor(pl):
    """Lightning 2.6.6 goes on with a factor of 1; 2.2.5 does the whole epoch again."""
    class Save(pl.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if (trainer.current_epoch, batch_idx) == (1, 1):
                trainer.save_checkpoint(str(pl.root / "inside.ckpt"))

    def fit(*others, **resumed):
        scheduler = pl.GradientAccumulationScheduler({1: 2})
        trainer = pl.trainer(scheduler, *others, max_epochs=2)
        trainer.fit(pl.model(batches=6), **resumed)
        return trainer.global_step

    assert fit(Save()) == 9
    assert fit(ckpt_path=str(pl.root / "inside.ckpt")) == 9


def estimate(pl, scheduling):
    told = []

    class Asking(type(pl.model())):
        def configure_optimizers(self):
            told.append(self.trainer.estimated_stepping_batches)
            return sgd(self.parameters())

    pl.trainer(pl.GradientAccumulationScheduler(scheduling), max_epochs=2).fit(Asking())
    return told


def test_beyond_the_number_of_steps_is_not_told_when_the_factor_changes(pl):
    """As the documentation of 2.2.5 says; the code of 2.2.5 and 2.6.6 forgets the schedule."""
    with pytest.raises(Exception, match="GradientAccumulationScheduler") as refusal:
        estimate(pl, {1: 2})
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_beyond_the_number_of_steps_counts_a_factor_that_stays(pl):
    """Lightning 2.2.5 and 2.6.6: 4."""
    assert estimate(pl, {0: 2}) == [2]


# Timer: four batches an epoch, of ten seconds each, and a validation of one second


def timed(pl, clock, *callbacks, resume=None, **flags):
    """Run one fit; return the trainer."""
    class Slow(type(pl.model())):
        def training_step(self, batch, batch_idx):
            clock.seconds += 10
            return super().training_step(batch, batch_idx)

        def validation_step(self, batch, batch_idx):
            clock.seconds += 1

        def train_dataloader(self):
            return DataLoader(torch.ones(8, 2), batch_size=2)

        def val_dataloader(self):
            return DataLoader(torch.ones(2, 2), batch_size=2)

        def test_step(self, batch, batch_idx):
            clock.seconds += 3

    trainer = pl.trainer(*callbacks, **flags)
    trainer.fit(Slow(), ckpt_path=resume)
    return trainer


# how long; which flags; steps, seconds of training
DURATIONS = [
    ("text", {"duration": "00:00:00:25"}, {}, 3, 31),
    ("timedelta", {"duration": timedelta(seconds=25)}, {}, 3, 31),
    ("dict", {"duration": {"seconds": 45}}, {}, 5, 52),
    ("days count", {"duration": "01:00:00:00"}, {"max_epochs": 1}, 4, 41),
    ("the limit itself is reached", {"duration": {"seconds": 20}}, {}, 2, 21),
    ("whole epochs", {"duration": {"seconds": 25}, "interval": "epoch"}, {}, 4, 41),
    ("at least so many epochs", {"duration": {"seconds": 25}}, {"min_epochs": 2}, 8, 82),
    ("at least so many steps", {"duration": {"seconds": 25}}, {"min_steps": 6}, 6, 62),
    ("no limit", {}, {"max_epochs": 1}, 4, 41),
    ("no time at all", {"duration": {"seconds": 0}}, {}, 0, 0),
]


@pytest.mark.parametrize("arguments, flags, steps, seconds", [row[1:] for row in DURATIONS],
                         ids=[row[0] for row in DURATIONS])
def test_the_timer_stops_training(pl, clock, arguments, flags, steps, seconds):
    timer = pl.Timer(**arguments)

    trainer = timed(pl, clock, timer, **flags)

    assert (trainer.global_step, timer.time_elapsed()) == (steps, seconds)
    assert trainer.max_epochs == flags.get("max_epochs", -1)
    limit = arguments.get("duration")
    assert (timer.time_remaining() is None) == (limit is None)


def test_each_stage_has_its_times(pl, clock):
    timer = pl.Timer(duration={"seconds": 60})
    trainer = timed(pl, clock, timer, max_epochs=1)
    assert (timer.start_time(), timer.end_time("train")) == (1000, 1041)
    assert (timer.start_time("validate"), timer.end_time("validate")) == (1040, 1041)
    assert timer.time_remaining() == 19
    assert (timer.start_time("test"), timer.time_elapsed("test")) == (None, 0)

    trainer.test(trainer.lightning_module, DataLoader(torch.ones(4, 2), batch_size=2))

    assert (timer.start_time("test"), timer.time_elapsed("test")) == (1041, 6)
    assert timer.time_remaining("test") == 54
    with pytest.raises(ValueError):
        timer.time_elapsed("fit")


def test_while_a_stage_runs_its_time_goes_on(pl, clock):
    seen = []

    class Watch(pl.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            seen.append((timer.time_elapsed(), timer.end_time()))

    timer = pl.Timer()
    timed(pl, clock, timer, Watch(), max_epochs=1)
    assert seen == [(10, None), (20, None), (30, None), (40, None)]


def test_a_fresh_timer_has_measured_nothing(pl):
    timer = pl.Timer("00:00:00:09")
    assert timer.time_elapsed() == 0
    assert timer.time_remaining() == 9
    assert timer.state_dict() == {"time_elapsed": dict.fromkeys(
        ["train", "sanity_check", "validate", "test", "predict"], 0)}


def test_a_run_that_resumes_goes_on_counting(pl, clock):
    path = str(pl.root / "timed.ckpt")
    timer = pl.Timer(duration={"seconds": 60})
    timed(pl, clock, timer, max_epochs=1).save_checkpoint(path)
    assert timer.state_dict()["time_elapsed"]["train"] == 41
    clock.seconds += 5000  # between two runs no time is spent

    enough, spent = pl.Timer(duration={"seconds": 60}), pl.Timer(duration={"seconds": 30})
    assert timed(pl, clock, enough, resume=path).global_step == 6
    assert (enough.time_elapsed(), enough.time_remaining()) == (62, -2)
    assert timed(pl, clock, spent, resume=path).global_step == 4
    assert spent.time_elapsed() == 41


LIMITS = [("00:00:00:25", 3), ({"seconds": 35}, 4), (timedelta(seconds=15), 2)]


@pytest.mark.parametrize("max_time, steps", LIMITS, ids=str)
def test_max_time_makes_a_timer(pl, clock, max_time, steps):
    trainer = timed(pl, clock, max_time=max_time)
    assert trainer.global_step == steps
    assert [type(callback) for callback in trainer.callbacks] == [pl.Timer]


def test_max_time_is_ignored_beside_a_timer(pl, clock):
    timer = pl.Timer({"seconds": 25})
    trainer = timed(pl, clock, timer, max_time={"seconds": 15})
    assert trainer.global_step == 3
    assert trainer.callbacks == [timer]


def test_the_timer_of_max_time_comes_after_the_given_callbacks_and_before_the_others(pl):
    given = pl.Callback()
    trainer = pl.Trainer(max_time="00:00:01:00", accelerator="cpu", logger=False, callbacks=[given])
    assert trainer.callbacks[0] is given
    assert isinstance(trainer.callbacks[1], pl.Timer)
    assert len(trainer.callbacks) == 5


@pytest.mark.parametrize("made", ["Timer", "Trainer"])
@pytest.mark.parametrize("duration", ["1:2", "soon", "00:00:00:1.5", "", 5, [1], {"years": 1}],
                         ids=str)
def test_what_is_no_duration_is_refused_at_once(pl, made, duration):
    """2.2.5: IndexError, ValueError, AttributeError, TypeError; 2.6.6 names text that is none."""
    with pytest.raises(Exception):  # noqa: B017  as said above, of several types
        pl.Timer(duration) if made == "Timer" else pl.trainer(max_time=duration)


@pytest.mark.parametrize("duration", ["1:2", "soon", "1:2:3:4:5", "-1:00:00:00", 5, [1]], ids=str)
def test_beyond_the_refusal_of_a_duration_says_what_is_accepted(pl, duration):
    with pytest.raises(Exception, match="DD:HH:MM:SS") as refusal:
        pl.trainer(max_time=duration)
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_beyond_an_unknown_unit_is_a_type_error_that_names_the_known_ones(pl):
    with pytest.raises(TypeError, match="years.*minutes"):
        pl.Timer({"years": 1})


def test_an_unknown_interval_is_refused(pl):
    with pytest.raises(Exception, match="epoch") as refusal:
        pl.Timer(interval="batch")
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_beyond_a_timer_that_is_used_again_starts_again(pl, clock):
    """Lightning 2.2.5 and 2.6.6 keep the old end, count below zero, and never stop."""
    timer = pl.Timer({"seconds": 65})
    trainer = timed(pl, clock, timer, max_epochs=1)
    clock.seconds += 100
    pl.impl.raise_max_epochs(trainer, 9)
    trainer.fit(trainer.lightning_module)
    assert (trainer.global_step, timer.time_elapsed()) == (4 + 7, 72)


def test_beyond_what_an_earlier_run_spent_is_counted_once(pl, clock):
    """Lightning 2.2.5 and 2.6.6 add it to what the timer itself has measured, and stop at once."""
    path = str(pl.root / "timed.ckpt")
    timer = pl.Timer({"seconds": 65})
    timed(pl, clock, timer, max_epochs=1).save_checkpoint(path)
    assert timed(pl, clock, timer, resume=path).global_step == 7


# GPUStatsMonitor: a GPU that is not there


FIGURES = {
    "utilization.gpu": 41, "memory.used": 1500, "memory.free": 2500, "utilization.memory": 17,
    "temperature.gpu": 55, "temperature.memory": 61,
}
NVIDIA_SMI = '''#!%s
import sys
figures = %r
query = [a for a in sys.argv if a.startswith("--query-gpu=")][0].split("=")[1].split(",")
print(", ".join(str(figures.get(name, "[N/A]")) for name in query))
'''


def fake_nvml():
    """Return a stand-in for pynvml; this GPU has no fan."""
    nvml = types.ModuleType("pynvml")
    nvml.NVML_FI_DEV_MEMORY_TEMP = 82

    class NVMLError(Exception):
        pass

    def no_fan(handle):
        raise NVMLError("Not Supported")

    def field_values(handle, fields):
        assert (handle, fields) == ("handle 0", [82])
        value = types.SimpleNamespace(uiVal=FIGURES["temperature.memory"])
        return [types.SimpleNamespace(nvmlReturn=0, value=value)]

    def memory(handle):
        assert handle == "handle 0"
        return types.SimpleNamespace(
            used=FIGURES["memory.used"] * 2**20, free=FIGURES["memory.free"] * 2**20)

    nvml.NVMLError = NVMLError
    nvml.nvmlDeviceGetFanSpeed = no_fan
    nvml.nvmlDeviceGetFieldValues = field_values
    nvml.nvmlDeviceGetMemoryInfo = memory
    return nvml


@pytest.fixture
def gpu(pl, monkeypatch, tmp_path):
    """Make believe that there is a GPU, through torch.cuda and through nvidia-smi."""
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    for function, figure in (("utilization", "utilization.gpu"), ("temperature", "temperature.gpu"),
                             ("memory_usage", "utilization.memory")):
        monkeypatch.setattr(torch.cuda, function, lambda device, x=FIGURES[figure]: x,
                            raising=False)
    monkeypatch.setattr(torch.cuda, "_get_pynvml_handler", lambda device: "handle %d" % device,
                        raising=False)
    program = tmp_path / "nvidia-smi"
    program.write_text(NVIDIA_SMI % (sys.executable, FIGURES))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def on_the_gpu(pl, clock, batches):
    """Return a model that says it went to the GPU.

    It takes a quarter of a second per batch, and half a second between them.
    """
    class Model(type(pl.model())):
        def to(self, *args, **kwargs):
            return self

        def transfer_batch_to_device(self, batch, device, dataloader_idx=0):
            return batch

        def training_step(self, batch, batch_idx):
            clock.seconds += 0.25
            return super().training_step(batch, batch_idx)

        def on_train_batch_end(self, *args):
            clock.seconds += 0.5

        def train_dataloader(self):
            return DataLoader(torch.ones(2 * batches, 2), batch_size=2)

    return Model()


def watched(pl, monkeypatch, clock, switches, batches=2, **flags):
    """Run one fit on the GPU that is not there; return what was logged."""
    recorder = pl.recorder()
    if hasattr(pl.Trainer, "_device_type"):  # how 1.5 knows that it is on a GPU
        kind = importlib.import_module(pl.impl.name + ".utilities").DeviceType.GPU
        monkeypatch.setattr(pl.Trainer, "_device_type", property(lambda self: kind))
        monkeypatch.setattr(pl.Trainer, "data_parallel_device_ids", property(lambda self: [0]))
    trainer = pl.trainer(pl.GPUStatsMonitor(**switches), logger=recorder, max_epochs=1, **flags)
    if not hasattr(pl.Trainer, "_device_type"):
        trainer.strategy.root_device = torch.device("cuda", 0)
    trainer.fit(on_the_gpu(pl, clock, batches))
    return recorder.rows


def on_device_0(*units):
    return {"device_id: 0/" + unit: float(FIGURES.get(unit.split()[0], 0)) for unit in units}


GPU, MEMORY = ["utilization.gpu (%)"], [
    "memory.used (MB)", "memory.free (MB)", "utilization.memory (%)"]
AFTER = ["fan.speed (%)", "temperature.gpu (\u00b0C)", "temperature.memory (\u00b0C)"]
WITHIN, BETWEEN = {"batch_time/intra_step (ms)": 250}, {"batch_time/inter_step (ms)": 500}
ALL = {"intra_step_time": True, "inter_step_time": True, "fan_speed": True, "temperature": True}
STATS = [
    ("by default", {}, {"log_every_n_steps": 1},
     [(0, GPU + MEMORY, {})] * 2 + [(1, GPU + MEMORY, {})] * 2),
    ("all", ALL, {"log_every_n_steps": 1},
     [(0, GPU + MEMORY, {}), (0, GPU + MEMORY + AFTER, WITHIN),
      (1, GPU + MEMORY, BETWEEN), (1, GPU + MEMORY + AFTER, WITHIN)]),
    ("every other step", {"memory_utilization": False}, {"log_every_n_steps": 2, "batches": 4},
     [(1, GPU, {})] * 2 + [(3, GPU, {})] * 2),
    ("memory alone", {"gpu_utilization": False}, {"log_every_n_steps": 2},
     [(1, MEMORY, {})] * 2),
    ("every batch of a window", {"memory_utilization": False},
     {"log_every_n_steps": 1, "accumulate_grad_batches": 2}, [(0, GPU, {})] * 4),
]


@pytest.mark.parametrize("switches, flags, rows", [row[1:] for row in STATS],
                         ids=[row[0] for row in STATS])
def test_gpu_stats_are_logged_before_and_after_a_batch(
        pl, gpu, monkeypatch, clock, switches, flags, rows):
    logged = watched(pl, monkeypatch, clock, switches, **flags)
    assert logged == [(step, {**on_device_0(*units), **times}) for step, units, times in rows]


def test_gpu_stats_are_refused_without_a_gpu(pl, gpu):
    trainer = pl.trainer(pl.GPUStatsMonitor(), logger=pl.recorder(), max_epochs=1)
    with pytest.raises(Exception, match="GPUStatsMonitor") as refusal:
        trainer.fit(pl.model())
    assert type(refusal.value).__name__ == "MisconfigurationException"
    assert trainer.global_step == 0


def test_gpu_stats_are_refused_without_a_logger(pl, gpu):
    with pytest.raises(Exception, match="logger") as refusal:
        pl.trainer(pl.GPUStatsMonitor(), max_epochs=1).fit(pl.model())
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_beyond_gpu_stats_are_refused_without_nvidia_ml_py(pl, gpu, monkeypatch, clock):
    """1.5.10 asks nvidia-smi instead."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Exception, match="nvidia-ml-py") as refusal:
        watched(pl, monkeypatch, clock, {})
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_beyond_the_callbacks_can_be_imported_from_one_place(pl):
    """2.x has all of them but GPUStatsMonitor."""
    callbacks = importlib.import_module(pl.impl.name + ".callbacks")
    for name in ("LearningRateMonitor", "GradientAccumulationScheduler", "GPUStatsMonitor", "Timer",
                 "ModelSummary", "EarlyStopping", "ModelCheckpoint", "LambdaCallback",
                 "ProgressBar", "ProgressBarBase", "Callback"):
        assert name in callbacks.__all__
        assert isinstance(getattr(callbacks, name), type)


# ModelSummary


def summary(pl, capsys, caplog, **settings):
    """Return the words of each line that a summary prints of a module."""
    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
            self.late = torch.nn.LazyLinear(7)
            self.head = torch.nn.Linear(2, 1)
            self.head.bias.requires_grad = False
            self.scale = torch.nn.Parameter(torch.ones(5))

        def training_step(self, batch, batch_idx):
            return self.head(self.body(batch)).sum()

        def configure_optimizers(self):
            return SGD(self.body.parameters(), lr=0.1)

    logging.getLogger("lightning.pytorch").setLevel(logging.INFO)
    made = pl.ModelSummary(**settings)
    trainer = pl.trainer(made, max_epochs=1)
    trainer.fit(Model(), DataLoader(torch.ones(1, 4)))
    lines = (caplog.text + capsys.readouterr().out).splitlines()
    return [line.replace("|", " ").split() for line in lines]


def test_a_summary_counts_parameters(pl, capsys, caplog):
    lines = summary(pl, capsys, caplog, max_depth=2)
    counts = {"body": "23", "body.0": "15", "body.1": "8", "late": "0", "head": "3"}
    for name, count in counts.items():
        (row,) = [line for line in lines if line[1:2] == [name] and line[0].isdigit()]
        assert count in row[2:]
    totals = [(line[0], line[1].lower()) for line in lines if "aram" in " ".join(line[1:])
              and line[0].isdigit()]
    assert totals[:2] == [("30", "trainable"), ("1", "non-trainable")]
    assert ["31", "0.000"] == [line[0] for line in lines if line[0] in ("31", "0.000")]


def test_beyond_a_summary_tells_of_parameters_that_are_not_made_yet(pl, capsys, caplog):
    """2.x warns of them."""
    (line,) = [" ".join(line) for line in summary(pl, capsys, caplog)
               if "lazy parameters" in " ".join(line)]
    assert line.startswith("2 lazy parameters not made yet")


def test_beyond_a_summary_may_be_had_by_itself(pl):
    """2.x has a class for it, whose table looks otherwise."""
    summarize = importlib.import_module(pl.impl.name + ".summary").summarize
    shown = summarize(torch.nn.Linear(3, 1), max_depth=-1).splitlines()
    (own,) = [line.split() for line in shown if "other params" in line]  # of no layer
    assert own == ["other", "params", "Linear", "4"]
    assert [line.split()[0] for line in shown[-4:]] == ["4", "0", "4", "0.000"]
    nothing = summarize(torch.nn.Sequential(), max_depth=-1).splitlines()
    assert [line.split()[0] for line in nothing] == ["0", "0", "0", "0.000"]
    with pytest.raises(ValueError, match="max_depth"):
        summarize(torch.nn.Linear(1, 1), max_depth=-2)


# LambdaCallback


def test_a_hook_that_is_none_is_left_out(pl):
    told = []
    trainer = pl.trainer(pl.impl.LambdaCallback(
        on_fit_start=None, on_fit_end=lambda *args: told.append("end")), max_epochs=1)
    trainer.fit(pl.model())
    assert told == ["end"]
