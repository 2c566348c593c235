"""Devices: which are asked for and what is refused, and that nothing assumes the CPU.

What `devices` means was taken from Lightning 2.2.5, on the CPU and with four GPUs made believe. Two
marks tell where this project has a ruling of its own: `^` for another kind of error, and `+` for
what 2.2.5 refuses.

That nothing assumes the CPU is shown on torch's `meta` device, whose tensors have no values:
whoever asks for one where none is needed fails.
"""

import importlib
import inspect

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from .adapter import EDITIONS  # noqa: E402
from .fsdp_ranks import difference  # noqa: E402

MIS = "MisconfigurationException"
QUIET = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False,
             enable_model_summary=False)

NAMES = [  # accelerator, and what comes of it on a machine without GPUs
    ("cpu", "cpu"), ("auto", "cpu"), ("cuda", MIS), ("gpu", MIS), ("mps", MIS),
    ("quantum", "ValueError"), (None, "ValueError"), (3, "ValueError"),
]

ON_CPU = [  # devices, and how many processes that is
    (1, 1), (2, 2), ("1", 1), ("2", 2), ("auto", 1), (-1, "+1"), ("-1", "+1"),
    (0, MIS), ([], MIS), (-2, "TypeError"), ([0], "TypeError"), ([0, 1], "TypeError"),
    ("0,", "TypeError"), ("x", "TypeError"), (1.5, "TypeError"), (None, "TypeError"),
]

ON_FOUR_GPUS = [  # devices, and which they are
    (1, [0]), (2, [0, 1]), (4, [0, 1, 2, 3]), (-1, [0, 1, 2, 3]), ("-1", [0, 1, 2, 3]),
    ("auto", [0, 1, 2, 3]), ("2", [0, 1]), ("0,", [0]), ("1,3", [1, 3]), ("1, 3", [1, 3]),
    ([0], [0]), ([2], [2]), ([3, 1], [3, 1]), ((1, 3), [1, 3]),
    (0, MIS), (5, MIS), (-2, MIS), ([], MIS), ([4], MIS), ([-1], MIS), ([0, 0], MIS), ("-1,", MIS),
    ("x", "^TypeError"), ("", "^TypeError"), (1.5, "TypeError"), (None, "TypeError"),
    (True, "TypeError"), ([1.5], "TypeError"), (["0"], "TypeError"),
]


def outcome(impl, blamed, read, **flags):
    """Make a trainer and read something from it; or return the name of the error about a flag."""
    try:
        return read(impl.Trainer(**dict(QUIET, **flags)))
    except Exception as error:
        if "beyond" in claimed(impl):  # names what is wrong
            assert "Trainer(%s=%r)" % (blamed, flags[blamed]) in str(error)
        return type(error).__name__


def claimed(impl):
    """Return the editions that the implementation claims."""
    return [edition for edition, needs in EDITIONS.items() if needs <= impl.capabilities]


def expected(impl, said):
    """Return what has to come, for who claims the rulings of this project or for 2.2.5."""
    if isinstance(said, str) and said[0] in "^+":
        if "beyond" not in claimed(impl):
            pytest.skip("a ruling of this project")
        return int(said[1:]) if said[0] == "+" else said[1:]
    return said


@pytest.fixture
def today(impl):
    """Pass on who has `accelerator` and `devices` with today's meaning."""
    if "devices" not in impl.flags or "2.2" not in claimed(impl):
        pytest.skip("%s: accelerator and devices of edition 2.2 are not claimed" % impl.name)
    return impl


@pytest.fixture
def ours(impl):
    """Pass on who has what no edition promises; others may remember how many GPUs there were."""
    if "beyond" not in claimed(impl):
        pytest.skip("%s: accelerators of edition beyond are not claimed" % impl.name)
    return impl


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accelerator, said", NAMES)
def test_names_of_accelerators(today, accelerator, said):
    """What is not there is refused, and the message says what is accepted."""
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("this machine has a GPU")
    got = outcome(today, "accelerator", lambda trainer: str(trainer.strategy.root_device),
                  accelerator=accelerator, devices=1)
    assert got == expected(today, said)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("devices, said", ON_CPU)
def test_devices_on_the_cpu(today, devices, said):
    """They are processes."""
    got = outcome(today, "devices", lambda trainer: trainer.num_devices, accelerator="cpu",
                  devices=devices)
    assert got == expected(today, said)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accelerator", ["cuda", "gpu", "auto"])
@pytest.mark.parametrize("devices, said", ON_FOUR_GPUS)
def test_devices_of_four_gpus(ours, monkeypatch, accelerator, devices, said):
    """They are counted, or listed by their numbers; the first one is the process's own."""
    became = []
    for name, value in (("device_count", 4), ("is_available", True)):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(torch.cuda, "set_device", became.append)
    got = outcome(ours, "devices", lambda trainer: trainer.device_ids, accelerator=accelerator,
                  devices=devices)
    assert got == expected(ours, said)
    assert isinstance(got, str) or became == got[:1]


# One process of a strategy for several.


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_one_process_of_a_strategy_for_several_trains_as_one(ours, strategy, tmp_path):
    class Module(ours.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.layer, self.frozen = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
            self.frozen.weight.requires_grad = False

        def training_step(self, batch, batch_idx):
            loss = self.frozen(self.layer(batch)).pow(2).mean()
            self.log("loss", loss, sync_dist=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 0.1)

    if strategy == "fsdp" and "fully_shard" not in ours.capabilities:
        pytest.skip("this torch has no fully_shard")
    ended = []
    for name in ("auto", strategy):
        trainer = ours.Trainer(accelerator="cpu", devices=1, strategy=name, max_epochs=2,
                               accumulate_grad_batches=2, gradient_clip_val=0.5, **QUIET)
        trainer.fit(Module(), DataLoader(torch.randn(
            12, 2, generator=torch.Generator().manual_seed(2)), 2))
        assert (trainer.global_rank, trainer.node_rank, trainer.world_size) == (0, 0, 1)
        trainer.save_checkpoint(str(tmp_path / name))
        trainer.strategy.barrier("the end")
        assert trainer.strategy.broadcast({"a": 1}) == {"a": 1}
        assert float(trainer.strategy.reduce(torch.tensor(3.0))) == 3.0
        if name == strategy:
            assert torch.distributed.get_world_size() == 1
            trainer.strategy.disconnect()
        saved = torch.load(str(tmp_path / name), weights_only=True)
        ended.append([saved["state_dict"], saved["optimizer_states"][0]["state"],
                      trainer.callback_metrics])
    assert difference(*ended) < 1e-6


def test_a_strategy_of_one_device_is_refused_for_two_processes(ours):
    alone = importlib.import_module(ours.name + ".strategies").SingleDeviceStrategy()
    with pytest.raises(Exception, match="Use strategy='ddp'") as refused:
        ours.Trainer(accelerator="cpu", devices=2, strategy=alone, **QUIET)
    assert type(refused.value).__name__ == MIS


# A device whose tensors have no values.


@pytest.fixture
def Meta(ours):
    """The class of an accelerator of one's own."""
    base = importlib.import_module(ours.name + ".accelerators").Accelerator

    class MetaAccelerator(base):
        """A device on which everything has a shape, and nothing a value."""

        name = "meta"

    return MetaAccelerator


@pytest.fixture
def Watched(ours):
    """A module that keeps where its weights and its batches were, hook by hook."""

    class WatchedModule(ours.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.head, self.seen = torch.nn.Linear(2, 2), None, {}

        def look(self, batch=None):
            hook = inspect.stack()[1].function
            places = [each.device.type for each in (self.layer.weight, batch) if each is not None]
            self.seen.setdefault(hook, " ".join(places))

        def setup(self, stage):
            self.look()

        def configure_model(self):
            self.head = self.head or torch.nn.Linear(2, 1)
            self.look(self.head.weight)

        def configure_optimizers(self):
            self.look(self.head.weight)
            optimizer = torch.optim.Adam(self.parameters())
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

        def on_before_batch_transfer(self, batch, dataloader_idx):
            self.look(batch)
            return batch

        def on_after_batch_transfer(self, batch, dataloader_idx):
            self.look(batch)
            return batch

        def on_train_batch_start(self, batch, batch_idx):
            self.look(batch)

        def training_step(self, batch, batch_idx):
            self.look(batch)
            loss = self.head(self.layer(batch)).mean()
            self.log("loss", loss, on_step=True, on_epoch=True)
            return loss

        def on_train_end(self):
            self.look()

        def validation_step(self, batch, batch_idx):
            self.look(batch)
            self.log("worst", self.layer(batch).sum(), reduce_fx="max")

        def predict_step(self, batch, batch_idx):
            self.look(batch)
            return self.layer(batch)

        def teardown(self, stage):
            self.look()

    return WatchedModule


def loader():
    """Return three batches."""
    return DataLoader(torch.rand(6, 2), batch_size=2)


@pytest.mark.filterwarnings("ignore")
def test_everything_is_on_the_device(ours, Meta, Watched):
    """Weights from configure_model on, batches after their transfer, and what they become.

    The hooks are those in which Lightning 2.2.5 finds them there; that the module comes back to the
    CPU in no hook, too.
    """
    module = Watched()
    trainer = ours.Trainer(accelerator=Meta(), devices=1, max_epochs=2, gradient_clip_val=1.0,
                           accumulate_grad_batches=2, **QUIET)
    trainer.fit(module, loader(), loader())
    assert trainer.strategy.root_device == torch.device("meta")
    assert module.seen == {
        "setup": "cpu", "configure_model": "cpu meta", "configure_optimizers": "meta meta",
        "on_before_batch_transfer": "meta cpu", "on_after_batch_transfer": "meta meta",
        "on_train_batch_start": "meta meta", "training_step": "meta meta",
        "validation_step": "meta meta", "on_train_end": "meta", "teardown": "meta"}
    states = trainer.optimizers[0].state.values()
    assert len(states) == 4 and {each["exp_avg"].device.type for each in states} == {"meta"}
    assert trainer.global_step == 4
    for name in ("loss", "loss_step", "loss_epoch", "worst"):
        assert trainer.callback_metrics[name].device.type == "meta"


@pytest.mark.filterwarnings("ignore")
def test_predictions_are_on_the_device(ours, Meta, Watched):
    """They are the steps' own."""
    trainer = ours.Trainer(accelerator=Meta(), devices=1, **QUIET)
    predictions = trainer.predict(Watched(), loader())
    assert [(str(each.device), tuple(each.shape)) for each in predictions] == [
        ("meta", (2, 2))] * 3


@pytest.mark.filterwarnings("ignore")
def test_checkpoints_come_and_go(ours, Meta, Watched, tmp_path):
    """A run that began on the CPU goes on there and is saved, without a value being asked for."""
    trainer = ours.Trainer(accelerator="cpu", devices=1, max_epochs=1, **QUIET)
    trainer.fit(Watched(), loader())
    trainer.save_checkpoint(tmp_path / "cpu.ckpt")
    trainer = ours.Trainer(accelerator=Meta(), devices=1, max_epochs=2, **QUIET)
    trainer.fit(Watched(), loader(), ckpt_path=tmp_path / "cpu.ckpt")
    assert (trainer.current_epoch, trainer.global_step) == (2, 6)
    trainer.save_checkpoint(tmp_path / "meta.ckpt")
    saved = torch.load(tmp_path / "meta.ckpt", weights_only=True)
    states = saved["optimizer_states"][0]["state"].values()
    kept = [*saved["state_dict"].values(), *(each["exp_avg"] for each in states)]
    assert [each.device.type for each in kept] == ["meta"] * 8
    assert saved["global_step"] == 6


@pytest.mark.filterwarnings("ignore")
def test_random_numbers_of_the_sanity_check(ours, Meta, Watched):
    """It leaves no trace in them, on any device."""
    drawn = []

    class Drawing(Watched):
        def on_fit_start(self):
            drawn.append(torch.get_rng_state())

        def validation_step(self, batch, batch_idx):
            torch.rand(9)

        def on_train_start(self):
            drawn.append(torch.get_rng_state())

    trainer = ours.Trainer(accelerator=Meta(), devices=1, max_steps=1, **QUIET)
    trainer.fit(Drawing(), loader(), loader())
    assert len(drawn) == 2 and torch.equal(*drawn)


class Sent(torch.Tensor):
    """A tensor that keeps how it was sent."""

    def to(self, device, non_blocking=False):
        """Keep whether the copy may go on in the background."""
        SENT.append((str(device), non_blocking))
        return torch.Tensor.to(self.as_subclass(torch.Tensor), device, non_blocking=non_blocking)


SENT = []


@pytest.mark.filterwarnings("ignore")
def test_copies_go_on_in_the_background(ours, Meta, Watched):
    """From the CPU they do not block: from pinned memory they run beside the computation."""
    del SENT[:]
    trainer = ours.Trainer(accelerator=Meta(), devices=1, **QUIET)
    batches = DataLoader([0, 1], batch_size=1, collate_fn=lambda _: {
        "x": torch.rand(2, 2).as_subclass(Sent)})

    class Unpacking(Watched):
        def on_before_batch_transfer(self, batch, dataloader_idx):
            return batch

        def on_after_batch_transfer(self, batch, dataloader_idx):
            return batch["x"]

    trainer.predict(Unpacking(), batches)
    assert SENT == [("meta", True)] * 2


@pytest.mark.parametrize("name", ["DDPStrategy", "FSDPStrategy", "SingleDeviceStrategy"])
def test_strategies_are_imported_from_one_place(impl, name):
    strategies = pytest.importorskip(impl.name + ".strategies")
    assert getattr(strategies, name).__name__ == name
    assert not hasattr(strategies, name + "s")
