"""Fit: what fires, in which order, with what, in which state."""

import logging
import os

from ..clause import clause, torch
from .shared import sigterm

BARE = "on_fit_start on_train_start on_train_epoch_start on_train_epoch_end on_train_end on_fit_end"
OLDER = """on_before_accelerator_backend_setup on_configure_sharded_model on_pretrain_routine_start
    on_pretrain_routine_end on_epoch_start on_epoch_end on_batch_start on_batch_end"""


@clause("FIT-001", "on_train_start MUST be called once per fit, on callbacks in list order and "
        "then on the module.", editions="1.1 1.5 2.2", needs="fit",
        source="seed 2.2 on_train_start", hooks="CM.on_train_start fires")
def fit_001(run):
    t = run.fit(max_epochs=2)
    t.only("C.on_train_start M.on_train_start")


@clause("FIT-002", "A fit MUST set up data and model, make the optimizers, begin, try the "
        "validation, train, end and tear down, in this order and each once.", editions="2.2",
        needs="fit", source="design 3; trace 2.2.5 fit_basic",
        hooks=["M.configure_model fires", "CM.on_fit_start fires", "CM.on_train_start fires",
            "CM.on_train_end fires", "CM.on_fit_end fires"])
def fit_002(run):
    run.fit(max_epochs=2, sanity=1).only("""
        M.configure_callbacks  M.prepare_data  C.setup(fit)  M.setup(fit)  M.configure_model
        M.configure_optimizers         C.on_fit_start    M.on_fit_start
        C.on_sanity_check_start        M.val_dataloader  C.on_sanity_check_end
        M.train_dataloader             C.on_train_start  M.on_train_start
        C.on_train_epoch_start         M.on_train_epoch_start
        C.on_train_epoch_end           M.on_train_epoch_end
        C.on_train_epoch_start         M.on_train_epoch_start
        C.on_train_epoch_end           M.on_train_epoch_end
        C.on_train_end                 M.on_train_end
        C.on_fit_end                   M.on_fit_end
        C.teardown(fit)                M.teardown(fit)
    """)


@clause("FIT-003", "The callback hooks that older editions have MUST stand in a fit where edition "
        "1.5 placed them.", editions="1.5", needs="older_hooks on_exception",
        source="seed 1.5; design 4; trace 1.5.10 fit_basic",
        hooks=["C.%s fires" % hook for hook in OLDER.split()])
def fit_003(run):
    run.fit(train_batches=1, val_batches=1, sanity=1, older=True).only("""
        M.prepare_data         C.on_before_accelerator_backend_setup  C.setup  M.setup
        C.on_configure_sharded_model  M.configure_optimizers  C.on_fit_start  M.on_fit_start
        C.on_pretrain_routine_start   C.on_pretrain_routine_end  C.on_sanity_check_start
        C.on_epoch_start       C.on_validation_epoch_start  M.on_validation_epoch_start
        C.on_validation_epoch_end     M.on_validation_epoch_end  C.on_epoch_end
        C.on_sanity_check_end  C.on_train_start             M.on_train_start
        C.on_epoch_start       C.on_train_epoch_start       M.on_train_epoch_start
        C.on_batch_start       C.on_train_batch_start       M.on_train_batch_start
        C.on_train_batch_end   M.on_train_batch_end         C.on_batch_end
        C.on_epoch_start       C.on_validation_epoch_start  M.on_validation_epoch_start
        C.on_validation_epoch_end     M.on_validation_epoch_end  C.on_epoch_end
        C.on_train_epoch_end   M.on_train_epoch_end         C.on_epoch_end
        C.on_train_end         M.on_train_end               C.on_fit_end  M.on_fit_end
        C.teardown             M.teardown
    """)


def a_model(self):
    """Return what nobody asked for."""
    return torch.nn.Linear(1, 1)


@clause("FIT-004", "configure_model MUST be called once between the last setup and "
        "configure_optimizers, in train mode, with nothing, and what it returns is ignored.",
        editions="2.2", needs="fit configure_model", source="seed 2.2 configure_model; trace 2.2.5 "
        "fit_basic", hooks="M.configure_model fires arguments state return")
def fit_004(run):
    for module in ({}, {"configure_model": a_model}):
        t = run.fit(train_batches=1, val_batches=0, module=module)
        t.only("M.setup M.configure_model M.configure_optimizers C.on_fit_start M.on_fit_start")
        t.args("M.configure_model", "")
        t.state("M.configure_model", "0/0 TG training")


@clause("FIT-005", "A module that overrides configure_sharded_model alone MUST have it called in "
        "the place of configure_model.", editions="2.2", needs="fit configure_model",
        source="seed 2.2 configure_sharded_model; trace 2.2.5 configure_sharded_model_legacy",
        hooks="M.configure_sharded_model fires arguments return state")
def fit_005(run):
    for module in ({}, {"configure_sharded_model": a_model}):
        t = run.fit(train_batches=1, val_batches=0, extra=("configure_sharded_model",),
                    without=("configure_model",), module=module)
        t.only("M.setup M.configure_sharded_model M.configure_optimizers M.on_fit_start")
        t.args("M.configure_sharded_model", "")
        t.state("M.configure_sharded_model", "0/0 TG training")


@clause("FIT-006", "A module that overrides both configure_model and configure_sharded_model MUST "
        "be refused before prepare_data, through on_exception.", editions="2.2",
        needs="fit configure_model", source="trace 2.2.5 configure_sharded_model_legacy",
        hooks=["M.configure_sharded_model fires", "M.configure_model fires"])
def fit_006(run):
    t = run.fit(train_batches=1, val_batches=0, extra=("configure_sharded_model",), fails=True)
    t.raises("RuntimeError", "configure_model", "configure_sharded_model")
    t.only("M.configure_callbacks C.on_exception(RuntimeError)",
           absent="M.prepare_data CM.setup M.configure_model M.configure_sharded_model")


def build(self, stage=None):
    """Build a layer, once."""
    if not hasattr(self, "late"):
        self.late = torch.nn.Linear(2, 1)


def step_late(self, batch, batch_idx):
    """Train the late layer."""
    return self.late(batch).sum()


def late_bias(trainer, module):
    """Return the bias of the late layer."""
    return module.late.bias.item()


@clause("FIT-007", "A layer that setup or configure_model builds MUST be there for "
        "configure_optimizers, and be trained.", editions="2.2", needs="fit configure_model",
        source="seed 2.2 setup, configure_model; bug 16", device="cpu",
        hooks=["M.setup return", "M.configure_model return"])
def fit_007(run):
    for hook in ("setup", "configure_model"):
        t = run.fit(val_batches=0, module={hook: build, "training_step": step_late},
                    look={"M.on_train_start": late_bias, "M.on_train_end": late_bias})
        (before,), (after,) = t.looked("M.on_train_start"), t.looked("M.on_train_end")
        t.equal("moved", after - before, -0.2)


@clause("FIT-008", "on_fit_start, on_train_start, on_train_epoch_start, on_train_epoch_end, "
        "on_train_end and on_fit_end MUST receive nothing on the module.", editions="1.5 2.2",
        needs="fit", source="seed 2.2, signatures",
        hooks=["M.%s arguments" % hook for hook in BARE.split()])
def fit_008(run):
    t = run.fit(max_epochs=2)
    for hook in BARE.split():
        t.args("M." + hook, *[""] * (2 if "epoch" in hook else 1))


@clause("FIT-009", "The hooks of a fit MUST find train mode, gradients on, the optimizer steps so "
        "far, and the epochs that have ended.", editions="2.2", needs="fit",
        source="trace 2.2.5 fit_two_epochs; differences 10.3",
        hooks=["CM.%s state" % hook for hook in BARE.split()])
def fit_009(run):
    t = run.fit(max_epochs=2)
    for who in ("c1.", "M."):
        t.state(who + "on_fit_start", "0/0 TG training")
        t.state(who + "on_train_start", "0/0 TG training")
        t.state(who + "on_train_epoch_start", "0/0 TG training", "2/1 TG training")
        t.state(who + "on_train_epoch_end", "2/0 TG training", "4/1 TG training")
        for hook in ("on_train_end", "on_fit_end", "teardown"):
            t.state(who + hook, "4/2 TG training")


def seven(self, *args):
    """Return what means nothing."""
    return 7


@clause("FIT-010", "What on_fit_start, on_train_start, on_train_epoch_start, on_train_batch_end, "
        "on_train_epoch_end, on_train_end and on_fit_end return on the module MUST be ignored.",
        editions="1.5 2.2", needs="fit", source="seed 2.2: they return None",
        hooks=["M.%s return" % hook for hook in (BARE + " on_train_batch_end").split()])
def fit_010(run):
    for value in (seven, minus_one):
        t = run.fit(val_batches=0, module=dict.fromkeys(
            (BARE + " on_train_batch_end").split(), value))
        t.only("""
            M.on_fit_start M.on_train_start M.on_train_epoch_start
            M.training_step M.on_train_batch_end M.training_step M.on_train_batch_end
            M.on_train_epoch_end M.on_train_end M.on_fit_end M.teardown
        """)


def minus_one(self, *args):
    """Return what means something in on_train_batch_start only."""
    return -1


@clause("FIT-011", "A fit MUST return None and leave the trainer finished, in no stage, with "
        "gradients on and the module in train mode.", editions="2.2", needs="fit",
        source="trace 2.2.5 fit_two_epochs", hooks="CM.on_fit_end state")
def fit_011(run):
    t = run.fit(max_epochs=2)
    said = {key: t.after[key] for key in (
        "status", "stage", "fn", "global_step", "current_epoch", "grad_enabled",
        "module_training", "should_stop", "interrupted")}
    t.equal("the trainer", said, dict(
        status="FINISHED", stage="None", fn="FITTING", global_step=4, current_epoch=2,
        grad_enabled=True, module_training=True, should_stop=False, interrupted=False))
    t.equal("fit returns", t.value, None)


@clause("FIT-012", "Each training epoch MUST run its hooks in the order epoch start, for each "
        "batch start, step and end, and epoch end, callbacks before the module.",
        editions="1.5 2.2", needs="fit", source="seed 2.2 on_train_epoch_start, "
        "on_train_batch_start; bug 2",
        hooks=["CM.on_train_epoch_start fires", "CM.on_train_batch_start fires",
            "CM.on_train_batch_end fires", "CM.on_train_epoch_end fires"])
def fit_012(run):
    batch = ("C.on_train_batch_start M.on_train_batch_start M.training_step "
             "C.on_train_batch_end M.on_train_batch_end ")
    run.fit(max_epochs=2).only(("C.on_train_epoch_start M.on_train_epoch_start " + batch * 2
                                + "C.on_train_epoch_end M.on_train_epoch_end ") * 2)


PAIRS = """on_fit on_train on_train_epoch on_train_batch on_sanity_check on_validation
    on_validation_epoch on_validation_batch""".split()


@clause("FIT-013", "Hooks that come in pairs of start and end MUST nest, the last begun being the "
        "first to end.", editions="1.5 2.2", needs="fit", source="bug 2",
        hooks=["C.%s_%s fires" % (pair, end) for pair in PAIRS for end in ("start", "end")])
def fit_013(run):
    t = run.fit(max_epochs=2, sanity=1)
    opened, ended = [], 0
    for event in t.select(" ".join("c1.%s_start c1.%s_end" % (pair, pair) for pair in PAIRS)):
        pair, _, end = event.hook.rpartition("_")
        if end == "start":
            opened.append(pair)
        else:
            t.equal("what ends", pair, opened.pop())
            ended += 1
    t.equal("left open and ended", (opened, ended), ([], 20))


@clause("FIT-014", "The sanity check MUST run num_sanity_val_steps batches of validation, between "
        "its two callback hooks and before training.", editions="1.5 2.2", needs="fit",
        source="seed 1.5 on_sanity_check_start; trace 2.2.5 fit_basic",
        hooks=["C.on_sanity_check_start fires", "C.on_sanity_check_end fires"])
def fit_014(run):
    batch = "C.on_validation_batch_start M.on_validation_batch_start M.validation_step "
    batch += "C.on_validation_batch_end M.on_validation_batch_end "
    for steps, count in ((1, 1), (-1, 2)):
        t = run.fit(max_epochs=2 if steps == 1 else 1, sanity=steps)
        t.where(stage="sanity_checking").only(
            "C.on_sanity_check_start C.on_validation_start M.on_validation_start "
            "C.on_validation_epoch_start M.on_validation_epoch_start " + batch * count +
            "C.on_validation_epoch_end M.on_validation_epoch_end "
            "C.on_validation_end M.on_validation_end C.on_sanity_check_end",
            absent="CM.on_train_start")


@clause("FIT-015", "on_sanity_check_start and on_sanity_check_end MUST find train mode and "
        "gradients on, and the validation between them eval mode and no gradients.",
        editions="2.2", needs="fit", source="differences 10.14",
        hooks=["C.on_sanity_check_start state", "C.on_sanity_check_end state",
            "M.on_validation_start state"])
def fit_015(run):
    t = run.fit(max_epochs=2, sanity=1).where(stage="sanity_checking")
    for hook in ("start", "end"):
        t.state("c1.on_sanity_check_" + hook, "0/0 TG sanity_checking")
    for hook in ("M.on_validation_start", "M.validation_step", "c1.on_validation_end"):
        t.state(hook, "0/0 Eg sanity_checking")


def draws(self, batch, batch_idx):
    """Use up random numbers."""
    torch.rand(5)
    return self(batch).sum()


def notes_row(self, batch, batch_idx):
    """Note which rows came, and train with noise."""
    self.note("rows", [round(value, 1) for value in batch[:, 0].tolist()])
    return (self(batch) * torch.rand(1).item()).sum()


def shuffled():
    """Eight rows, shuffled."""
    rows = torch.tensor([[0.1 * (i + 1), 1.0] for i in range(8)])
    return torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True)


def sanity_and_seed(stage):
    """Fit with and without a sanity check from one seed, then once more without a new seed."""
    for sanity, seeded in ((0, True), (2, True), (2, False)):
        torch.manual_seed(1) if seeded else None
        module = stage.module(training_step=notes_row, validation_step=draws)
        module.note = stage.note
        trainer = stage.trainer(num_sanity_val_steps=sanity, max_epochs=2)
        stage.call("fit %d" % len(stage.calls), trainer.fit, module, shuffled())
        stage.note("weight", module.layer.weight.flatten().tolist())


@clause("FIT-016", "The sanity check MUST leave the random state as it was: shuffling and weights "
        "are the same with it and without, and a fit without a new seed still differs.",
        editions="2.2", needs="fit", source="bug 4", hooks="C.on_sanity_check_end state")
def fit_016(run):
    t = run.play(sanity_and_seed)
    rows, weights = t.noted("rows"), t.noted("weight")
    t.equal("batches of three fits", len(rows), 12)
    t.equal("rows with a sanity check", rows[4:8], rows[:4])
    t.equal("weights with a sanity check", weights[1], weights[0])
    t.true("without a new seed the order differs", rows[8:] != rows[4:8])


@clause("FIT-017", "limit_val_batches=0 MUST leave out the sanity check too.", editions="1.5 2.2",
        needs="fit", source="trace 2.2.5 limit_val_batches_0",
        hooks="C.on_sanity_check_start fires")
def fit_017(run):
    t = run.scenario("limit_val_batches_0")
    t.only("C.on_train_start M.on_train_start M.training_step M.training_step",
           absent="C.on_sanity_check_start C.on_sanity_check_end M.validation_step")


@clause("FIT-018", "on_train_batch_end MUST receive the step's outputs, the batch and its index in "
        "the epoch.", editions="2.2", needs="fit", source="seed 2.2 on_train_batch_end",
        hooks="CM.on_train_batch_end arguments")
def fit_018(run):
    t = run.fit(max_epochs=2)
    for who in ("c1", "c2", "M"):
        t.args(who + ".on_train_batch_end", *["dict(loss), Tensor, 0", "dict(loss), Tensor, 1"] * 2)


@clause("FIT-019", "In on_train_batch_end, the module MUST be in train mode with gradients on and "
        "global_step counting the step just taken.", editions="2.2", needs="fit",
        source="trace 2.2.5 fit_two_epochs; differences 10.2", hooks="CM.on_train_batch_end state")
def fit_019(run):
    t = run.fit(max_epochs=2)
    for who in ("c1", "M"):
        t.state(who + ".on_train_batch_end", "1/0 TG training", "2/0 TG training",
                "3/1 TG training", "4/1 TG training")


def notes_start(self, batch, batch_idx):
    """Note the batch."""
    self.note("start", batch[0][0].item())


def notes_end(self, outputs, batch, batch_idx):
    """Note batch and loss."""
    self.note("end", batch[0][0].item())
    self.note("loss", outputs["loss"].requires_grad)


@clause("FIT-020", "on_train_batch_start and on_train_batch_end MUST be given the very batch that "
        "the loader yielded, and the loss detached.", editions="2.2", needs="fit",
        source="seed 2.2 on_train_batch_end",
        hooks=["M.on_train_batch_start arguments", "M.on_train_batch_end arguments"])
def fit_020(run):
    t = run.fit(val_batches=0, module={
        "on_train_batch_start": notes_start, "on_train_batch_end": notes_end})
    t.noted("start", 0.1, 0.2)
    t.noted("end", 0.1, 0.2)
    t.noted("loss", False, False)


@clause("FIT-021", "The batch MUST be transferred before any receiver's on_train_batch_start is "
        "called.", editions="1.5 2.2", needs="fit",
        source="ruling 3; traces 1.5.10 and 2.2.5 fit_basic", hooks="CM.on_train_batch_start fires")
def fit_021(run):
    t = run.fit(train_batches=1, val_batches=0)
    t.only("""
        M.on_before_batch_transfer   M.transfer_batch_to_device   M.on_after_batch_transfer
        C.on_train_batch_start       M.on_train_batch_start       M.training_step
    """)


@clause("FIT-022", "on_train_batch_start MUST receive the batch and its index in the epoch.",
        editions="2.2", needs="fit", source="seed 2.2 on_train_batch_start",
        hooks="CM.on_train_batch_start arguments")
def fit_022(run):
    t = run.fit(max_epochs=2)
    for who in ("c1", "c2", "M"):
        t.args(who + ".on_train_batch_start", "Tensor, 0", "Tensor, 1", "Tensor, 0", "Tensor, 1")


@clause("FIT-023", "A module's on_train_batch_start that returns anything but -1 MUST change "
        "nothing.", editions="1.5 2.2", needs="fit", source="seed 2.2 on_train_batch_start",
        hooks="M.on_train_batch_start return")
def fit_023(run):
    for value in (seven, false, minus_one_as_text):
        t = run.fit(val_batches=0, module={"on_train_batch_start": value})
        t.only("M.on_train_batch_start M.training_step M.on_train_batch_end " * 2)


def false(self, *args):
    """Return False."""
    return False


def minus_one_as_text(self, *args):
    """Return -1, but as text."""
    return "-1"


def skip_from_1(self, batch, batch_idx):
    """Skip the rest of the epoch at batch 1."""
    return -1 if batch_idx == 1 else None


@clause("FIT-024", "A module's on_train_batch_start that returns -1 MUST end the epoch's batches "
        "without training_step and on_train_batch_end of that batch.", editions="1.5 2.2",
        needs="fit", source="seed 2.2 on_train_batch_start", hooks="M.on_train_batch_start return")
def fit_024(run):
    t = run.fit(train_batches=3, val_batches=0, module={"on_train_batch_start": skip_from_1})
    t.only("""
        M.on_train_batch_start  M.training_step  C.on_train_batch_end  M.on_train_batch_end
        M.on_train_batch_start  C.on_train_epoch_end  M.on_train_epoch_end
    """)


@clause("FIT-025", "In on_train_batch_start, the module MUST be in train mode with gradients on "
        "and global_step counting the optimizer steps before it.", editions="2.2", needs="fit",
        source="trace 2.2.5 fit_no_sanity", hooks="CM.on_train_batch_start state")
def fit_025(run):
    t = run.fit(max_epochs=2)
    for who in ("c1", "M"):
        t.state(who + ".on_train_batch_start", "0/0 TG training", "1/0 TG training",
                "2/1 TG training", "3/1 TG training")


def skip_from_2(self, batch, batch_idx):
    """Skip the rest of the epoch at batch 2."""
    return -1 if batch_idx == 2 else None


def step_lr(self):
    """An optimizer whose rate halves every epoch."""
    optimizer = self.make_optimizer()
    return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


@clause("FIT-026", "After a -1 the epoch MUST end without its validation, count as done, and the "
        "next one runs.", editions="2.2", needs="fit", source="bug 1; trace 2.2.5 "
        "train_batch_start_minus1_module",
        hooks=["M.on_train_batch_start return", "CM.on_train_epoch_end fires"])
def fit_026(run):
    t = run.fit(train_batches=4, max_epochs=2, module={
        "on_train_batch_start": skip_from_2, "configure_optimizers": step_lr})
    t.only("""
        M.on_train_epoch_start  M.on_before_batch_transfer  M.on_train_batch_start  M.training_step
        M.on_before_batch_transfer  M.on_train_batch_start  M.training_step
        M.on_before_batch_transfer  M.on_train_batch_start
        C.on_train_epoch_end        M.on_train_epoch_end
    """ * 2 + "C.on_train_end M.on_train_end", absent="CM.on_validation_start M.validation_step")
    t.state("M.on_train_end", "4/2 TG training")


@clause("FIT-027", "A -1 for the first batch MUST leave an epoch without a step that ends as "
        "others do.", editions="2.2", needs="fit", source="bug 1, variant",
        hooks="M.on_train_batch_start return")
def fit_027(run):
    t = run.fit(train_batches=4, max_epochs=2, module={"on_train_batch_start": minus_one})
    t.only("M.on_train_epoch_start M.on_train_batch_start M.on_train_epoch_end " * 2
           + "M.on_train_end",
           absent="M.training_step CM.on_train_batch_end CM.on_validation_start")
    t.state("M.on_train_end", "0/2 TG training")


@clause("FIT-028", "In an epoch that a -1 has cut short, schedulers of the epoch MUST step all the "
        "same.", editions="beyond", needs="beyond", source="bug 1; design 5",
        hooks="M.on_train_batch_start return")
def fit_028(run):
    t = run.fit(train_batches=4, max_epochs=2, module={
        "on_train_batch_start": skip_from_2, "configure_optimizers": step_lr})
    t.only("M.on_train_batch_start M.on_train_batch_start M.on_train_batch_start "
           "M.lr_scheduler_step M.on_train_epoch_end " * 2)
    t.equal("rate", t.trainer.optimizers[0].param_groups[0]["lr"], 0.025)


def skip_in_epoch_0(self, batch, batch_idx):
    """Skip the second half of the first window."""
    return -1 if batch_idx == 1 and self.current_epoch == 0 else None


def gradient(trainer, module):
    """Return the gradient of the first weight."""
    return module.layer.weight.grad[0][0].item()


@clause("FIT-029", "Gradients of an accumulation window that a -1 has cut short MUST NOT reach the "
        "first step of the next epoch.", editions="2.2", needs="fit", source="bug 1; design 5",
        hooks="M.on_train_batch_start return")
def fit_029(run):
    t = run.fit(val_batches=0, max_epochs=2, accumulate_grad_batches=2, module={
        "on_train_batch_start": skip_in_epoch_0}, look={"M.on_before_optimizer_step": gradient})
    t.looked("M.on_before_optimizer_step", 0.15)
    t.state("M.on_train_end", "1/2 TG training")


@clause("FIT-030", "A callback's on_train_batch_start that returns -1 MUST change nothing.",
        editions="1.1 1.5 2.2", needs="fit", source="ruling 6; trace "
        "train_batch_start_minus1_callback", hooks="C.on_train_batch_start return")
def fit_030(run):
    t = run.fit(val_batches=0, c1={"on_train_batch_start": minus_one}, c2={
        "on_train_batch_start": minus_one})
    t.only("C.on_train_batch_start M.on_train_batch_start M.training_step " * 2)
    t = run.fit(val_batches=0, without=("on_train_batch_start",), c2={
        "on_train_batch_start": minus_one})  # also where the callback's is the last word
    t.only("C.on_train_batch_start M.training_step " * 2)


# When training stops.


@clause("FIT-031", "max_steps reached inside an epoch MUST end it at that batch, without its "
        "validation and with its on_train_epoch_end.", editions="1.5 2.2", needs="fit",
        source="trace fit_max_steps_3_over_epochs_of_2; differences 10.8",
        hooks=["CM.on_train_epoch_end fires", "CM.on_train_end fires"])
def fit_031(run):
    t = run.fit(max_epochs=10, max_steps=3)
    t.only("""
        M.on_train_epoch_start  M.training_step  M.on_train_batch_end  M.training_step
        M.on_train_batch_end    M.on_validation_start  C.on_train_epoch_end  M.on_train_epoch_end
        M.on_train_epoch_start  M.training_step  M.on_train_batch_end
        C.on_train_epoch_end  M.on_train_epoch_end  C.on_train_end  M.on_train_end
    """)


@clause("FIT-032", "An epoch that max_steps cut short MUST count as done.", editions="2.2",
        needs="fit", source="trace 2.2.5 fit_max_steps_3_over_epochs_of_2",
        hooks="M.on_train_end state")
def fit_032(run):
    t = run.fit(max_epochs=10, max_steps=3)
    t.state("M.on_train_end", "3/2 TG training")
    t.equal("counters", (t.after["global_step"], t.after["current_epoch"]), (3, 2))


@clause("FIT-033", "max_steps reached with the last batch of an epoch MUST leave the epoch "
        "complete, with its validation.", editions="1.5 2.2", needs="fit",
        source="oracle 1.5.10, 2.2.5", hooks="CM.on_validation_start fires")
def fit_033(run):
    t = run.fit(max_epochs=10, max_steps=2)
    t.only("M.training_step M.training_step M.on_validation_start M.on_train_epoch_end "
           "M.on_train_end")


def ask_to_stop(self, *args):
    """Ask for an end."""
    trainer = args[0] if hasattr(args[0], "should_stop") else self.trainer
    trainer.should_stop = True


@clause("FIT-034", "should_stop MUST end the epoch after the batch that sets it, run the "
        "validation of the epoch, and end training.", editions="1.5 2.2", needs="fit",
        source="design 5; trace fit_should_stop_mid_epoch", hooks="CM.on_validation_start fires")
def fit_034(run):
    t = run.fit(train_batches=3, max_epochs=2, c1={"on_train_batch_end": ask_to_stop})
    t.only("""
        M.on_train_epoch_start  M.training_step  M.on_train_batch_end  C.on_validation_start
        M.on_validation_start   C.on_train_epoch_end  M.on_train_epoch_end
        C.on_train_end          M.on_train_end
    """)


@clause("FIT-035", "should_stop MUST be still true after the fit that it has ended, whose epoch "
        "counts.", editions="2.2", needs="fit", source="differences 10.9",
        hooks="M.on_train_end state")
def fit_035(run):
    t = run.fit(train_batches=3, max_epochs=2, c1={"on_train_batch_end": ask_to_stop})
    t.equal("should_stop", t.after["should_stop"], True)
    t.state("M.on_train_end", "1/1 TG training")


@clause("FIT-036", "Before min_epochs are done, should_stop MUST neither cut an epoch short nor "
        "add a validation.", editions="2.2", needs="fit", source="bug 11; trace 2.2.5 "
        "fit_min_epochs_with_should_stop", hooks="CM.on_validation_start fires")
def fit_036(run):
    t = run.fit(train_batches=4, val_batches=1, min_epochs=3, max_epochs=10, c1={
        "on_train_batch_end": ask_to_stop})
    t.only(("M.training_step " * 4 + "M.validation_step M.on_train_epoch_end ") * 3
           + "M.on_train_end")
    t.state("M.on_train_end", "12/3 TG training")


@clause("FIT-037", "Before min_steps are done, should_stop MUST neither cut an epoch short nor add "
        "a validation, and then it ends the epoch inside.", editions="2.2", needs="fit",
        source="bug 11; trace 2.2.5 fit_min_steps_with_should_stop",
        hooks="CM.on_validation_start fires")
def fit_037(run):
    t = run.fit(train_batches=4, val_batches=1, min_steps=6, max_epochs=10, c1={
        "on_train_batch_end": ask_to_stop})
    t.only("M.training_step " * 4 + "M.validation_step M.on_train_epoch_end "
           "M.training_step M.training_step M.validation_step M.on_train_epoch_end M.on_train_end")
    t.state("M.on_train_end", "6/2 TG training")


@clause("FIT-038", "Once min_epochs are done, should_stop asked for in an earlier epoch MUST end "
        "training before another epoch begins.", editions="1.5 2.2", needs="fit", source="bug 11",
        hooks="CM.on_train_end fires")
def fit_038(run):
    t = run.fit(val_batches=0, min_epochs=2, max_epochs=4, c1={"on_train_epoch_end": ask_to_stop})
    t.only(("M.on_train_epoch_start M.training_step M.training_step M.on_train_epoch_end ") * 2
           + "M.on_train_end")


@clause("FIT-039", "should_stop set in on_train_epoch_end MUST end training after that epoch.",
        editions="1.1 1.5 2.2", needs="fit", source="design 5", hooks="CM.on_train_end fires")
def fit_039(run):
    t = run.fit(val_batches=0, max_epochs=4, c1={"on_train_epoch_end": ask_to_stop})
    t.only("C.on_train_epoch_start M.training_step M.training_step C.on_train_epoch_end "
           "C.on_train_end")


@clause("FIT-040", "With max_epochs=-1 training MUST go on until max_steps.", editions="2.2",
        needs="fit", source="oracle 2.2.5", hooks="CM.on_train_end fires")
def fit_040(run):
    t = run.fit(val_batches=0, max_epochs=-1, max_steps=5)
    t.count("M.training_step", 5)
    t.state("M.on_train_end", "5/3 TG training")


@clause("FIT-041", "With max_epochs=0 fit MUST set up, check, begin, end and tear down, but call "
        "no hook of training.", editions="2.2", needs="fit", source="trace limit_train_batches_0; "
        "differences 10.12, 10.15", hooks=["CM.on_fit_start fires", "CM.on_fit_end fires"])
def fit_041(run):
    t = run.fit(max_epochs=0, sanity=1)
    t.only("""
        C.setup M.setup M.configure_optimizers C.on_fit_start M.on_fit_start
        C.on_sanity_check_start C.on_sanity_check_end M.train_dataloader
        C.on_fit_end M.on_fit_end C.teardown M.teardown
    """, absent="CM.on_train_start CM.on_train_epoch_start M.training_step CM.on_train_end")


@clause("FIT-042", "A trainer that fits again MUST set up again and find nothing to train, until "
        "max_epochs is raised, and then go on with the next epoch.", editions="2.2", needs="fit",
        source="trace 2.2.5 fit_twice_same_trainer",
        hooks=["CM.on_fit_start fires", "CM.on_train_start fires", "M.configure_model fires"])
def fit_042(run):
    t = run.scenario("fit_twice_same_trainer")
    begin = "M.configure_callbacks M.prepare_data C.setup M.setup M.configure_model "
    begin += "M.configure_optimizers C.on_fit_start M.on_fit_start M.train_dataloader "
    end = "C.on_fit_end M.on_fit_end C.teardown M.teardown"
    t.call("fit again").only(begin + end, absent="CM.on_train_start M.training_step")
    t.call("fit again with max_epochs=2").only(
        begin + "C.on_train_start M.on_train_start [step=1 epoch=1 T G training] M.training_step "
        "[step=2 epoch=2] C.on_train_end M.on_train_end " + end)


@clause("FIT-043", "fast_dev_run MUST run one batch of each loop in one epoch, without a sanity "
        "check.", editions="1.5 2.2", needs="fit", source="trace fast_dev_run",
        hooks="C.on_sanity_check_start fires")
def fit_043(run):
    t = run.scenario("fast_dev_run")
    t.call("fit").only(
        "M.training_step M.validation_step C.on_train_epoch_end M.on_train_epoch_end",
        absent="C.on_sanity_check_start")
    t.call("test").only("M.test_step")


def eval_all(stage, module):
    """Put the module in eval mode before the run."""
    module.eval()


@clause("FIT-044", "A module that is in eval mode before fit MUST stay so while it trains.",
        editions="2.2", needs="fit", source="bug 3; trace 2.2.5 model_in_eval_before_fit",
        hooks=["CM.on_train_start state", "CM.on_train_batch_start state"])
def fit_044(run):
    t = run.fit(train_batches=1, val_batches=1, sanity=1, before=eval_all)
    t.state("M.on_train_start", "0/0 EG training")
    t.state("M.training_step", "0/0 EG training")
    t.state("M.on_train_epoch_end", "1/0 EG training")


# training_epoch_end, which edition 1.5 points to.


def gives(self, batch, batch_idx):
    """Return more than the loss."""
    return {"loss": self(batch).sum(), "row": batch[0][0].item()}


def epoch_of(self, outputs):
    """Note which outputs came."""
    self.note("rows", [round(each["row"], 1) for each in outputs])
    self.note("keys", [sorted(each) for each in outputs])


@clause("FIT-050", "training_epoch_end MUST be called with the list of the epoch's step outputs, "
        "after the validation and right before the callbacks' on_train_epoch_end.", editions="1.5",
        needs="fit epoch_end_outputs", source="seed 1.5 on_train_epoch_end; design 4",
        hooks=["M.training_epoch_end fires arguments", "C.on_train_epoch_end fires"])
def fit_050(run):
    t = run.fit(max_epochs=2, extra=("training_epoch_end",), module={
        "training_step": gives, "training_epoch_end": epoch_of})
    t.only("M.on_validation_end M.training_epoch_end C.on_train_epoch_end "
           "M.on_train_epoch_end " * 2)
    t.noted("rows", [0.1, 0.2], [0.1, 0.2])
    t.noted("keys", *[[["loss", "row"]] * 2] * 2)


@clause("FIT-051", "The outputs that training_epoch_end gets MUST hold detached losses.",
        editions="1.5", needs="fit epoch_end_outputs", source="oracle 1.5.10; bug 32",
        hooks="M.training_epoch_end arguments")
def fit_051(run):
    t = run.fit(val_batches=0, extra=("training_epoch_end",), module={
        "training_epoch_end": graphs})
    t.noted("graph", [False, False])


def graphs(self, outputs):
    """Note whether the losses hold the graph."""
    self.note("graph", [each["loss"].requires_grad for each in outputs])


@clause("FIT-052", "training_epoch_end MUST find train mode, gradients on and the epoch not yet "
        "counted.", editions="1.5", needs="fit epoch_end_outputs", source="trace 1.5.10 fit_basic",
        hooks="M.training_epoch_end state")
def fit_052(run):
    t = run.fit(val_batches=0, extra=("training_epoch_end",), module={
        "training_epoch_end": graphs})
    t.state("M.training_epoch_end", "2/0 TG training")


def returns_one(self, outputs):
    """Return something."""
    return 1


@clause("FIT-053", "A training_epoch_end that returns anything but None MUST be refused, and the "
        "message names it.", editions="1.5", needs="fit epoch_end_outputs", source="oracle 1.5.10",
        hooks="M.training_epoch_end return")
def fit_053(run):
    t = run.fit(val_batches=0, fails=True, extra=("training_epoch_end",), module={
        "training_epoch_end": returns_one})
    t.raises("MisconfigurationException", "training_epoch_end")
    t.only("M.training_epoch_end C.on_exception(MisconfigurationException)",
           absent="CM.on_train_epoch_end")


# Setting up from a checkpoint.


@clause("FIT-070", "A fit that goes on from a checkpoint MUST set up, restore the module and then "
        "the callbacks, make the optimizers, begin, and train only what is left.", editions="2.2",
        needs="fit model_checkpoint", source="bug 16; trace 2.2.5 resume_end_of_epoch",
        hooks=["M.on_load_checkpoint fires", "C.on_load_checkpoint fires", "CM.on_fit_start fires"])
def fit_070(run):
    t = run.scenario("resume_end_of_epoch").call("fit(resume)")
    t.only("""
        M.prepare_data  C.setup  M.setup  M.configure_model
        M.on_load_checkpoint  M.load_state_dict  C.on_load_checkpoint
        M.configure_optimizers  C.on_fit_start  M.on_fit_start
        C.on_sanity_check_start  C.on_sanity_check_end  C.on_train_start  M.on_train_start
        C.on_train_epoch_start  M.on_train_epoch_start  C.on_train_epoch_end  M.on_train_epoch_end
        C.on_fit_end  M.on_fit_end
    """)
    t.state("M.on_load_checkpoint", "0/0 TG training")
    t.state("M.on_train_start", "2/1 TG training")


# Errors and interrupts.


def boom(self, *args, **kwargs):
    """Fail."""
    raise RuntimeError("boom")


@clause("FIT-090", "An error raised by a hook MUST propagate out of fit unchanged.",
        editions="1.5 2.2", needs="fit", source="seed 1.5 on_exception; trace 2.2.5 "
        "exception_in_training_step", hooks="C.on_exception fires")
def fit_090(run):
    t = run.fit(fails=True, module={"training_step": boom})
    t.raises("RuntimeError", "boom")
    t.only("M.training_step C.on_exception(RuntimeError)", absent="CM.on_train_end CM.on_fit_end")


ANYWHERE = """prepare_data setup configure_optimizers on_fit_start train_dataloader on_train_start
    on_train_epoch_start on_train_batch_start on_before_zero_grad on_after_backward
    on_before_optimizer_step on_train_batch_end on_train_epoch_end on_train_end on_fit_end
    teardown""".split()


@clause("FIT-091", "An error in any hook of the module MUST reach on_exception of each callback "
        "once, and be the last that any hook hears of the fit.", editions="1.5 2.2",
        needs="fit on_exception", source="bug 8; seed 1.5 on_exception",
        hooks=["C.on_exception fires"] + ["M.%s fires" % hook for hook in ANYWHERE])
def fit_091(run):
    def check(hook):
        t = run.fit(train_batches=1, val_batches=0, fails=True, module={hook: boom})
        t.raises("RuntimeError", "boom")
        told = ["%s.%s(%s)" % (event.who, event.hook, event.args) for event in t.events[-3:]]
        t.equal("the end", told[1:], [
            "c1.on_exception(RuntimeError)", "c2.on_exception(RuntimeError)"])
        if hook != "prepare_data" or run.rank == 0:  # the others only hear of it
            t.equal("where", told[0].partition("(")[0], "M." + hook)
    run.each(ANYWHERE, check)


@clause("FIT-092", "After an error in fit the trainer MUST say that it was interrupted.",
        editions="1.5 2.2", needs="fit on_exception", source="bug 8", hooks="C.on_exception state")
def fit_092(run):
    t = run.fit(fails=True, module={"training_step": boom})
    t.equal("status", (t.after["status"], t.after["interrupted"], t.after["grad_enabled"]),
            ("INTERRUPTED", True, True))


def ctrl_c(self, batch, batch_idx):
    """Be interrupted at the third batch."""
    if batch_idx == 2:
        raise KeyboardInterrupt
    return self(batch).sum()


@clause("FIT-093", "Ctrl-C in fit MUST end it at once through on_exception and let fit return.",
        editions="1.5 2.2", needs="fit on_exception", source="bug 7; design 5; trace 2.2.5 "
        "keyboard_interrupt_in_training_step", hooks="C.on_exception fires arguments")
def fit_093(run):
    t = run.fit(train_batches=4, val_batches=0, fails=True, module={"training_step": ctrl_c})
    t.only("M.training_step M.on_train_batch_end " * 2 + "M.training_step "
           "C.on_exception(KeyboardInterrupt)",
           absent="CM.on_train_epoch_end CM.on_train_end CM.on_fit_end CM.teardown")
    t.equal("raised", t.error, None)
    t.equal("interrupted", (t.after["status"], t.after["interrupted"]), ("INTERRUPTED", True))


def fits_after_failing(stage, trainer, module):
    """Fit with a training_step that raises, and again without it."""
    try:
        stage.call("failing", trainer.fit, module)
    except RuntimeError:
        pass
    del module.does["training_step"]
    stage.call("fit", trainer.fit, module)


def after_an_error(stage):
    """Fit, fail, and fit again with the same trainer."""
    module, trainer = stage.module(dict(val=0), training_step=boom), stage.trainer()
    fits_after_failing(stage, trainer, module)


@clause("FIT-094", "After an error the same trainer and module MUST be able to fit.",
        editions="2.2", needs="fit on_exception", source="bug 8: what is its own is released",
        hooks="CM.on_fit_end fires")
def fit_094(run):
    t = run.play(after_an_error, fails=True)
    t.call("fit").only("C.on_fit_start M.on_fit_start M.training_step M.training_step "
                       "C.on_fit_end M.on_fit_end C.teardown M.teardown")
    t.equal("raised", t.error, None)


# Sentences of the seeds on what a user may do.


def caches_output(self, batch, batch_idx):
    """Keep the loss, as the seed's example does."""
    loss = self(batch).sum()
    self.cached = getattr(self, "cached", []) + [loss]
    return loss


def means_of_cached(self):
    """Log the mean of what was kept, and let it go."""
    self.note("kept", len(self.cached))
    self.log("epoch_mean", torch.stack(self.cached).mean())
    self.cached.clear()


@clause("FIT-055", "A module MAY keep its step's outputs on itself and log their mean in "
        "on_train_epoch_end.", editions="2.2", needs="fit log",
        source="seed 2.2 on_train_epoch_end, "
        "example", hooks="M.on_train_epoch_end fires")
def fit_055(run):
    t = run.fit(max_epochs=2, val_batches=0, module={
        "training_step": caches_output, "on_train_epoch_end": means_of_cached})
    t.noted("kept", 2, 2)
    t.equal("logged", "epoch_mean" in t.trainer.callback_metrics, True)


def caches_outputs(self, trainer, module, outputs, *more):
    """Keep the outputs of a batch."""
    self.cached = getattr(self, "cached", []) + [outputs["loss"].item()]


def processes_cached(self, trainer, module, *more):
    """Note what was kept."""
    self.note("kept", len(self.cached))


@clause("FIT-056", "A callback MAY keep data in the hooks of a batch and process them in "
        "on_train_epoch_end.", editions="1.5 2.2", needs="fit",
        source="seed 1.5 on_train_epoch_end: "
        "cache data across train batch hooks", hooks="C.on_train_epoch_end fires")
def fit_056(run):
    t = run.fit(val_batches=0, c1={"on_train_batch_end": caches_outputs,
                                   "on_train_epoch_end": processes_cached})
    t.noted("kept", 2)


def every_entry(stage):
    """Call all four entry points of one trainer with one module."""
    trainer, module = stage.trainer(num_sanity_val_steps=0), stage.module()
    for entry in ("fit", "validate", "test", "predict"):
        stage.call(entry, getattr(trainer, entry), module)


@clause("FIT-057", "configure_model MUST be called again at each entry point, on the same module, "
        "after its setup.", editions="2.2", needs="fit validate test predict configure_model",
        source="seed 2.2 configure_model: during each of fit/val/test/predict stages",
        hooks="M.configure_model fires")
def fit_057(run):
    t = run.play(every_entry)
    for entry in ("fit", "validate", "test", "predict"):
        t.call(entry).only("M.setup(%s) M.configure_model M.teardown(%s)" % (entry, entry))


@clause("FIT-058", "A module without loader and step for validation, test and prediction MUST fit.",
        editions="1.5 2.2", needs="fit", source="seed 2.2 test_dataloader, val_dataloader: if you "
        "don't need them, you don't need to implement this method",
        hooks="M.train_dataloader fires")
def fit_058(run):
    t = run.fit(val_batches=0, test_batches=0, predict_batches=0, sanity=2)
    t.only("M.train_dataloader C.on_train_start M.training_step M.training_step C.on_fit_end",
           absent="M.validation_step C.on_sanity_check_start")


def quiet(stage, callbacks=True):
    """Fit with the recorded callbacks, or with none."""
    made = [stage.Callback("c1"), stage.Callback("c2")] if callbacks else [stage.impl.Callback()]
    module = stage.module(dict(train=3))
    torch.nn.init.zeros_(module.layer.weight)
    torch.nn.init.zeros_(module.layer.bias)
    stage.call("fit", stage.trainer(*made, max_epochs=2).fit, module)
    stage.note("weights", module.layer.weight.flatten().tolist() + module.layer.bias.tolist())


@clause("FIT-059", "A fit MUST come to the same weights with callbacks and without.",
        editions="1.1 1.5 2.2", needs="fit", source="seed 1.1: callbacks capture logic that is not "
        "required for the LightningModule to run", hooks="M.training_step fires")
def fit_059(run):
    with_them = run.play(quiet).noted("weights")
    run.play(quiet, callbacks=False).noted("weights", *with_them)
    run.play(quiet).true("trained", any(with_them[0]))


def closing(stage):
    """Fit with a logger."""
    made = subjects_logger(stage)
    trainer = stage.trainer(logger=made, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=1)))


def subjects_logger(stage):
    """Return a recorded logger."""
    from .. import subjects

    return subjects.logger(stage.impl, stage.recorder)


@clause("FIT-060", "on_train_end MUST be called before the logger is closed, which happens once.",
        editions="1.5 2.2", needs="fit logger", source="seed 2.2 on_train_end: before logger "
        "experiment is closed", hooks="CM.on_train_end fires")
def fit_060(run):
    run.play(closing).only("C.on_train_end M.on_train_end L.finalize(success)")


def histogram(self, *args):
    """Write the gradients, as the seed's example does."""
    if self.trainer.global_step % 2 == 0:
        for name, value in self.named_parameters():
            self.logger.experiment.add_histogram(
                tag=name, values=value.grad, global_step=self.trainer.global_step)


def with_histograms(stage):
    """Fit with a logger whose experiment takes histograms."""
    class Experiment:
        def add_histogram(self, tag, values, global_step):
            stage.note("histogram", [tag, values is not None, global_step])

    made = subjects_logger(stage)
    type(made).experiment = Experiment()
    trainer = stage.trainer(logger=made, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(
        dict(train=4), on_before_optimizer_step=histogram))


@clause("FIT-061", "In on_before_optimizer_step a module MUST reach the logger's experiment and "
        "every parameter's gradient.", editions="1.5 2.2", needs="fit logger",
        source="seed 2.2 on_before_optimizer_step, example",
        hooks="M.on_before_optimizer_step state")
def fit_061(run):
    run.play(with_histograms).noted("histogram", *[
        [tag, True, step] for step in (0, 2) for tag in ("layer.weight", "layer.bias")])


# Ends, and what is told of them.


@clause("FIT-110", "After SIGTERM a fit MUST end behind the batch that runs, with "
        "SIGTERMException, which on_exception hears of.", editions="2.2", needs="fit",
        source="lightning 2.2.5", hooks="C.on_exception fires arguments", device="cpu")
def fit_110(run):
    t = run.fit(train_batches=4, val_batches=0, fails=True, c1={"on_train_batch_start": sigterm})
    t.only("M.training_step C.on_train_batch_end M.on_train_batch_end " * 2
           + "C.on_exception(SIGTERMException)", absent="CM.on_train_epoch_end CM.on_train_end")
    t.raises("SystemExit")


@clause("FIT-111", "After SIGTERM in the validation of a fit, the fit MUST end behind its batch.",
        editions="2.2", needs="fit", source="lightning 2.2.5", hooks="C.on_exception fires",
        device="cpu")
def fit_111(run):
    t = run.fit(train_batches=1, val_batches=4, fails=True, c1={
        "on_validation_batch_start": sigterm})
    t.only("M.training_step " + "M.validation_step C.on_validation_batch_end " * 2
           + "C.on_exception(SIGTERMException)", absent="CM.on_validation_epoch_end")
    t.raises("SystemExit")


def deterministic(stage, value):
    """Note what torch is told by a Trainer, and tell it the opposite again."""
    before = os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    try:
        stage.trainer(deterministic=value)
        stage.note("told", [torch.are_deterministic_algorithms_enabled(),
                            torch.is_deterministic_algorithms_warn_only_enabled(),
                            os.environ.get("CUBLAS_WORKSPACE_CONFIG")])
    finally:
        torch.use_deterministic_algorithms(False)
        os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
        if before is not None:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = before


@clause("FIT-112", "deterministic=True MUST let torch use deterministic algorithms only, cuBLAS "
        "included, and \"warn\" lets it warn where there are none.", editions="2.2", needs="fit",
        source="lightning 2.2.5", device="cpu", arguments="Trainer.deterministic")
def fit_112(run):
    run.play(deterministic, value=True).noted("told", [True, False, ":4096:8"])
    run.play(deterministic, value="warn").noted("told", [True, True, ":4096:8"])


def told(stage, train=2, **flags):
    """Fit, and note what is logged of why it stops, whoever listens."""
    before, said = logging.getLogRecordFactory(), []

    def heard(*args, **kwargs):
        record = before(*args, **kwargs)
        said.append(record.getMessage())
        return record

    logging.disable(logging.NOTSET)
    logging.setLogRecordFactory(heard)
    try:
        trainer = stage.trainer(num_sanity_val_steps=0, **flags)
        stage.call("fit", trainer.fit, stage.module(dict(train=train)))
    finally:
        logging.setLogRecordFactory(before)
    stage.note("said", [line.replace("=", " ").split("stopped: ")[1].split() for line in said
                        if "stopped: " in line])


@clause("FIT-113", "When max_epochs or max_steps ends a fit, this MUST be told once, with its "
        "value.", editions="2.2", needs="fit", source="lightning 2.2.5", device="cpu")
def fit_113(run):
    run.play(told, max_epochs=2).noted("said", [["`max_epochs", "2`", "reached."]])
    run.play(told, max_epochs=4, max_steps=3).noted("said", [["`max_steps", "3`", "reached."]])


@clause("FIT-114", "After an error no stage MUST be left, and after Ctrl-C that which it met.",
        editions="2.2", needs="fit", source="lightning 2.2.5", hooks="C.on_exception state")
def fit_114(run):
    t = run.fit(fails=True, module={"training_step": boom})
    t.equal("stage after an error", t.after["stage"], "None")
    t = run.fit(train_batches=4, val_batches=0, fails=True, module={"training_step": ctrl_c})
    t.equal("stage after Ctrl-C", t.after["stage"], "TRAINING")


def tell_step(self, trainer, *more):
    """Note how far the run is."""
    self.note("step", trainer.global_step)


def routine(stage):
    """Fit an epoch, save, and go on from there."""
    from . import ckpt

    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=3)))
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    callback, _ = ckpt.both(stage, "on_pretrain_routine_start", c1={
        "on_pretrain_routine_start": tell_step})
    callback.note = stage.note
    ckpt.go_on(stage, stage.module(dict(train=3)), stage.path("m.ckpt"), callback, max_epochs=2)


@clause("FIT-115", "on_pretrain_routine_start MUST find the steps of the run that goes on counted.",
        editions="1.5", needs="fit older_hooks on_exception", source="pytorch-lightning 1.5.10",
        hooks="C.on_pretrain_routine_start state")
def fit_115(run):
    t = run.play(routine)
    (step,) = t.noted("step")
    t.true("steps are counted", step > 0)


def given_gradients(stage, module):
    """Leave gradients behind."""
    module(torch.ones(1, 2)).sum().backward()


def has_gradients(trainer, module):
    """Return whether any parameter has a gradient."""
    return any(each.grad is not None and bool(each.grad.any()) for each in module.parameters())


@clause("FIT-116", "fit, validate, test and predict MUST begin with the module's gradients "
        "released.", editions="2.2", needs="fit validate test predict", source="lightning 2.2.5",
        hooks=["CM.on_train_start state", "CM.on_validation_start state",
               "CM.on_test_start state", "CM.on_predict_start state"])
def fit_116(run):
    for entry, hook in (("fit", "on_train_start"), ("validate", "on_validation_start"),
                        ("test", "on_test_start"), ("predict", "on_predict_start")):
        t = getattr(run, entry)(before=given_gradients, look={"M." + hook: has_gradients})
        t.looked("M." + hook, False)


@clause("FIT-117", "A validation_step without a loader for it MUST be warned of, once.",
        editions="2.2", needs="fit", source="lightning 2.2.5", device="cpu")
def fit_117(run):
    t = run.fit(without=["val_dataloader"])
    t.equal("warnings", len([text for text in t.warnings if "validation_step" in text]), 1)


def notes_device(stage, module):
    """Let the module note where it is moved to."""
    default = module.to

    def to(*args, **kwargs):
        stage.note("devices", [str(each) for each in args])
        return default(*args, **kwargs)

    module.to = to


@clause("FIT-118", "A run MUST move the module to its device, once.", editions="2.2",
        needs="fit validate test predict", source="lightning 2.2.5", device="cpu")
def fit_118(run):
    for entry in ("fit", "validate", "test", "predict"):
        getattr(run, entry)(before=notes_device).noted("devices", ["cpu"])


def fails_inside(stage):
    """Fit, fail at the second batch, and fit again with the same trainer."""
    module, trainer = stage.module(dict(train=3, val=0), training_step=second_fails), stage.trainer(
        num_sanity_val_steps=0)
    fits_after_failing(stage, trainer, module)


def second_fails(self, batch, batch_idx):
    """Fail at the second batch."""
    if batch_idx == 1:
        raise RuntimeError("boom")
    return self(batch).sum()


@clause("FIT-119", "After an error inside an epoch the next fit MUST begin that epoch anew.",
        editions="2.2", needs="fit on_exception", source="lightning 2.6.6",
        hooks="M.on_train_epoch_start fires")
def fit_119(run):
    t = run.play(fails_inside, fails=True).call("fit")
    t.only("M.on_train_epoch_start M.training_step M.training_step M.training_step "
           "M.on_train_epoch_end")


def leaves_gradients(self, trainer, module):
    """Leave gradients behind."""
    module(torch.ones(1, 2)).sum().backward()


@clause("FIT-120", "Gradients that a hook before the sanity check has left MUST be released when "
        "it begins.", editions="beyond", needs="fit older_hooks", source="design 3: zero_grad",
        hooks="C.on_pretrain_routine_end fires")
def fit_120(run):
    for hook in ("on_fit_start", "on_pretrain_routine_end"):
        t = run.fit(older=True, sanity=1, train_batches=1, c1={hook: leaves_gradients},
                    look={"c1.on_sanity_check_start": has_gradients})
        t.looked("c1.on_sanity_check_start", False)


def stops(self, trainer, module):
    """Ask for the end."""
    trainer.should_stop = True


@clause("FIT-121", "should_stop set in on_train_start MUST end training before its first epoch.",
        editions="2.2", needs="fit", source="lightning 2.6.6", hooks="C.on_train_start state")
def fit_121(run):
    t = run.fit(c1={"on_train_start": stops})
    t.only("C.on_train_start M.on_train_start C.on_train_end M.on_train_end",
           absent="M.on_train_epoch_start M.training_step")


def given_both(stage, both=True):
    """Ask for two processes where none can be started, and give loaders and a data module."""
    before = os.environ.get("PYTEST_CURRENT_TEST")
    os.environ["PYTEST_CURRENT_TEST"] = "where no process can be started"
    try:
        trainer, module = stage.trainer(devices=2, strategy="ddp"), stage.module()
        stage.call("fit", trainer.fit, module, module.train_dataloader(),
                   datamodule=stage.Datamodule() if both else None)
    finally:
        del os.environ["PYTEST_CURRENT_TEST"]
        if before is not None:
            os.environ["PYTEST_CURRENT_TEST"] = before


@clause("FIT-122", "What an entry point is given MUST be checked before processes are started.",
        editions="beyond", needs="fit datamodule", device="cpu",
        source="design 5: misuse is refused before any work; lightning starts them first")
def fit_122(run):
    error = run.play(given_both, fails=True).raises("MisconfigurationException", "loader")
    run.play(given_both, fails=True).true("it speaks of no process", "process" not in str(error))


@clause("FIT-123", "A fit without training batches MUST tell so once.", editions="2.2",
        needs="fit", source="lightning 2.6.6", device="cpu")
def fit_123(run):
    t = run.play(told, train=0)
    t.equal("said", [" ".join(each).lower() for each in t.noted("said")[0]],
            ["no training batches."])


def no_module(stage):
    """Fit what is no LightningModule."""
    stage.call("fit", stage.trainer().fit, torch.nn.Linear(2, 1))


@clause("FIT-124", "What is no LightningModule MUST be refused by a TypeError that says so.",
        editions="2.2", needs="fit", source="lightning 2.6.6", device="cpu")
def fit_124(run):
    run.play(no_module, fails=True).raises("TypeError", "LightningModule")


@clause("FIT-125", "In one process an error MUST reach the caller with nothing added to it.",
        editions="2.2", needs="fit", source="lightning 2.6.6", device="cpu")
def fit_125(run):
    t = run.fit(fails=True, module={"training_step": boom})
    t.equal("notes", list(getattr(t.raises("RuntimeError"), "__notes__", ())), [])


@clause("FIT-126", "Where the processes that are asked for cannot be started, a fit MUST be "
        "refused, and say how to start them.", editions="beyond",
        needs="fit older_hooks datamodule", source="design 6: torchrun", device="cpu")
def fit_126(run):
    t = run.play(given_both, both=False, fails=True)
    t.raises("MisconfigurationException", "2 processes", "torchrun")
    t.none("M.setup")


def epochs_at_most(trainer, module):
    """Return how many epochs the fit may have."""
    return trainer.max_epochs


@clause("FIT-127", "Without max_epochs and max_steps a fit MUST end after 1000 epochs, and without "
        "max_epochs alone after no number of them.", editions="2.2", needs="fit",
        source="lightning 2.6.6", device="cpu")
def fit_127(run):
    for steps, epochs in ((-1, 1000), (5, -1)):
        t = run.fit(max_epochs=None, max_steps=steps, c1={"on_train_start": stops},
                    look={"M.on_train_start": epochs_at_most})
        t.looked("M.on_train_start", epochs)
