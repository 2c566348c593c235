"""Callbacks: every hook of theirs, how overrides are called, who joins a run, the built-in ones."""

from ..clause import clause, torch

ENTRIES = ("fit", "validate", "test", "predict")

# The parameters of callback hooks in the editions 1.1 and 1.5, where they are not those of 2.2.
AS_IN_1_1 = """
setup stage | teardown stage | on_save_checkpoint | on_train_epoch_end outputs
on_train_batch_start batch batch_idx dataloader_idx
on_train_batch_end outputs batch batch_idx dataloader_idx
on_validation_batch_start batch batch_idx dataloader_idx
on_validation_batch_end outputs batch batch_idx dataloader_idx
on_test_batch_start batch batch_idx dataloader_idx
on_test_batch_end outputs batch batch_idx dataloader_idx
"""
AS_IN_1_5 = """
setup stage=None | teardown stage=None | on_before_optimizer_step optimizer opt_idx
on_train_batch_start batch batch_idx unused=0
on_train_batch_end outputs batch batch_idx unused=0
on_validation_batch_start batch batch_idx dataloader_idx
on_validation_batch_end outputs batch batch_idx dataloader_idx
on_test_batch_start batch batch_idx dataloader_idx
on_test_batch_end outputs batch batch_idx dataloader_idx
on_predict_batch_start batch batch_idx dataloader_idx
on_predict_batch_end outputs batch batch_idx dataloader_idx
on_predict_epoch_end outputs | on_load_checkpoint callback_state
"""


# Making the trainer.


@clause("CB-001", "While the Trainer is made, and then no more, on_init_start and then on_init_end "
        "MUST be called once on each callback, in list order, with the trainer alone.",
        editions="1.1 1.5", needs="older_hooks", source="seed 1.1 on_init_start; seed 1.5 "
        "on_init_start, on_init_end", hooks=["C.on_init_start fires arguments",
                                             "C.on_init_end fires arguments"])
def cb_001(run):
    t = run.scenario("older_fit")
    t.only("C.on_init_start(trainer) C.on_init_end(trainer)")
    t.call("Trainer").only("C.on_init_start C.on_init_end")


def look_at_init(stage):
    """Note what the two hooks see of the trainer."""
    def seen(self, trainer):
        found = [getattr(trainer, name, None) for name in ("lightning_module", "model")]
        stage.note("model", found)

    def end(self, trainer):
        seen(self, trainer)
        stage.note("settings", [trainer.max_epochs, trainer.callbacks[0] is self])

    Look = type("Look", (stage.impl.Callback,), {"on_init_start": seen, "on_init_end": end})
    stage.call("Trainer", stage.trainer, Look(), max_epochs=3)


@clause("CB-002", "In on_init_start and in on_init_end the trainer MUST have no model yet.",
        editions="1.1 1.5", needs="older_hooks", source="seed 1.5 on_init_start, on_init_end",
        hooks=["C.on_init_start state", "C.on_init_end state"])
def cb_002(run):
    run.play(look_at_init).noted("model", [None, None], [None, None])


@clause("CB-003", "In on_init_end the trainer's settings and callbacks MUST be there to be read.",
        editions="1.1 1.5", needs="older_hooks", source="seed 1.5 on_init_end: initialization ends",
        hooks="C.on_init_end state")
def cb_003(run):
    run.play(look_at_init).noted("settings", [3, True])


# Around a run.


@clause("CB-004", "At the beginning of each entry point, after prepare_data, setup MUST be called "
        "with its stage on the data module, the callbacks in list order, and the module.",
        editions="1.5 2.2", needs="datamodule", source="seed 1.5 setup; seed 2.2 setup, "
        "prepare_data", hooks=["C.setup fires arguments", "DM.setup fires arguments"])
def cb_004(run):
    for entry in ENTRIES:
        t = getattr(run, entry)(data={})
        t.only("D.prepare_data M.prepare_data D.setup({0}) C.setup({0}) M.setup({0})".format(entry))


@clause("CB-005", "At the end of each entry point teardown MUST be called with its stage on the "
        "data module, the callbacks in list order, and the module, as the last hook of all.",
        editions="1.5 2.2", needs="datamodule", source="seed 1.5 teardown; seed 2.2 teardown",
        hooks=["C.teardown fires arguments", "DM.teardown fires arguments"])
def cb_005(run):
    for entry in ENTRIES:
        last = "on_fit_end" if entry == "fit" else "on_%s_end" % entry.replace("date", "dation")
        t = getattr(run, entry)(data={})
        t.only("D.teardown({0}) C.teardown({0}) M.teardown({0})".format(entry))
        ends = [each.hook for each in t.events if each.hook.startswith(("on_", "teardown"))]
        t.equal("last hooks", ends[-5:], [last] + ["teardown"] * 4)


@clause("CB-006", "A setup or teardown whose stage has a default MUST be given the stage all the "
        "same.", editions="1.5", needs="older_hooks", source="seed 1.5 setup, teardown: stage=None",
        hooks=["C.setup arguments", "C.teardown arguments"])
def cb_006(run):
    t = run.fit(older=True, callback_params=AS_IN_1_5)
    t.only("C.setup(fit) C.teardown(fit)")
    t = run.validate(older=True, callback_params=AS_IN_1_5)
    t.only("C.setup(validate) C.teardown(validate)")


@clause("CB-007", "on_before_accelerator_backend_setup MUST be called at each entry point, between "
        "prepare_data and setup, on callbacks in list order.", editions="1.5",
        needs="older_hooks", source="seed 1.5 on_before_accelerator_backend_setup; trace 1.5.10 "
        "fit_basic", hooks="C.on_before_accelerator_backend_setup fires arguments")
def cb_007(run):
    for entry in ENTRIES:
        t = getattr(run, entry)(older=True)
        t.only("M.prepare_data C.on_before_accelerator_backend_setup() C.setup M.setup")


SHARDED = dict(older=True, extra=("configure_sharded_model",), without=("configure_model",))


@clause("CB-008", "on_configure_sharded_model MUST be called at each entry point on callbacks in "
        "list order, after setup and before the module's configure_sharded_model.", editions="1.5",
        needs="older_hooks", source="seed 1.5 on_configure_sharded_model; ruling 2",
        hooks="C.on_configure_sharded_model fires arguments")
def cb_008(run):
    for entry in ENTRIES:
        t = getattr(run, entry)(**SHARDED)
        t.only("C.setup M.setup C.on_configure_sharded_model() M.configure_sharded_model")


@clause("CB-009", "on_configure_sharded_model MUST be called before the module's configure_model.",
        editions="beyond", needs="older_hooks", source="ruling 2: configure_model is the newer "
        "name of configure_sharded_model", hooks="C.on_configure_sharded_model fires")
def cb_009(run):
    t = run.fit(older=True)
    t.only("M.setup C.on_configure_sharded_model M.configure_model M.configure_optimizers")


FULL = dict(max_epochs=2, sanity=1, train_batches=1, val_batches=1)


@clause("CB-010", "on_fit_start MUST be called once, on callbacks in list order and then on the "
        "module, between configure_optimizers and the sanity check.", editions="1.1 1.5 2.2",
        needs="fit", source="seed 1.5 on_fit_start; differences 10.13",
        hooks="CM.on_fit_start fires arguments")
def cb_010(run):
    t = run.fit(**FULL)
    t.only("M.configure_optimizers C.on_fit_start() M.on_fit_start() C.on_sanity_check_start")


@clause("CB-011", "on_fit_start and on_fit_end MUST NOT be called by validate, test and predict.",
        editions="1.5 2.2", needs="fit", source="seed 1.5 on_fit_start: when fit begins; "
        "differences 10.13", hooks=["CM.on_fit_start fires", "CM.on_fit_end fires"])
def cb_011(run):
    for entry in ENTRIES[1:]:
        t = getattr(run, entry)(data={})
        t.only("C.setup C.teardown", absent="CM.on_fit_start CM.on_fit_end")


@clause("CB-012", "on_pretrain_routine_start and then on_pretrain_routine_end MUST be called once "
        "on callbacks in list order, between on_fit_start and the sanity check.",
        editions="1.1 1.5", needs="older_hooks", source="seeds 1.1 and 1.5 "
        "on_pretrain_routine_start, on_pretrain_routine_end; traces 1.1.8 and 1.5.10 fit_basic",
        hooks=["C.on_pretrain_routine_start fires arguments",
               "C.on_pretrain_routine_end fires arguments"])
def cb_012(run):
    t = run.fit(older=True, **FULL)
    t.only("C.on_fit_start M.on_fit_start C.on_pretrain_routine_start() "
           "C.on_pretrain_routine_end() C.on_sanity_check_start")


@clause("CB-013", "on_train_start MUST be called once, after the sanity check and before the first "
        "epoch, on callbacks in list order and then on the module.", editions="1.1 1.5 2.2",
        needs="fit", source="seed 1.5 on_train_start; seed 2.2 on_train_start",
        hooks="CM.on_train_start fires arguments")
def cb_013(run):
    t = run.fit(**FULL)
    t.only("C.on_sanity_check_end C.on_train_start() M.on_train_start() "
           + "C.on_train_epoch_start M.on_train_epoch_start " * 2)


@clause("CB-014", "on_train_end and then on_fit_end MUST be called once, after the last epoch and "
        "before teardown, each on callbacks in list order and then on the module.",
        editions="1.1 1.5 2.2", needs="fit", source="seed 1.1 example; seed 1.5 on_train_end, "
        "on_fit_end", hooks=["CM.on_train_end fires arguments", "CM.on_fit_end fires arguments"])
def cb_014(run):
    t = run.fit(**FULL)
    t.only("C.on_train_epoch_start M.on_train_epoch_start " * 2 + "C.on_train_end() "
           "M.on_train_end() C.on_fit_end() M.on_fit_end() C.teardown M.teardown")


# The sanity check.

SANITY = dict(sanity=1, check_val_every_n_epoch=2)
EVALUATED = "C.on_{0}_start() C.on_{0}_epoch_start() {1}C.on_{0}_epoch_end() C.on_{0}_end() "
BATCH = "C.on_{0}_batch_start C.on_{0}_batch_end "


@clause("CB-015", "on_sanity_check_start and on_sanity_check_end MUST be called on callbacks in "
        "list order around the validation hooks of the sanity check.", editions="1.1 1.5 2.2",
        needs="fit", source="seeds 1.1 and 1.5 on_sanity_check_start, on_sanity_check_end",
        hooks=["C.on_sanity_check_start fires arguments", "C.on_sanity_check_end fires arguments"])
def cb_015(run):
    t = run.fit(**SANITY)
    checked = EVALUATED.format("validation", BATCH.format("validation"))
    t.only("C.on_sanity_check_start() %s C.on_sanity_check_end() C.on_train_start" % checked)


@clause("CB-016", "Without sanity steps, and without a validation loader, on_sanity_check_start and "
        "on_sanity_check_end MUST NOT be called.", editions="1.1 1.5 2.2", needs="fit",
        source="traces 1.5.10 and 2.2.5 fit_no_sanity, fit_no_val",
        hooks=["C.on_sanity_check_start fires", "C.on_sanity_check_end fires"])
def cb_016(run):
    for t in (run.fit(), run.fit(sanity=1, val_batches=0)):
        t.only("C.on_train_start", absent="C.on_sanity_check_start C.on_sanity_check_end")


# Training.


@clause("CB-017", "on_train_epoch_start MUST be called at the beginning of each training epoch, "
        "before its first batch is fetched, on callbacks in list order and then on the module.",
        editions="1.5 2.2", needs="fit", source="seed 1.5 on_train_epoch_start",
        hooks="CM.on_train_epoch_start fires arguments")
def cb_017(run):
    t = run.fit(max_epochs=2, train_batches=1, val_batches=0)
    t.only("C.on_train_epoch_start() M.on_train_epoch_start() M.on_before_batch_transfer "
           "C.on_train_batch_start " * 2)


@clause("CB-018", "on_train_epoch_start and on_train_epoch_end MUST be called once around the "
        "batches of each training epoch, on callbacks in list order and then on the module.",
        editions="1.1 1.5 2.2", needs="fit", source="seeds 1.1 and 1.5 on_train_epoch_start, "
        "on_train_epoch_end", hooks=["CM.on_train_epoch_start fires", "CM.on_train_epoch_end fires"])
def cb_018(run):
    t = run.fit(max_epochs=2, val_batches=0)
    t.only(("C.on_train_epoch_start M.on_train_epoch_start "
            + "C.on_train_batch_start C.on_train_batch_end " * 2
            + "C.on_train_epoch_end M.on_train_epoch_end ") * 2)


@clause("CB-019", "The validation of an epoch MUST be over, with all its hooks, when "
        "on_train_epoch_end is called.", editions="1.5 2.2", needs="fit",
        source="bug 2; differences 10.1", hooks="CM.on_train_epoch_end fires arguments")
def cb_019(run):
    t = run.fit(**dict(FULL, sanity=0))
    t.only("C.on_train_batch_end C.on_validation_start C.on_validation_end M.on_validation_end "
           "C.on_train_epoch_end() M.on_train_epoch_end() " * 2)


@clause("CB-020", "on_epoch_start MUST be called on callbacks right before on_train_epoch_start, "
        "and on_epoch_end right after the module's on_train_epoch_end.", editions="1.5",
        needs="older_hooks", source="seed 1.5 on_epoch_start, on_epoch_end",
        hooks=["C.on_epoch_start fires arguments", "C.on_epoch_end fires arguments"])
def cb_020(run):
    t = run.fit(older=True, val_batches=0, max_epochs=2)
    t.only("C.on_epoch_start() C.on_train_epoch_start M.on_train_epoch_start "
           "C.on_train_epoch_end M.on_train_epoch_end C.on_epoch_end() " * 2)


@clause("CB-021", "on_epoch_start and on_epoch_end MUST also be called right before "
        "on_{validation,test}_epoch_start and right after on_{validation,test}_epoch_end, sanity "
        "check included.", editions="1.5", needs="older_hooks", source="seed 1.5 on_epoch_start: "
        "either of train/val/test; trace 1.5.10 fit_basic",
        hooks=["C.on_epoch_start fires", "C.on_epoch_end fires"])
def cb_021(run):
    around = ("C.on_epoch_start() C.on_{0}_epoch_start M.on_{0}_epoch_start "
              "C.on_{0}_epoch_end M.on_{0}_epoch_end C.on_epoch_end() ")
    run.validate(older=True).only(around.format("validation"))
    run.test(older=True).only(around.format("test"))
    t = run.fit(older=True, **FULL)
    t.only(around.format("validation") + ("C.on_epoch_start %s C.on_epoch_end " % around.format(
        "validation")) * 2)


@clause("CB-022", "on_epoch_start and on_epoch_end MUST NOT be called for predict.", editions="1.5",
        needs="older_hooks predict", source="seed 1.5 on_epoch_start; ruling 4",
        hooks=["C.on_epoch_start fires", "C.on_epoch_end fires"])
def cb_022(run):
    t = run.predict(older=True)
    t.only("C.on_predict_epoch_start C.on_predict_epoch_end",
           absent="C.on_epoch_start C.on_epoch_end")


@clause("CB-023", "on_batch_start MUST be called on callbacks right before on_train_batch_start, "
        "with no batch.", editions="1.1 1.5", needs="older_hooks",
        source="seeds 1.1 and 1.5 on_batch_start; traces 1.1.8 and 1.5.10 fit_basic",
        hooks="C.on_batch_start fires arguments")
def cb_023(run):
    t = run.fit(older=True, val_batches=0, max_epochs=2)
    t.only("C.on_batch_start() C.on_train_batch_start M.on_train_batch_start M.training_step " * 4)


@clause("CB-024", "on_batch_end MUST be called once on each callback after the optimizer's step of "
        "each training batch.", editions="1.1 1.5", needs="older_hooks",
        source="seeds 1.1 and 1.5 on_batch_end", hooks="C.on_batch_end fires")
def cb_024(run):
    t = run.fit(older=True, val_batches=0, max_epochs=2)
    t.only("O.step { M.training_step } C.on_batch_end() " * 4)


@clause("CB-025", "on_batch_end MUST be called right after the module's on_train_batch_end.",
        editions="1.5", needs="older_hooks", source="trace 1.5.10 fit_basic; differences 2",
        hooks="C.on_batch_end fires arguments")
def cb_025(run):
    t = run.fit(older=True, val_batches=0, max_epochs=2)
    t.only("C.on_train_batch_end M.on_train_batch_end C.on_batch_end() " * 4)


@clause("CB-026", "on_batch_start and on_batch_end MUST NOT be called for batches of validation.",
        editions="1.1 1.5", needs="older_hooks", source="seed 1.5 on_batch_start: the training "
        "batch", hooks=["C.on_batch_start fires", "C.on_batch_end fires"])
def cb_026(run):
    t = run.fit(older=True, **FULL)
    t.only("C.on_validation_batch_start " + "C.on_batch_start C.on_batch_end "
           "C.on_validation_batch_start " * 2)


@clause("CB-027", "on_train_batch_start MUST be called for each training batch before its "
        "training_step, and on_train_batch_end after its optimizer step, on callbacks in list "
        "order and then on the module.", editions="1.1 1.5 2.2", needs="fit",
        source="seeds 1.1 and 1.5 on_train_batch_start, on_train_batch_end",
        hooks=["CM.on_train_batch_start fires", "CM.on_train_batch_end fires"])
def cb_027(run):
    t = run.fit(val_batches=0, max_epochs=2)
    t.only("C.on_train_batch_start M.on_train_batch_start O.step { M.training_step } "
           "C.on_train_batch_end M.on_train_batch_end " * 4)


@clause("CB-028", "on_before_zero_grad MUST be called with the optimizer after training_step and "
        "right before optimizer.zero_grad(), on callbacks in list order and then on the module.",
        editions="1.5 2.2", needs="fit", source="seed 1.5 on_before_zero_grad; ruling 5",
        hooks="CM.on_before_zero_grad fires arguments")
def cb_028(run):
    t = run.fit(val_batches=0, max_epochs=2)
    t.only("M.training_step C.on_before_zero_grad(O) M.on_before_zero_grad(O) O.zero_grad "
           "M.backward " * 4)


@clause("CB-029", "on_before_backward MUST be called with the loss right before loss.backward(), "
        "on callbacks in list order and then on the module.", editions="1.5 2.2", needs="fit",
        source="seed 1.5 on_before_backward", hooks="CM.on_before_backward fires arguments")
def cb_029(run):
    t = run.fit(val_batches=0, max_epochs=2)
    t.only("O.zero_grad C.on_before_backward(Tensor) M.on_before_backward(Tensor) M.backward " * 4)


@clause("CB-030", "on_after_backward MUST be called after loss.backward() and before the optimizer "
        "steps, on callbacks in list order and then on the module.", editions="1.5 2.2",
        needs="fit", source="seed 1.5 on_after_backward",
        hooks="CM.on_after_backward fires arguments")
def cb_030(run):
    t = run.fit(val_batches=0, max_epochs=2)
    t.only("M.backward C.on_after_backward() M.on_after_backward() C.on_before_optimizer_step "
           "C.on_train_batch_end " * 4)


@clause("CB-031", "on_before_optimizer_step MUST be called with the optimizer after "
        "on_after_backward and before clipping, on callbacks in list order and then on the module.",
        editions="1.5 2.2", needs="fit", source="seed 1.5 on_before_optimizer_step; seed 2.2 "
        "on_before_optimizer_step", hooks="CM.on_before_optimizer_step fires")
def cb_031(run):
    t = run.fit(val_batches=0, max_epochs=2)
    t.only("M.on_after_backward C.on_before_optimizer_step M.on_before_optimizer_step "
           "M.configure_gradient_clipping " * 4)


def keep_loss(self, batch, batch_idx):
    """Return a loss, and note it."""
    loss = self(batch).sum()
    self.note("loss", loss.item())
    return loss


def note_loss(self, trainer, module, loss):
    """Note the loss."""
    self.note("before backward", loss.item())


def note_outputs(self, trainer, module, outputs, batch, batch_idx):
    """Note the loss in the outputs."""
    self.note("at batch end", outputs["loss"].item())
    self.note("attached", outputs["loss"].requires_grad)


LOSSES = dict(val_batches=0, module={"training_step": keep_loss},
              c1={"on_before_backward": note_loss, "on_train_batch_end": note_outputs})


@clause("CB-032", "on_before_backward MUST receive the loss that training_step returned, and "
        "on_train_batch_end the same in its outputs, detached.", editions="1.5 2.2", needs="fit",
        source="seed 1.5 on_before_backward; design 5",
        hooks=["C.on_before_backward arguments", "C.on_train_batch_end arguments"])
def cb_032(run):
    t = run.fit(**LOSSES)
    losses = t.noted("loss")
    t.count("M.training_step", 2)
    t.noted("before backward", *losses)
    t.noted("at batch end", *losses)
    t.noted("attached", False, False)


def gradient(trainer, module):
    """Return whether the weight has a gradient that is not zero."""
    grad = module.layer.weight.grad
    return grad is not None and bool(grad.abs().sum() > 0)


GRADIENTS = {"c1." + hook: gradient for hook in (
    "on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step",
    "on_train_batch_end")}


@clause("CB-033", "The gradients MUST be those of the step before in on_before_zero_grad, none in "
        "on_before_backward, and those of this step from on_after_backward on.",
        editions="1.5 2.2", needs="fit", source="seed 1.5 on_before_zero_grad, "
        "on_before_backward, on_after_backward", hooks=[
            "C.on_before_zero_grad state", "C.on_before_backward state",
            "C.on_after_backward state", "C.on_before_optimizer_step state",
            "C.on_train_batch_end state"])
def cb_033(run):
    t = run.fit(val_batches=0, look=GRADIENTS)
    t.looked("c1.on_before_zero_grad", False, True)
    t.looked("c1.on_before_backward", False, False)
    t.looked("c1.on_after_backward", True, True)
    t.looked("c1.on_before_optimizer_step", True, True)
    t.looked("c1.on_train_batch_end", True, True)


def bias(trainer, module):
    """Return the bias: with a gradient of 1 and a rate of 0.1 it falls by 0.1 a step."""
    return round(module.layer.bias.item(), 4)


BIAS = {"c1." + hook: bias for hook in (
    "on_train_batch_start", "on_after_backward", "on_before_optimizer_step", "on_train_batch_end")}


@clause("CB-034", "The weights MUST be those before the step in on_after_backward and "
        "on_before_optimizer_step, and those after it in on_train_batch_end.",
        editions="1.5 2.2", needs="fit", source="seed 1.5 on_after_backward: before optimizers are "
        "stepped; on_before_optimizer_step", hooks=[
            "C.on_after_backward state", "C.on_before_optimizer_step state",
            "C.on_train_batch_end state"])
def cb_034(run):
    t = run.fit(val_batches=0, look=BIAS)
    first, second = t.looked("c1.on_train_batch_start")
    t.looked("c1.on_after_backward", first, first - 0.1)
    t.looked("c1.on_before_optimizer_step", first, first - 0.1)
    t.looked("c1.on_train_batch_end", first - 0.1, first - 0.2)
    t.equal("bias of the second batch", second, first - 0.1)


# Evaluation.


@clause("CB-035", "The validation hooks of a callback MUST be called start, epoch start, for each "
        "batch its start and end, epoch end, end, on callbacks in list order.",
        editions="1.1 1.5 2.2", needs="fit", source="seeds 1.1 and 1.5 on_validation_start, "
        "on_validation_epoch_start, on_validation_batch_start, on_validation_batch_end, "
        "on_validation_epoch_end, on_validation_end", hooks=[
            "C.on_validation_start fires arguments", "C.on_validation_epoch_start fires arguments",
            "C.on_validation_batch_start fires", "C.on_validation_batch_end fires",
            "C.on_validation_epoch_end fires arguments", "C.on_validation_end fires arguments"])
def cb_035(run):
    run.fit(max_epochs=2).only(EVALUATED.format("validation", BATCH.format("validation") * 2) * 2)


@clause("CB-036", "The test hooks of a callback MUST be called start, epoch start, for each batch "
        "its start and end, epoch end, end, on callbacks in list order.",
        editions="1.1 1.5 2.2", needs="test", source="seeds 1.1 and 1.5 on_test_start, "
        "on_test_epoch_start, on_test_batch_start, on_test_batch_end, on_test_epoch_end, "
        "on_test_end", hooks=[
            "C.on_test_start fires arguments", "C.on_test_epoch_start fires arguments",
            "C.on_test_batch_start fires", "C.on_test_batch_end fires",
            "C.on_test_epoch_end fires arguments", "C.on_test_end fires arguments"])
def cb_036(run):
    run.test().only(EVALUATED.format("test", BATCH.format("test") * 2))


WITH_MODULE = """C.on_{0}_start M.on_{0}_start C.on_{0}_epoch_start M.on_{0}_epoch_start
C.on_{0}_batch_start M.on_{0}_batch_start M.{0}_step C.on_{0}_batch_end M.on_{0}_batch_end
C.on_{0}_batch_start M.on_{0}_batch_start M.{0}_step C.on_{0}_batch_end M.on_{0}_batch_end
C.on_{0}_epoch_end M.on_{0}_epoch_end C.on_{0}_end M.on_{0}_end"""


@clause("CB-037", "Each hook of validate, test and predict MUST be called on callbacks in list "
        "order and then on the module, and the batch hooks around the module's step.",
        editions="1.5 2.2", needs="validate test predict", source="seed 1.5 on_validation_*, "
        "on_test_*, on_predict_*", hooks=[
            "CM.on_validation_start fires", "CM.on_validation_epoch_start fires",
            "CM.on_validation_batch_start fires", "CM.on_validation_batch_end fires",
            "CM.on_validation_epoch_end fires", "CM.on_validation_end fires",
            "CM.on_test_start fires", "CM.on_test_epoch_start fires",
            "CM.on_test_batch_start fires", "CM.on_test_batch_end fires",
            "CM.on_test_epoch_end fires", "CM.on_test_end fires",
            "CM.on_predict_start fires", "CM.on_predict_epoch_start fires",
            "CM.on_predict_batch_start fires", "CM.on_predict_batch_end fires",
            "CM.on_predict_epoch_end fires", "CM.on_predict_end fires"])
def cb_037(run):
    run.validate().only(WITH_MODULE.format("validation"))
    run.test().only(WITH_MODULE.format("test"))
    run.predict().only(WITH_MODULE.format("predict"))


def two_loaders(self):
    """Return two loaders, of two batches and of one."""
    return [torch.utils.data.DataLoader(torch.ones(rows, 2), batch_size=1) for rows in (2, 1)]


def two(entry):
    """Return a configuration of an entry point with two loaders."""
    kind = {"validate": "val"}.get(entry, entry)
    return {"module": {kind + "_dataloader": two_loaders}}


@clause("CB-038", "The batch hooks of validate, test and predict MUST receive the batch, its index "
        "in its loader, and with several loaders the loader's index, and the end hooks before "
        "these what the step returned.", editions="2.2", needs="validate test predict",
        source="seed 2.2 on_validation_batch_end; differences 3 validate_two_dataloaders", hooks=[
            "C.on_validation_batch_start arguments", "C.on_validation_batch_end arguments",
            "C.on_test_batch_start arguments", "C.on_test_batch_end arguments",
            "C.on_predict_batch_start arguments", "C.on_predict_batch_end arguments"])
def cb_038(run):
    for entry in ENTRIES[1:]:
        t, kind = getattr(run, entry)(**two(entry)), entry.replace("date", "dation")
        for who in ("c1", "c2", "M"):
            t.args("%s.on_%s_batch_start" % (who, kind), "Tensor, 0", "Tensor, 1",
                   "Tensor, 0, 1")
            t.args("%s.on_%s_batch_end" % (who, kind), "Tensor, Tensor, 0", "Tensor, Tensor, 1",
                   "Tensor, Tensor, 0, 1")


# The state at each hook, and what a hook returns.

SEEN = """
[{0} T G training] c1.setup(fit) c1.on_fit_start() [sanity_checking] c1.on_sanity_check_start()
[E g] c1.on_validation_start() c1.on_validation_epoch_start()
c1.on_validation_batch_start(Tensor, 0) c1.on_validation_batch_end(Tensor, Tensor, 0)
c1.on_validation_epoch_end() c1.on_validation_end()
[T G] c1.on_sanity_check_end() [training] c1.on_train_start() c1.on_train_epoch_start()
c1.on_train_batch_start(Tensor, 0) c1.on_before_zero_grad(O) c1.on_before_backward(Tensor)
c1.on_after_backward() c1.on_before_optimizer_step
[{1}] c1.on_train_batch_end(dict(loss), Tensor, 0)
c1.on_train_batch_start(Tensor, 1) c1.on_before_zero_grad(O) c1.on_before_backward(Tensor)
c1.on_after_backward() c1.on_before_optimizer_step
[{1}] c1.on_train_batch_end(dict(loss), Tensor, 1)
[E g validating] c1.on_validation_start() c1.on_validation_epoch_start()
c1.on_validation_batch_start(Tensor, 0) c1.on_validation_batch_end(Tensor, Tensor, 0)
c1.on_validation_epoch_end() c1.on_validation_end() [T G training] c1.on_train_epoch_end()
[{2}] c1.on_train_end() c1.on_fit_end() c1.teardown(fit)
"""
OF_FIT = """
setup on_fit_start on_sanity_check_start on_validation_start on_validation_epoch_start
on_validation_batch_start on_validation_batch_end on_validation_epoch_end on_validation_end
on_sanity_check_end on_train_start on_train_epoch_start on_train_batch_start on_before_zero_grad
on_before_backward on_after_backward on_before_optimizer_step on_train_batch_end
on_train_epoch_end on_train_end on_fit_end teardown
""".split()
OF_EVALUATION = [
    "on_%s_%s" % (kind, event) for kind in ("validation", "test", "predict")
    for event in ("start", "epoch_start", "batch_start", "batch_end", "epoch_end", "end")]
OLDER = """
on_before_accelerator_backend_setup on_configure_sharded_model on_pretrain_routine_start
on_pretrain_routine_end on_epoch_start on_batch_start on_batch_end on_epoch_end
""".split()


@clause("CB-039", "In fit, a callback's hooks MUST find the module in eval mode with gradients off "
        "inside validation and the sanity check, and in train mode with gradients on outside.",
        editions="1.5 2.2", needs="fit", source="traces 1.5.10 and 2.2.5 fit_basic; differences "
        "1.1, 10.14", hooks=["C.%s state" % hook for hook in OF_FIT])
def cb_039(run):
    run.fit(sanity=1, val_batches=1).only(SEEN.format("", "", ""))


@clause("CB-040", "global_step MUST count in on_train_batch_end the step just taken, and "
        "current_epoch the finished epoch from on_train_end on.", editions="2.2", needs="fit",
        source="trace 2.2.5 fit_basic; differences 10.2, 10.3",
        hooks=["C.%s state" % hook for hook in OF_FIT])
def cb_040(run):
    run.fit(sanity=1, val_batches=1).only(SEEN.format("step=0 epoch=0", "step+1", "epoch+1"))


OLDER_SEEN = """
[{0} T G training] c1.on_before_accelerator_backend_setup c1.on_configure_sharded_model
c1.on_pretrain_routine_start c1.on_pretrain_routine_end
[E g sanity_checking] c1.on_epoch_start c1.on_epoch_end
[T G training] c1.on_epoch_start c1.on_batch_start [{1}] c1.on_batch_end
[E g validating] c1.on_epoch_start c1.on_epoch_end [T G training] c1.on_epoch_end
"""


@clause("CB-041", "The hooks that only older editions have MUST find the module in eval mode with "
        "gradients off inside validation and the sanity check, and in train mode with gradients on "
        "outside.", editions="1.5", needs="older_hooks", source="trace 1.5.10 fit_basic",
        hooks=["C.%s state" % hook for hook in OLDER])
def cb_041(run):
    run.fit(older=True, sanity=1, train_batches=1).only(OLDER_SEEN.format("", ""))


@clause("CB-042", "The hooks that only older editions have MUST see the counters of edition 2.2.",
        editions="beyond", needs="older_hooks", source="design 2: one engine and one order",
        hooks=["C.%s state" % hook for hook in OLDER])
def cb_042(run):
    t = run.fit(older=True, sanity=1, train_batches=1)
    t.only(OLDER_SEEN.format("step=0 epoch=0", "step+1"))


ALONE = """
[{0} {1} T G] c1.setup({2}) [E {3}] c1.on_{4}_start() c1.on_{4}_epoch_start()
c1.on_{4}_batch_start(Tensor, 0) c1.on_{4}_batch_end(Tensor, Tensor, 0)
c1.on_{4}_batch_start(Tensor, 1) c1.on_{4}_batch_end(Tensor, Tensor, 1)
c1.on_{4}_epoch_end() c1.on_{4}_end() [T G] c1.teardown({2})
"""
KINDS = (("validate", "validating", "validation"), ("test", "testing", "test"),
         ("predict", "predicting", "predict"))


@clause("CB-043", "In validate, test and predict, a callback's hooks MUST find the module in eval "
        "mode under inference_mode, except setup and teardown, and the counters untouched.",
        editions="2.2", needs="validate test predict", source="traces 2.2.5 validate, test, "
        "predict; differences 10.24", hooks=["C.%s state" % hook for hook in OF_EVALUATION])
def cb_043(run):
    for entry, stage, kind in KINDS:
        t = getattr(run, entry)()
        t.only(ALONE.format(stage, "step=0 epoch=0", entry, "i", kind))


@clause("CB-044", "In validate, test and predict, a callback's hooks MUST find the module in eval "
        "mode with gradients off.", editions="1.5", needs="validate test predict",
        source="traces 1.5.10 validate, test, predict",
        hooks=["C.%s state" % hook for hook in OF_EVALUATION])
def cb_044(run):
    for entry, stage, kind in KINDS:
        t = getattr(run, entry)()
        names = [hook for hook in OF_EVALUATION if kind in hook]
        seen = [(each.hook, each.mode, each.grad == "G", each.stage)
                for each in t.events if each.who == "c1" and each.hook in names]
        order = names[:2] + names[2:4] * 2 + names[4:]
        t.equal("state", seen, [(hook, "E", False, stage) for hook in order])


def minus_one(self, *args, **named):
    """Return what would mean something elsewhere."""
    return -1


RETURNING = dict.fromkeys(OF_FIT + OF_EVALUATION, minus_one)


def others(t):
    """Return all that happened to all but c1."""
    return [tuple(each) for each in t.events if each.who != "c1"]


@clause("CB-045", "What a callback's hook returns MUST be ignored, on_save_checkpoint excepted.",
        editions="1.1 1.5 2.2", needs="fit test", source="seed 1.5: return type None; differences "
        "10.7", hooks=["C.%s return" % hook for hook in OF_FIT + OF_EVALUATION])
def cb_045(run):
    plain, t = run.fit(sanity=1), run.fit(sanity=1, c1=RETURNING)
    t.count("c1.on_train_batch_start", 2)
    t.equal("events of the others", others(t), others(plain))
    for entry in ENTRIES[1:]:
        if hasattr(run.impl.Trainer, entry):
            plain, t = getattr(run, entry)(), getattr(run, entry)(c1=RETURNING)
            t.count("c1.setup", 1)
            t.equal("events of the others", others(t), others(plain))
            t.equal("what %s returned" % entry, str(t.value), str(plain.value))


@clause("CB-046", "What a hook that only older editions have returns MUST be ignored.",
        editions="1.1 1.5", needs="older_hooks", source="seed 1.5: return type None",
        hooks=["C.%s return" % hook for hook in OLDER])
def cb_046(run):
    plain = run.fit(older=True, sanity=1)
    t = run.fit(older=True, sanity=1, c1=dict.fromkeys(OLDER, minus_one))
    t.count("c1.on_batch_start", 2)
    t.equal("events of the others", others(t), others(plain))


# Errors and interrupts.


def boom(self, *args, **named):
    """Fail."""
    raise RuntimeError("boom")


def interrupt(self, *args):
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def leave(self, *args):
    """End the program."""
    raise SystemExit(3)


def note_error(self, trainer, module, exception):
    """Note the error, and try to swallow it."""
    self.note("exception", exception)
    return True


FAILS = dict(fails=True, sanity=0, c1={"on_exception": note_error})
IN_FIT = ({"training_step": boom}, {"validation_step": boom}, {"on_train_epoch_end": boom},
          {"configure_optimizers": boom}, {"setup": boom})


@clause("CB-047", "When a run fails, on_exception MUST be called once on each callback in list "
        "order, wherever the error was raised, and then the error propagates.",
        editions="1.5 2.2", needs="on_exception", source="seed 1.5 on_exception; bug 8",
        hooks=["C.on_exception fires arguments"])
def cb_047(run):
    for does in IN_FIT:
        t = run.fit(module=does, **FAILS)
        t.only("M.%s C.on_exception(RuntimeError)" % "".join(does))
        t.raises("RuntimeError", "boom")
    for entry, step in zip(ENTRIES[1:], ("validation_step", "test_step", "predict_step")):
        t = getattr(run, entry)(module={step: boom}, **FAILS)
        t.only("M.%s C.on_exception(RuntimeError)" % step)
        t.raises("RuntimeError", "boom")


@clause("CB-048", "on_exception MUST receive the very object that was raised, and its return value "
        "does not swallow it.", editions="1.5 2.2", needs="on_exception",
        source="bug 8; seed 1.5 on_exception: return type None",
        hooks=["C.on_exception arguments return"])
def cb_048(run):
    t = run.fit(module={"training_step": boom}, **FAILS)
    t.raises("RuntimeError", "boom")
    t.equal("exceptions", len(t.noted("exception")), 1)
    t.true("on_exception got the object that was raised", t.noted("exception")[0] is t.error)


@clause("CB-049", "After an error, on_train_end, on_fit_end and teardown MUST NOT be called.",
        editions="1.5 2.2", needs="on_exception datamodule", source="bug 8; differences 10.10",
        hooks=["CM.on_train_end fires", "CM.on_fit_end fires", "CDM.teardown fires"])
def cb_049(run):
    for does in IN_FIT[:3]:
        t = run.fit(module=does, data={}, **FAILS)
        t.only("C.on_exception", absent="CM.on_train_end CM.on_fit_end CDM.teardown")


@clause("CB-050", "on_exception MUST be called on all callbacks also when one of them raised, and "
        "on those whose setup was not yet called.", editions="1.5 2.2", needs="on_exception",
        source="traces 1.5.10 and 2.2.5 exception_in_callback_setup",
        hooks="C.on_exception fires")
def cb_050(run):
    t = run.fit(fails=True, c1={"setup": boom})
    t.only("c1.setup C.on_exception", absent="c2.setup M.setup")


def note_status(self, trainer, module, exception):
    """Note what the trainer says of itself."""
    status = trainer.state.status
    self.note("status", getattr(status, "value", status))
    self.note("stopped", trainer.should_stop)


@clause("CB-051", "In on_exception the trainer's status MUST be interrupted, and the module as the "
        "error left it.", editions="1.5 2.2", needs="on_exception", source="bug 8; differences 5",
        hooks="C.on_exception state")
def cb_051(run):
    config = dict(fails=True, c1={"on_exception": note_status})
    t = run.fit(module={"training_step": boom}, **config)
    t.noted("status", "interrupted")
    t.only("[T] C.on_exception")
    t = run.fit(module={"validation_step": boom}, **config)
    t.only("[E] C.on_exception")


@clause("CB-052", "After an error inside an evaluation gradients MUST be on again.",
        editions="1.5 2.2", needs="on_exception test", source="bug 8; differences 5",
        hooks="C.on_exception state")
def cb_052(run):
    for t in (run.fit(module={"validation_step": boom}, **FAILS),
              run.test(module={"test_step": boom}, **FAILS)):
        t.only("C.on_exception")
        t.equal("gradients", t.after["grad_enabled"], True)


@clause("CB-053", "on_exception MUST be called for SystemExit as well, which then propagates.",
        editions="1.5 2.2", needs="on_exception", source="seed 1.5 on_exception: any execution; "
        "traces system_exit_in_training_step", hooks="C.on_exception fires")
def cb_053(run):
    t = run.fit(module={"training_step": leave}, **FAILS)
    t.only("C.on_exception(SystemExit)", absent="M.on_train_end M.teardown")
    t.equal("exit code", t.raises("SystemExit").code, 3)


def second(self, trainer, module, exception):
    """Fail while handling a failure."""
    raise ValueError("second")


@clause("CB-054", "When on_exception raises, the handlers of the other callbacks MUST run all the "
        "same, and the first error propagates with the later one attached.", editions="beyond",
        needs="on_exception", source="ruling 8", hooks="C.on_exception fires")
def cb_054(run):
    t = run.fit(fails=True, module={"training_step": boom}, c1={"on_exception": second})
    t.only("C.on_exception(RuntimeError)")
    error = t.raises("RuntimeError", "boom")
    later = repr(getattr(error, "later_errors", "")) + repr(getattr(error, "__notes__", ""))
    t.true("the later error is attached to the first", "ValueError" in later and "second" in later)


@clause("CB-055", "A data module's on_exception MUST be called with the error, after that of the "
        "callbacks.", editions="2.2", needs="datamodule_on_exception",
        source="design 2.4; trace 2.6.6 exception_in_training_step_with_datamodule; bug 8",
        hooks="C.on_exception fires")
def cb_055(run):
    t = run.fit(module={"training_step": boom}, data={}, **FAILS)
    t.only("C.on_exception D.on_exception(RuntimeError)")


@clause("CB-056", "On Ctrl-C, on_keyboard_interrupt MUST be called once on each callback, in list "
        "order, before fit returns.", editions="1.1 1.5", needs="older_hooks",
        source="seeds 1.1 and 1.5 on_keyboard_interrupt; traces keyboard_interrupt_in_training_step",
        hooks="C.on_keyboard_interrupt fires arguments")
def cb_056(run):
    t = run.fit(older=True, module={"training_step": interrupt})
    t.only("M.training_step C.on_keyboard_interrupt()")


@clause("CB-057", "on_keyboard_interrupt MUST be called on all callbacks before on_exception, which "
        "gets the KeyboardInterrupt.", editions="1.5", needs="older_hooks on_exception",
        source="seed 1.5 on_keyboard_interrupt, on_exception; trace 1.5.10 "
        "keyboard_interrupt_in_training_step", hooks=[
            "C.on_keyboard_interrupt fires", "C.on_exception fires arguments"])
def cb_057(run):
    t = run.fit(older=True, module={"training_step": interrupt})
    t.only("C.on_keyboard_interrupt() C.on_exception(KeyboardInterrupt)",
           absent="CM.on_train_end CM.on_fit_end CM.teardown")
    t.equal("fit returned", t.value, None)


@clause("CB-058", "On Ctrl-C, on_exception MUST be called once with the KeyboardInterrupt, no hook "
        "of a normal end follows, and the entry point returns.", editions="1.5 2.2",
        needs="on_exception validate", source="bug 7; design 5; traces 1.5.10 and 2.2.5 "
        "keyboard_interrupt_in_training_step, keyboard_interrupt_in_validate",
        hooks="C.on_exception fires arguments")
def cb_058(run):
    t = run.fit(module={"training_step": interrupt})
    t.only("C.on_exception(KeyboardInterrupt)", absent="CM.on_train_end CM.on_fit_end CM.teardown")
    t.equal("fit returned", t.value, None)
    t = run.validate(module={"validation_step": interrupt})
    t.only("C.on_exception(KeyboardInterrupt)", absent="CM.on_validation_end CM.teardown")
    t.equal("validate returned", t.value, None)


@clause("CB-059", "After Ctrl-C trainer.interrupted MUST be true.", editions="1.5 2.2",
        needs="on_exception", source="bug 7; design 5", hooks="C.on_exception state")
def cb_059(run):
    t = run.fit(fails=True, module={"training_step": interrupt})
    t.count("c1.on_exception", 1)
    t.equal("interrupted", t.after["interrupted"], True)
    t.equal("status", t.after["status"], "INTERRUPTED")


@clause("CB-060", "After Ctrl-C a warning MUST say that the run was interrupted.",
        editions="beyond", needs="on_exception", source="bug 7; design 5")
def cb_060(run):
    run.fit(module={"training_step": interrupt}).warned("interrupted")


@clause("CB-061", "In on_keyboard_interrupt the stage MUST still be the one that was interrupted, "
        "and what the hook returns is ignored.", editions="1.5", needs="older_hooks on_exception",
        source="differences 5; trace 1.5.10 keyboard_interrupt_in_training_step",
        hooks="C.on_keyboard_interrupt state return")
def cb_061(run):
    t = run.fit(older=True, module={"training_step": interrupt},
                c1={"on_keyboard_interrupt": minus_one})
    t.only("[T G training] C.on_keyboard_interrupt C.on_exception")
    t.equal("fit returned", t.value, None)


# How overrides are called: their parameters decide, once, when a run begins.


@clause("CB-062", "Overrides with the signatures of edition 1.1 MUST be called with what that "
        "edition passed, dataloader_idx always among it.", editions="1.1", needs="older_hooks test",
        source="seed 1.1 on_train_batch_start, on_validation_batch_start, on_test_batch_start",
        hooks=["C.on_train_batch_start arguments", "C.on_validation_batch_start arguments",
               "C.on_validation_batch_end arguments", "C.on_test_batch_start arguments",
               "C.on_test_batch_end arguments", "C.setup arguments", "C.teardown arguments"])
def cb_062(run):
    t = run.fit(older=True, callback_params=AS_IN_1_1)
    for who in ("c1", "c2"):
        t.args(who + ".setup", "fit")
        t.args(who + ".on_train_batch_start", "Tensor, 0, 0", "Tensor, 1, 0")
        t.args(who + ".on_validation_batch_start", "Tensor, 0, 0", "Tensor, 1, 0")
        t.args(who + ".on_validation_batch_end", "Tensor, Tensor, 0, 0", "Tensor, Tensor, 1, 0")
        t.args(who + ".teardown", "fit")
    t = run.test(older=True, callback_params=AS_IN_1_1, **two("test"))
    for who in ("c1", "c2"):
        t.args(who + ".on_test_batch_start", "Tensor, 0, 0", "Tensor, 1, 0", "Tensor, 0, 1")
        t.args(who + ".on_test_batch_end", "Tensor, Tensor, 0, 0", "Tensor, Tensor, 1, 0",
               "Tensor, Tensor, 0, 1")


def results(outputs):
    """Return the dicts, one for each batch, of outputs nested in whatever way."""
    if isinstance(outputs, dict):
        return [outputs]
    return [each for inner in outputs for each in results(inner)]


def note_older_outputs(self, trainer, module, outputs, batch, batch_idx, dataloader_idx):
    """Note how many batches' results there are, the index of the batch and of the loader."""
    self.note("batch end", [len(results(outputs)), batch_idx, dataloader_idx])


def note_all_outputs(self, trainer, module, outputs):
    """Note how many batches' results there are."""
    self.note("epoch end", len(results(outputs)))


OLDER_OUTPUTS = dict(older=True, callback_params=AS_IN_1_1, max_epochs=2, c1={
    "on_train_batch_end": note_older_outputs, "on_train_epoch_end": note_all_outputs})


@clause("CB-063", "An on_train_batch_end with the signature of edition 1.1 MUST receive the outputs "
        "of its batch, the batch, its index and a dataloader_idx of 0.", editions="1.1",
        needs="older_hooks", source="seed 1.1 on_train_batch_end",
        hooks="C.on_train_batch_end arguments")
def cb_063(run):
    run.fit(**OLDER_OUTPUTS).noted("batch end", [1, 0, 0], [1, 1, 0], [1, 0, 0], [1, 1, 0])


@clause("CB-064", "An on_train_epoch_end with the signature of edition 1.1 MUST receive the outputs "
        "of all training batches of its epoch.", editions="1.1", needs="older_hooks",
        source="seed 1.1 on_train_epoch_end; design 4", hooks="C.on_train_epoch_end arguments")
def cb_064(run):
    run.fit(**OLDER_OUTPUTS).noted("epoch end", 2, 2)


@clause("CB-065", "The outputs of on_train_epoch_end MUST be a list of what on_train_batch_end "
        "received, in order.", editions="beyond", needs="older_hooks", source="design 4: the "
        "epoch's training_step outputs", hooks="C.on_train_epoch_end arguments")
def cb_065(run):
    t = run.fit(callback_params="on_train_epoch_end outputs", max_epochs=2)
    for who in ("c1", "c2"):
        t.args(who + ".on_train_epoch_end", "[dict(loss),dict(loss)]", "[dict(loss),dict(loss)]")


@clause("CB-066", "Overrides with the signatures of edition 1.5 MUST be called in fit with what "
        "that edition passed, opt_idx and dataloader_idx among it.", editions="1.5",
        needs="older_hooks on_exception", source="seed 1.5", hooks=[
            "C.setup arguments", "C.on_train_batch_start arguments",
            "C.on_before_optimizer_step arguments", "C.on_train_batch_end arguments",
            "C.on_validation_batch_start arguments", "C.on_validation_batch_end arguments",
            "C.teardown arguments"])
def cb_066(run):
    t = run.fit(older=True, callback_params=AS_IN_1_5)
    for who in ("c1", "c2"):
        t.args(who + ".setup", "fit")
        t.args(who + ".on_train_batch_start", "Tensor, 0", "Tensor, 1")
        t.args(who + ".on_before_optimizer_step", "O, 0", "O, 0")
        t.args(who + ".on_train_batch_end", "dict(loss), Tensor, 0", "dict(loss), Tensor, 1")
        t.args(who + ".on_validation_batch_start", "Tensor, 0, 0", "Tensor, 1, 0")
        t.args(who + ".on_validation_batch_end", "Tensor, Tensor, 0, 0", "Tensor, Tensor, 1, 0")
        t.args(who + ".teardown", "fit")


@clause("CB-067", "Overrides with the signatures of edition 1.5 MUST be called in validate, test "
        "and predict with dataloader_idx, whether there are several loaders or one.",
        editions="1.5", needs="older_hooks on_exception validate predict", source="seed 1.5 "
        "on_validation_batch_start, on_test_batch_start, on_predict_batch_start", hooks=[
            "C.on_validation_batch_start arguments", "C.on_validation_batch_end arguments",
            "C.on_test_batch_start arguments", "C.on_test_batch_end arguments",
            "C.on_predict_batch_start arguments", "C.on_predict_batch_end arguments"])
def cb_067(run):
    for entry, _, kind in KINDS:
        for config, more in (({}, ()), (two(entry), ("0, 1",))):
            t = getattr(run, entry)(older=True, callback_params=AS_IN_1_5, **config)
            places = ("0, 0", "1, 0") + more
            for who in ("c1", "c2"):
                t.args("%s.on_%s_batch_start" % (who, kind), *["Tensor, " + at for at in places])
                t.args("%s.on_%s_batch_end" % (who, kind),
                       *["Tensor, Tensor, " + at for at in places])


@clause("CB-068", "An on_predict_epoch_end with the signature of edition 1.5 MUST receive the "
        "predictions, a list for each loader.", editions="1.5", needs="older_hooks predict",
        source="seed 1.5 on_predict_epoch_end", hooks="C.on_predict_epoch_end arguments")
def cb_068(run):
    t = run.predict(older=True, callback_params=AS_IN_1_5)
    t.args("c1.on_predict_epoch_end", "[[Tensor,Tensor]]")
    t = run.predict(older=True, callback_params=AS_IN_1_5, **two("predict"))
    t.args("c1.on_predict_epoch_end", "[[Tensor,Tensor],[Tensor]]")
    t.args("c2.on_predict_epoch_end", "[[Tensor,Tensor],[Tensor]]")


def keep_none(stage):
    """Predict with return_predictions=False and a callback that asks for the outputs."""
    def ask(self, trainer, pl_module, outputs):
        stage.note("outputs", stage.recorder.word(outputs))

    Asks = type("Asks", (stage.impl.Callback,), {"on_predict_epoch_end": ask})
    trainer = stage.trainer(Asks())
    stage.call("predict", trainer.predict, stage.module(), return_predictions=False)


@clause("CB-069", "An on_predict_epoch_end that asks for the outputs MUST get them also when "
        "predict itself returns none.", editions="beyond", needs="older_hooks predict",
        source="design 4: as its own edition would have called it",
        hooks="C.on_predict_epoch_end arguments")
def cb_069(run):
    t = run.play(keep_none)
    t.noted("outputs", "[[Tensor,Tensor]]")
    t.equal("predict returned", t.value, None)


@clause("CB-070", "opt_idx MUST be the optimizer's place among the optimizers, for each of "
        "several.", editions="1.5", needs="older_hooks on_exception", source="seed 1.5 "
        "on_before_optimizer_step; ruling 9; trace 1.5.10 fit_two_optimizers_automatic",
        hooks="C.on_before_optimizer_step arguments")
def cb_070(run):
    t = run.scenario("fit_two_optimizers_automatic")
    t.args("c1.on_before_optimizer_step", "OA, 0", "OB, 1", "OA, 0", "OB, 1")
    t.args("c2.on_before_optimizer_step", "OA, 0", "OB, 1", "OA, 0", "OB, 1")


def step_both(self, batch, batch_idx):
    """Step two optimizers by hand, the second one first."""
    for optimizer in reversed(self.optimizers()):
        optimizer.zero_grad()
        self.manual_backward(self.layer(batch).sum())
        optimizer.step()


def make_both(self):
    """Return an optimizer for the weight and one for the bias."""
    return [self.make_optimizer([self.layer.weight], "OA"),
            self.make_optimizer([self.layer.bias], "OB")]


def by_hand(stage, module):
    """Switch to manual optimization."""
    module.automatic_optimization = False


@clause("CB-071", "In manual optimization opt_idx MUST be that of the optimizer that steps.",
        editions="1.5", needs="older_hooks manual_optimization on_exception",
        source="design 5: opt.step() fires on_before_optimizer_step with its opt_idx",
        hooks="C.on_before_optimizer_step arguments")
def cb_071(run):
    t = run.fit(before=by_hand, train_batches=1, val_batches=0,
                callback_params="on_before_optimizer_step optimizer opt_idx",
                module={"training_step": step_both, "configure_optimizers": make_both})
    t.args("c1.on_before_optimizer_step", "OB, 1", "OA, 0")


def generations(stage):
    """Fit with callbacks of three editions, the oldest first."""
    from .. import subjects

    made = []
    for who, params in (("c1", AS_IN_1_1), ("c2", AS_IN_1_5), ("c3", "")):
        older = subjects.OLDER_CALLBACK if params else ""
        table = stage.callback_hooks("%s\n%s\n" % (older, params))
        made.append(subjects.callback_class(stage.impl, stage.recorder, table)(who))
    stage.call("fit", stage.trainer(*made, num_sanity_val_steps=1).fit, stage.module())


@clause("CB-072", "Callbacks of the editions 1.1, 1.5 and 2.2 MUST run unmodified in one trainer, "
        "each called as its own edition would have called it.", editions="beyond",
        needs="older_hooks", source="design 8.1", hooks=[
            "C.on_train_batch_start arguments", "C.on_train_batch_end arguments",
            "C.on_before_optimizer_step arguments", "C.on_validation_batch_end arguments",
            "C.on_train_epoch_end arguments"])
def cb_072(run):
    t = run.play(generations)
    t.only("""c1.on_pretrain_routine_start c2.on_pretrain_routine_start
        c1.on_epoch_start c2.on_epoch_start c1.on_epoch_end c2.on_epoch_end
        c1.on_epoch_start c2.on_epoch_start c1.on_train_epoch_start c2.on_train_epoch_start
        c3.on_train_epoch_start c1.on_epoch_start c2.on_epoch_start c1.on_epoch_end c2.on_epoch_end
        c1.on_train_epoch_end c2.on_train_epoch_end c3.on_train_epoch_end
        c1.on_epoch_end c2.on_epoch_end""")
    for hook, *calls in (
            ("on_train_batch_start", "Tensor, 0, 0", "Tensor, 0", "Tensor, 0"),
            ("on_train_batch_end", "dict(loss), Tensor, 0, 0", "dict(loss), Tensor, 0",
             "dict(loss), Tensor, 0"),
            ("on_before_optimizer_step", "O", "O, 0", "O"),
            ("on_validation_batch_end", "Tensor, Tensor, 0, 0", "Tensor, Tensor, 0, 0",
             "Tensor, Tensor, 0"),
            ("on_train_epoch_end", "[dict(loss),dict(loss)]", "", "")):
        for who, expected in zip(("c1", "c2", "c3"), calls):
            t.equal("%s.%s" % (who, hook), t.args("%s.%s" % (who, hook))[0], expected)


def own(stage, hooks, entry="fit", **flags):
    """Call an entry point with a callback whose functions tell what they got by self.told."""
    def told(self, *args):
        stage.note("told", ", ".join(map(stage.recorder.word, args)))

    made = type("Own", (stage.impl.Callback,), dict(hooks, told=told))()
    module = stage.module(dict(train=1, val=2, test=2, predict=2), **flags.pop("does", {}))
    trainer = stage.trainer(made, stage.Callback("c2"), num_sanity_val_steps=0, **flags)
    stage.call(entry, getattr(trainer, entry), module)


def star(self, *args):
    """Take any number."""
    self.told(*args)


@clause("CB-073", "An override with *args MUST receive the arguments of edition 2.2.",
        editions="2.2", needs="fit", source="binding rule 1; trace 2.2.5 fit_basic",
        hooks=["C.on_train_batch_end arguments", "C.on_before_optimizer_step arguments"])
def cb_073(run):
    t = run.play(own, hooks={"on_train_batch_end": star})
    t.noted("told", "trainer, module, dict(loss), Tensor, 0")
    t = run.play(own, hooks={"on_before_optimizer_step": star})
    t.noted("told", "trainer, module, O")
    t = run.play(own, hooks={"on_train_epoch_end": star})
    t.noted("told", "trainer, module")


def star_after_two(self, trainer, module, *rest):
    """Name two, take the rest as they come."""
    self.told(*rest)


@clause("CB-074", "An override that names the first parameters and takes *args after them MUST "
        "receive all arguments of edition 2.2.", editions="2.2", needs="validate",
        source="binding rule 1", hooks=["C.on_validation_batch_start arguments"])
def cb_074(run):
    t = run.play(own, hooks={"on_validation_batch_start": star_after_two}, entry="validate")
    t.noted("told", "Tensor, 0", "Tensor, 1")
    t = run.play(own, hooks={"on_validation_batch_start": star_after_two}, entry="validate",
                 does=two("validate")["module"])
    t.noted("told", "Tensor, 0, 0", "Tensor, 1, 0", "Tensor, 0, 1")


def other_names(self, a, b, c, d, e):
    """Take as many as there are, under other names."""
    self.told(a, b, c, d, e)


def twisted_names(self, batch_idx, batch, outputs, pl_module, trainer):
    """Take as many as there are, under names that stand elsewhere."""
    self.told(batch_idx, batch, outputs, pl_module, trainer)


@clause("CB-075", "An override that can take the arguments of edition 2.2 MUST receive them by "
        "position, whatever the names of its parameters.", editions="2.2", needs="fit",
        source="binding rule 2", hooks="C.on_train_batch_end arguments")
def cb_075(run):
    for function in (other_names, twisted_names):
        t = run.play(own, hooks={"on_train_batch_end": function})
        t.noted("told", "trainer, module, dict(loss), Tensor, 0")


def own_option(self, trainer, pl_module, batch, batch_idx, verbose=True):
    """Have an option of one's own."""
    self.told(verbose)


def own_keyword(self, trainer, pl_module, batch, batch_idx, *, verbose=True):
    """Have an option of one's own, by keyword only."""
    self.told(verbose)


@clause("CB-076", "An optional parameter of the user's own MUST keep its default, and is never "
        "taken for an argument of an older edition.", editions="2.2", needs="fit",
        source="binding rule 2", hooks="C.on_train_batch_start arguments")
def cb_076(run):
    for function in (own_option, own_keyword):
        run.play(own, hooks={"on_train_batch_start": function}).noted("told", "True")


def known_option(self, trainer, pl_module, optimizer, opt_idx=7):
    """Take the older argument if it comes."""
    self.told(optimizer, opt_idx)


def known_unused(self, trainer, pl_module, batch, batch_idx, unused=7):
    """Take the older argument if it comes."""
    self.told(batch, batch_idx, unused)


def known_loader(self, trainer, pl_module, batch, batch_idx, dataloader_idx=7):
    """Take the older argument if it comes."""
    self.told(batch, batch_idx, dataloader_idx)


@clause("CB-077", "An optional parameter with the name of an older edition's argument MUST receive "
        "that argument.", editions="beyond", needs="older_hooks", source="binding rule 2",
        hooks=["C.on_before_optimizer_step arguments", "C.on_train_batch_start arguments"])
def cb_077(run):
    t = run.play(own, hooks={"on_before_optimizer_step": known_option})
    t.noted("told", "O, 0")
    for function in (known_unused, known_loader):
        t = run.play(own, hooks={"on_train_batch_start": function})
        t.noted("told", "Tensor, 0, 0")


def required(self, trainer, pl_module, optimizer, number):
    """Require what only edition 1.5 passes, under another name."""
    self.told(optimizer, number)


@clause("CB-078", "A required parameter beyond the arguments of edition 2.2 MUST receive the older "
        "edition's argument, whatever its name.", editions="1.5", needs="older_hooks on_exception",
        source="binding rule 2", hooks="C.on_before_optimizer_step arguments")
def cb_078(run):
    t = run.play(own, hooks={"on_before_optimizer_step": required})
    t.noted("told", "O, 0")


def without_outputs(self, trainer, pl_module, batch, batch_idx):
    """Leave out the outputs, and name the others."""
    self.told(trainer, pl_module, batch, batch_idx)


def any_order(self, batch_idx, outputs):
    """Name two, in another order."""
    self.told(batch_idx, outputs)


def named_rest(self, outputs, **rest):
    """Name one, and take the others by name."""
    self.told(outputs, rest["batch_idx"], rest["trainer"])


@clause("CB-079", "An override with fewer parameters, all of known names, MUST receive each by its "
        "name.", editions="beyond", needs="older_hooks", source="binding rule 3",
        hooks="C.on_train_batch_end arguments")
def cb_079(run):
    for function, told in ((without_outputs, "trainer, module, Tensor, 0"),
                           (any_order, "0, dict(loss)"), (named_rest, "dict(loss), 0, trainer")):
        run.play(own, hooks={"on_train_batch_end": function}).noted("told", told)


def first_two(self, t, m):
    """Take the first two, under other names."""
    self.told(t, m)


def nothing(self):
    """Take nothing."""
    self.told()


@clause("CB-080", "An override with fewer parameters, under names of its own, MUST receive the "
        "first arguments.", editions="beyond", needs="older_hooks", source="binding rule 4",
        hooks="C.on_train_batch_end arguments")
def cb_080(run):
    t = run.play(own, hooks={"on_train_batch_end": first_two})
    t.noted("told", "trainer, module")
    run.play(own, hooks={"on_train_batch_end": nothing}).noted("told", "")


def keyword_stage(self, trainer, pl_module, *, stage):
    """Require the stage by keyword."""
    self.told(trainer, pl_module, stage)


@clause("CB-081", "A setup that requires stage as a keyword MUST be called with it.",
        editions="1.5 2.2", needs="fit", source="binding rule 5; differences 10.23",
        hooks="C.setup arguments")
def cb_081(run):
    t = run.play(own, hooks={"setup": keyword_stage})
    t.noted("told", "trainer, module, fit")


def other_stage(self, trainer, pl_module, s):
    """Take the stage under another name."""
    self.told(s)


@clause("CB-082", "A setup MUST be given its stage also where the parameter has another name.",
        editions="1.1", needs="older_hooks", source="binding rule 2; trace 1.1.8 fit_basic: "
        "setup is called by position", hooks="C.setup arguments")
def cb_082(run):
    run.play(own, hooks={"setup": other_stage}).noted("told", "fit")


def keyword_index(self, trainer, *, batch_idx, outputs):
    """Require some by keyword."""
    self.told(trainer, batch_idx, outputs)


def keyword_extra(self, trainer, pl_module, optimizer, *, opt_idx):
    """Require an older edition's argument by keyword."""
    self.told(optimizer, opt_idx)


@clause("CB-083", "Keyword-only parameters that are required MUST be passed by name, an older "
        "edition's arguments included.", editions="beyond", needs="older_hooks",
        source="binding rule 5", hooks=["C.on_train_batch_end arguments",
                                        "C.on_before_optimizer_step arguments"])
def cb_083(run):
    t = run.play(own, hooks={"on_train_batch_end": keyword_index})
    t.noted("told", "trainer, 0, dict(loss)")
    t = run.play(own, hooks={"on_before_optimizer_step": keyword_extra})
    t.noted("told", "O, 0")


def refused(stage, who="C", **hooks):
    """Make a trainer and fit, as one call, with a hook that may not be so."""
    spare, module, data = stage.trainer(), stage.module(), stage.Datamodule()
    made = type("Own", (stage.impl.Callback,), hooks if who == "C" else {})()
    for receiver in [dict(M=module, D=data)[who]] if who != "C" else []:
        for name in hooks:
            setattr(receiver, name, hooks[name])

    def make_and_fit():
        try:
            stage.trainer(made, stage.Callback("c2")).fit(module, datamodule=data)
        finally:
            stage.recorder.trainer = stage.recorder.trainer or spare

    stage.call("fit", make_and_fit)


def misplaced(self, trainer, batch, module):
    """Have a known name stand in another's place."""


def too_many(self, trainer, pl_module, batch, batch_idx, dataloader_idx, more):
    """Require more than any edition passes."""


def unknown_keyword(self, trainer, pl_module, batch, batch_idx, *, colour):
    """Require what nobody passes."""


REFUSED = ((misplaced, "batch"), (too_many, "more"), (unknown_keyword, "colour"))


@clause("CB-084", "An override that no edition would have been able to call MUST be refused before "
        "any hook of the run is called.", editions="beyond", needs="older_hooks datamodule",
        source="binding rules 4 and 6", hooks="C.on_train_batch_start arguments")
def cb_084(run):
    for function, _ in REFUSED:
        t = run.play(refused, fails=True, on_train_batch_start=function)
        t.raises("MisconfigurationException")
        t.none("M.prepare_data D.prepare_data C.setup M.setup")


@clause("CB-085", "The refusal of an override MUST name its class, hook and signature, the "
        "parameter at fault, and a signature that is accepted.", editions="beyond",
        needs="older_hooks datamodule", source="binding rule 6",
        hooks="C.on_train_batch_start arguments")
def cb_085(run):
    for function, word in REFUSED:
        t = run.play(refused, fails=True, on_train_batch_start=function)
        t.raises("MisconfigurationException", "Own.on_train_batch_start", word,
                 "def on_train_batch_start(self, trainer, pl_module, batch, batch_idx")


def helper(self, *args):
    """Help."""


@clause("CB-086", "A method on_... within two edits of a hook's name MUST be refused before the "
        "run, on callback, module and data module, with the name that was probably meant.",
        editions="beyond", needs="older_hooks datamodule", source="binding rule 6")
def cb_086(run):
    for name, hook in (("on_train_batch_ends", "on_train_batch_end"),
                       ("on_trian_start", "on_train_start"),
                       ("on_validaton_epoch_end", "on_validation_epoch_end")):
        t = run.play(refused, fails=True, **{name: helper})
        t.raises("MisconfigurationException", "Own.%s" % name, "`%s`" % hook)
        t.none("M.prepare_data D.prepare_data")
        t = run.play(refused, fails=True, who="M", **{name: helper})
        t.raises("MisconfigurationException", name, "`%s`" % hook)
    t = run.play(refused, fails=True, who="D", on_excepton=helper)
    t.raises("MisconfigurationException", "on_excepton", "`on_exception`")


@clause("CB-087", "A helper whose name begins with on_ and is further than two edits from any hook "
        "MUST be left alone.", editions="1.1 1.5 2.2", needs="fit datamodule",
        source="binding rule 6: within two edits")
def cb_087(run):
    t = run.play(refused, on_train_batch_endxyz=helper, on_my_mark=helper)
    t.only("C.on_fit_start C.on_fit_end".replace("C.", "c2."))


@clause("CB-088", "A module's method with the name of a hook that only callbacks have MUST NOT be "
        "called silently in vain: a warning names it.", editions="beyond",
        needs="older_hooks datamodule", source="differences 1: sanity-check hooks go to callbacks "
        "only")
def cb_088(run):
    t = run.play(refused, who="M", on_sanity_check_start=helper)
    t.count("c2.on_train_start", 1)
    t.warned("on_sanity_check_start", "callbacks")


def on_instances(stage):
    """Put overrides on instances."""
    def telling(word):
        return lambda *args: stage.note("told", "%s: %s" % (word, ", ".join(
            map(stage.recorder.word, args))))

    made, module = stage.impl.Callback(), stage.module(dict(train=1), without=(
        "on_train_start", "on_train_batch_start"))
    made.on_train_start = telling("callback")
    made.on_train_batch_start = telling("callback")
    module.on_train_start = telling("module")
    module.on_train_batch_start = telling("module")
    stage.call("fit", stage.trainer(made, stage.Callback("c2")).fit, module)


@clause("CB-089", "An override that is a function set on the instance MUST be called, on callback "
        "and module, in the place of one of the class.", editions="1.5 2.2", needs="fit",
        source="design 4: looked for on the instance first", hooks=[
            "CM.on_train_start fires", "CM.on_train_batch_start fires"])
def cb_089(run):
    t = run.play(on_instances)
    t.noted("told", "callback: trainer, module", "module: ", "callback: trainer, module, Tensor, 0",
            "module: Tensor, 0")


def shadowed(stage):
    """Set a function on an instance whose class overrides the same hook."""
    made = stage.Callback("c1")
    made.on_fit_start = lambda trainer, pl_module: stage.note("told", "instance")
    stage.call("fit", stage.trainer(made, stage.Callback("c2")).fit, stage.module())


@clause("CB-090", "A function set on the instance MUST be called instead of its class's override.",
        editions="1.1 1.5 2.2", needs="fit", source="design 4: looked for on the instance first",
        hooks="C.on_fit_start fires")
def cb_090(run):
    t = run.play(shadowed)
    t.noted("told", "instance")
    t.only("c2.on_fit_start M.on_fit_start", absent="c1.on_fit_start")


def set_in_setup(stage):
    """Put overrides on instances in setup."""
    def setup(self, trainer, pl_module, stage_name):
        self.on_fit_start = lambda trainer, pl_module: stage.note("told", "callback")
        pl_module.on_fit_end = lambda: stage.note("told", "module")

    def spelt(self, trainer, pl_module, stage):
        setup(self, trainer, pl_module, stage)

    made = type("Late", (stage.impl.Callback,), {"setup": spelt})()
    stage.call("fit", stage.trainer(made, stage.Callback("c2")).fit,
               stage.module(without=["on_fit_end"]))


@clause("CB-091", "Overrides that are put on instances in setup MUST be called from then on.",
        editions="1.1 1.5 2.2", needs="fit", source="trace 2.2.5 fit_basic: hooks are looked for "
        "when they fire", hooks=["C.on_fit_start fires", "M.on_fit_end fires"])
def cb_091(run):
    run.play(set_in_setup).noted("told", "callback", "module")


def inherited(stage):
    """Inherit hooks from a class that is no callback, and from another callback."""
    def told(word):
        return lambda self, trainer, pl_module: stage.note("told", word)

    Mixin = type("Mixin", (), {"on_train_start": told("mixin")})
    Base = type("Base", (stage.impl.Callback,), {"on_train_end": told("base")})
    made = type("Own", (Mixin, Base), {})()
    stage.call("fit", stage.trainer(made, stage.Callback("c2")).fit, stage.module())


@clause("CB-092", "Overrides MUST also be called when they are inherited, be it from a class that "
        "is no callback.", editions="1.1 1.5 2.2", needs="fit", source="seed 1.5: subclass and "
        "override", hooks=["C.on_train_start fires", "C.on_train_end fires"])
def cb_092(run):
    run.play(inherited).noted("told", "mixin", "base")
