"""Numbers, not events: what a run makes of weights, counters, metrics, batches and modes.

Expected values are hand arithmetic or stand in a public bug report (BR-nn); all were also seen in
Lightning 2.2.5, which passes these tests. Those whose name starts with ``test_beyond`` ask for
more, and say what Lightning does.

The module of most tests has one weight, its loss is weight times batch, and its optimizer is plain
gradient descent with rate 1: a step subtracts the batch from the weight.
"""

import argparse
import dataclasses
import gc
import importlib
import random
import warnings
import weakref
from collections import OrderedDict, defaultdict, namedtuple
from unittest.mock import Mock

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

from .asking import ask  # noqa: E402


class Stream(IterableDataset):
    """Rows of ones without a length, or with a wrong one."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(torch.ones(self.rows))


class Boasting(Stream):
    """A stream that promises ten rows."""

    def __len__(self):
        return 10


class Batches:
    """A loader that yields these very objects."""

    def __init__(self, *batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


def numbers(*values):
    """Return a loader whose batches are these numbers."""
    return Batches(*[torch.tensor(float(value)) for value in values])


class Namespace:
    """The implementation's classes, a small module, and a trainer that runs quietly."""

    def __init__(self, impl, root):
        callbacks = importlib.import_module(impl.name + ".callbacks")
        self.impl, self.root = impl, str(root)
        self.LightningModule = impl.LightningModule
        self.LightningDataModule = impl.LightningDataModule
        self.Callback, self.ModelCheckpoint = callbacks.Callback, callbacks.ModelCheckpoint

    def trainer(self, **flags):
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False,
                 "enable_checkpointing": False, "max_epochs": 1, "accelerator": "cpu",
                 "devices": 1, "default_root_dir": self.root}
        return self.impl.Trainer(**{**quiet, **flags})

    def weight_class(self):
        class Weight(self.LightningModule):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.zeros(()))
                self.seen = []

            def training_step(self, batch, batch_idx):
                return self.weight * batch.mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=1.0)

        return Weight

    def weight(self, **methods):
        """Make the module; `methods` are added to its class."""
        return type("Mine", (self.weight_class(),), methods)()

    def fit(self, module, train=None, val=None, ckpt_path=None, **flags):
        trainer = self.trainer(**flags)
        trainer.fit(module, numbers(1, 2, 3, 4) if train is None else train, val,
                    ckpt_path=ckpt_path)
        return trainer


@pytest.fixture
def pl(impl, request, tmp_path):
    """Ask those who claim edition 2.2, or what is beyond it."""
    ask(request, impl)
    torch.manual_seed(0)
    return Namespace(impl, tmp_path)


@pytest.fixture(autouse=True)
def no_noise():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def rounded(metrics):
    """Return logged metrics as plain numbers."""
    return {name: round(float(value), 6) for name, value in metrics.items()}


# Accumulation, clipping, steps


def note_gradient(module, optimizer):
    module.seen.append(round(module.weight.grad.item(), 5))


@pytest.mark.parametrize("values, window, gradients", [
    ((1, 2, 3, 4, 5, 6, 7), 3, [2, 5, 7 / 3]),  # BR-23: the last window is divided by 3, too
    ((1, 2), 4, [3 / 4]),
    ((1, 2, 3, 4), 2, [1.5, 3.5]),
    ((1, 2, 3), 1, [1, 2, 3]),
])
def test_a_window_sums_and_its_last_part_steps(pl, values, window, gradients):
    module = pl.weight(on_before_optimizer_step=note_gradient)
    trainer = pl.fit(module, numbers(*values), accumulate_grad_batches=window, max_epochs=2)
    assert module.seen == pytest.approx(gradients * 2, abs=1e-4)
    assert module.weight.item() == pytest.approx(-2 * sum(gradients), abs=1e-4)
    assert trainer.global_step == 2 * len(gradients)


def test_hooks_see_the_divided_loss(pl):
    def on_before_backward(self, loss):
        self.seen.append(round(loss.item(), 5))

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.seen.append((round(outputs["loss"].item(), 5), outputs["loss"].requires_grad))

    def training_step(self, batch, batch_idx):
        return self.weight * batch + 6

    module = pl.weight(on_before_backward=on_before_backward, training_step=training_step,
                       on_train_batch_end=on_train_batch_end)
    pl.fit(module, numbers(1, 1, 1), accumulate_grad_batches=2)
    assert module.seen == [3, (3, False), 3, (3, False), 2.5, (2.5, False)]


@pytest.mark.parametrize("algorithm", ["norm", "value", None])
def test_gradients_are_clipped_after_the_hook_as_torch_does(pl, algorithm):
    start = torch.tensor([[3.0, -4.0], [0.5, 12.0]])

    class Two(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.a, self.b = (torch.nn.Parameter(row.clone()) for row in start)
            self.unclipped = []

        def training_step(self, batch, batch_idx):
            return (self.a ** 2).sum() / 2 + (self.b ** 2).sum() / 2

        def on_before_optimizer_step(self, optimizer):
            self.unclipped = [p.grad.clone() for p in self.parameters()]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1.0)

    module = Two()
    pl.fit(module, numbers(1), gradient_clip_val=2.0, gradient_clip_algorithm=algorithm)
    twin = [torch.nn.Parameter(row.clone()) for row in start]
    for parameter in twin:
        parameter.grad = parameter.detach().clone()
    assert all(map(torch.equal, module.unclipped, start))
    if algorithm == "value":
        torch.nn.utils.clip_grad_value_(twin, 2.0)
    else:
        torch.nn.utils.clip_grad_norm_(twin, 2.0)
    torch.optim.SGD(twin, lr=1.0).step()
    assert all(map(torch.equal, module.parameters(), twin))


def test_the_step_counter_moves_when_optimizer_step_has_returned(pl):
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        self.seen.append(self.trainer.global_step)
        if batch_idx == 1:  # a step that an override leaves out counts
            optimizer_closure()
        else:
            optimizer.step(closure=optimizer_closure)
        self.seen.append(self.trainer.global_step)

    module = pl.weight(optimizer_step=optimizer_step)
    trainer = pl.fit(module, numbers(1, 2, 3))
    assert module.seen == [0, 0, 1, 1, 2, 2]
    assert (trainer.global_step, module.weight.item()) == (3, -4)


def test_a_closure_may_run_several_times(pl):
    class Twice(torch.optim.SGD):
        def step(self, closure):
            closure()
            return super().step(closure)

    def on_before_optimizer_step(self, optimizer):
        self.seen.append(self.weight.grad.item())

    module = pl.weight(configure_optimizers=lambda self: Twice(self.parameters(), lr=1.0),
                       on_before_optimizer_step=on_before_optimizer_step)
    trainer = pl.fit(module, numbers(1, 2))
    assert module.seen == [1, 1, 2, 2]
    assert (module.weight.item(), trainer.global_step) == (-3, 2)


@pytest.mark.parametrize("optimizer, settings", [
    ("SGD", {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.5}),
])
def test_a_step_that_returns_none_moves_nothing(pl, optimizer, settings):
    """BR-06. Gradients are cleared first, so that not even momentum or decay moves a weight."""
    def training_step(self, batch, batch_idx):
        return None if batch_idx == 1 else self.weight * batch

    def on_train_batch_end(self, outputs, batch, batch_idx):
        state = self.optimizers().state_dict()["state"]
        self.seen.append((self.weight.item(), str(state), sorted(outputs)))

    module = pl.weight(
        training_step=training_step, on_train_batch_end=on_train_batch_end,
        configure_optimizers=lambda self: getattr(torch.optim, optimizer)(
            self.parameters(), **settings))
    trainer = pl.fit(module)
    (first, kept, _), (skipped, same, empty), (third, _, _), _ = module.seen
    assert (skipped, same, empty) == (first, kept, [])
    assert third != first
    assert trainer.global_step == 4


def test_none_in_a_window_steps_with_what_the_window_has(pl):
    module = pl.weight(training_step=lambda self, batch, batch_idx:
                       self.weight * batch if batch_idx % 2 == 0 else None)
    trainer = pl.fit(module, accumulate_grad_batches=2)
    assert (module.weight.item(), trainer.global_step) == (-2, 2)  # 1/2 and 3/2


def test_an_epoch_that_returns_minus_one_drops_its_window(pl):
    """BR-01: its gradients do not reach the next epoch's first step."""
    def on_train_batch_start(self, batch, batch_idx):
        return -1 if batch_idx == 1 else None

    module = pl.weight(on_train_batch_start=on_train_batch_start)
    trainer = pl.fit(module, accumulate_grad_batches=2, max_epochs=3)
    assert (module.weight.item(), trainer.global_step, trainer.current_epoch) == (0, 0, 3)


# Several optimizers


class Pair:
    """Two weights with an optimizer each, and a frozen one in the first."""

    def make(pl, training_step, automatic):
        class Two(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = automatic
                self.a, self.b = (torch.nn.Parameter(torch.zeros(())) for _ in "ab")
                self.frozen = torch.nn.Parameter(torch.zeros(()), requires_grad=False)
                self.seen = []

            def configure_optimizers(self):
                return (torch.optim.SGD([self.a, self.frozen], lr=1.0),
                        torch.optim.SGD([self.b], lr=10.0))

            def needs_grad(self):
                return [p.requires_grad for p in (self.a, self.b, self.frozen)]

        Two.training_step = training_step
        return Two()


def test_two_optimizers_by_hand(pl):
    def training_step(self, batch, batch_idx):
        first, second = self.optimizers()
        for optimizer in (first, second):
            self.toggle_optimizer(optimizer)
            self.seen.append((self.needs_grad(), self.global_step))
            optimizer.zero_grad()
            self.manual_backward((self.a + self.b) * batch)
            optimizer.step()
            self.untoggle_optimizer(optimizer)
        self.seen.append((self.needs_grad(), self.global_step))

    module = Pair.make(pl, training_step, automatic=False)
    trainer = pl.fit(module, numbers(1, 2))
    assert (module.a.item(), module.b.item()) == (-3, -30)
    assert trainer.global_step == 4
    assert module.seen == [
        ([True, False, False], 0), ([False, True, False], 1), ([True, True, False], 2),
        ([True, False, False], 2), ([False, True, False], 3), ([True, True, False], 4)]


def test_beyond_two_optimizers_by_their_index(pl):
    """As in 1.5: each in turn, the other's weights frozen. Lightning 2.2 refuses."""
    def training_step(self, batch, batch_idx, optimizer_idx):
        self.seen.append((optimizer_idx, self.needs_grad(), self.global_step))
        return (self.a + self.b) * batch * (1 + optimizer_idx)

    module = Pair.make(pl, training_step, automatic=True)
    outputs, places = [], []

    class Older(pl.Callback):
        def on_before_optimizer_step(self, trainer, pl_module, optimizer, opt_idx):
            places.append(opt_idx)

        def on_train_batch_end(self, trainer, pl_module, out, batch, batch_idx, dataloader_idx):
            outputs.append([each["loss"].item() for each in out])

    trainer = pl.fit(module, numbers(1, 2), callbacks=[Older()])
    assert module.seen == [(0, [True, False, False], 0), (1, [False, True, False], 1),
                           (0, [True, False, False], 2), (1, [False, True, False], 3)]
    assert (module.a.item(), module.b.item()) == (-3, -60)  # 1 + 2; 10 (2 + 4)
    assert outputs == [[0, -2], [-42, -92]]  # 2 (-1 - 20); after a's step, 4 (-3 - 20)
    assert places == [0, 1, 0, 1]
    assert trainer.global_step == 4


@pytest.mark.parametrize("several, expected", [
    (False, ["{'loss': 0}", "{}", "{'loss': 2}", "[{'loss': 0}, {'loss': 2}]"]),
    (True, ["[{'loss': 0}, {'loss': 10}]", "[{'loss': 1}]", "[{'loss': 2}, {'loss': 12}]",
            "[[{'loss': 0}, {'loss': 1}, {'loss': 2}], [{'loss': 10}, {'loss': 12}]]"]),
])
def test_beyond_outputs_of_an_epoch_are_those_of_edition_1_5(pl, several, expected):
    """None of a skipped batch, and a list for each optimizer. Seen in 1.5.10; not in 2.x."""
    def one(self, batch, batch_idx):
        return None if batch_idx == 1 else self.a * 0 + batch_idx

    def two(self, batch, batch_idx, optimizer_idx):
        if (batch_idx, optimizer_idx) != (1, 1):
            return (self.b if optimizer_idx else self.a) * 0 + batch_idx + 10 * optimizer_idx

    def note(self, outputs, *args):
        self.seen.append(str(outputs).replace("tensor(", "").replace(".)", ""))

    module = Pair.make(pl, two if several else one, automatic=True)
    module.training_epoch_end = lambda outputs: note(module, outputs)
    module.on_train_batch_end = lambda outputs, batch, batch_idx: note(module, outputs)
    if not several:
        module.configure_optimizers = lambda: torch.optim.SGD([module.a], lr=1.0)
    pl.fit(module, numbers(0, 1, 2))
    assert module.seen == expected


def test_accumulation_by_hand(pl):
    """What manual optimization leaves to the user is done by nobody else."""
    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        self.manual_backward(self.weight * batch)
        if batch_idx % 2:
            self.clip_gradients(optimizer, gradient_clip_val=5.0, gradient_clip_algorithm="value")
            optimizer.step()
            optimizer.zero_grad()
        self.lr_schedulers().step()

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.1)]

    module = pl.weight(training_step=training_step, configure_optimizers=configure_optimizers)
    module.automatic_optimization = False
    trainer = pl.fit(module)
    assert module.weight.item() == pytest.approx(-3 - 0.1 * 5)  # 1 + 2; 3 + 4, clipped to 5
    assert trainer.global_step == 2
    assert module.lr_schedulers().last_epoch == 4


# Metrics


@pytest.mark.parametrize("settings, expected", [
    ({}, 393 / 522), ({"batch_size": 1}, 2.4 / 3), ({"reduce_fx": "sum"}, 2.4),
    ({"reduce_fx": "min"}, 0.7), ({"reduce_fx": max}, 0.9), ({"reduce_fx": torch.mean}, 393 / 522),
])
def test_epoch_means_weigh_by_batch_size(pl, settings, expected):
    """BR-25: 0.752874; sums, minima and maxima are not weighed."""
    def training_step(self, batch, batch_idx):
        self.log("x", (0.7, 0.8, 0.9)[batch_idx], on_step=False, on_epoch=True, **settings)
        return self.weight * 0

    module = pl.weight(training_step=training_step)
    trainer = pl.fit(module, DataLoader(torch.ones(522, 1), 256))
    assert rounded(trainer.callback_metrics) == {"x": round(expected, 6)}


def test_beyond_metric_objects_are_computed_and_reset(pl):
    """Any object with this protocol; Lightning takes those of torchmetrics only."""
    class Largest(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.reset()

        def reset(self):
            self.value = -1.0

        def update(self, value):
            self.value = max(self.value, float(value))

        def compute(self):
            return torch.tensor(self.value)

    def training_step(self, batch, batch_idx):
        self.largest.update(batch - 4 * self.current_epoch)
        self.log("largest", self.largest, on_step=False, on_epoch=True)
        return self.weight * batch

    module = pl.weight(training_step=training_step, on_train_epoch_start=lambda self:
                       self.seen.append(rounded(self.trainer.callback_metrics)))
    module.largest = Largest()
    trainer = pl.fit(module, max_epochs=2)
    assert module.seen == [{}, {"largest": 4}]
    assert rounded(trainer.callback_metrics) == {"largest": 0}
    assert module.largest.value == -1


def test_names_of_several_loaders_and_forms(pl):
    def validation_step(self, batch, batch_idx, dataloader_idx):
        self.log("v", batch + dataloader_idx)
        self.log("w", batch, on_step=True, on_epoch=True)

    module = pl.weight(validation_step=validation_step)
    trainer = pl.trainer()
    results = trainer.validate(module, [numbers(1, 2), numbers(4)], verbose=False)
    first = {"v/dataloader_idx_0": 1.5, "w_epoch/dataloader_idx_0": 1.5}
    second = {"v/dataloader_idx_1": 5, "w_epoch/dataloader_idx_1": 4}
    assert results == [first, second]
    unforked = {"w/dataloader_idx_0": 1.5, "w/dataloader_idx_1": 4}
    assert rounded(trainer.callback_metrics) == {**first, **second, **unforked}


def test_step_values_are_seen_during_validation(pl):
    def training_step(self, batch, batch_idx):
        self.log("loss", batch, on_step=True, on_epoch=True)
        return self.weight * batch

    module = pl.weight(
        training_step=training_step, validation_step=lambda self, batch, batch_idx: None,
        on_validation_start=lambda self: self.seen.append(rounded(self.trainer.callback_metrics)))
    trainer = pl.fit(module, val=numbers(1), num_sanity_val_steps=0)
    assert module.seen == [{"loss": 4, "loss_step": 4}]
    assert rounded(trainer.callback_metrics) == {"loss": 2.5, "loss_step": 4, "loss_epoch": 2.5}


# What is left as it was


def test_the_sanity_check_leaves_nothing(pl):
    """BR-04: the order of the batches, the weights, metrics, counters and loggers."""
    runs = {}
    for steps in (0, 2):
        rows = []

        class Recorder(pl.impl.Logger):
            name, version, experiment = "recorder", 0, None

            def log_metrics(self, metrics, step=None, rows=rows):
                rows.append((step, rounded(metrics)))

            def log_hyperparams(self, *args, **kwargs):
                pass

        def training_step(self, batch, batch_idx):
            self.seen.append(batch.tolist())
            self.log("x", batch.sum())
            return self.weight * batch.mean() + random.random()

        def validation_step(self, batch, batch_idx):
            random.random()
            self.log("val", torch.rand(()))

        def on_train_start(self):
            trainer = self.trainer
            self.seen.append((rounded(trainer.callback_metrics), rounded(trainer.logged_metrics),
                              trainer.global_step, trainer.current_epoch, random.random()))

        torch.manual_seed(3)
        random.seed(3)
        module = pl.weight(training_step=training_step, validation_step=validation_step,
                           on_train_start=on_train_start)
        trainer = pl.trainer(num_sanity_val_steps=steps, max_epochs=2, logger=Recorder(),
                             log_every_n_steps=1)
        loaders = [DataLoader(torch.arange(6.0), 2, shuffle=shuffled) for shuffled in (True, True)]
        trainer.fit(module, *loaders)
        runs[steps] = module.seen, module.weight.item(), rows, random.random()
    assert runs[0] == runs[2]
    assert runs[0][0][0][:4] == ({}, {}, 0, 0)


def test_every_submodule_keeps_its_mode(pl):
    """BR-03: an eval backbone stays so, and its running statistics do not move."""
    def modes(self, *args):
        self.seen.append([module.training for module in self.modules()])

    def training_step(self, batch, batch_idx):
        modes(self)
        return self.drop(self.norm(batch)).mean() * self.weight

    module = pl.weight(training_step=training_step, on_validation_start=modes,
                       validation_step=lambda self, batch, batch_idx: None)
    module.norm, module.drop = torch.nn.BatchNorm1d(1).eval(), torch.nn.Dropout()
    pl.fit(module, DataLoader(torch.rand(8, 1), 2), numbers(1), val_check_interval=0.5,
           max_epochs=2, num_sanity_val_steps=0)
    train, evaluate = [True, False, True], [False, False, False]
    assert module.seen == [train, train, evaluate] * 4
    assert module.norm.running_mean.item() == 0 and module.norm.running_var.item() == 1
    module.eval()
    module.seen.clear()
    pl.fit(module, DataLoader(torch.rand(4, 1), 2))
    assert module.seen == [evaluate] * 2


def test_outputs_and_batches_are_let_go(pl):
    """BR-32: what step i held is gone in step i + 1, and nothing holds the module after the fit."""
    held, alive = [], []

    def training_step(self, batch, batch_idx):
        alive.append([name for name, ref in held if ref() is not None])
        held.clear()
        graph = self.weight * batch.sum()
        big = graph + torch.zeros(100)
        held.extend([("graph", weakref.ref(graph)), ("big", weakref.ref(big))])
        self.log("logged", graph, on_epoch=True)
        return {"loss": graph, "big": big}

    module = pl.weight(training_step=training_step, validation_step=training_step)
    trainer = pl.fit(module, DataLoader(torch.ones(10), 2), DataLoader(torch.ones(10), 2))
    assert alive == [[]] * 12
    reference = weakref.ref(module)
    del module, trainer
    gc.collect()
    assert reference() is None


# When a fit stops, and which batches it takes


def stopping(when):
    def training_step(self, batch, batch_idx):
        self.trainer.should_stop |= (self.current_epoch, batch_idx) == when
        self.seen.append("t")
        return self.weight * batch

    return {"training_step": training_step,
            "validation_step": lambda self, batch, batch_idx: self.seen.append("v")}


@pytest.mark.parametrize("when, flags, expected, epochs", [
    ((0, 1), {}, "ttv", 1),
    ((0, 0), {"min_epochs": 3}, "ttttv" * 3, 3),  # BR-11: 12 steps, 3 validations
    ((0, 0), {"min_steps": 6}, "ttttv" + "ttv", 2),
    ((0, 0), {"min_epochs": 2, "min_steps": 3}, "ttttv" * 2, 2),
    ((1, 2), {"min_epochs": 1}, "ttttv" + "tttv", 2),
    ((0, 1), {"limit_val_batches": 0}, "tt", 1),
    ((9, 9), {"max_steps": 6}, "ttttv" + "tt", 2),
    ((9, 9), {"max_epochs": 0}, "", 0),
])
def test_when_a_fit_stops(pl, when, flags, expected, epochs):
    module = pl.weight(**stopping(when))
    trainer = pl.fit(module, val=numbers(1), num_sanity_val_steps=0,
                     **{"max_epochs": 10, **flags})
    assert "".join(module.seen) == expected
    assert trainer.global_step == expected.count("t")
    assert trainer.current_epoch == epochs


@pytest.mark.parametrize("flags, expected", [
    ({}, "t" * 10 + "vv"),
    ({"limit_train_batches": 1}, "tvv"),
    ({"limit_train_batches": 1.0}, "t" * 10 + "vv"),
    ({"limit_train_batches": 0.25}, "ttvv"),
    ({"limit_train_batches": 99}, "t" * 10 + "vv"),
    ({"limit_train_batches": 0}, ""),
    ({"limit_val_batches": 0}, "t" * 10),
    ({"limit_val_batches": 1}, "t" * 10 + "v"),
    ({"limit_val_batches": 0.5}, "t" * 10 + "v"),
    ({"val_check_interval": 1}, "tvv" * 10),
    ({"val_check_interval": 1.0}, "t" * 10 + "vv"),
    ({"val_check_interval": 0.25}, "ttvv" * 5),
    ({"val_check_interval": 3}, "tttvv" * 3 + "t"),
    ({"val_check_interval": 15, "check_val_every_n_epoch": None, "max_epochs": 3},
     "t" * 15 + "vv" + "t" * 15 + "vv"),
    ({"check_val_every_n_epoch": 2, "max_epochs": 4}, ("t" * 20 + "vv") * 2),
    ({"overfit_batches": 2, "max_epochs": 2}, "ttvv" * 2),
    ({"fast_dev_run": 1}, "tv"),
    ({"num_sanity_val_steps": 1, "limit_train_batches": 1}, "vtvv"),
    ({"num_sanity_val_steps": -1, "limit_train_batches": 1}, "vvtvv"),
])
def test_limits_and_intervals(pl, flags, expected):
    """BR-27: an int counts batches, a float is a share."""
    module = pl.weight(**stopping((9, 9)))
    pl.fit(module, numbers(*range(10)), numbers(1, 2), **{"num_sanity_val_steps": 0, **flags})
    assert "".join(module.seen) == expected


def test_beyond_overfit_takes_the_first_batches_unshuffled(pl):
    """Lightning 2.2 does too, where it can copy the loader: not under every torch."""
    module = pl.weight(training_step=lambda self, batch, batch_idx: (
        self.seen.append(batch.tolist()), self.weight * batch.mean())[1])
    pl.fit(module, DataLoader(torch.arange(10.0), 2, shuffle=True), overfit_batches=2, max_epochs=2)
    assert module.seen == [[0, 1], [2, 3]] * 2


def last_batches():
    def training_step(self, batch, batch_idx):
        self.seen.append("T" if self.trainer.is_last_batch else "t")
        return self.weight * batch.mean()

    return {"training_step": training_step,
            "validation_step": lambda self, batch, batch_idx: self.seen.append("v")}


@pytest.mark.parametrize("rows, flags, expected, steps", [
    (5, {}, "ttttTv", 5),
    (5, {"limit_train_batches": 3}, "ttTv", 3),
    (5, {"accumulate_grad_batches": 2}, "ttttTv", 3),
    (5, {"val_check_interval": 2}, "ttvttvT", 5),
    (5, {"max_steps": 7, "max_epochs": -1}, "ttttTv" + "tt", 7),
    (5, {"check_val_every_n_epoch": None, "val_check_interval": 7, "max_epochs": 3},
     "ttttT" + "ttvttT" + "ttttvT", 15),
])
def test_streams_without_length(pl, rows, flags, expected, steps):
    """BR-26: the end of the stream is the end of the epoch, and validation runs there."""
    module = pl.weight(**last_batches())
    trainer = pl.fit(module, DataLoader(Stream(rows), 1), numbers(1), num_sanity_val_steps=0,
                     **flags)
    assert ("".join(module.seen), trainer.global_step) == (expected, steps)


@pytest.mark.parametrize("flags, expected, steps", [
    ({}, "ttttTv", 5), ({"accumulate_grad_batches": 2}, "ttttTv", 3),
    ({"limit_train_batches": 9}, "ttttTv", 5), ({"limit_train_batches": 2}, "tTv", 2),
])
def test_beyond_streams_with_a_wrong_length(pl, flags, expected, steps):
    """BR-26. Lightning 2.2 takes no batch for the last, skips validation and drops a window."""
    module = pl.weight(**last_batches())
    trainer = pl.fit(module, DataLoader(Boasting(5), 1), numbers(1), num_sanity_val_steps=0,
                     **flags)
    assert ("".join(module.seen), trainer.global_step) == (expected, steps)


@pytest.mark.parametrize("shape, expected", [
    (lambda a, b: {"a": a, "b": b}, [{"a": 0, "b": 7}, {"a": 1, "b": 8}, {"a": 2, "b": 7}]),
    (lambda a, b: [a, b], [[0, 7], [1, 8], [2, 7]]),
    (lambda a, b: {"x": [a, b], "y": {"z": b}},
     [{"x": [0, 7], "y": {"z": 7}}, {"x": [1, 8], "y": {"z": 8}}, {"x": [2, 7], "y": {"z": 7}}]),
    (lambda a, b: [b], [[7], [8]]),
])
def test_several_training_loaders_are_cycled_to_the_longest(pl, shape, expected):
    def plain(batch):
        if isinstance(batch, dict):
            return {key: plain(value) for key, value in batch.items()}
        return [plain(each) for each in batch] if isinstance(batch, list) else batch.item()

    def training_step(self, batch, batch_idx):
        self.seen.append((plain(batch), self.trainer.is_last_batch))
        return self.weight * 1

    module = pl.weight(training_step=training_step)
    trainer = pl.fit(module, shape(numbers(0, 1, 2), numbers(7, 8)), max_epochs=2)
    assert module.seen == [(e, i == len(expected) - 1) for i, e in enumerate(expected)] * 2
    assert trainer.num_training_batches == len(expected)


def test_an_empty_list_of_loaders_evaluates_nothing(pl):
    module = pl.weight(**stopping((9, 9)), val_dataloader=lambda self: [],
                       predict_step=lambda self, batch, batch_idx: batch)
    trainer = pl.fit(module)
    assert "".join(module.seen) == "tttt"
    assert trainer.validate(module, [], verbose=False) == []
    assert trainer.predict(module, []) is None


# Moving batches


Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Record:
    x: object
    words: list


class Movable:
    def __init__(self):
        self.moved = 0

    def to(self, *args, **kwargs):
        self.moved += 1
        return self


X = torch.ones(2)


@pytest.mark.parametrize("batch", [
    X, [X, "s", 1], (X, 3), Point(X, "q"), {"x": X, "n": None}, OrderedDict(b=X, a=1),
    defaultdict(list, {"x": [X]}), Record(X, ["a", X]), "abc", 5,
    {"d": {"e": (X, [X])}}, torch.nn.utils.rnn.pack_sequence([torch.ones(2, 1)]),
], ids=lambda batch: type(batch).__name__)
def test_batches_keep_their_types_and_are_not_altered(pl, batch):
    """BR-28, in training, validation and prediction."""
    class Step(pl.weight_class()):
        def training_step(self, batch, batch_idx):
            self.seen.append(batch)
            return self.weight * 1

        def validation_step(self, batch, batch_idx):
            self.seen.append(batch)

        predict_step = validation_step

    module = Step()
    before = repr(batch)
    trainer = pl.fit(module, Batches(batch), Batches(batch), num_sanity_val_steps=0)
    trainer.predict(module, Batches(batch))
    assert [type(each) for each in module.seen] == [type(batch)] * 3
    assert [repr(each) for each in module.seen] == [before] * 3 and repr(batch) == before


def test_objects_are_asked_to_move_themselves(pl):
    plain, movable = object(), Movable()
    module = pl.weight(training_step=lambda self, batch, batch_idx: (
        self.seen.append(batch), self.weight * 1)[1])
    pl.fit(module, Batches({"plain": plain, "movable": [movable]}))
    assert module.seen[0]["plain"] is plain and module.seen[0]["movable"] == [movable]
    assert movable.moved == 1


# Going on from a checkpoint


class Order:
    """A shuffled run with dropout and momentum, which can be stopped and taken up."""

    def module(pl):
        class Shuffled(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer, self.drop = torch.nn.Linear(1, 1), torch.nn.Dropout()
                self.order = []

            def training_step(self, batch, batch_idx):
                self.order.append((self.current_epoch, batch_idx, *batch.flatten().tolist()))
                noise = random.random() + torch.rand(())
                loss = (self.drop(self.layer(batch)) + noise).pow(2).mean()
                self.log("loss", loss, on_epoch=True)
                return loss

            def configure_optimizers(self):
                optimizer = torch.optim.Adam(self.parameters(), lr=0.1)
                return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

        return Shuffled()

    def play(pl, callbacks=(), ckpt_path=None, seed=3, **flags):
        torch.manual_seed(seed)
        random.seed(seed)
        module = Order.module(pl)
        loader = DataLoader(TensorDataset(torch.arange(10.0)[:, None]), 2, shuffle=True,
                            collate_fn=lambda rows: torch.stack([row for row, in rows]))
        trainer = pl.fit(module, loader, ckpt_path=ckpt_path, callbacks=list(callbacks),
                         max_epochs=3, **flags)
        weights = [p.tolist() for p in module.parameters()]
        state = str(trainer.optimizers[0].state_dict())
        return module.order, (weights, state, rounded(trainer.callback_metrics))


@pytest.mark.parametrize("hook, count", [
    ("on_train_epoch_end", 1), ("on_train_epoch_end", 2), ("on_train_batch_end", 3),
    ("on_train_batch_end", 5), ("on_train_batch_end", 9), ("on_train_epoch_start", 2),
])
def test_beyond_a_resumed_run_ends_as_if_it_had_not_stopped(pl, hook, count):
    """Bit for bit, shuffling and dropout included. Lightning keeps no random state."""
    path = pl.root + "/at.ckpt"
    calls = []

    def save(self, trainer, *args):
        calls.append(1)
        if len(calls) == count:
            trainer.save_checkpoint(path)

    saver = type("Saver", (pl.Callback,), {hook: save})()
    order, end = Order.play(pl, [saver])
    resumed, same = Order.play(pl, ckpt_path=path, seed=99)
    assert resumed == order[len(order) - len(resumed):]
    assert len(resumed) < len(order)
    assert same == end


def test_weights_only_leaves_out_what_training_needs(pl):
    module = pl.weight()
    trainer = pl.fit(module)
    trainer.save_checkpoint(pl.root + "/all.ckpt")
    trainer.save_checkpoint(pl.root + "/some.ckpt", weights_only=True)
    full, some = (torch.load(pl.root + "/%s.ckpt" % name, weights_only=False)
                  for name in ("all", "some"))
    assert sorted(set(full) - set(some)) == ["callbacks", "lr_schedulers", "optimizer_states"]
    assert (some["epoch"], some["global_step"], some["state_dict"]["weight"].item()) == (1, 4, -10)


# Hyperparameters


def hparams_classes(pl):
    class Base(pl.LightningModule):
        def __init__(self, a=1, b="x"):
            super().__init__()
            self.save_hyperparameters()

    class Child(Base):
        def __init__(self, c=3, **rest):
            super().__init__(**rest)
            self.save_hyperparameters()

    class Quiet(Base):
        def __init__(self, c=3, *args, **rest):
            super().__init__(*args, **rest)

    class Names(pl.LightningModule):
        def __init__(self, a, b, c=3):
            super().__init__()
            self.save_hyperparameters("a", "c")

    class Without(pl.LightningModule):
        def __init__(self, a, net=None, c=3):
            super().__init__()
            self.save_hyperparameters(ignore=["net"])

    class One(pl.LightningModule):
        def __init__(self, conf, lr=1):
            super().__init__()
            self.save_hyperparameters(conf)

    class Given(pl.LightningModule):
        def __init__(self, lr=1):
            super().__init__()
            self.save_hyperparameters({"q": 1, "lr": lr})

    class Rest(pl.LightningModule):
        def __init__(self, a=1, *args, b=2, **rest):
            super().__init__()
            self.save_hyperparameters()

    class Later(pl.LightningModule):
        def __init__(self, a=1, b=2):
            super().__init__()
            a += 10
            self.save_hyperparameters()
            self.hparams.b = 5
            self.hparams["z"] = 6

    class Parts(pl.LightningModule):
        def __init__(self, a=1, b=2):
            super().__init__()
            self.save_hyperparameters("a")
            self.save_hyperparameters("b")

    return {each.__name__: each for each in (Base, Child, Quiet, Names, Without, One, Given, Rest,
                                             Later, Parts)}


CONF = {"lr": 0.1, "n": 3}
HPARAMS = [  # class, arguments, keywords; hparams; what load_from_checkpoint(..., a=77) makes
    ("Base", (2,), {}, {"a": 2, "b": "x"}, {"a": 77, "b": "x"}),
    ("Child", (4,), {"a": 9}, {"a": 9, "b": "x", "c": 4}, {"a": 77, "b": "x", "c": 4}),
    ("Quiet", (4, 8), {}, {"a": 8, "b": "x", "c": 4}, {"a": 77, "b": "x", "c": 4}),
    ("Names", (1, 2), {}, {"a": 1, "c": 3}, None),  # b is not in the file
    ("Without", (1,), {}, {"a": 1, "c": 3}, {"a": 77, "c": 3}),
    ("One", (CONF,), {}, CONF, {**CONF, "a": 77}),
    ("One", (argparse.Namespace(**CONF),), {}, CONF, {**CONF, "a": 77}),
    ("Given", (4,), {}, {"q": 1, "lr": 4}, {"q": 1, "lr": 4}),
    ("Rest", (1, 2), {"b": 4, "q": 5}, {"a": 1, "b": 4, "q": 5}, {"a": 77, "b": 4, "q": 5}),
    ("Later", (), {}, {"a": 11, "b": 5, "z": 6}, {"a": 87, "b": 5, "z": 6}),
    ("Parts", (), {}, {"a": 1, "b": 2}, {"a": 77, "b": 2}),
]


@pytest.mark.parametrize("name, args, keywords, expected, loaded", HPARAMS)
def test_hyperparameters_in_all_forms(pl, name, args, keywords, expected, loaded):
    cls = hparams_classes(pl)[name]
    module = cls(*args, **keywords)
    assert dict(module.hparams) == expected
    assert all(getattr(module.hparams, key) == value for key, value in expected.items())
    trainer = pl.trainer()
    trainer.validate(_validated(pl, module), numbers(1), verbose=False)
    path = pl.root + "/hparams.ckpt"
    trainer.save_checkpoint(path)
    if loaded is None:
        pytest.raises(TypeError, cls.load_from_checkpoint, path, a=77)
    else:
        assert dict(cls.load_from_checkpoint(path, a=77).hparams) == loaded


def _validated(pl, module):
    """Let a bare module be run once, so that its trainer can save it."""
    module.validation_step = lambda batch, batch_idx: None
    return module


def test_hparams_initial_stays(pl):
    module = hparams_classes(pl)["Base"](2)
    module.hparams.a = 100
    assert dict(module.hparams_initial) == {"a": 2, "b": "x"}
    with pytest.raises(AttributeError):
        module.hparams.nothing  # noqa: B018  reading it raises


def test_load_from_checkpoint(pl):
    class Sized(pl.LightningModule):
        def __init__(self, size=2):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(size, 1)
            self.extra = 0

        def training_step(self, batch, batch_idx):
            return self.layer(torch.ones(1, self.hparams.size)).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

        def on_save_checkpoint(self, checkpoint):
            checkpoint["extra"] = 5

        def on_load_checkpoint(self, checkpoint):
            self.extra = checkpoint["extra"]

    module = Sized(3)
    path = pl.root + "/sized.ckpt"
    pl.fit(module).save_checkpoint(path)
    loaded = Sized.load_from_checkpoint(path)
    assert torch.equal(loaded.layer.weight, module.layer.weight)
    assert (loaded.hparams.size, loaded.extra, loaded.training) == (3, 5, True)
    with pytest.raises(RuntimeError, match="size mismatch"):
        Sized.load_from_checkpoint(path, size=4)

    class Renamed(Sized):
        def __init__(self, size=2):
            super().__init__(size)
            self.other = torch.nn.Linear(1, 1)

    with pytest.raises(RuntimeError, match="other.weight"):
        Renamed.load_from_checkpoint(path)
    relaxed = Renamed.load_from_checkpoint(path, strict=False)
    assert torch.equal(relaxed.layer.weight, module.layer.weight)


# Callbacks, data modules, predictions, estimates


def test_configure_callbacks_replaces_those_of_its_type(pl):
    class Named(pl.Callback):
        def __init__(self, name):
            self.name = name

    class Other(Named):
        pass

    module = pl.weight(configure_callbacks=lambda self: [Named("module")])
    trainer = pl.fit(module, callbacks=[Named("trainer"), Other("other")])
    assert [c.name for c in trainer.callbacks if isinstance(c, Named)] == ["other", "module"]


def test_callbacks_added_during_a_run_are_called(pl):
    class Late(pl.Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            pl_module.seen.append(pl_module.current_epoch)

        def on_train_end(self, trainer, pl_module):
            pl_module.seen.append("end")

    class Adder(pl.Callback):
        def on_train_epoch_start(self, trainer, pl_module):
            if trainer.current_epoch == 1:
                trainer.callbacks.append(Late())

    module = pl.weight()
    pl.fit(module, numbers(1, 2), callbacks=[Adder()], max_epochs=2)
    assert module.seen == [1, 1, "end"]


def test_overrides_set_on_instances_count(pl):
    module, seen = pl.weight(), []
    module.on_train_start = lambda: seen.append("start")
    module.training_step = lambda batch, batch_idx: module.weight * 10
    module.on_train_batch_end = lambda outputs, batch, batch_idx: seen.append(batch_idx)
    callback = pl.Callback()
    callback.on_train_end = lambda trainer, pl_module: seen.append("end")
    pl.fit(module, numbers(1, 2), callbacks=[callback])
    assert seen == ["start", 0, 1, "end"]
    assert module.weight.item() == -20


def test_mocks_are_called_as_hooks(pl):
    module = pl.weight()
    module.on_train_epoch_end = Mock()
    module.on_train_batch_start = Mock(return_value=None)
    callback = Mock(spec=pl.Callback)
    callback.state_key = "mock"
    trainer = pl.fit(module, callbacks=[callback], max_epochs=2)
    assert module.on_train_epoch_end.call_count == 2
    assert [len(call[0]) for call in module.on_train_batch_start.call_args_list] == [2] * 8
    assert callback.on_train_batch_end.call_count == 8
    callback.on_train_start.assert_called_once_with(trainer, module)


def test_modules_inside_a_module_know_the_trainer(pl):
    class Outer(pl.weight_class()):
        def __init__(self):
            super().__init__()
            self.inner = pl.weight()

        def training_step(self, batch, batch_idx):
            self.seen.append((self.inner.trainer is self.trainer, self.inner.global_step))
            return self.weight * batch

    module = Outer()
    pl.fit(module, numbers(1, 2))
    assert module.seen == [(True, 0), (True, 1)]


def test_from_datasets(pl):
    rows = TensorDataset(torch.ones(4, 1))
    make = pl.LightningDataModule.from_datasets
    module = make(rows, val_dataset=[rows, rows], test_dataset=rows, batch_size=2)
    train, test = module.train_dataloader(), module.test_dataloader()
    samplers = [type(loader.sampler).__name__ for loader in
                (train, *module.val_dataloader(), test)]
    assert samplers == ["RandomSampler"] + ["SequentialSampler"] * 3
    assert (train.batch_size, len(train)) == (2, 2)
    assert sorted(make({"a": rows, "b": rows}).train_dataloader()) == ["a", "b"]
    assert type(make(Stream(3)).train_dataloader().sampler).__name__ == "_InfiniteConstantSampler"


@pytest.mark.parametrize("flags, expected", [
    ({}, 7), ({"max_epochs": 3}, 21), ({"max_steps": 5, "max_epochs": 3}, 5),
    ({"accumulate_grad_batches": 2, "max_epochs": 3}, 12), ({"limit_train_batches": 3}, 3),
    ({"max_epochs": -1, "max_steps": 9}, 9), ({"max_epochs": -1}, float("inf")),
    ({"fast_dev_run": 2}, 2), ({"max_epochs": None}, 7000),
])
def test_estimated_stepping_batches(pl, flags, expected):
    def configure_optimizers(self):
        self.seen.append(self.trainer.estimated_stepping_batches)
        return torch.optim.SGD(self.parameters(), 1.0)

    def on_train_start(self):
        self.trainer.should_stop = True

    module = pl.weight(configure_optimizers=configure_optimizers, on_train_start=on_train_start)
    pl.fit(module, numbers(*range(7)), **flags)
    assert module.seen == [expected]


def test_beyond_a_stream_without_limits_has_no_estimate(pl):
    """Infinity, whether epochs are limited or not; Lightning says -1 where they are."""
    module = pl.weight(configure_optimizers=lambda self: (
        self.seen.append(self.trainer.estimated_stepping_batches),
        torch.optim.SGD(self.parameters(), 1.0))[1])
    pl.fit(module, DataLoader(Stream(2), 1))
    assert module.seen == [float("inf")]


@pytest.mark.parametrize("loaders, flags, options, expected", [
    (lambda: numbers(1, 2), {}, {}, [1, 12]),
    (lambda: [numbers(1, 2), numbers(3)], {}, {}, [[1, 12], [103]]),
    (lambda: [numbers(1, 2)], {}, {}, [1, 12]),
    (lambda: {"a": numbers(1), "b": numbers(3)}, {}, {}, [[1], [103]]),
    (lambda: numbers(1, 2, 3), {"limit_predict_batches": 2}, {}, [1, 12]),
    (lambda: numbers(1), {}, {"return_predictions": False}, None),
    (lambda: numbers(1), {"limit_predict_batches": 0}, {}, None),
    (lambda: numbers(1, 2), {"fast_dev_run": True}, {}, [1]),
])
def test_predictions_in_all_forms(pl, loaders, flags, options, expected):
    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        assert not self.training and not torch.is_grad_enabled()
        return batch.item() + 10 * batch_idx + 100 * dataloader_idx

    module = pl.weight(predict_step=predict_step)
    assert pl.trainer(**flags).predict(module, loaders(), **options) == expected
    assert module.training and torch.is_grad_enabled()
