"""What a module and a trainer answer: alone, and in a run.

What is expected was recorded from Lightning 2.2.5. Tests whose name starts with ``test_beyond`` ask
for more, or for something else, and say what Lightning does.
"""

import copy
import os
import pickle
import random
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from .asking import ask  # noqa: E402


class Namespace:
    """The implementation's classes, a small module, and a quiet trainer."""

    def __init__(self, impl, root):
        self.impl, self.root = impl, root

    def trainer(self, **flags):
        quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False,
                     enable_model_summary=False, accelerator="cpu", max_epochs=1,
                     default_root_dir=str(self.root))
        return self.impl.Trainer(**{**quiet, **flags})

    def module(self, **methods):
        """Return a module of one layer."""
        def __init__(module):
            self.impl.LightningModule.__init__(module)
            module.layer = torch.nn.Linear(2, 1)

        named = {
            "__init__": __init__,
            "forward": lambda self, x: self.layer(x),
            "training_step": lambda self, batch, batch_idx: self(batch).sum(),
            "configure_optimizers": lambda self: torch.optim.SGD(self.parameters(), 0.1)}
        return type("Mine", (self.impl.LightningModule,), {**named, **methods})()

    def fit(self, batches=1, trainer=None, **methods):
        """Fit such a module, and return the trainer."""
        trainer = trainer or self.trainer()
        trainer.fit(self.module(**methods), DataLoader(torch.ones(batches, 2)))
        return trainer


@pytest.fixture
def pl(impl, request, tmp_path, no_noise):
    """Ask those who claim the edition."""
    ask(request, impl)
    return Namespace(impl, tmp_path)


@pytest.fixture
def seeds(impl, monkeypatch):
    """Return `seed_everything`; afterwards no seed is left in the environment."""
    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "0")
        monkeypatch.delenv(name)
    if not hasattr(impl, "seed_everything"):
        pytest.skip("no seed_everything")
    return impl.seed_everything


# Seeds


def drawn():
    """Return a random number of Python, of torch, and of NumPy if it is there."""
    numbers = [random.random(), torch.rand(1).item()]
    try:
        import numpy
    except ImportError:
        return numbers
    return numbers + [float(numpy.random.rand())]


def test_a_seed_is_that_of_every_generator(pl, seeds):
    random.seed(3)
    torch.manual_seed(3)
    expected = [random.random(), torch.rand(1).item()]
    assert seeds(3) == 3
    first = drawn()
    assert first[:2] == expected
    assert drawn() != first
    seeds(3)
    assert drawn() == first


@pytest.mark.parametrize("given, there, seed", [((5,), None, 5), ((), None, 0), ((), "11", 11)])
def test_a_seed_is_told_to_processes_that_are_started(pl, seeds, monkeypatch, given, there, seed):
    if there:
        monkeypatch.setenv("PL_GLOBAL_SEED", there)
    assert seeds(*given) == seed
    assert (os.environ["PL_GLOBAL_SEED"], os.environ["PL_SEED_WORKERS"]) == (str(seed), "0")
    seeds(*given, workers=True)
    assert os.environ["PL_SEED_WORKERS"] == "1"


@pytest.mark.parametrize("seed", [-1, 2 ** 32])
def test_beyond_a_seed_out_of_range_is_refused(pl, seeds, seed):
    """2.2.5 warns and takes 0, 2.6.6 refuses it, too."""
    before = torch.get_rng_state()
    with pytest.raises(ValueError, match=str(seed)):
        seeds(seed)
    assert torch.equal(torch.get_rng_state(), before)
    assert seeds(2 ** 32 - 1) == 2 ** 32 - 1


# A module without a trainer


def test_a_module_alone_is_the_first_of_one_process(pl):
    module = pl.module()
    assert (module.global_rank, module.local_rank) == (0, 0)
    assert (module.loggers, module.logger) == ([], None)
    with pytest.raises(RuntimeError, match="not attached to a `Trainer`"):
        print(module.trainer)


def test_a_module_in_a_run_has_what_its_trainer_has(pl):
    seen = []

    class Logger(pl.impl.Logger):
        name, version, experiment, save_dir = "mine", 0, None, None

        def log_metrics(self, metrics, step=None):
            """Take them."""

        def log_hyperparams(self, params, *args, **kwargs):
            """Take them."""

    loggers = [Logger(), Logger()]
    trainer = pl.trainer(logger=loggers)
    pl.fit(trainer=trainer, on_train_start=lambda self: seen.append(
        [self.global_rank, self.local_rank, self.loggers, self.logger, self.trainer]))
    assert seen == [[0, 0, loggers, loggers[0], trainer]]


@pytest.mark.parametrize("convert, dtype", [
    ("float", torch.float32), ("double", torch.float64), ("half", torch.float16)])
def test_dtype_follows_the_parameters(pl, convert, dtype):
    assert getattr(pl.module(), convert)().dtype is dtype


def test_dtype_of_a_module_without_parameters_is_the_default(pl):
    assert pl.impl.LightningModule().dtype is torch.float32


def test_predict_step_calls_forward_by_default(pl):
    module, batch = pl.module(), torch.ones(1, 2)
    assert module.predict_step(batch, 0).equal(module(batch))
    assert pl.trainer().predict(module, DataLoader(torch.ones(1, 2)))[0].equal(module(batch))


@pytest.mark.parametrize("name, value", [
    ("automatic_optimization", False), ("strict_loading", False),
    ("example_input_array", torch.ones(1, 2))])
def test_a_setting_may_stand_in_the_class_or_be_a_property(pl, name, value):
    for form in (value, property(lambda self: value)):
        assert getattr(pl.module(**{name: form}), name) is value


def test_freezing_turns_off_gradients_and_training_and_back(pl):
    module = pl.module()

    def seen():
        return [module.training, module.layer.training,
                [parameter.requires_grad for parameter in module.parameters()]]

    module.freeze()
    assert seen() == [False, False, [False, False]]
    module.unfreeze()
    assert seen() == [True, True, [True, True]]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))],
                         ids=["copy", "pickle"])
def test_a_copy_has_no_trainer(pl, copied):
    module = pl.impl.LightningModule()
    module.inner = torch.nn.Linear(1, 1)
    module.trainer = pl.trainer()
    other = copied(module)
    assert other.inner.weight.equal(module.inner.weight)
    assert module.trainer is not None
    with pytest.raises(RuntimeError, match="Trainer"):
        print(other.trainer)


def test_log_without_a_trainer_warns_and_goes_on(pl):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pl.module().log("x", 1.0)
    assert len(caught) == 1
    assert "self.log" in str(caught[0].message) and "trainer" in str(caught[0].message)


# Clipping by hand


def clipping(**arguments):
    """Return the hook that clips with these arguments, and notes the gradient of the bias."""
    def configure_gradient_clipping(
            self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.layer.bias.grad.fill_(3.0)
        self.layer.weight.grad.fill_(4.0)
        self.layer.weight.grad[0, 1] = 0
        self.clip_gradients(optimizer, **arguments)
        self.clipped = self.layer.bias.grad.item(), self.layer.weight.grad.tolist()[0]

    return dict(configure_gradient_clipping=configure_gradient_clipping)


@pytest.mark.parametrize("arguments, expected", [
    (dict(gradient_clip_val=1.0), (0.6, [0.8, 0])),  # of norm 5
    (dict(gradient_clip_val=1.0, gradient_clip_algorithm="value"), (1, [1, 0])),
    (dict(gradient_clip_val=0), (3, [4, 0])),
    (dict(), (3, [4, 0])),
], ids=str)
def test_clipping_by_hand(pl, arguments, expected):
    clipped = pl.fit(**clipping(**arguments)).lightning_module.clipped
    assert clipped[0] == pytest.approx(expected[0], abs=1e-4)
    assert clipped[1] == pytest.approx(expected[1], abs=1e-4)


@pytest.mark.parametrize("flags, arguments, told", [
    (dict(gradient_clip_val=1.0), dict(gradient_clip_val=2.0),
     ["gradient_clip_val=1.0", "clip_gradients(gradient_clip_val=2.0)"]),
    (dict(gradient_clip_val=1.0, gradient_clip_algorithm="norm"),
     dict(gradient_clip_val=1.0, gradient_clip_algorithm="value"), ["norm", "value"]),
    (dict(), dict(gradient_clip_val=1.0, gradient_clip_algorithm="max"),
     ["gradient_clip_algorithm", "max", "norm", "value"]),
], ids=["value", "algorithm", "unknown"])
def test_clipping_by_hand_that_contradicts_is_refused(pl, flags, arguments, told):
    with pytest.raises(Exception) as raised:
        pl.fit(trainer=pl.trainer(**flags), **clipping(**arguments))
    assert type(raised.value).__name__ == "MisconfigurationException"
    assert [words for words in told if words not in str(raised.value)] == []


# What a trainer answers


def test_a_trainer_knows_its_early_stopping(pl):
    first, second = pl.impl.EarlyStopping("a"), pl.impl.EarlyStopping("b")
    trainer = pl.trainer(callbacks=[first, second])
    assert trainer.early_stopping_callback is first
    assert trainer.early_stopping_callbacks == [first, second]
    other = pl.trainer()
    assert (other.early_stopping_callback, other.early_stopping_callbacks) == (None, [])


def test_a_logger_can_be_set_later(pl):
    trainer = pl.trainer()
    logger = pl.impl.CSVLogger(str(pl.root))
    trainer.logger = logger
    assert trainer.loggers == [logger]
    trainer.logger = None
    assert (trainer.loggers, trainer.logger) == ([], None)


def test_a_trainer_prints_once(pl, capsys):
    pl.trainer().print("a", "b", sep="-")
    assert capsys.readouterr().out == "a-b\n"


def test_a_trainer_says_how_its_run_ended(pl):
    trainer, seen = pl.trainer(), []
    assert (trainer.state.finished, trainer.state.stopped) == (False, False)
    pl.fit(trainer=trainer, on_train_start=lambda self: seen.append(
        [self.trainer.state.finished, self.trainer.state.stopped]))
    assert seen == [[False, False]]
    assert (trainer.state.finished, trainer.state.stopped) == (True, True)

    def interrupt(self):
        raise KeyboardInterrupt

    trainer = pl.trainer()
    try:
        pl.fit(trainer=trainer, on_train_start=interrupt)
    except (KeyboardInterrupt, SystemExit):  # 2.6.6
        pass
    assert (trainer.state.finished, trainer.state.stopped) == (False, True)


def test_which_stages_evaluate(pl):
    seen = {}

    def look(name):
        return lambda self, trainer, module: seen.setdefault(name, trainer.evaluating)

    Look = type("Look", (pl.impl.Callback,), {name: look(name) for name in (
        "on_sanity_check_start", "on_train_start", "on_validation_start", "on_test_start",
        "on_predict_start")})
    nothing = lambda self, batch, batch_idx: None  # noqa: E731
    module = pl.module(validation_step=nothing, test_step=nothing)
    trainer, rows = pl.trainer(callbacks=[Look()]), DataLoader(torch.ones(1, 2))
    trainer.fit(module, rows, rows)
    trainer.test(module, rows)
    trainer.predict(module, rows)
    assert seen == {"on_sanity_check_start": True, "on_train_start": False,
                    "on_validation_start": True, "on_test_start": True, "on_predict_start": False}


def test_deterministic_algorithms_are_those_of_torch(pl, monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    try:
        pl.trainer()
        assert not torch.are_deterministic_algorithms_enabled()
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
        pl.trainer(deterministic=True)
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        pl.trainer(deterministic="warn")
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_data_module_may_stand_in_the_place_of_the_loaders(pl):
    class Data(pl.impl.LightningDataModule):
        def train_dataloader(self):
            return DataLoader(torch.ones(3, 2))

    trainer, data = pl.trainer(), Data()
    trainer.fit(pl.module(), data)
    assert (trainer.global_step, trainer.datamodule) == (3, data)


# Optimizers


@pytest.mark.parametrize("form, told", [
    (lambda o, s: {"optimizer": o, "lr_schedule": s}, "lr_schedule"),
    (lambda o, s: ([o], [{"scheduler": s, "intervall": "step"}]), "intervall"),
], ids=["optimizer", "scheduler"])
def test_a_key_that_is_not_known_is_told_and_ignored(pl, form, told):
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        return form(optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1))

    with pytest.warns(Warning, match=told):
        trainer = pl.fit(2, configure_optimizers=configure_optimizers)
    schedulers = [config.interval for config in trainer.lr_scheduler_configs]
    assert schedulers == ([] if told == "lr_schedule" else ["epoch"])


def test_beyond_a_key_that_is_not_known_comes_with_the_one_that_was_meant(pl):
    """2.2.5 names the key alone."""
    with pytest.warns(UserWarning, match="`lr_schedule.*mean `lr_scheduler`"):
        pl.fit(configure_optimizers=lambda self: {
            "optimizer": torch.optim.SGD(self.parameters(), 0.1), "lr_schedule": 0})


# Optimizers that share parameters


def test_a_parameter_of_two_optimizers_is_trained_by_the_one_that_is_toggled(pl):
    seen = []

    def configure_optimizers(self):
        self.a, self.b, self.c = [torch.nn.Parameter(torch.ones(1)) for _ in "abc"]
        self.c.requires_grad = False
        return [torch.optim.SGD(each, 0.1) for each in ([self.a, self.b, self.c], [self.b])]

    def training_step(self, batch, batch_idx):
        for optimizer in self.optimizers():
            self.toggle_optimizer(optimizer)
            seen.append([each.requires_grad for each in (self.a, self.b, self.c)])
            self.untoggle_optimizer(optimizer)
            seen.append([each.requires_grad for each in (self.a, self.b, self.c)])

    pl.fit(automatic_optimization=False, training_step=training_step,
           configure_optimizers=configure_optimizers)
    whole = [True, True, False]
    assert seen == [whole, whole, [False, True, False], whole]


# Hyperparameters


def test_hyperparameters_are_shown_one_a_line(pl):
    class Mine(pl.impl.LightningModule):
        def __init__(self, width=3, act="relu"):
            super().__init__()
            self.save_hyperparameters()

    assert repr(Mine().hparams) == '"act":   relu\n"width": 3'


def test_arguments_are_those_of_the_init_that_saves(pl):
    """Not those of the `__init__` of whatever makes the module."""
    class Mine(pl.impl.LightningModule):
        def __init__(self, width=3):
            super().__init__()
            self.save_hyperparameters()

    class Maker:
        def __init__(self, depth=5):
            self.made = Mine(width=depth + 1)

    assert dict(Maker().made.hparams) == {"width": 6}


# Data modules and their checkpoints


def saved_data(pl, **more):
    """Fit with a data module that counts its setups, and return its class and the file."""
    class Data(pl.impl.LightningDataModule):
        def __init__(self, size=2, order="as it is"):
            super().__init__()
            self.save_hyperparameters()
            self.size, self.order, self.setups, self.told = size, order, 0, []

        def setup(self, stage):
            self.setups += 1

        def train_dataloader(self):
            return DataLoader(torch.ones(self.size, 2))

        def state_dict(self):
            return {"setups": self.setups}

        def load_state_dict(self, state_dict):
            self.setups = state_dict["setups"]

    for name, value in more.items():
        setattr(Data, name, value)
    trainer, path = pl.trainer(), str(pl.root / "data.ckpt")
    trainer.fit(pl.module(), datamodule=Data(3))
    trainer.save_checkpoint(path)
    return Data, path


def test_a_data_module_comes_from_a_checkpoint(pl):
    Data, path = saved_data(pl)
    loaded = Data.load_from_checkpoint(path)
    assert (loaded.size, loaded.order) == (3, "as it is")
    other = Data.load_from_checkpoint(path, size=7)
    assert (other.size, dict(other.hparams)) == (7, {"size": 7, "order": "as it is"})


def test_beyond_a_data_module_comes_with_its_state(pl):
    """2.2.5 gives it the hyperparameters alone."""
    Data, path = saved_data(pl)
    assert Data.load_from_checkpoint(path).setups == 1


def test_beyond_hyperparameters_from_a_file(pl, tmp_path):
    """JSON; 2.x reads YAML and CSV, for which it needs another package."""
    Data, path = saved_data(pl)
    file = tmp_path / "hparams.json"
    file.write_text('{"size": 5, "order": "shuffled"}')
    loaded = Data.load_from_checkpoint(path, hparams_file=file, order="backwards")
    assert (loaded.size, loaded.order) == (5, "backwards")


# What a trainer may be asked by the names of older editions and of 2.x


def test_the_loop_of_an_epoch_takes_a_limit_of_steps(pl):
    trainer = pl.trainer(max_epochs=-1, max_steps=2)
    pl.fit(trainer=trainer)
    trainer.fit_loop.epoch_loop.max_steps = 5
    pl.fit(trainer=trainer)
    assert trainer.global_step == 5 and trainer.node_rank == 0
