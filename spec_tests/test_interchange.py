"""Checkpoints go both ways between this package and Lightning 2.x.

Most is asked where both are installed; what 2.2.5 writes of its loops is written down here, too.

The files are made on the spot, in four places of a run of two epochs over three batches. Who goes
on trains a third epoch. The data are not shuffled and nothing is random. This package has to end as
a run that was never stopped; Lightning as it does from a file of its own, since from inside an
epoch it goes on with other rows than those that are left, and 2.2.5 steps a scheduler once more.
"""

import importlib

import pytest

torch = pytest.importorskip("torch")

OURS, THEIRS = "minilightning", "lightning.pytorch"
PLACES = ["batch", "validation", "epoch", "fit"]


def classes(name):
    """Return the module's class and the saver's, of one of the two."""
    pl = importlib.import_module(name)
    callbacks = importlib.import_module(name + ".callbacks")

    class Module(pl.LightningModule):
        def __init__(self, width=3):
            super().__init__()
            self.save_hyperparameters()
            self.first, self.last = torch.nn.Linear(2, width), torch.nn.Linear(width, 1)

        def training_step(self, batch, batch_idx):
            return self.last(torch.tanh(self.first(batch))).square().mean()

        def validation_step(self, batch, batch_idx):
            self.log("score", self.training_step(batch, batch_idx))

        def configure_optimizers(self):
            made = torch.optim.Adam(self.parameters(), 0.1)
            return [made], [torch.optim.lr_scheduler.StepLR(made, 1, 0.5)]

    class Saver(callbacks.Callback):
        folder = None

        def on_train_batch_end(self, trainer, module, *args):
            self.save(trainer, 4, "batch")

        def on_validation_end(self, trainer, module):
            self.save(trainer, 6, "validation")

        def on_train_epoch_end(self, trainer, module):
            self.save(trainer, 6, "epoch")

        def save(self, trainer, step, place):
            if self.folder is not None and trainer.global_step == step:
                trainer.save_checkpoint("%s/%s.ckpt" % (self.folder, place))

    return pl, callbacks, Module, Saver


def rows():
    return torch.utils.data.DataLoader(torch.arange(12.0).reshape(6, 2) / 9, 2)


def run(name, folder, epochs, ckpt_path=None, saves=False):
    """Train; return trainer, module and what watches the score."""
    pl, callbacks, Module, Saver = classes(name)
    torch.manual_seed(3)
    saver, watch = Saver(), callbacks.EarlyStopping("score", patience=9, mode="max", strict=False)
    saver.folder = folder if saves else None
    keep = callbacks.ModelCheckpoint("%s/kept" % folder, monitor="score", save_top_k=1)
    trainer = pl.Trainer(
        accelerator="cpu", devices=1, max_epochs=epochs, callbacks=[saver, watch, keep],
        logger=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0, default_root_dir=folder)
    module = Module()
    trainer.fit(module, rows(), rows(), ckpt_path=ckpt_path)
    if saves:
        trainer.save_checkpoint("%s/fit.ckpt" % folder)
    return trainer, module, watch, keep


@pytest.fixture(params=[(OURS, THEIRS), (THEIRS, OURS)], ids=["ours in theirs", "theirs in ours"])
def pair(impl, request, tmp_path):
    """Who writes and who reads, and a folder with the writer's files."""
    pytest.importorskip("lightning.pytorch")
    if not impl.is_ours:
        pytest.skip("it takes this package and Lightning")
    writer, reader = request.param
    run(writer, str(tmp_path), 2, saves=True)
    return writer, reader, str(tmp_path)


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("place", PLACES)
def test_training_goes_on(pair, place):
    writer, reader, folder = pair
    trainer, module, watch, keep = run(reader, folder + "/on", 3, "%s/%s.ckpt" % (folder, place))
    path = None
    if reader == THEIRS:
        run(THEIRS, folder + "/theirs", 2, saves=True)
        path = "%s/theirs/%s.ckpt" % (folder, place)
    whole, same, watched, kept = run(reader, folder + "/whole", 3, path)
    assert trainer.current_epoch == whole.current_epoch == 3
    assert trainer.global_step == whole.global_step
    assert reader == THEIRS or whole.global_step == 9
    for mine, other in zip(module.parameters(), same.parameters()):
        assert torch.equal(mine, other)
    state, other = (each.optimizers[0].state_dict()["state"] for each in (trainer, whole))
    assert all(torch.equal(state[i][name], other[i][name]) for i in state for name in state[i])
    assert (trainer.lr_scheduler_configs[0].scheduler.state_dict()
            == whole.lr_scheduler_configs[0].scheduler.state_dict())
    if place == "fit":  # saved when the callbacks had seen both epochs
        assert watch.wait_count == watched.wait_count
        assert torch.equal(watch.best_score, watched.best_score)


@pytest.mark.parametrize("place", PLACES)
def test_weights_are_read_by_all_that_reads(pair, place):
    writer, reader, folder = pair
    path = "%s/%s.ckpt" % (folder, place)
    saved = torch.load(path, weights_only=True)["state_dict"]
    pl, _, Module, _ = classes(reader)
    loaded = Module.load_from_checkpoint(path)
    assert loaded.hparams["width"] == 3
    assert all(torch.equal(saved[name], value) for name, value in loaded.state_dict().items())
    trainer = pl.Trainer(accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
                         enable_checkpointing=False, default_root_dir=folder)
    module = Module()
    trainer.validate(module, rows(), ckpt_path=path, verbose=False)
    assert all(torch.equal(saved[name], value) for name, value in module.state_dict().items())
    with pytest.raises(Exception, match="width|size mismatch"):
        Module.load_from_checkpoint(path, width=5)


def test_loops_are_written_as_lightning_writes_them(tmp_path):
    """Where a run stands, in Lightning's own words, is the same file for file."""
    pytest.importorskip("lightning.pytorch")
    loops = {}
    for name in (OURS, THEIRS):
        run(name, str(tmp_path / name), 2, saves=True)
        for place in PLACES:
            read = torch.load("%s/%s.ckpt" % (tmp_path / name, place), weights_only=True)
            loops[name, place] = read["loops"]["fit_loop"]
    for place in PLACES:
        ours, theirs = loops[OURS, place], loops[THEIRS, place]
        assert set(ours) == set(theirs)
        for key in ours:
            if "scheduler_progress" not in key and "val_loop" not in key:
                assert ours[key] == theirs[key], (place, key)


def counted(number, ahead=0, behind=0):
    return dict(ready=number + ahead, started=number + ahead, processed=number,
                completed=number - behind)


def loop(epochs, batches, total, stepped, is_last):
    return {"epoch_progress": {"total": epochs, "current": epochs},
            "epoch_loop.batch_progress": {
                "total": total, "current": batches, "is_last_batch": is_last},
            "epoch_loop.state_dict": {"_batches_that_stepped": stepped}}


# Lightning 2.2.5, of the run above: what its file says of the loops.
RECORDED = {
    "batch": loop(counted(1, 1), counted(1, 0, 1), counted(4, 0, 1), 3, False),
    "validation": loop(counted(1, 1), counted(3), counted(6), 5, True),
    "epoch": loop(dict(counted(2), completed=1), counted(3), counted(6), 6, True),
    "fit": loop(counted(2), counted(3), counted(6), 6, True),
}


@pytest.fixture
def recorded(impl, tmp_path):
    """A folder with files of this package in which the loops are as 2.2.5 has written them."""
    if not impl.is_ours:
        pytest.skip("it takes this package")
    run(OURS, str(tmp_path), 2, saves=True)
    for place, theirs in RECORDED.items():
        path = "%s/%s.ckpt" % (tmp_path, place)
        checkpoint = torch.load(path, weights_only=True)
        ours = checkpoint["loops"]["fit_loop"]
        assert {name: ours[name] for name in theirs} == theirs
        checkpoint["loops"] = {"fit_loop": theirs}
        torch.save(checkpoint, path)
    return str(tmp_path)


@pytest.mark.parametrize("place", PLACES)
def test_training_goes_on_where_lightning_was(recorded, place):
    trainer, module, *_ = run(OURS, recorded + "/on", 3, "%s/%s.ckpt" % (recorded, place))
    whole, same, *_ = run(OURS, recorded + "/whole", 3)
    assert (trainer.current_epoch, trainer.global_step) == (3, 9)
    for mine, other in zip(module.parameters(), same.parameters()):
        assert torch.equal(mine, other)
    scheduler, other = (each.lr_scheduler_configs[0].scheduler for each in (trainer, whole))
    assert scheduler.state_dict() == other.state_dict()


def test_of_a_run_that_lightning_has_finished_nothing_is_left(recorded):
    trainer, module, *_ = run(OURS, recorded + "/on", 2, recorded + "/fit.ckpt")
    saved = torch.load(recorded + "/fit.ckpt", weights_only=True)["state_dict"]
    assert (trainer.current_epoch, trainer.global_step) == (2, 6)
    assert all(torch.equal(saved[name], value) for name, value in module.state_dict().items())
