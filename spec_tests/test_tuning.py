"""The learning-rate range test: its curve, its suggestion, and that a fit after it is unchanged.

What is expected was recorded from Lightning 2.2.5 (`Tuner.lr_find`) and 1.5.10 (`trainer.tune`),
which agree on this module. Tests whose name starts with ``test_beyond`` ask for more, or for
something else, and say what Lightning does.
"""

import importlib
import random
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from .asking import ask  # noqa: E402


def rows(count=400, **how):
    """Return a loader of a problem of regression, the same at every call."""
    drawn = torch.Generator().manual_seed(0)
    x = torch.randn(count, 8, generator=drawn)
    return DataLoader(torch.cat([x, x[:, :1] * 3 + x[:, 1:2] ** 2], 1), batch_size=16, **how)


class Namespace:
    """The implementation's classes, a module, and a trainer."""

    def __init__(self, impl, root):
        self.impl, self.root = impl, root
        self.told = []

    def module(self, loss=None, optimizers=1, **attributes):
        """Return a module whose loss is that of the problem, or `loss(its loss, step)`."""
        class Net(self.impl.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Sequential(
                    torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
                self.steps = 0
                for name, value in attributes.items():
                    setattr(self, name, value)

            def training_step(self, batch, batch_idx):
                self.steps += 1
                error = self.net(batch[:, :8]) - batch[:, 8:]
                error = (error ** 2).mean()
                return loss(error, self.steps) if loss else error

            def configure_optimizers(self):
                rate = getattr(self, "lr", 0.01)
                made = [torch.optim.SGD(self.parameters(), lr=rate) for _ in range(optimizers)]
                return made[0] if optimizers == 1 else made

        torch.manual_seed(3)
        return Net()

    def trainer(self, **flags):
        """Return a trainer that is quiet."""
        quiet = {
            "enable_progress_bar": False, "enable_model_summary": False, "max_epochs": 50,
            "enable_checkpointing": False, "logger": False, "accelerator": "cpu", "devices": 1,
            "default_root_dir": str(self.root),
        }
        return self.impl.trainer(**{**quiet, **flags})

    def find(self, module, trainer=None, loader=None, **arguments):
        """Sweep the learning rate."""
        tuner = self.package.Tuner(trainer or self.trainer())
        return tuner.lr_find(module, loader or rows(), **arguments)

    @property
    def package(self):
        """Return where the Tuner is."""
        for name in (".tuner", ".tuning"):
            try:
                return importlib.import_module(self.impl.name + name)
            except ImportError:
                pass
        return pytest.skip("%s has no Tuner" % self.impl.name)


pytestmark = pytest.mark.usefixtures("no_noise")


@pytest.fixture
def pl(impl, request, tmp_path):
    """Ask those who claim the edition of the test and have a Tuner."""
    ask(request, impl)
    return Namespace(impl, tmp_path)


# The curve


@pytest.mark.parametrize("mode, second, middle", [
    ("exponential", 1e-8 * 1e8 ** 0.02, 1e-4), ("linear", 1e-8 + 0.02 * (1 - 1e-8), 0.5)])
def test_the_rate_grows_from_min_lr_to_max_lr(pl, mode, second, middle):
    found = pl.find(pl.module(lr=1.0), mode=mode, early_stop_threshold=None).results
    assert len(found["lr"]) == len(found["loss"]) == 100
    assert found["lr"][0] == pytest.approx(1e-8)
    assert found["lr"][1] == pytest.approx(second)
    assert found["lr"][49] == pytest.approx(middle)
    assert found["lr"][99] == pytest.approx(1)


@pytest.mark.parametrize("arguments, steps, suggestion", [
    ({}, 99, 4.7863e-07),
    ({"mode": "linear", "min_lr": 1e-4, "max_lr": 0.5}, 60, 0.065087),
    ({"early_stop_threshold": None, "max_lr": 0.5}, 100, 4.13794e-07)], ids=str)
def test_the_suggestion_is_where_the_loss_falls_most_steeply(pl, arguments, steps, suggestion):
    module = pl.module(lr=0.5)
    found = pl.find(module, **arguments)
    assert len(found.results["lr"]) == steps
    assert found.suggestion() == pytest.approx(suggestion, rel=1e-4)
    assert module.lr == pytest.approx(suggestion, rel=1e-4)


def test_beyond_the_losses_are_the_running_mean_of_1_5(pl):
    """2.2.5 and 2.6.6 divide by one step too many: their first losses are about half."""
    found = pl.find(pl.module(lr=1.0, loss=lambda error, step: error * 0 + step), num_training=20,
                    early_stop_threshold=None, update_attr=False)
    mean, expected = 0.0, []
    for step in range(1, 21):
        mean = 0.98 * mean + 0.02 * step
        expected.append(mean / (1 - 0.98 ** step))
    assert found.results["loss"] == pytest.approx(expected)


def test_steps_are_skipped_at_both_ends(pl):
    found = pl.find(pl.module(lr=1.0))
    rates = found.results["lr"]
    found.results["loss"] = [5.0] * 3 + [1.0] + [5.0] * (len(rates) - 5) + [0.0]
    assert rates.index(found.suggestion(skip_begin=0, skip_end=1)) in (2, 3)
    assert rates.index(found.suggestion(skip_begin=5, skip_end=1)) >= 5


def test_too_few_steps_suggest_nothing(pl):
    found = pl.find(pl.module(lr=0.25), num_training=8, update_attr=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found.suggestion() is None


def test_a_loss_that_explodes_ends_the_sweep(pl):
    module = pl.module(lr=1.0, loss=lambda error, step: error * 0 + (1e6 if step > 30 else 1.0))
    assert len(pl.find(module).results["lr"]) == 31
    module = pl.module(lr=1.0, loss=lambda error, step: error * 0 + (1e6 if step > 30 else 1.0))
    assert len(pl.find(module, early_stop_threshold=None).results["lr"]) == 100


def test_beyond_a_loss_that_is_not_finite_ends_the_sweep(pl):
    """2.2.5 and 2.6.6 go on to the end, with NaN for every loss from there."""
    nan = float("nan")
    module = pl.module(lr=1.0, loss=lambda error, step: error * 0 + (nan if step > 30 else 1.0))
    assert len(pl.find(module).results["lr"]) == 31


def test_beyond_a_loss_below_zero_does_not_end_the_sweep(pl):
    """2.2.5 and 2.6.6 end after two steps: -1 is more than 4 * -1."""
    found = pl.find(pl.module(lr=1.0, loss=lambda error, step: error * 0 - 1.0))
    assert len(found.results["lr"]) == 100


def test_beyond_the_sweep_takes_as_many_epochs_as_it_needs(pl):
    """2.2.5 and 2.6.6 end with `max_epochs`, and say that the loss diverged."""
    found = pl.find(pl.module(lr=1.0), pl.trainer(max_epochs=1), early_stop_threshold=None)
    assert len(found.results["lr"]) == 100


def test_a_step_is_one_of_the_optimizer(pl):
    module = pl.module(lr=1.0)
    found = pl.find(module, pl.trainer(accumulate_grad_batches=2), num_training=10,
                    early_stop_threshold=None, update_attr=False)
    assert len(found.results["lr"]) == 10
    assert found.results["lr"][-1] == pytest.approx(1)
    assert module.steps == 20


# Where the rate is kept


@pytest.mark.parametrize("name, arguments", [
    ("lr", {}), ("learning_rate", {}), ("speed", {"attr_name": "speed"})], ids=str)
def test_the_attribute_is_set(pl, name, arguments):
    module = pl.module(**{name: 0.25})
    found = pl.find(module, **arguments)
    assert getattr(module, name) == found.suggestion()


def test_it_is_left_alone_on_request(pl):
    module = pl.module(lr=0.25)
    assert pl.find(module, update_attr=False).suggestion() is not None
    assert module.lr == 0.25


def test_the_hyperparameter_is_set(pl):
    module = pl.module()
    module.save_hyperparameters({"lr": 0.25})
    assert pl.find(module).suggestion() == module.hparams.lr != 0.25


def test_beyond_a_module_without_the_attribute_is_refused_before_the_sweep(pl):
    """2.2.5 and 2.6.6 raise AttributeError, 1.5.10 MisconfigurationException."""
    for arguments, told in (({}, "learning_rate"), ({"attr_name": "speed"}, "speed")):
        module = pl.module()
        with pytest.raises(Exception, match=told) as raised:
            pl.find(module, **arguments)
        assert type(raised.value).__name__ == "MisconfigurationException"
        assert module.steps == 0


# What is refused


@pytest.mark.parametrize("arguments, told", [
    ({"mode": "cubic"}, "'linear'"), ({"num_training": 0}, "num_training=0"),
    ({"min_lr": 0.0}, "min_lr"), ({"min_lr": 1.0, "max_lr": 0.1}, "max_lr=0.1"),
    ({"early_stop_threshold": 1}, "early_stop_threshold"), ({"method": "test"}, "'fit'")], ids=str)
def test_beyond_arguments_out_of_range_are_refused(pl, arguments, told):
    """2.2.5 and 2.6.6 refuse `mode` by an assert and `method`, and take the rest."""
    with pytest.raises(Exception, match=told) as raised:
        pl.find(pl.module(lr=1.0), **arguments)
    assert type(raised.value).__name__ == "MisconfigurationException"


def test_beyond_modules_with_another_optimization_are_refused(pl):
    """2.2.5 and 2.6.6 sweep a module in manual optimization with a rate that stays."""
    module = pl.module(lr=1.0)
    module.automatic_optimization = False
    with pytest.raises(Exception, match="optimizes manually"):
        pl.find(module)
    module = pl.module(lr=1.0, optimizers=2)
    module.automatic_optimization = False
    with pytest.raises(Exception, match="lr_find"):
        pl.find(module)


def test_fast_dev_run_sweeps_nothing(pl):
    module = pl.module(lr=0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert pl.find(module, pl.trainer(fast_dev_run=True)) is None
    assert module.lr == 0.25


def test_the_sweep_has_a_bar_of_its_own(pl, capsys):
    pl.find(pl.module(lr=0.25), pl.trainer(enable_progress_bar=True), num_training=20,
            early_stop_threshold=None)
    said = "".join(capsys.readouterr())
    assert "/20" in said and "Finding" in said and "Epoch" not in said


# What is as it was


class Tape:
    """What a fit does, number by number."""

    def __init__(self, pl, tunes, fails=False):
        self.pl, self.events, self.logged, self.lines = pl, [], [], []
        self.module, self.loader = self.make(), self.load()
        trainer = pl.trainer(max_epochs=2, callbacks=[self.callback()], logger=self.logger(),
                             log_every_n_steps=1)
        if tunes:
            sweep = {"early_stop_threshold": None, "num_training": 30, "update_attr": False}
            if fails:
                self.module.fails = True
                with pytest.raises(ZeroDivisionError):
                    pl.find(self.module, trainer, self.loader, **sweep)
                self.module.fails = False
            else:
                pl.find(self.module, trainer, self.loader, **sweep)
        self.after_tune = (trainer.global_step, trainer.current_epoch, trainer.max_epochs,
                           len(trainer.loggers), trainer.should_stop, self.logged[:],
                           [each for each in self.events if each not in ("setup", "teardown")])
        self.events, self.logged = [], []
        trainer.fit(self.module, self.loader)
        self.numbers = [torch.rand(3).tolist(), random.random(), trainer.global_step,
                        trainer.current_epoch]

    def make(self):
        class Net(self.pl.impl.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Sequential(
                    torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(),
                    torch.nn.Linear(16, 1))
                self.register_buffer("seen", torch.zeros(1), persistent=False)
                self.lr, self.fails = 0.1, False

            def training_step(self, batch, batch_idx):
                if self.fails and self.trainer.global_step == 5:
                    raise ZeroDivisionError
                self.seen += 1
                noise = torch.randn(()) + random.random()
                loss = ((self.net(batch[:, :8]) - batch[:, 8:]) ** 2).mean() + noise
                self.log("loss", loss)
                self.logger.experiment.anything("is taken")
                return loss

            def configure_optimizers(self):
                made = torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)
                return [made], [torch.optim.lr_scheduler.StepLR(made, 1, 0.5)]

        torch.manual_seed(7)
        random.seed(7)
        return Net()

    def load(self):
        drawn = torch.Generator().manual_seed(11)
        return rows(96, shuffle=True, generator=drawn)

    def callback(self):
        tape = self

        class Watch(self.pl.impl.Callback):
            def setup(self, trainer, module, stage):
                tape.events.append("setup")

            def teardown(self, trainer, module, stage):
                tape.events.append("teardown")

            def on_train_start(self, trainer, module):
                tape.events.append("start")

            def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
                tape.events.append((trainer.global_step, float(outputs["loss"])))

        return Watch()

    def logger(self):
        tape = self

        class Experiment:
            def anything(self, *args):
                tape.lines.append(args)

        class Recorder(self.pl.impl.Logger):
            name, version, experiment, save_dir = "recorder", 0, Experiment(), None

            def log_metrics(self, metrics, step=None):
                tape.logged.append((step, dict(metrics)))

            def log_hyperparams(self, *args, **kwargs):
                pass

        return Recorder()


@pytest.mark.parametrize("fails", [False, True], ids=["found", "failed"])
def test_beyond_a_fit_after_the_sweep_is_the_one_it_would_have_been(pl, fails):
    """2.2.5 and 2.6.6 put weights and counters back, but no random numbers and no buffers."""
    plain, tuned = Tape(pl, False), Tape(pl, True, fails)
    assert tuned.after_tune == (0, 0, 2, 1, False, [], [])
    assert len(plain.events) == 3 + 12
    assert tuned.events == plain.events
    assert tuned.logged == plain.logged
    assert tuned.numbers == plain.numbers
    for (name, one), (_, other) in zip(
            [*plain.module.named_parameters(), *plain.module.named_buffers()],
            [*tuned.module.named_parameters(), *tuned.module.named_buffers()]):
        assert torch.equal(one, other), name


def test_beyond_the_sweep_writes_nothing(pl):
    """2.2.5 and 2.6.6 write the weights to a file beside the script, and delete it."""
    pl.find(pl.module(lr=0.25), pl.trainer(logger=True, enable_checkpointing=True))
    assert list(pl.root.iterdir()) == []


# In older words, and as a picture


def test_beyond_tune_of_1_5(pl):
    """1.5.10 does nothing at all unless the flag is set."""
    module = pl.module(lr=0.25, speed=0.5)
    found = pl.trainer().tune(module, rows())["lr_find"]
    assert found.suggestion() == pytest.approx(4.7863e-07, rel=1e-4)
    assert (module.lr, module.speed) == (0.25, 0.5)
    found = pl.trainer(auto_lr_find="speed").tune(
        module, rows(), lr_find_kwargs={"num_training": 50})["lr_find"]
    assert len(found.results["lr"]) <= 50
    assert (module.lr, module.speed) == (0.25, found.suggestion())
    found = pl.trainer().tuner.lr_find(module, rows(), update_attr=False)
    assert found.suggestion() is not None


def test_beyond_a_flag_that_is_no_name_is_refused(pl):
    """1.5.10 takes it for True."""
    with pytest.raises(Exception, match="auto_lr_find=1"):
        pl.trainer(auto_lr_find=1)


def test_the_curve_is_drawn(pl):
    pytest.importorskip("matplotlib")
    found = pl.find(pl.module(lr=0.25))
    (axes,) = found.plot(suggest=True).axes
    line, point = axes.lines
    assert list(line.get_xdata()) == found.results["lr"]
    assert list(line.get_ydata()) == found.results["loss"]
    assert list(point.get_xdata()) == [found.suggestion()]
    assert axes.get_xscale() == "log"
    assert found.plot(ax=axes) is axes.figure


def test_beyond_the_curve_is_written(pl, tmp_path):
    """Lightning returns the figure, for one to save."""
    pytest.importorskip("matplotlib")
    found = pl.find(pl.module(lr=0.25), mode="linear", min_lr=0.01)
    found.plot(file=tmp_path / "sweep.svg")
    assert b"<svg" in (tmp_path / "sweep.svg").read_bytes()
