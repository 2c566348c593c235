"""`test`: as `validate`, under its own names."""

from ..clause import clause, torch
from .shared import keep, of_end, of_start, one_batch, stays

HOOKS = ("start", "epoch_start", "batch_start", "batch_end", "epoch_end", "end")
PASS = """
    M.on_test_model_eval
    C.on_test_start        M.on_test_start
    C.on_test_epoch_start  M.on_test_epoch_start
    C.on_test_batch_start  M.on_test_batch_start  M.test_step
    C.on_test_batch_end    M.on_test_batch_end
    C.on_test_epoch_end    M.on_test_epoch_end
    C.on_test_end          M.on_test_end
"""


@clause("TEST-001", "One pass of test MUST fire its hooks in the order eval mode, start, epoch "
        "start, for each batch start, step and end, then epoch end and end, callbacks before the "
        "module.",
        editions="1.5 2.2", needs="test", source="seed 2.2 on_test_*; trace 2.2.5 test",
        hooks=["CM.on_test_%s fires" % hook for hook in HOOKS] + [
            "M.on_test_model_eval fires", "M.test_step fires"])
def test_001(run):
    run.test(test_batches=1).only(PASS)


@clause("TEST-002", "test MUST run set-up, one pass and teardown for its own stage, without hooks "
        "of fit or validation.", editions="1.5 2.2", needs="test",
        source="seed 2.2 setup, teardown; trace 2.2.5 test",
        hooks=["CM.setup fires arguments", "CM.teardown fires arguments",
               "M.test_dataloader fires arguments state"])
def test_002(run):
    t = run.test(test_batches=1)
    t.only("""
        M.prepare_data C.setup(test) M.setup(test) M.test_dataloader M.test_step
        C.teardown(test) M.teardown(test)
    """, absent="CM.on_fit_start CM.on_fit_end CM.on_validation_start M.validation_step "
                "M.configure_optimizers C.on_sanity_check_start")
    t.args("M.test_dataloader", "")


@clause("TEST-003", "Hooks of test MUST see eval mode and inference mode.", editions="2.2",
        needs="test", source="trace 2.2.5 test",
        hooks=["CM.on_test_%s state" % hook for hook in HOOKS]
        + ["M.on_test_model_eval state", "M.test_step state"])
def test_003(run):
    t = run.test(test_batches=1)
    for hook in HOOKS:
        for who in ("c1", "M"):
            t.state("%s.on_test_%s" % (who, hook), "0/0 Ei testing")
    t.state("M.test_step", "0/0 Ei testing")
    t.state("M.on_test_model_eval", "0/0 Ti testing")
    t.state("M.test_dataloader", "0/0 Ti testing")


@clause("TEST-004", "With one loader, the hooks of test MUST receive the batch and its index, and "
        "batch ends the step's output too.", editions="2.2", needs="test",
        source="trace 2.2.5 test", hooks=["CM.on_test_%s arguments" % hook for hook in HOOKS]
        + ["M.on_test_model_eval arguments", "M.test_step arguments"])
def test_004(run):
    t = run.test(test_batches=2)
    for who in ("c1", "c2", "M"):
        t.args(who + ".on_test_batch_start", "Tensor, 0", "Tensor, 1")
        t.args(who + ".on_test_batch_end", "Tensor, Tensor, 0", "Tensor, Tensor, 1")
        for hook in ("start", "epoch_start", "epoch_end", "end"):
            t.args("%s.on_test_%s" % (who, hook), "")
    t.args("M.test_step", "Tensor, 0", "Tensor, 1")
    t.args("M.on_test_model_eval", "")


def minus_one(self, *args):
    """Return what means something in on_train_batch_start only."""
    return -1


@clause("TEST-005", "Return values of the hooks of test MUST be ignored.", editions="1.5 2.2",
        needs="test", source="seed 2.2 on_test_*",
        hooks=["CM.on_test_%s return" % hook for hook in HOOKS])
def test_005(run):
    returning = {"on_test_" + hook: minus_one for hook in HOOKS}
    run.test(test_batches=1, module=returning, c1=returning).only(PASS)


def log_t(self, batch, batch_idx, *dataloader_idx):
    """Log the index of the batch."""
    self.log("t", float(batch_idx))
    return self(batch).sum()


@clause("TEST-006", "test MUST return a list with one dict of what was logged.", editions="1.5 2.2",
        needs="test", source="trace 2.2.5 test", hooks="M.test_step return")
def test_006(run):
    t = run.test(test_batches=2, module={"test_step": log_t})
    t.equal("value", t.value, [{"t": 0.5}])


def two_loaders(stage):
    """Test over two loaders."""
    loader = torch.utils.data.DataLoader
    module = stage.module(test_step=log_t, params={
        "test_step": "batch batch_idx dataloader_idx"})
    trainer = stage.trainer(stage.Callback("c1"), stage.Callback("c2"))
    stage.call("test", trainer.test, module,
               [loader(torch.ones(2, 2)), loader(torch.ones(1, 2))])


@clause("TEST-007", "Several test loaders MUST run one after another in one epoch, with the index "
        "of the loader passed to hooks and step and added to the names of what was logged.",
        editions="2.2", needs="test", source="seed 2.2 on_test_batch_start; differences 3",
        hooks=["CM.on_test_batch_start arguments", "CM.on_test_batch_end arguments"])
def test_007(run):
    t = run.play(two_loaders)
    t.args("M.test_step", "Tensor, 0, 0", "Tensor, 1, 0", "Tensor, 0, 1")
    for who in ("c1", "M"):
        t.args(who + ".on_test_batch_start", "Tensor, 0", "Tensor, 1", "Tensor, 0, 1")
        t.args(who + ".on_test_batch_end", "Tensor, Tensor, 0", "Tensor, Tensor, 1",
               "Tensor, Tensor, 0, 1")
    t.count("M.on_test_epoch_start", 1)
    t.equal("value", t.value, [{"t/dataloader_idx_0": 0.5}, {"t/dataloader_idx_1": 0.0}])


def half_in_eval(stage, module):
    """Put a submodule in eval mode before the run."""
    module.layer.eval()


def modes(trainer, module):
    """Return the modes of module and submodules."""
    return [module.training, module.layer.training, module.drop.training]


@clause("TEST-008", "After test, every submodule MUST be in the mode that it had before.",
        editions="2.2", needs="test", source="bug 3; trace 2.2.5 model_mode_restored",
        hooks="M.on_test_model_train fires")
def test_008(run):
    t = run.test(test_batches=1, before=half_in_eval, look={
        "M.test_step": modes, "M.teardown": modes})
    t.looked("M.test_step", [False, False, False])
    t.looked("M.teardown", [True, False, True])


def nothing(self, *args):
    """Do nothing."""


@clause("TEST-009", "An overridden on_test_model_train MUST be called after on_test_end and is "
        "then all that changes the mode back.", editions="2.2", needs="test hooks_2.2",
        source="seed 2.2 on_test_model_train",
        hooks="M.on_test_model_train fires arguments return state")
def test_009(run):
    t = run.test(test_batches=1, extra=("on_test_model_train",),
                 module={"on_test_model_train": nothing})
    t.only("M.on_test_end M.on_test_model_train C.teardown M.teardown")
    t.state("M.on_test_model_train", "0/0 Ei testing")
    t.args("M.on_test_model_train", "")
    t.state("M.teardown", "0/0 EG testing")


def boom(self, *args):
    """Fail."""
    raise RuntimeError("boom")


@clause("TEST-010", "An error in test MUST reach on_exception once per callback and then the "
        "caller, without on_test_end and teardown.", editions="1.5 2.2", needs="test on_exception",
        source="bug 8; seed 1.5 on_exception", hooks="C.on_exception fires arguments")
def test_010(run):
    t = run.test(test_batches=1, module={"test_step": boom}, fails=True)
    t.raises("RuntimeError", "boom")
    t.only("M.test_step C.on_exception(RuntimeError)", absent="CM.on_test_end CM.teardown")


@clause("TEST-011", "test_epoch_end MUST get the epoch's step outputs right before the callbacks' "
        "on_test_epoch_end.", editions="1.5", needs="test epoch_end_outputs", source="design 4",
        hooks="M.test_epoch_end fires arguments")
def test_011(run):
    t = run.test(test_batches=2, extra=("test_epoch_end",))
    t.only("M.test_epoch_end([Tensor,Tensor]) C.on_test_epoch_end M.on_test_epoch_end")


@clause("TEST-012", "test without a test_step MUST be refused before any hook that does work.",
        editions="1.5 2.2", needs="test", source="oracle 2.2.5, 1.5.10")
def test_012(run):
    t = run.test(without=("test_step",), fails=True)
    t.raises("MisconfigurationException", "test_step")
    t.none("CM.setup M.prepare_data")
    t.count("M.test_dataloader", 0)


@clause("TEST-013", "on_epoch_start and on_epoch_end MUST surround the test epoch for callbacks of "
                    "1.5.",
        editions="1.5", needs="test older_hooks", source="seed 1.5 on_epoch_start, on_epoch_end",
        hooks="C.on_epoch_start fires")
def test_013(run):
    t = run.test(test_batches=1, older=True)
    t.only("""
        C.on_epoch_start C.on_test_epoch_start M.on_test_epoch_start
        C.on_test_epoch_end M.on_test_epoch_end C.on_epoch_end
    """)


@clause("TEST-014", "test_epoch_end MUST find eval mode and gradients off, and what it returns is "
        "ignored.", editions="1.5", needs="test epoch_end_outputs", source="oracle 1.5.10",
        hooks="M.test_epoch_end state return")
def test_014(run):
    t = run.test(test_batches=1, extra=("test_epoch_end",), module={"test_epoch_end": minus_one})
    t.only("[E testing] M.test_epoch_end M.on_test_epoch_end M.on_test_end")
    t.true("gradients are off", "G" not in t.state("M.test_epoch_end")[0])


@clause("TEST-015", "The hooks of a test batch and its step MUST be given the very batch that was "
        "transferred, and the hook at its end what test_step returned.", editions="2.2",
        needs="test", source="seed 2.2 on_test_batch_start, on_test_batch_end",
        hooks=["M.on_test_batch_start arguments", "M.on_test_batch_end arguments"])
def test_015(run):
    t = run.test(test_batches=1, module={
        "test_step": keep, "on_test_batch_start": of_start, "on_test_batch_end": of_end})
    one_batch(t)
    t.noted("outputs", 3 * 1.1)


@clause("TEST-016", "An overridden on_test_model_eval MUST be all that sets the mode: with one "
        "that does nothing, test runs in train mode, whatever it returns.", editions="2.2",
        needs="test hooks_2.2", source="seed 2.2 on_test_model_eval: override to change the "
        "behavior", hooks="M.on_test_model_eval fires return")
def test_016(run):
    t = run.test(test_batches=1, module={"on_test_model_eval": stays})
    t.only("M.on_test_model_eval [T i] M.test_step")
