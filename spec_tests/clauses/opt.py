"""Optimization: the step and its closure, accumulation, several optimizers, schedulers."""

from ..clause import clause, torch

HOOKS = "on_before_zero_grad on_before_backward on_after_backward on_before_optimizer_step".split()


def zeros(stage, module):
    """Let the weights begin at zero."""
    module.layer.weight.data.zero_()
    module.layer.bias.data.zero_()


def weights(trainer, module):
    """Return both weights and the bias."""
    return module.layer.weight.flatten().tolist() + module.layer.bias.tolist()


def gradients(trainer, module):
    """Return the gradients of both weights and of the bias, or None."""
    if module.layer.weight.grad is None:
        return None
    return module.layer.weight.grad.flatten().tolist() + module.layer.bias.grad.tolist()


def rate(trainer, module):
    """Return the learning rate."""
    return trainer.optimizers[0].param_groups[0]["lr"]


# One step in automatic optimization.


@clause("OPT-001", "A batch MUST be optimized inside the optimizer's own step, by a closure of "
        "training_step, zeroing, backward, on_before_optimizer_step and clipping, in this order.",
        editions="1.5 2.2", needs="fit", source="differences 1.2, 10.4; traces fit_basic",
        hooks=["CM.%s fires" % hook for hook in HOOKS] + [
            "CM.on_train_batch_end fires", "M.training_step fires", "M.optimizer_step fires"])
def opt_001(run):
    run.fit(train_batches=1, val_batches=0).only("""
        M.optimizer_step { O.step {
            M.training_step
            C.on_before_zero_grad       M.on_before_zero_grad  M.optimizer_zero_grad { O.zero_grad }
            C.on_before_backward        M.on_before_backward   M.backward
            C.on_after_backward         M.on_after_backward
            C.on_before_optimizer_step  M.on_before_optimizer_step
            M.configure_gradient_clipping { M.clip_gradients }
        } }
        C.on_train_batch_end M.on_train_batch_end
    """)


@clause("OPT-002", "optimizer_step MUST receive the epoch, the batch's index, the optimizer in its "
        "wrapper and the closure.", editions="2.2", needs="fit", source="differences 1.2",
        hooks="M.optimizer_step fires arguments")
def opt_002(run):
    run.fit(max_epochs=2).args("M.optimizer_step", *[
        "%d, %d, wrapped(O), closure" % (epoch, i) for epoch in (0, 1) for i in (0, 1)])


@clause("OPT-003", "The hooks inside the step MUST receive the optimizer itself, the loss, or "
        "nothing, and optimizer_zero_grad the epoch and the batch's index too.", editions="2.2",
        needs="fit", source="seed 2.2 on_before_zero_grad, on_before_backward, "
        "on_before_optimizer_step", hooks=["CM.%s arguments" % hook for hook in HOOKS] + [
            "M.training_step arguments", "M.optimizer_zero_grad arguments", "M.backward arguments",
            "M.configure_gradient_clipping arguments"])
def opt_003(run):
    t = run.fit(max_epochs=2)
    t.args("M.training_step", *["Tensor, 0", "Tensor, 1"] * 2)
    t.args("M.optimizer_zero_grad", "0, 0, O", "0, 1, O", "1, 0, O", "1, 1, O")
    t.args("M.backward", *["Tensor"] * 4)
    t.args("M.configure_gradient_clipping", *["O"] * 4)
    for who in ("c1.", "c2.", "M."):
        for hook, word in zip(HOOKS, ("O", "Tensor", "", "O")):
            t.args(who + hook, *[word] * 4)


@clause("OPT-004", "The hooks inside the step MUST find train mode, gradients on and the steps "
        "taken before.", editions="2.2", needs="fit", source="trace 2.2.5 fit_two_epochs",
        hooks=["CM.%s state" % hook for hook in HOOKS] + [
            "M.training_step state", "M.optimizer_step state"])
def opt_004(run):
    t = run.fit(max_epochs=2)
    for what in ["M.optimizer_step", "M.training_step", "M.optimizer_zero_grad", "M.backward",
                 "M.configure_gradient_clipping"] + [w + h for w in ("c1.", "M.") for h in HOOKS]:
        t.state(what, "0/0 TG training", "1/0 TG training", "2/1 TG training", "3/1 TG training")


def seven(self, *args):
    """Return what means nothing."""
    return 7


@clause("OPT-005", "What on_before_zero_grad, on_before_backward, on_after_backward and "
        "on_before_optimizer_step return MUST be ignored.", editions="1.5 2.2", needs="fit",
        source="seed 2.2: they return None", hooks=["CM.%s return" % hook for hook in HOOKS])
def opt_005(run):
    returning = dict.fromkeys(HOOKS, seven)
    t = run.fit(val_batches=0, before=zeros, module=returning, c1=returning,
                look={"M.on_train_end": weights})
    t.looked("M.on_train_end", [-0.03, -0.2, -0.2])
    t.only(" ".join("C.%s M.%s" % (hook, hook) for hook in HOOKS * 2))


@clause("OPT-006", "Gradients MUST be those of the last step in on_before_zero_grad, none in "
        "on_before_backward, and the batch's own from on_after_backward on.", editions="2.2",
        needs="fit", source="seed 2.2 on_before_zero_grad, on_before_backward, on_after_backward",
        hooks=["M.%s state" % hook for hook in HOOKS])
def opt_006(run):
    t = run.fit(val_batches=0, before=zeros, look={"M." + hook: gradients for hook in HOOKS})
    first, second = [0.1, 1.0, 1.0], [0.2, 1.0, 1.0]
    t.looked("M.on_before_zero_grad", None, first)
    t.looked("M.on_before_backward", None, None)
    t.looked("M.on_after_backward", first, second)
    t.looked("M.on_before_optimizer_step", first, second)


@clause("OPT-007", "In on_before_zero_grad the weights MUST be those after the last step, and in "
        "on_before_optimizer_step not yet stepped.", editions="1.5 2.2", needs="fit",
        source="seed 2.2 on_before_zero_grad: weights updated; on_before_optimizer_step",
        hooks=["M.on_before_zero_grad state", "M.on_before_optimizer_step state"])
def opt_007(run):
    t = run.fit(val_batches=0, before=zeros, look={
        "M." + hook: weights for hook in HOOKS + ["on_train_batch_end"]})
    start, first, second = [0.0, 0.0, 0.0], [-0.01, -0.1, -0.1], [-0.03, -0.2, -0.2]
    for hook in ("on_before_zero_grad", "on_after_backward", "on_before_optimizer_step"):
        t.looked("M." + hook, start, first)
    t.looked("M.on_train_batch_end", first, second)


def does_nothing(self, *args, **kwargs):
    """Do nothing."""


@clause("OPT-008", "An optimizer_step that never runs the closure MUST be refused in the first "
        "batch, with a message that speaks of the closure.", editions="1.5 2.2", needs="fit",
        source="oracle 1.5.10, 2.2.5", hooks="C.on_exception fires")
def opt_008(run):
    t = run.fit(val_batches=0, module={"optimizer_step": does_nothing}, fails=True)
    t.raises("MisconfigurationException", "closure")
    t.only("M.on_train_batch_start M.optimizer_step C.on_exception(MisconfigurationException)",
           absent="M.training_step CM.on_train_batch_end")


def every_second(self, epoch, batch_idx, optimizer, optimizer_closure):
    """Step at every second batch, otherwise only compute the gradients."""
    if batch_idx % 2:
        optimizer.step(closure=optimizer_closure)
    else:
        optimizer_closure()


@clause("OPT-009", "An overridden optimizer_step MAY call the closure without a step, which then "
        "is training_step, zeroing and backward alone.", editions="2.2", needs="fit",
        source="oracle 2.2.5", hooks="M.optimizer_step fires arguments")
def opt_009(run):
    t = run.fit(val_batches=0, module={"optimizer_step": every_second}, before=zeros,
                look={"M.on_train_end": weights})
    t.only("""
        M.optimizer_step { M.training_step M.optimizer_zero_grad M.backward }
        M.optimizer_step { O.step { M.training_step M.optimizer_zero_grad M.backward
                                    M.on_before_optimizer_step M.configure_gradient_clipping } }
    """)
    t.looked("M.on_train_end", [-0.02, -0.1, -0.1])


def keeps_gradients(self, epoch, batch_idx, optimizer):
    """Zero nothing."""


def doubles(self, loss):
    """Backpropagate twice the loss."""
    (2 * loss).backward()


@clause("OPT-010", "Overrides of optimizer_zero_grad and backward MUST replace what they override.",
        editions="2.2", needs="fit", source="oracle 2.2.5",
        hooks=["M.on_before_zero_grad fires", "M.on_after_backward fires",
               "M.optimizer_zero_grad fires", "M.backward fires"])
def opt_010(run):
    t = run.fit(val_batches=0, module={"optimizer_zero_grad": keeps_gradients}, before=zeros,
                look={"M.on_train_end": weights})
    t.looked("M.on_train_end", [-0.04, -0.3, -0.3])
    t = run.fit(val_batches=0, module={"backward": doubles}, before=zeros,
                look={"M.on_train_end": weights})
    t.looked("M.on_train_end", [-0.06, -0.4, -0.4])
    t.only("O.zero_grad M.backward C.on_after_backward M.on_after_backward " * 2)


# Clipping. The gradients of the first batch are 0.1, 1 and 1, and their norm the root of 2.01.


@clause("OPT-011", "gradient_clip_val MUST clip the norm of all gradients after "
        "on_before_optimizer_step, which sees them unclipped, and before the step.",
        editions="1.5 2.2", needs="fit", source="seed 2.2 on_before_optimizer_step; trace "
        "fit_gradient_clip", hooks="M.on_before_optimizer_step state")
def opt_011(run):
    t = run.fit(train_batches=1, val_batches=0, gradient_clip_val=0.5, before=zeros,
                look={"M.on_before_optimizer_step": gradients, "M.on_train_end": weights})
    t.looked("M.on_before_optimizer_step", [0.1, 1.0, 1.0])
    scale = -0.1 * 0.5 / 2.01 ** 0.5
    t.looked("M.on_train_end", [0.1 * scale, scale, scale])


@clause("OPT-012", "gradient_clip_algorithm='value' MUST clip each gradient by itself.",
        editions="1.5 2.2", needs="fit", source="oracle 2.2.5",
        hooks="M.on_before_optimizer_step fires")
def opt_012(run):
    t = run.fit(train_batches=1, val_batches=0, gradient_clip_val=0.5, before=zeros,
                gradient_clip_algorithm="value", look={"M.on_train_end": weights})
    t.looked("M.on_train_end", [-0.01, -0.05, -0.05])


@clause("OPT-013", "configure_gradient_clipping MUST be called at each step with the optimizer and "
        "the trainer's settings, also when nothing is clipped.", editions="2.2", needs="fit",
        source="differences 1.2, 10.26", hooks="M.configure_gradient_clipping fires arguments")
def opt_013(run):
    t = run.fit(train_batches=1, val_batches=0, gradient_clip_val=0.5, before=zeros,
                gradient_clip_algorithm="value", look={"M.on_train_end": weights})
    for hook in ("configure_gradient_clipping", "clip_gradients"):
        t.args("M." + hook, "O, 0.5, value")
        run.fit(max_epochs=2).args("M." + hook, *["O"] * 4)


def clips_by_hand(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
    """Clip as it pleases the module."""
    self.clip_gradients(optimizer, gradient_clip_val=0.5, gradient_clip_algorithm="value")


@clause("OPT-014", "An overridden configure_gradient_clipping MUST decide on the clipping.",
        editions="2.2", needs="fit", source="oracle 2.2.5",
        hooks="M.on_before_optimizer_step fires")
def opt_014(run):
    t = run.fit(train_batches=1, val_batches=0, before=zeros, look={"M.on_train_end": weights},
                module={"configure_gradient_clipping": clips_by_hand})
    t.looked("M.on_train_end", [-0.01, -0.05, -0.05])


# Accumulation.

SEVEN = dict(train_batches=7, val_batches=0, accumulate_grad_batches=3, before=zeros, look={
    "M.on_before_optimizer_step": gradients, "M.on_train_batch_end": weights})


@clause("OPT-020", "With accumulation, backward and its hooks MUST run for every batch, zeroing "
        "for the first of a window, and the optimizer's step for the last of a window and of the "
        "epoch.", editions="1.5 2.2", needs="fit", source="bug 5; bug 23; trace fit_accumulate_2",
        hooks=["CM.%s fires" % hook for hook in HOOKS])
def opt_020(run):
    backward = ("C.on_before_backward M.on_before_backward M.backward "
                "C.on_after_backward M.on_after_backward ")
    first = "M.training_step C.on_before_zero_grad M.on_before_zero_grad " \
        "M.optimizer_zero_grad " + backward
    next_one = "M.training_step " + backward
    step = "C.on_before_optimizer_step M.on_before_optimizer_step M.configure_gradient_clipping "
    window = first + next_one + "M.optimizer_step { O.step { " + next_one + step + "} } "
    run.fit(**SEVEN).only(window * 2 + "M.optimizer_step { O.step { " + first + step + "} }")


@clause("OPT-021", "At on_before_optimizer_step the gradients MUST be those of the window, each "
        "batch's loss divided by accumulate_grad_batches, in a shorter last window too.",
        editions="1.5 2.2", needs="fit", source="seed 2.2 on_before_backward; bug 5; bug 23",
        hooks="M.on_before_optimizer_step state")
def opt_021(run):
    run.fit(**SEVEN).looked("M.on_before_optimizer_step", [0.2, 1.0, 1.0], [0.5, 1.0, 1.0],
                            [0.7 / 3, 1.0 / 3, 1.0 / 3])


@clause("OPT-022", "Weights MUST change at the end of a window only, and by that window's "
        "gradients.", editions="1.5 2.2", needs="fit", source="bug 23",
        hooks="M.on_train_batch_end state")
def opt_022(run):
    first, second = [-0.02, -0.1, -0.1], [-0.07, -0.2, -0.2]
    run.fit(**SEVEN).looked(
        "M.on_train_batch_end", [0.0] * 3, [0.0] * 3, first, first, first, second,
        [second[0] - 0.07 / 3, -0.2 - 0.1 / 3, -0.2 - 0.1 / 3])


@clause("OPT-023", "With accumulation, global_step MUST count optimizer steps, not batches.",
        editions="2.2", needs="fit", source="trace 2.2.5 fit_accumulate_2; bug 23",
        hooks="M.on_train_batch_end state")
def opt_023(run):
    run.fit(**SEVEN).state("M.on_train_batch_end", *[
        "%d/0 TG training" % step for step in (0, 0, 1, 1, 1, 2, 3)])


@clause("OPT-024", "A last, shorter window MUST step in its own epoch, and the next epoch begins a "
        "new window.", editions="2.2", needs="fit", source="bug 23; differences 10.5",
        hooks="M.on_before_zero_grad fires")
def opt_024(run):
    t = run.fit(train_batches=3, val_batches=0, max_epochs=2, accumulate_grad_batches=2)
    t.only(("M.optimizer_zero_grad M.backward M.backward M.on_before_optimizer_step "
            "M.optimizer_zero_grad M.backward M.on_before_optimizer_step "
            "M.on_train_epoch_end ") * 2)
    t.state("M.on_train_end", "4/2 TG training")


@clause("OPT-025", "An epoch shorter than the window MUST still take one step.", editions="1.5 2.2",
        needs="fit", source="bug 23", hooks="M.on_before_optimizer_step fires state")
def opt_025(run):
    t = run.fit(val_batches=0, accumulate_grad_batches=4, before=zeros,
                look={"M.on_before_optimizer_step": gradients})
    t.looked("M.on_before_optimizer_step", [0.3 / 4, 0.5, 0.5])


@clause("OPT-026", "An epoch shorter than the window MUST be warned of.", editions="beyond",
        needs="beyond", source="bug 23")
def opt_026(run):
    t = run.fit(val_batches=0, accumulate_grad_batches=4, before=zeros,
                look={"M.on_before_optimizer_step": gradients})
    t.warned("accumulate_grad_batches")


def plus_six(self, batch, batch_idx):
    """Return a loss of 6 while the weights are zero."""
    return self(batch).sum() + 6


def notes_loss(self, loss):
    """Note the loss of on_before_backward."""
    self.note("before", loss.item())


def notes_outputs(self, outputs, batch, batch_idx):
    """Note the loss in the outputs."""
    self.note("outputs", outputs["loss"].item())


@clause("OPT-027", "on_before_backward and the outputs of on_train_batch_end MUST have the loss "
        "divided by accumulate_grad_batches.", editions="1.5 2.2", needs="fit", source="seed 2.2 "
        "on_before_backward, on_train_batch_end",
        hooks=["M.on_before_backward arguments", "M.on_train_batch_end arguments"])
def opt_027(run):
    t = run.fit(val_batches=0, accumulate_grad_batches=3, before=zeros, module={
        "training_step": plus_six, "on_before_backward": notes_loss,
        "on_train_batch_end": notes_outputs})
    t.noted("before", 2.0, 2.0)
    t.noted("outputs", 2.0, 2.0)


@clause("OPT-028", "max_steps MUST count optimizer steps, so that accumulation takes more batches "
        "to it.", editions="1.5 2.2", needs="fit", source="differences 10.2; bug 23",
        hooks="M.on_before_optimizer_step fires")
def opt_028(run):
    t = run.fit(train_batches=6, val_batches=0, max_steps=2, max_epochs=3,
                accumulate_grad_batches=2)
    t.only(("M.training_step M.optimizer_step { M.training_step } ") * 2 + "M.on_train_end")


# What training_step returns.


def none_at_1(self, batch, batch_idx):
    """Skip batch 1."""
    return None if batch_idx == 1 else self(batch).sum()


def momentum(self):
    """An optimizer that would move weights without gradients, if they were zero."""
    return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


SKIPPED = dict(train_batches=3, val_batches=0, before=zeros, look={"M.on_train_batch_end": weights},
               module={"training_step": none_at_1, "configure_optimizers": momentum})


@clause("OPT-030", "training_step returning None MUST skip backward and its hooks, while zeroing, "
        "on_before_optimizer_step and the batch's hooks go on.", editions="1.5 2.2", needs="fit",
        source="bug 6; design 5; trace training_step_returns_none",
        hooks=["M.%s fires" % hook for hook in HOOKS])
def opt_030(run):
    t = run.fit(**SKIPPED)
    backward = "M.on_before_backward M.backward M.on_after_backward "
    batch = "M.on_train_batch_start M.optimizer_step { M.training_step M.on_before_zero_grad %s" \
        "M.on_before_optimizer_step } M.on_train_batch_end "
    t.only(batch % backward + batch % "" + batch % backward)


@clause("OPT-035", "A batch whose training_step returned None MUST leave the weights as they are, "
        "with momentum too.", editions="2.2", needs="fit", source="bug 6; design 5",
        hooks="M.on_train_batch_end state")
def opt_035(run):
    first = [-0.01, -0.1, -0.1]  # then the velocity is 0.9 of the last one, and the gradient
    run.fit(**SKIPPED).looked("M.on_train_batch_end", first, first, [
        -0.01 - 0.1 * (0.09 + 0.3), -0.1 - 0.1 * 1.9, -0.1 - 0.1 * 1.9])


@clause("OPT-031", "For a training_step that returned None, on_train_batch_end MUST get empty "
        "outputs and global_step still counts.", editions="2.2", needs="fit", source="bug 6; trace "
        "2.2.5 training_step_returns_none", hooks=["CM.on_train_batch_end arguments state",
               "M.training_step return"])
def opt_031(run):
    t = run.fit(**SKIPPED)
    for who in ("c1", "M"):
        t.args(who + ".on_train_batch_end", "dict(loss), Tensor, 0", "dict(), Tensor, 1",
               "dict(loss), Tensor, 2")
        t.state(who + ".on_train_batch_end", *["%d/0 TG training" % step for step in (1, 2, 3)])


@clause("OPT-032", "A training_step that always returns None MUST NOT fail, and changes no weight.",
        editions="2.2", needs="fit", source="bug 6, variant",
        hooks="M.on_train_batch_end arguments")
def opt_032(run):
    t = run.fit(val_batches=0, before=zeros, module={"training_step": does_nothing},
                look={"M.on_train_end": weights})
    t.looked("M.on_train_end", [0.0, 0.0, 0.0])
    t.args("M.on_train_batch_end", "dict(), Tensor, 0", "dict(), Tensor, 1")


def with_extra(self, batch, batch_idx):
    """Return more than the loss."""
    return {"loss": self(batch).sum(), "extra": "kept", "row": batch[0][0].item()}


def notes_extra(self, outputs, batch, batch_idx):
    """Note what came beside the loss."""
    self.note("extra", [outputs["extra"], round(outputs["row"], 1), outputs["loss"].requires_grad])


@clause("OPT-033", "The other keys of a dict that training_step returns MUST reach the outputs of "
        "on_train_batch_end as they are, beside the detached loss.", editions="1.5 2.2",
        needs="fit", source="design 5; trace training_step_returns_dict_with_extra",
        hooks=["M.on_train_batch_end arguments",
               "M.training_step return"])
def opt_033(run):
    t = run.fit(val_batches=0, before=zeros, look={"M.on_train_end": weights},
                module={"training_step": with_extra, "on_train_batch_end": notes_extra})
    t.noted("extra", ["kept", 0.1, False], ["kept", 0.2, False])
    t.looked("M.on_train_end", [-0.03, -0.2, -0.2])


def number(self, batch, batch_idx):
    """Return a number."""
    return 1.0


def no_loss(self, batch, batch_idx):
    """Return a dict without a loss."""
    return {"x": 1}


@clause("OPT-034", "A training_step that returns a number, or a dict without loss, MUST be refused "
        "in the first step.", editions="1.5 2.2", needs="fit", source="traces "
        "training_step_returns_number, training_step_returns_dict_without_loss",
        hooks="C.on_exception fires")
def opt_034(run):
    for step in (number, no_loss):
        t = run.fit(val_batches=0, fails=True, module={"training_step": step})
        t.raises("MisconfigurationException", "training_step")
        t.only("M.training_step C.on_exception(MisconfigurationException)", absent="M.backward")


# Manual optimization.


def manual(stage, module):
    """Optimize by hand, from zero."""
    module.automatic_optimization = False
    zeros(stage, module)


def both(self):
    """One optimizer for the weight, one for the bias."""
    return [self.make_optimizer([self.layer.weight], "OA"),
            self.make_optimizer([self.layer.bias], "OB")]


def by_hand(self, batch, batch_idx):
    """Step with both optimizers."""
    for optimizer in self.optimizers():
        optimizer.zero_grad()
        self.manual_backward(self(batch).sum())
        optimizer.step()


MANUAL = dict(val_batches=0, before=manual, look={"M.on_train_batch_end": weights}, module={
    "configure_optimizers": both, "training_step": by_hand})


@clause("OPT-040", "In manual optimization, zeroing, backward and steps MUST happen where "
        "training_step asks for them, with the hooks of backward and on_before_optimizer_step.",
        editions="1.5 2.2", needs="fit manual_optimization",
        source="design 5; trace fit_manual_optimization",
        hooks=["CM.%s fires" % hook for hook in HOOKS])
def opt_040(run):
    part = """
        O%s.zero_grad
        C.on_before_backward  M.on_before_backward  M.backward
        C.on_after_backward   M.on_after_backward
        O%s.step { C.on_before_optimizer_step  M.on_before_optimizer_step }
    """
    batch = "M.training_step { " + part % ("A", "A") + part % ("B", "B") + " } "
    batch += "M.on_train_batch_end "
    run.fit(**MANUAL).only(batch * 2, absent="M.optimizer_step CM.on_before_zero_grad "
                           "M.optimizer_zero_grad M.configure_gradient_clipping")


@clause("OPT-041", "In manual optimization global_step MUST count each step of each optimizer.",
        editions="2.2", needs="fit manual_optimization", source="differences 10.2",
        hooks=["M.on_before_optimizer_step state", "M.on_train_batch_end state"])
def opt_041(run):
    t = run.fit(**MANUAL)
    for who in ("c1", "M"):
        t.args(who + ".on_before_optimizer_step", "OA", "OB", "OA", "OB")
    t.state("M.on_before_optimizer_step", *["%d/0 TG training" % step for step in range(4)])
    t.state("M.on_train_batch_end", "2/0 TG training", "4/0 TG training")
    t.looked("M.on_train_batch_end", [-0.01, -0.1, -0.1], [-0.03, -0.2, -0.2])


def manual_answers(self, batch, batch_idx):
    """Return a tensor, and then a dict."""
    loss = self(batch).sum()
    return {"loss": loss, "extra": "kept"} if batch_idx else loss


@clause("OPT-042", "In manual optimization, on_train_batch_end MUST get what training_step "
        "returned: empty for None, a tensor as the loss, a dict as it is.", editions="2.2",
        needs="fit manual_optimization", source="oracle 2.2.5; trace fit_manual_optimization",
        hooks="M.on_train_batch_end arguments")
def opt_042(run):
    run.fit(**MANUAL).args("M.on_train_batch_end", "dict(), Tensor, 0", "dict(), Tensor, 1")
    t = run.fit(val_batches=0, before=manual, module={
        "configure_optimizers": both, "training_step": manual_answers})
    t.args("M.on_train_batch_end", "dict(loss), Tensor, 0", "dict(extra,loss), Tensor, 1")
    t.state("M.on_train_end", "0/1 TG training")


@clause("OPT-043", "gradient_clip_val and accumulate_grad_batches MUST be refused in manual "
        "optimization before any batch.", editions="1.5 2.2", needs="fit manual_optimization",
        source="oracle 2.2.5", hooks="C.on_exception fires")
def opt_043(run):
    for flag in (dict(gradient_clip_val=0.5), dict(accumulate_grad_batches=2)):
        t = run.fit(fails=True, **dict(MANUAL, **flag))
        t.raises("MisconfigurationException", *flag)
        t.only("M.configure_callbacks C.on_exception(MisconfigurationException)",
               absent="M.training_step")


def asks_optimizers(self, batch, batch_idx):
    """Note what optimizers() gives."""
    given = self.optimizers()
    raw = self.optimizers(use_pl_optimizer=False)
    self.note("list", [isinstance(given, list), isinstance(raw, list)])
    one, raw = (given[0], raw[0]) if isinstance(given, list) else (given, raw)
    self.note("wraps", [one.optimizer is raw, raw is self.trainer.optimizers[0], one is raw])


@clause("OPT-044", "self.optimizers() MUST give the wrapped optimizer, or a list if there are "
        "several, and with use_pl_optimizer=False what configure_optimizers returned.",
        editions="1.5 2.2", needs="fit manual_optimization", source="oracle 1.5.10, 2.2.5")
def opt_044(run):
    for module, several in (({}, False), ({"configure_optimizers": both}, True)):
        t = run.fit(train_batches=1, val_batches=0, before=manual, module=dict(
            module, training_step=asks_optimizers))
        t.noted("list", [several, several])
        t.noted("wraps", [True, True, False])


def toggles(self, batch, batch_idx):
    """Note which parameters can be trained while the first optimizer is toggled."""
    first, second = self.optimizers()
    for one in (first, second):
        with one.toggle_model():
            self.note("trains", [p.requires_grad for p in self.layer.parameters()])
    self.note("after", [p.requires_grad for p in self.layer.parameters()])


@clause("OPT-045", "toggle_model MUST freeze the parameters of all other optimizers inside its "
        "block.", editions="1.5 2.2", needs="fit manual_optimization",
        source="design 5: toggle; oracle 2.2.5")
def opt_045(run):
    t = run.fit(train_batches=1, val_batches=0, before=manual, module={
        "configure_optimizers": both, "training_step": toggles})
    t.noted("trains", [True, False], [False, True])
    t.noted("after", [True, True])


def frozen(stage, module):
    """Optimize by hand, with a bias that is frozen from the start."""
    manual(stage, module)
    module.layer.bias.requires_grad = False


@clause("OPT-046", "A parameter that was frozen before MUST stay frozen while its optimizer is "
        "toggled and afterwards.", editions="1.5 2.2", needs="fit manual_optimization",
        source="oracle 2.2.5")
def opt_046(run):
    t = run.fit(train_batches=1, val_batches=0, before=frozen, module={
        "configure_optimizers": both, "training_step": toggles})
    t.noted("trains", [True, False], [False, False])
    t.noted("after", [True, False])


# Several optimizers in automatic optimization.


@clause("OPT-050", "With several optimizers, and a training_step that declares optimizer_idx, each "
        "batch MUST be optimized by each in turn, with its index.", device="cpu", editions="1.5",
        needs="older_hooks on_exception", source="ruling 9; trace 1.5.10 "
        "fit_two_optimizers_automatic",
        hooks=["C.on_before_optimizer_step fires arguments", "CM.on_before_zero_grad fires"])
def opt_050(run):
    t = run.scenario("fit_two_optimizers_automatic")
    part = """M.optimizer_step { O%s.step {
        M.training_step(Tensor, %d, %d)  C.on_before_zero_grad(O%s)  M.on_before_zero_grad(O%s)
        M.backward  C.on_before_optimizer_step(O%s, %d) } } """
    batches = [part % (one, batch_idx, i, one, one, one, i)
               for batch_idx in (0, 1) for i, one in enumerate("AB")]
    end = "C.on_train_batch_end M.on_train_batch_end "
    t.only(batches[0] + batches[1] + end + batches[2] + batches[3] + end)


@clause("OPT-051", "While one of several optimizers is at work, the parameters of the others MUST "
        "be frozen.", device="cpu", editions="1.5", needs="older_hooks on_exception",
        source="trace 1.5.10 fit_two_optimizers_automatic")
def opt_051(run):
    t = run.scenario("fit_two_optimizers_automatic")
    (trained,) = t.stage.results.values()
    t.equal("trained", trained, [[0, [True, False]], [1, [False, True]]] * 2)
    t.true("thawed", all(p.requires_grad for p in t.module.layer.parameters()))


@clause("OPT-052", "With several optimizers, on_train_batch_end MUST get the outputs as a list, "
        "one for each.", device="cpu", editions="1.5", needs="older_hooks on_exception",
        source="differences "
        "1.2; trace 1.5.10 fit_two_optimizers_automatic", hooks="CM.on_train_batch_end arguments")
def opt_052(run):
    t = run.scenario("fit_two_optimizers_automatic")
    for who in ("c1", "M"):
        t.args(who + ".on_train_batch_end", *[
            "[dict(loss),dict(loss)], Tensor, %d" % i for i in (0, 1)])


@clause("OPT-053", "Several optimizers without optimizer_idx in training_step MUST be refused "
        "right after configure_optimizers.", editions="2.2", needs="fit manual_optimization",
        source="ruling 9; trace 2.2.5 fit_two_optimizers_automatic", hooks="C.on_exception fires")
def opt_053(run):
    t = run.fit(val_batches=0, fails=True, module={"configure_optimizers": both})
    t.raises("RuntimeError", "automatic_optimization = False")
    t.only("M.configure_optimizers C.on_exception(RuntimeError)",
           absent="CM.on_fit_start M.training_step")


# Schedulers.


def schedules(scheduler, **settings):
    """Return a configure_optimizers with a scheduler that is made of an optimizer."""
    def configure_optimizers(self):
        optimizer = self.make_optimizer()
        return {"optimizer": optimizer,
                "lr_scheduler": dict(settings, scheduler=scheduler(optimizer))}
    configure_optimizers.__name__ = "schedules_%s" % sorted(settings.items())
    return configure_optimizers


def halves(optimizer):
    """Halve the rate at each step of the scheduler."""
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


def plateau(optimizer):
    """Halve the rate at the first bad epoch."""
    return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)


BY_EPOCH = schedules(halves)
BY_2_EPOCHS = schedules(halves, frequency=2)
BY_STEP = schedules(halves, interval="step")
BY_2_STEPS = schedules(halves, interval="step", frequency=2)
RATES = dict.fromkeys("M.on_train_batch_start M.on_train_batch_end M.on_validation_start "
                      "M.on_train_epoch_end".split(), rate)


@clause("OPT-060", "A scheduler MUST step once per epoch by default: after the last batch's step, "
        "before its on_train_batch_end and before the epoch's validation.", editions="1.5 2.2",
        needs="fit", source="differences 10.17; trace lr_scheduler_interval_epoch",
        hooks="CM.on_train_batch_end state")
def opt_060(run):
    t = run.fit(max_epochs=2, look=RATES, module={"configure_optimizers": BY_EPOCH})
    t.looked("M.on_train_batch_start", 0.1, 0.1, 0.05, 0.05)
    t.looked("M.on_train_batch_end", 0.1, 0.05, 0.05, 0.025)
    t.looked("M.on_validation_start", 0.05, 0.025)


@clause("OPT-061", "lr_scheduler_step MUST be called with the scheduler and no metric, outside the "
        "optimizer's step, with the step counted.", editions="2.2", needs="fit hooks_2.2",
        source="trace 2.2.5 lr_scheduler_interval_epoch",
        hooks="M.lr_scheduler_step fires arguments state")
def opt_061(run):
    t = run.fit(max_epochs=2, look=RATES, module={"configure_optimizers": BY_EPOCH})
    t.only("""
        M.optimizer_step  C.on_train_batch_end  M.on_train_batch_end
        M.optimizer_step  M.lr_scheduler_step   C.on_train_batch_end  M.on_train_batch_end
        C.on_validation_start
    """ * 2)
    # A scheduler is written as what it wraps.
    t.args("M.lr_scheduler_step", "wrapped(O), None", "wrapped(O), None")
    t.state("M.lr_scheduler_step", "2/0 TG training", "4/1 TG training")


@clause("OPT-062", "A scheduler with interval 'step' MUST step after every optimizer step, before "
        "on_train_batch_end.", editions="1.5 2.2", needs="fit", source="bug 24; differences 10.17",
        hooks="CM.on_train_batch_end state")
def opt_062(run):
    t = run.fit(look=RATES, module={"configure_optimizers": BY_STEP})
    t.looked("M.on_train_batch_start", 0.1, 0.05)
    t.looked("M.on_train_batch_end", 0.05, 0.025)


@clause("OPT-063", "frequency=2 MUST step a scheduler of steps at every second one, and a "
        "scheduler of epochs in every second epoch.", editions="1.5 2.2", needs="fit",
        source="trace lr_scheduler_interval_step", hooks="M.on_train_batch_end state")
def opt_063(run):
    t = run.fit(train_batches=3, val_batches=0, look=RATES, module={
        "configure_optimizers": BY_2_STEPS})
    t.looked("M.on_train_batch_end", 0.1, 0.05, 0.05)
    t = run.fit(train_batches=1, val_batches=0, max_epochs=4, look=RATES, module={
        "configure_optimizers": BY_2_EPOCHS})
    t.looked("M.on_train_batch_end", 0.1, 0.05, 0.05, 0.025)


@clause("OPT-064", "With accumulation, a scheduler of steps MUST step once per optimizer step.",
        editions="1.5 2.2", needs="fit", source="bug 24", hooks="M.on_train_batch_end state")
def opt_064(run):
    t = run.fit(train_batches=8, val_batches=0, accumulate_grad_batches=4, look=RATES, module={
        "configure_optimizers": BY_STEP})
    t.looked("M.on_train_batch_end", 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025)


@clause("OPT-065", "A scheduler of epochs MUST step in every epoch, validated or not.",
        editions="1.5 2.2", needs="fit", source="bug 24", hooks="M.on_train_epoch_end state")
def opt_065(run):
    t = run.fit(train_batches=1, val_batches=1, max_epochs=4, check_val_every_n_epoch=4, look=RATES,
                module={"configure_optimizers": BY_EPOCH})
    t.looked("M.on_train_epoch_end", 0.05, 0.025, 0.0125, 0.00625)


@clause("OPT-066", "A scheduler of epochs MUST NOT step in an epoch that max_steps cut short.",
        editions="1.5 2.2", needs="fit", source="oracle 2.2.5; bug 24",
        hooks="M.on_train_epoch_end state")
def opt_066(run):
    t = run.fit(max_steps=3, max_epochs=3, look=RATES, module={"configure_optimizers": BY_EPOCH})
    t.looked("M.on_train_epoch_end", 0.05, 0.05)


def steps_by_hand(self, batch, batch_idx):
    """Step with the one optimizer."""
    optimizer = self.optimizers()
    optimizer.zero_grad()
    self.manual_backward(self(batch).sum())
    optimizer.step()
    self.note("scheduler", type(self.lr_schedulers()).__name__)
    if batch_idx == 1:
        self.lr_schedulers().step()


@clause("OPT-067", "In manual optimization a scheduler MUST be stepped by training_step alone, "
        "which finds it by lr_schedulers().", editions="1.5 2.2", needs="fit manual_optimization",
        source="differences 10.17; trace lr_scheduler_manual_optimization",
        hooks="M.on_train_batch_end state")
def opt_067(run):
    t = run.fit(train_batches=3, val_batches=0, before=manual, look=RATES, module={
        "configure_optimizers": BY_STEP, "training_step": steps_by_hand})
    t.looked("M.on_train_batch_end", 0.1, 0.05, 0.05)
    t.noted("scheduler", "StepLR", "StepLR", "StepLR")


def skips_schedulers(self, scheduler, metric):
    """Step no scheduler."""


@clause("OPT-068", "An overridden lr_scheduler_step MUST be all that steps the scheduler.",
        editions="2.2", needs="fit hooks_2.2", source="oracle 2.2.5")
def opt_068(run):
    t = run.fit(look=RATES, module={
        "configure_optimizers": BY_STEP, "lr_scheduler_step": skips_schedulers})
    t.looked("M.on_train_batch_end", 0.1, 0.1)
    t.count("M.lr_scheduler_step", 2)


def logs_v(self, batch, batch_idx):
    """Log what does not improve."""
    self.log("v", torch.tensor(1.0))
    return self(batch).sum()


PLATEAU = schedules(plateau, monitor="v")
PLATEAU_2 = schedules(plateau, monitor="v", frequency=2)
LENIENT = schedules(plateau, monitor="nope", strict=False)
MISSING = schedules(plateau, monitor="nope")


@clause("OPT-070", "ReduceLROnPlateau MUST step after on_train_epoch_end, with the metric that it "
        "monitors.", editions="2.2", needs="fit hooks_2.2 log",
        source="trace 2.2.5 lr_scheduler_reduce_on_plateau", hooks="CM.on_train_epoch_end fires")
def opt_070(run):
    t = run.fit(val_batches=1, max_epochs=2, look=RATES, module={
        "configure_optimizers": PLATEAU, "validation_step": logs_v})
    t.only("M.validation_step C.on_train_epoch_end M.on_train_epoch_end "
           "M.lr_scheduler_step(wrapped(O), Tensor) " * 2 + "M.on_train_end")


@clause("OPT-071", "ReduceLROnPlateau MUST lower the rate after as many bad epochs as its own "
        "patience says.", editions="1.5 2.2", needs="fit log", source="bug 24",
        hooks="CM.on_train_epoch_start state")
def opt_071(run):
    t = run.fit(val_batches=1, max_epochs=3, look={"M.on_train_epoch_start": rate}, module={
        "configure_optimizers": PLATEAU, "validation_step": logs_v})
    t.looked("M.on_train_epoch_start", 0.1, 0.1, 0.05)
    t.equal("rate", rate(t.trainer, t.module), 0.025)


@clause("OPT-072", "A ReduceLROnPlateau that is strict, as it is by default, and whose metric is "
        "missing MUST fail with a message that names it and what was logged.", editions="1.5 2.2",
        needs="fit log", source="bug 24", hooks="C.on_exception fires")
def opt_072(run):
    t = run.fit(val_batches=1, max_epochs=2, fails=True, module={
        "configure_optimizers": MISSING, "validation_step": logs_v})
    t.raises("MisconfigurationException", "nope", "v")
    t.only("M.on_train_epoch_end C.on_exception(MisconfigurationException)")


@clause("OPT-073", "A ReduceLROnPlateau that is not strict MUST warn and skip the step when its "
        "metric is missing.", editions="1.5 2.2", needs="fit log", source="bug 24",
        hooks="CM.on_train_epoch_end fires")
def opt_073(run):
    t = run.fit(val_batches=1, max_epochs=2, module={
        "configure_optimizers": LENIENT, "validation_step": logs_v})
    t.warned("nope")
    t.only("M.on_train_epoch_end M.on_train_epoch_end", absent="M.lr_scheduler_step")


@clause("OPT-074", "ReduceLROnPlateau MUST NOT step for an epoch that max_steps cut short.",
        editions="2.2", needs="fit hooks_2.2", source="bug 24", hooks="CM.on_train_epoch_end fires")
def opt_074(run):
    t = run.fit(val_batches=1, max_epochs=3, max_steps=3, module={
        "configure_optimizers": PLATEAU, "validation_step": logs_v})
    t.only("M.on_train_epoch_end M.lr_scheduler_step M.on_train_epoch_end M.on_train_end")


@clause("OPT-075", "ReduceLROnPlateau with frequency=2 MUST step in every second epoch, so that it "
        "can follow a validation of that rhythm.", editions="2.2", needs="fit hooks_2.2",
        source="bug 24", hooks="CM.on_train_epoch_end fires")
def opt_075(run):
    t = run.fit(train_batches=1, val_batches=1, max_epochs=4, check_val_every_n_epoch=2, module={
        "configure_optimizers": PLATEAU_2, "validation_step": logs_v})
    t.only(("M.on_train_epoch_end M.validation_step M.on_train_epoch_end M.lr_scheduler_step ") * 2)


# What configure_optimizers may return.


def form_one(self):
    """One optimizer."""
    return self.make_optimizer()


def form_list(self):
    """A list of one."""
    return [self.make_optimizer()]


def form_lists(self):
    """Two lists."""
    optimizer = self.make_optimizer()
    return [optimizer], [halves(optimizer)]


def form_lists_of_settings(self):
    """Two lists, with settings of the scheduler."""
    optimizer = self.make_optimizer()
    return [optimizer], [{"scheduler": halves(optimizer), "interval": "step", "frequency": 2}]


def form_dict(self):
    """A dict of the optimizer alone."""
    return {"optimizer": self.make_optimizer()}


def form_dict_scheduler(self):
    """A dict with a scheduler as it is."""
    optimizer = self.make_optimizer()
    return {"optimizer": optimizer, "lr_scheduler": halves(optimizer)}


def form_dict_monitor(self):
    """A dict with the metric beside the scheduler."""
    optimizer = self.make_optimizer()
    return {"optimizer": optimizer, "lr_scheduler": plateau(optimizer), "monitor": "v"}


def form_dict_settings(self):
    """A dict with settings of the scheduler."""
    optimizer = self.make_optimizer()
    return {"optimizer": optimizer, "lr_scheduler": {
        "scheduler": plateau(optimizer), "monitor": "v", "strict": False, "name": "rate"}}


FORMS = {
    form_one: None, form_list: None, form_dict: None,
    form_lists: ["StepLR", "epoch", 1, None, True],
    form_lists_of_settings: ["StepLR", "step", 2, None, True],
    form_dict_scheduler: ["StepLR", "epoch", 1, None, True],
    form_dict_monitor: ["ReduceLROnPlateau", "epoch", 1, "v", True],
    form_dict_settings: ["ReduceLROnPlateau", "epoch", 1, "v", False],
}


@clause("OPT-080", "configure_optimizers MUST be asked once, with nothing, between configure_model "
        "and on_fit_start, and may return an optimizer, a list, two lists or a dict.",
        editions="2.2", needs="fit hooks_2.2 log", source="oracle 2.2.5",
        hooks=["CM.on_fit_start fires",
               "M.configure_optimizers fires arguments return state"])
def opt_080(run):
    def check(form):
        t = run.fit(val_batches=1, module={"configure_optimizers": form, "validation_step": logs_v})
        t.only("M.configure_model M.configure_optimizers() C.on_fit_start M.on_fit_start")
        t.state("M.configure_optimizers", "0/0 TG training")
        t.equal("optimizers", len(t.trainer.optimizers), 1)
        configs = [[type(c.scheduler).__name__, c.interval, c.frequency, c.monitor, c.strict]
                   for c in t.trainer.lr_scheduler_configs]
        t.equal("schedulers", configs, [FORMS[form]] if FORMS[form] else [])
    run.each(FORMS, check)


def form_dicts(self):
    """A list of dicts."""
    one, two = both(self)
    return [{"optimizer": one, "lr_scheduler": halves(one)}, {"optimizer": two}]


def form_tuple(self):
    """A tuple of optimizers."""
    return tuple(both(self))


def form_several_lists(self):
    """Lists of several."""
    one, two = both(self)
    return [one, two], [halves(one), halves(two)]


@clause("OPT-081", "configure_optimizers MAY return several optimizers, as a list, a tuple, two "
        "lists or a list of dicts.", editions="2.2", needs="fit manual_optimization hooks_2.2",
        source="oracle 2.2.5", hooks="M.on_train_batch_end state")
def opt_081(run):
    for form, schedulers in ((form_dicts, 1), (form_tuple, 0), (form_several_lists, 2)):
        t = run.fit(val_batches=0, before=manual, look={"M.on_train_batch_end": weights}, module={
            "configure_optimizers": form, "training_step": by_hand})
        t.looked("M.on_train_batch_end", [-0.01, -0.1, -0.1], [-0.03, -0.2, -0.2])
        t.equal("optimizers and schedulers", (
            len(t.trainer.optimizers), len(t.trainer.lr_scheduler_configs)), (2, schedulers))


def form_none(self):
    """No optimizer."""


@clause("OPT-082", "Without an optimizer, the step and its closure MUST happen all the same and "
        "count, while no weight changes.", editions="2.2", needs="fit",
        source="differences 1.2; oracle 2.2.5", hooks="M.on_before_optimizer_step fires")
def opt_082(run):
    t = run.fit(val_batches=0, before=zeros, look={"M.on_train_end": weights}, module={
        "configure_optimizers": form_none})
    t.only("""M.optimizer_step { M.training_step M.on_before_zero_grad M.on_before_backward
        M.on_after_backward M.on_before_optimizer_step } M.on_train_batch_end """ * 2)
    t.looked("M.on_train_end", [0.0, 0.0, 0.0])
    t.state("M.on_train_end", "2/1 TG training")


def bad_text(self):
    """Return no optimizer."""
    return "SGD"


def bad_interval(self):
    """Return an interval that is none."""
    return schedules(halves, interval="week")(self)


def bad_plateau(self):
    """Return a plateau without a metric."""
    return schedules(plateau)(self)


def bad_scheduler(self):
    """Return a scheduler that is none of torch's, without saying how it steps."""
    return schedules(Own)(self)


def bad_foreign(self):
    """Return a scheduler of an optimizer that is kept back."""
    return [self.make_optimizer()], [halves(self.make_optimizer())]


def bad_keys(self):
    """Return settings without a scheduler."""
    return {"optimizer": self.make_optimizer(), "lr_scheduler": {"interval": "step"}}


@clause("OPT-083", "A configure_optimizers whose answer cannot be used MUST be refused before "
        "on_fit_start.", editions="2.2", needs="fit hooks_2.2", source="oracle 2.2.5; design 5",
        hooks="C.on_exception fires")
def opt_083(run):
    def check(form):
        t = run.fit(val_batches=0, fails=True, module={"configure_optimizers": form}, without=(
            "lr_scheduler_step",))
        t.raises("MisconfigurationException")
        t.only("M.configure_optimizers C.on_exception(MisconfigurationException)",
               absent="CM.on_fit_start M.training_step")
    run.each((bad_text, bad_interval, bad_plateau, bad_scheduler, bad_foreign, bad_keys), check)


class Own:
    """A scheduler of one's own."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def tick(self):
        """Halve the rate."""
        self.optimizer.param_groups[0]["lr"] /= 2

    def state_dict(self):
        """Return nothing."""
        return {}

    def load_state_dict(self, state):
        """Load nothing."""


def ticks(self, scheduler, metric):
    """Step a scheduler of one's own."""
    scheduler.tick()


OWN = schedules(Own, interval="step")


@clause("OPT-084", "A scheduler that is none of torch's MAY be used with an lr_scheduler_step that "
        "knows how to step it.", editions="2.2", needs="fit hooks_2.2", source="oracle 2.2.5",
        hooks="M.on_train_batch_end state")
def opt_084(run):
    t = run.fit(look=RATES, module={"configure_optimizers": OWN, "lr_scheduler_step": ticks})
    t.looked("M.on_train_batch_end", 0.05, 0.025)


# What the hooks that do the work see and return. Each does its work as the trainer would.


def steps(self, epoch, batch_idx, optimizer, *more, **named):
    """Step, and return something."""
    closure = named.get("optimizer_closure") or [each for each in more if callable(each)][0]
    optimizer.step(closure=closure)
    return -1


def zeroes(self, epoch, batch_idx, optimizer, *more):
    """Zero the gradients, and return something."""
    optimizer.zero_grad()
    return -1


def goes_back(self, loss, *more):
    """Go backward, and return something."""
    loss.backward()
    return -1


def clips_nothing(self, *args, **kwargs):
    """Return something."""
    return -1


def steps_scheduler(self, scheduler, *more):
    """Step the scheduler, and return something."""
    scheduler.step()
    return -1


RETURNING = {"optimizer_step": steps, "optimizer_zero_grad": zeroes, "backward": goes_back,
             "configure_gradient_clipping": clips_nothing, "lr_scheduler_step": steps_scheduler}


@clause("OPT-015", "What overrides of optimizer_step, optimizer_zero_grad, backward, "
        "configure_gradient_clipping and lr_scheduler_step return MUST be ignored.", editions="2.2",
        needs="fit hooks_2.2", source="oracle 2.2.5", hooks=[
            "M.%s return" % hook for hook in RETURNING])
def opt_015(run):
    look = {"M.on_train_end": weights, "M.on_train_batch_end": rate}
    plain = run.fit(before=zeros, look=look, module={"configure_optimizers": BY_EPOCH},
                    max_epochs=2)
    t = run.fit(before=zeros, look=look, max_epochs=2,
                module=dict(RETURNING, configure_optimizers=BY_EPOCH))
    t.looked("M.on_train_end", *plain.looked("M.on_train_end"))
    t.looked("M.on_train_batch_end", *plain.looked("M.on_train_batch_end"))
    t.equal("global_step", t.after["global_step"], 4)
    t.count("M.lr_scheduler_step", 2)


@clause("OPT-016", "optimizer_zero_grad, backward and configure_gradient_clipping MUST find train "
        "mode, gradients on and the steps taken before.", editions="2.2", needs="fit hooks_2.2",
        source="trace 2.2.5 fit_two_epochs", hooks=["M.optimizer_zero_grad state",
                                                    "M.backward state",
                                                    "M.configure_gradient_clipping state"])
def opt_016(run):
    t = run.fit(max_epochs=2)
    for hook in ("optimizer_zero_grad", "backward", "configure_gradient_clipping"):
        t.state("M." + hook, "0/0 TG training", "1/0 TG training", "2/1 TG training",
                "3/1 TG training")


# Precision. The loss is a quarter of the bias while the weights are zero, and is summed in 32 bit,
# so that its gradient, scaled by the first scale of torch's GradScaler, 65536, fits into 16 bits.

HALF = dict(train_batches=1, val_batches=0, precision="16-mixed")


def one(stage, module):
    """Let the weights begin at zero, and the bias at one."""
    module.layer.weight.data.zero_()
    module.layer.bias.data.fill_(1.0)


def quarter(self, batch, batch_idx):
    """Return a quarter of the output."""
    return self(batch).float().sum() * 0.25


def bias(trainer, module):
    """Return the bias."""
    return module.layer.bias.item()


def slope(trainer, module):
    """Return the gradient of the bias."""
    return module.layer.bias.grad.item()


@clause("OPT-100", "With 16-bit AMP on_before_backward MUST receive the loss divided by "
        "accumulate_grad_batches and scaled.", editions="2.2", needs="fit hooks_2.2",
        source="seed 2.2 on_before_backward", hooks="CM.on_before_backward arguments",
        device="cpu cuda")
def opt_100(run):
    does = {"training_step": quarter, "on_before_backward": notes_loss}
    run.fit(before=one, module=does, **HALF).noted("before", 16384.0)
    config = dict(HALF, train_batches=2, accumulate_grad_batches=2)
    run.fit(before=one, module=does, **config).noted("before", 8192.0, 8192.0)


@clause("OPT-101", "With 16-bit AMP gradients MUST still be scaled in on_after_backward.",
        editions="2.2", needs="fit hooks_2.2", source="seed 2.2 on_after_backward",
        hooks="M.on_after_backward state",
        device="cpu cuda")
def opt_101(run):
    t = run.fit(before=one, module={"training_step": quarter}, look={
        "M.on_after_backward": slope, "M.on_before_optimizer_step": slope}, **HALF)
    t.looked("M.on_after_backward", 16384.0)


@clause("OPT-102", "With 16-bit AMP gradients MUST be unscaled in on_before_optimizer_step, not "
        "yet clipped, and be clipped as they are.", editions="2.2", needs="fit hooks_2.2",
        source="seed 2.2 on_before_optimizer_step", hooks="M.on_before_optimizer_step state",
        device="cpu cuda")
def opt_102(run):
    t = run.fit(before=one, module={"training_step": quarter}, gradient_clip_val=0.1,
                gradient_clip_algorithm="value", look={
                    "M.on_before_optimizer_step": slope, "M.on_train_batch_end": bias}, **HALF)
    t.looked("M.on_before_optimizer_step", 0.25)
    t.looked("M.on_train_batch_end", 0.99)


def infinite_at_first(self, batch, batch_idx):
    """Return a loss that has infinite gradients at the first batch."""
    return self(batch).float().sum() * (0.25 if batch_idx else float("inf"))


INFINITE = dict(HALF, train_batches=3, before=one, look={
    "M.on_train_batch_end": bias, "M.on_before_optimizer_step": rate},
    module={"training_step": infinite_at_first, "configure_optimizers": BY_STEP})


@clause("OPT-103", "With 16-bit AMP a step whose gradients are infinite MUST leave the weights as "
        "they are.", editions="2.2", needs="fit hooks_2.2",
        source="seed 2.2 on_before_optimizer_step: "
        "amp_examples; oracle 2.2.5", hooks="M.on_before_optimizer_step state",
        device="cpu cuda")
def opt_103(run):
    values = run.fit(**INFINITE).looked("M.on_train_batch_end")
    t = run.fit(**dict(INFINITE, module={"training_step": quarter,
                                         "configure_optimizers": BY_STEP}))
    t.looked("M.on_train_batch_end", 0.975, 0.9625, 0.95625)
    t.equal("bias after the first batch", values[0], 1.0)
    t.true("the second batch steps", values[1] < 0.99)


@clause("OPT-104", "With 16-bit AMP a step whose gradients are infinite MUST NOT move global_step, "
        "nor a scheduler that steps with it.", editions="beyond", needs="beyond",
        source="ruling: global_step counts the steps that were taken",
        hooks="M.on_train_batch_end state",
        device="cpu cuda")
def opt_104(run):
    t = run.fit(**INFINITE)
    t.state("M.on_train_batch_end", "0/0 TG training", "1/0 TG training", "2/0 TG training")
    t.looked("M.on_before_optimizer_step", 0.1, 0.1, 0.05)
    t.only("M.on_train_batch_end M.lr_scheduler_step M.on_train_batch_end M.lr_scheduler_step "
           "M.on_train_batch_end")


@clause("OPT-105", "With 16-bit AMP the gradients of all batches of a window MUST be unscaled "
        "once, before its step.", editions="2.2", needs="fit hooks_2.2",
        source="seed 2.2 on_before_optimizer_step", hooks="M.on_before_optimizer_step state",
        device="cpu cuda")
def opt_105(run):
    config = dict(HALF, train_batches=2, accumulate_grad_batches=2)
    t = run.fit(before=one, module={"training_step": quarter}, look={
        "M.on_after_backward": slope, "M.on_before_optimizer_step": slope}, **config)
    t.looked("M.on_after_backward", 8192.0, 16384.0)
    t.looked("M.on_before_optimizer_step", 0.25)


def scaled_by_hand(self, batch, batch_idx):
    """Optimize by hand; the gradients of the second batch are infinite."""
    optimizer = self.optimizers()
    optimizer.zero_grad()
    self.manual_backward(self(batch).float().sum() * (float("inf") if batch_idx == 1 else 0.25))
    optimizer.step()


def one_by_hand(stage, module):
    """Let a module optimize by hand, from a bias of one."""
    one(stage, module)
    module.automatic_optimization = False


@clause("OPT-106", "In manual optimization with 16-bit AMP manual_backward MUST scale the loss, "
        "and the optimizer's step unscale the gradients and leave out those that are infinite.",
        editions="2.2", needs="fit hooks_2.2 manual_optimization", source="seed 2.2 "
        "on_before_backward, on_before_optimizer_step; oracle 2.2.5", hooks=[
            "CM.on_before_backward arguments", "M.on_before_optimizer_step state"],
        device="cpu cuda")
def opt_106(run):
    t = run.fit(before=one_by_hand, module={
        "training_step": scaled_by_hand, "on_before_backward": notes_loss}, look={
        "M.on_before_optimizer_step": slope, "M.on_train_batch_end": bias},
        **dict(HALF, train_batches=3))
    before, seen = t.noted("before"), t.looked("M.on_before_optimizer_step")
    t.equal("the first loss", before[0], 16384.0)
    # Its output is 0.975 - 0.0025 * 0.3 - 0.025, in 16 bit.
    t.true("the last loss is scaled by half", abs(before[2] - 0.94925 * 8192) < 8)
    t.equal("gradients", [seen[0], seen[2]], [0.25, 0.25])
    t.looked("M.on_train_batch_end", 0.975, 0.975, 0.95)


def half_story(stage):
    """Fit for an epoch and save; go on from there; and fit for two epochs in one go."""
    resumes = {"ckpt_path": stage.path("fit.ckpt")}
    for name, epochs, given in (("fit", 1, {}), ("resume", 2, resumes), ("whole", 2, {})):
        module = stage.module(dict(train=3, val=0), (), "val_dataloader validation_step".split(),
                              training_step=infinite_at_first)
        one(stage, module)
        trainer = stage.trainer(stage.Callback("c1"), max_epochs=epochs, precision="16-mixed")
        stage.call(name, trainer.fit, module, **given)
        trainer.save_checkpoint(stage.path(name + ".ckpt"))
        saved = torch.load(stage.path(name + ".ckpt"), map_location="cpu")
        stage.note("scaler", saved.get("MixedPrecision"))
        stage.note("weights", saved["state_dict"]["layer.weight"].tolist())


@clause("OPT-107", "The checkpoint of a run with 16-bit AMP MUST hold the state of its scaler "
        "under 'MixedPrecision'.", editions="2.2", needs="fit hooks_2.2 save_checkpoint",
        source="seed 2.2 on_save_checkpoint: train state including amp scaling; oracle 2.2.5",
        hooks="M.on_save_checkpoint state",
        device="cpu cuda")
def opt_107(run):
    t = run.play(half_story)
    saved = t.noted("scaler")[0]
    t.true("there is a state of the scaler", bool(saved))
    t.equal("scaler's state", {name: saved[name] for name in sorted(saved)}, {
        "_growth_tracker": 2, "backoff_factor": 0.5, "growth_factor": 2.0, "growth_interval": 2000,
        "scale": 32768.0})


@clause("OPT-108", "A run with 16-bit AMP that goes on from a checkpoint MUST go on with the "
        "scaler's state, and end with the weights of one that was never stopped.", editions="2.2",
        needs="fit hooks_2.2 save_checkpoint", source="seed 2.2 on_load_checkpoint: train state "
        "including amp scaling", hooks="M.on_load_checkpoint state",
        device="cpu cuda")
def opt_108(run):
    t = run.play(half_story)
    (_, resumed, whole), (_, ended, wanted) = t.noted("scaler"), t.noted("weights")
    t.true("there is a state of the scaler", bool(whole))
    t.equal("scaler's state", resumed, whole)
    t.true("the weights are the same, bit for bit", ended == wanted)


def type_of(tensor):
    """Return the name of a tensor's type."""
    return str(tensor.dtype)[6:]


def step_types(self, batch, *more):
    """Note the types in a step, and log a tensor and a number."""
    output = self(batch)
    self.note("step", [type_of(each) for each in (
        self.layer.weight, batch, output, torch.ones(1))])
    self.log("output", output.sum())
    self.log("number", 1.1)
    return output.sum()


def notes_batch(self, batch, dataloader_idx):
    """Note the type of a batch."""
    self.note("batch", type_of(batch))
    return batch


def notes_model(self):
    """Note the type of what is made here."""
    self.note("made", type_of(torch.ones(1)))


def logged_types(trainer, module):
    """Return the types of what was logged."""
    return [type_of(trainer.callback_metrics[name]) for name in ("output", "number")]


def logged_number(trainer, module):
    """Return the number that was logged."""
    return trainer.callback_metrics["number"].item()


# Name: types of weights, batch, output and of what a step makes; of what is logged; of what
# configure_model makes. As in 2.2.5.
F16, F32, F64, BF16 = "float16", "float32", "float64", "bfloat16"
PRECISIONS = {
    "32-true": ([F32, F32, F32, F32], F32, F32),
    "64-true": ([F64, F64, F64, F64], F64, F64),
    "bf16-true": ([BF16, BF16, BF16, BF16], F32, BF16),
    "16-true": ([F16, F16, F16, F16], F32, F16),
    "bf16-mixed": ([F32, F32, BF16, F32], F32, F32),
    "16-mixed": ([F32, F32, F16, F32], F32, F32),
}
TYPES = {hook: step_types for hook in ("training_step", "validation_step", "test_step")}


@clause("OPT-110", "The precision MUST say of which types weights, batches, outputs and what a "
        "step makes are, in training and validation alike.", editions="2.2", needs="fit hooks_2.2",
        source="oracle 2.2.5", hooks=["M.training_step state", "M.validation_step state"],
        device="cpu cuda")
def opt_110(run):
    for name, (types, _, _) in PRECISIONS.items():
        t = run.fit(train_batches=1, val_batches=1, precision=name, module=TYPES)
        t.noted("step", types, types)


@clause("OPT-111", "What is logged MUST be kept in 32 bit at the least, whatever the precision.",
        editions="2.2", needs="fit hooks_2.2", source="oracle 2.2.5", hooks="M.on_train_end state",
        device="cpu cuda")
def opt_111(run):
    for name, (_, logged, _) in PRECISIONS.items():
        t = run.fit(train_batches=1, val_batches=0, precision=name, module=TYPES,
                    look={"M.on_train_end": logged_types, "M.on_fit_end": logged_number})
        t.looked("M.on_train_end", [logged, logged])
        t.looked("M.on_fit_end", 1.1)


@clause("OPT-112", "With '64-true' and its like a batch MUST have the type of the run before "
        "on_before_batch_transfer, and configure_model make tensors of it.", editions="2.2",
        needs="fit configure_model hooks_2.2",
        source="seed 2.2 configure_model: in a precision aware "
        "context; oracle 2.2.5", hooks=["M.configure_model state",
                                        "M.on_before_batch_transfer arguments"],
        device="cpu cuda")
def opt_112(run):
    for name, (types, _, made) in PRECISIONS.items():
        t = run.fit(train_batches=1, val_batches=0, precision=name, module={
            "configure_model": notes_model, "on_before_batch_transfer": notes_batch})
        t.noted("made", made)
        t.noted("batch", types[1])


@clause("OPT-113", "Predictions MUST be of the type in which the precision computes.",
        editions="2.2",
        needs="predict hooks_2.2", source="oracle 2.2.5", hooks="M.predict_step return",
        device="cpu cuda")
def opt_113(run):
    for name, (types, _, _) in PRECISIONS.items():
        t = run.predict(predict_batches=1, precision=name)
        t.equal("type with " + name, type_of(t.value[0]), types[2])


@clause("OPT-114", "Each older or shorter name of a precision MUST mean what it has come to be "
                   "called.",
        editions="2.2", needs="fit hooks_2.2", source="oracle 2.2.5",
        device="cpu cuda")
def opt_114(run):
    for given, name in ((32, "32-true"), ("32", "32-true"), (64, "64-true"), ("64", "64-true"),
                        ("bf16", "bf16-mixed"), (16, "16-mixed"), ("16", "16-mixed"),
                        (None, "32-true")):
        t = run.fit(train_batches=1, val_batches=0, precision=given)
        t.equal("precision", str(t.trainer.precision), name)
        t.count("M.training_step", 1)


def makes_once(self):
    """Make a layer, if there is none."""
    self.note("found", getattr(self, "made", None) is not None)
    if getattr(self, "made", None) is None:
        self.made = torch.nn.Linear(2, 1)
    self.note("on", self.made.weight.device.type)


def fit_validate_test(stage):
    """Fit, validate and test one module."""
    module = stage.module(configure_model=makes_once, configure_optimizers=for_all)
    module.note = stage.note
    trainer = stage.trainer(num_sanity_val_steps=0)
    for entry in ("fit", "validate", "test"):
        stage.call(entry, getattr(trainer, entry), module)
        stage.note("layer", id(module.made))
    stage.note("device", trainer.strategy.root_device.type)


def for_all(self):
    """Return an optimizer of what configure_model has made, too."""
    return torch.optim.SGD(self.parameters(), 0.1)


@clause("OPT-115", "configure_model MUST be called at each entry point, on the device of the run, "
        "so that what it has made at the first can stay.", editions="2.2",
        needs="fit validate test configure_model",
        source="seed 2.2 configure_model: called in each of "
        "fit/validate/test/predict in the same process", hooks="M.configure_model fires state",
        device="cpu cuda")
def opt_115(run):
    t = run.play(fit_validate_test)
    t.count("M.configure_model", 3)
    t.noted("found", False, True, True)
    t.noted("on", *t.noted("device") * 3)
    t.true("the layer is the same in all", len(set(t.noted("layer"))) == 1)


def counts_outputs(self, outputs):
    """Note how many outputs of each optimizer there are."""
    self.note("outputs", [len(each) for each in outputs])


def of_two(stage):
    """Fit three batches with two optimizers, and look at the outputs of the epoch."""
    module = stage.module(
        dict(train=3), configure_optimizers=both, training_epoch_end=counts_outputs,
        extra=("training_epoch_end",), without=("val_dataloader", "validation_step"),
        params={"training_step": "batch batch_idx optimizer_idx"})
    module.note = stage.note
    stage.call("fit", stage.trainer(num_sanity_val_steps=0).fit, module)


@clause("OPT-116", "With several optimizers training_epoch_end MUST get a list of outputs of each.",
        editions="1.5", needs="fit epoch_end_outputs older_hooks on_exception", device="cpu",
        source="pytorch-lightning 1.5.10", hooks="M.training_epoch_end arguments")
def opt_116(run):
    run.play(of_two).noted("outputs", [3, 3])


PLATEAU_BY_STEP = schedules(plateau, monitor="v", interval="step")


@clause("OPT-117", "A ReduceLROnPlateau with interval 'step' MUST step once behind each batch.",
        editions="2.2", needs="fit hooks_2.2 log", source="lightning 2.6.6",
        hooks="M.on_train_batch_end fires")
def opt_117(run):
    t = run.fit(train_batches=2, val_batches=0, module={
        "configure_optimizers": PLATEAU_BY_STEP, "training_step": logs_v})
    t.only("M.on_train_batch_end M.lr_scheduler_step(wrapped(O), Tensor) " * 2 + "M.on_train_end")


def lbfgs(self):
    """Return an optimizer that computes the loss several times in a step."""
    return torch.optim.LBFGS(self.parameters())


@clause("OPT-118", "With 16-bit AMP an optimizer that computes the loss several times in a step "
        "MUST be refused.", editions="beyond", needs="fit older_hooks", device="cpu",
        source="lightning 2.6.6, on a GPU")
def opt_118(run):
    t = run.fit(precision="16-mixed", module={"configure_optimizers": lbfgs}, fails=True)
    t.raises("MisconfigurationException", "LBFGS")
    t.only("C.on_exception", absent="M.training_step")
