"""What is about GPUs and no clause: `make spec-cuda` runs this file, and the clauses on a GPU.

Tolerances: 32-bit weights that were trained on a GPU are within 1e-5 of those trained on the CPU,
since sums are taken in another order; with 16-bit types, within 2e-2. What the same device computes
twice from the same random numbers is the same, bit for bit.
"""

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from .adapter import EDITIONS  # noqa: E402

DEVICE = "cuda"
SINGLE, HALF = 1e-5, 2e-2
QUIET = dict(enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
             num_sanity_val_steps=0)
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def Module(impl):
    """Return a class of modules that keep in `seen` what their hooks have seen."""
    if not EDITIONS["2.2"] <= impl.capabilities:
        pytest.skip("%s: edition 2.2 is not claimed" % impl.name)

    class Trained(impl.LightningModule):
        def __init__(self, dropout=0.0):
            super().__init__()
            torch.manual_seed(1)
            self.layer, self.drop = torch.nn.Linear(4, 8), torch.nn.Dropout(dropout)
            self.head, self.seen, self.factor = None, {}, 1.0

        def configure_model(self):
            if self.head is None:
                torch.manual_seed(2)
                self.head = torch.nn.Linear(8, 1)
                with torch.no_grad():  # the generators of devices differ
                    self.head.weight.copy_(torch.linspace(-0.3, 0.3, 8).view(1, 8))
                    self.head.bias.zero_()
            self.seen["made on"] = self.head.weight.device.type

        def forward(self, x):
            return self.head(self.drop(torch.relu(self.layer(x))))

        def on_before_batch_transfer(self, batch, dataloader_idx):
            self.seen["pinned"] = batch.is_pinned()
            return batch

        def on_train_start(self):
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                self.seen["backend"] = torch.distributed.get_backend()

        def training_step(self, batch, batch_idx):
            output = self(batch)
            self.seen["batch"], self.seen["output"] = batch.device.type, output.dtype
            loss = (output.float() - batch.sum(1, keepdim=True)).pow(2).mean()
            self.log("loss", loss, on_step=True, on_epoch=True)
            return loss * self.factor

        def validation_step(self, batch, batch_idx):
            self.log("v", self(batch).float().mean())

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    return Trained


def data(**how):
    """Return a loader in a fixed order."""
    rows = torch.randn(24, 4, generator=torch.Generator().manual_seed(3))
    return DataLoader(rows, batch_size=4, **how)


def fitted(impl, module, device=DEVICE, path=None, loader=None, **flags):
    """Fit, and return the trainer."""
    flags = dict(dict(QUIET, max_epochs=2, logger=False, gradient_clip_val=0.5,
                      accumulate_grad_batches=2), **flags)
    trainer = impl.Trainer(accelerator=device, devices=1, **flags)
    trainer.fit(module, loader or data(), data(), ckpt_path=path)
    return trainer


def apart(first, second):
    """Return how far the weights of two modules are apart."""
    pairs = zip(first.state_dict().values(), second.state_dict().values())
    return max((one.cpu().float() - two.cpu().float()).abs().max().item() for one, two in pairs)


def places(trainer):
    """Return the kinds of device of all weights, and of what the optimizer keeps for them."""
    found = {each.device.type for each in trainer.lightning_module.state_dict().values()}
    for state in trainer.optimizers[0].state.values():
        found |= {state[name].device.type for name in ("exp_avg", "exp_avg_sq")}
    return found


def test_weights_as_on_the_cpu(impl, Module):
    there, here = Module(), Module()
    trainer = fitted(impl, there)
    other = fitted(impl, here, "cpu")
    assert apart(there, here) < SINGLE
    assert there.seen["batch"] == there.seen["made on"] == DEVICE and places(trainer) == {DEVICE}
    for name in ("loss_epoch", "v"):
        value, other_value = trainer.callback_metrics[name], other.callback_metrics[name]
        assert abs(float(value) - float(other_value)) < 10 * SINGLE


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_one_process_over_nccl(impl, Module, strategy):
    """As without a strategy."""
    if strategy == "fsdp" and not EDITIONS["beyond"] <= impl.capabilities:
        pytest.skip("%s: edition beyond is not claimed" % impl.name)
    alone, module = Module(), Module()
    fitted(impl, alone)
    try:
        trainer = fitted(impl, module, strategy=strategy, use_distributed_sampler=False)
        assert module.seen["backend"] == {"cuda": "nccl", "cpu": "gloo"}[DEVICE]
        whole = [getattr(each, "full_tensor", lambda each=each: each)().detach().cpu()
                 for each in module.parameters()]
        for one, two in zip(alone.parameters(), whole):
            assert (one.detach().cpu() - two).abs().max() < SINGLE
        assert trainer.global_step == 6
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


@pytest.mark.parametrize("precision, kind", [("16-mixed", "float16"), ("bf16-mixed", "bfloat16")])
def test_mixed_precision(impl, Module, precision, kind, tmp_path):
    """The outputs are of 16 bit, the weights near those of 32; the scaler is in the checkpoint."""
    mixed, plain = Module(), Module()
    mixed.factor = plain.factor = 1e-3  # scaled, its gradients fit into 16 bit
    trainer = fitted(impl, mixed, precision=precision, max_epochs=3)
    assert str(mixed.seen["output"]) == "torch." + kind
    assert {each.dtype for each in mixed.parameters()} == {torch.float32}
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    saved = torch.load(tmp_path / "a.ckpt", map_location="cpu", weights_only=True)
    assert ("MixedPrecision" in saved) == (precision == "16-mixed")
    fitted(impl, plain, max_epochs=3)
    assert trainer.global_step == 9 and apart(mixed, plain) < HALF


@pytest.mark.parametrize("pins", [True, False])
def test_pinned_memory(impl, Module, pins):
    """A batch is as the loader has made it, and computes on the GPU."""
    module, here = Module(), Module()
    fitted(impl, module, loader=data(pin_memory=pins))
    fitted(impl, here, "cpu")
    assert module.seen["pinned"] == pins and module.seen["batch"] == DEVICE
    assert apart(module, here) < SINGLE


def test_memory_of_the_gpu(impl, Module, tmp_path):
    """GPUStatsMonitor tells it to the logger."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    if "gpu_stats_monitor" not in impl.capabilities:
        pytest.skip("%s has no GPUStatsMonitor" % impl.name)
    logger = impl.CSVLogger(str(tmp_path))
    fitted(impl, Module(), logger=logger, log_every_n_steps=1, callbacks=[
        impl.GPUStatsMonitor(temperature=True)])
    names, *rows = [line.split(",") for line in next(
        tmp_path.rglob("metrics.csv")).read_text().splitlines()]
    used = [i for i, name in enumerate(names) if "memory.used" in name]
    values = [float(row[i]) for row in rows for i in used if row[i]]
    assert values and min(values) > 0


def test_to_the_cpu_and_back(impl, Module, tmp_path):
    """Every tensor of a resumed run is where the run is, whatever wrote the checkpoint."""
    trainer = fitted(impl, Module(), max_epochs=1)
    for epochs, device in ((2, "cpu"), (3, DEVICE)):
        path = tmp_path / ("%d.ckpt" % epochs)
        trainer.save_checkpoint(path)
        trainer = fitted(impl, Module(), device, path, max_epochs=epochs)
        assert places(trainer) == {device}
        assert (trainer.current_epoch, trainer.global_step) == (epochs, 3 * epochs)
    whole = fitted(impl, Module(), max_epochs=3)
    assert apart(trainer.lightning_module, whole.lightning_module) < SINGLE


def test_resumed_with_dropout_on_the_gpu(impl, Module, tmp_path):
    """The GPU's random numbers go on, too: bit for bit."""
    if not EDITIONS["beyond"] <= impl.capabilities:
        pytest.skip("%s: edition beyond is not claimed" % impl.name)
    path = tmp_path / "half.ckpt"
    fitted(impl, Module(0.5), max_epochs=1).save_checkpoint(path)
    torch.rand(5, device=DEVICE)
    resumed = fitted(impl, Module(0.5), path=path, max_epochs=2)
    whole = fitted(impl, Module(0.5), max_epochs=2)
    assert apart(resumed.lightning_module, whole.lightning_module) == 0
