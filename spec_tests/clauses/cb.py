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
        editions="1.5 2.2", needs="fit validate test predict datamodule",
        source="seed 1.5 on_fit_start: when fit begins; differences 10.13",
        hooks=["CM.on_fit_start fires", "CM.on_fit_end fires"])
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


@clause("CB-016", "Without sanity steps, and without a validation loader, on_sanity_check_start "
        "and on_sanity_check_end MUST NOT be called.", editions="1.1 1.5 2.2", needs="fit",
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
        "on_train_epoch_end", hooks=["CM.on_train_epoch_start fires",
                                     "CM.on_train_epoch_end fires"])
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
          {"configure_optimizers": boom}, {"setup": boom}, {"teardown": boom})


@clause("CB-047", "When a run fails, on_exception MUST be called once on each callback in list "
        "order, wherever the error was raised, and then the error propagates.",
        editions="1.5 2.2", needs="on_exception validate", source="seed 1.5 on_exception; bug 8",
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
    t.equal("later errors", [type(each).__name__ for each in getattr(error, "later_errors", ())],
            ["ValueError"])


@clause("CB-055", "A data module's on_exception MUST be called with the error, after that of the "
        "callbacks.", editions="2.2", needs="datamodule_on_exception",
        source="design 2.4; trace 2.6.6 exception_in_training_step_with_datamodule; bug 8",
        hooks="C.on_exception fires")
def cb_055(run):
    t = run.fit(module={"training_step": boom}, data={}, **FAILS)
    t.only("C.on_exception D.on_exception(RuntimeError)")


@clause("CB-056", "On Ctrl-C, on_keyboard_interrupt MUST be called once on each callback, in list "
        "order, before fit returns.", editions="1.1 1.5", needs="older_hooks",
        source="seeds 1.1 and 1.5 on_keyboard_interrupt; traces "
               "keyboard_interrupt_in_training_step",
        hooks="C.on_keyboard_interrupt fires arguments")
def cb_056(run):
    t = run.fit(older=True, module={"training_step": interrupt})
    t.only("M.training_step C.on_keyboard_interrupt()")


@clause("CB-057", "on_keyboard_interrupt MUST be called on all callbacks before on_exception, "
        "which gets the KeyboardInterrupt.", editions="1.5", needs="older_hooks on_exception",
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


@clause("CB-063", "An on_train_batch_end with the signature of edition 1.1 MUST receive the "
        "outputs of its batch, the batch, its index and a dataloader_idx of 0.", editions="1.1",
        needs="older_hooks", source="seed 1.1 on_train_batch_end",
        hooks="C.on_train_batch_end arguments")
def cb_063(run):
    run.fit(**OLDER_OUTPUTS).noted("batch end", [1, 0, 0], [1, 1, 0], [1, 0, 0], [1, 1, 0])


@clause("CB-064", "An on_train_epoch_end with the signature of edition 1.1 MUST receive the "
        "outputs of all training batches of its epoch.", editions="1.1", needs="older_hooks",
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


# Who joins a run, and in which order.


@clause("CB-093", "configure_callbacks MUST be called on the module at each entry point, before "
        "prepare_data.", editions="1.5 2.2", needs="on_exception", source="differences 10.21; "
        "traces 1.5.10 and 2.2.5 trainer_call_order_of_setup_args",
        hooks="M.configure_callbacks fires arguments")
def cb_093(run):
    for entry in ENTRIES:
        getattr(run, entry)().only("M.configure_callbacks() M.prepare_data M.setup")


@clause("CB-154", "configure_callbacks MUST find train mode, gradients on and the stage of its "
        "entry point.", editions="1.5 2.2", needs="on_exception", source="oracle 1.5.10, 2.2.5",
        hooks="M.configure_callbacks state")
def cb_154(run):
    stages = ("training", "validating", "testing", "predicting")
    for entry, stage in zip(ENTRIES, stages):
        getattr(run, entry)().state("M.configure_callbacks", "0/0 TG " + stage)


def recorded(t, result):
    """Return the recorded callbacks of a scenario's result, without what a trainer adds."""
    return [each for each in t.stage.results[result] if each in ("c1", "c2", "c3")]


@clause("CB-094", "A callback that configure_callbacks returns MUST take part in the run from "
        "setup on, after the trainer's own.", editions="1.5 2.2", needs="on_exception",
        source="traces 1.5.10 and 2.2.5 configure_callbacks_other_type",
        hooks="M.configure_callbacks return")
def cb_094(run):
    t = run.scenario("configure_callbacks_other_type")
    t.only("c1.setup c2.setup c3.setup M.setup c1.on_train_epoch_end c2.on_train_epoch_end "
           "c3.on_train_epoch_end M.on_train_epoch_end c1.teardown c2.teardown c3.teardown")
    t.equal("callbacks", recorded(t, "callbacks after fit"), ["c1", "c2", "c3"])


@clause("CB-095", "A callback that configure_callbacks returns MUST replace those of the trainer "
        "that have its type, in this run and all later ones.", editions="1.5 2.2",
        needs="on_exception", source="traces 1.5.10 and 2.2.5 configure_callbacks_override; "
        "differences 10.21", hooks="M.configure_callbacks return")
def cb_095(run):
    t = run.scenario("configure_callbacks_override")
    t.call("fit").only("c3.setup c3.teardown", absent="C.setup C.on_fit_start C.teardown")
    t.call("fit again").only("c3.setup c3.teardown", absent="C.setup C.on_fit_start C.teardown")
    t.equal("callbacks", recorded(t, "callbacks after fit"), ["c3"])
    t.equal("callbacks", recorded(t, "callbacks after second fit"), ["c3"])


def joined(stage, kind):
    """Fit with a module that configures callbacks; note the trainer's, by who or class."""
    Base = type(stage.Callback("c9"))
    Special = type("Special", (Base,), {})
    Other = type("Other", (stage.impl.Callback,), {})
    returned = {
        "special": lambda: [Special("c3")], "plain": lambda: [Base("c3")],
        "single": lambda: Special("c3"), "none": lambda: [], "wrong": lambda: [Other],
        "two": lambda: [Other(), Other()],
    }[kind]()
    own = [Special("c1"), Other()] if kind == "plain" else [Base("c1"), Other()]
    module = stage.module(dict(train=1, val=1), configure_callbacks=lambda self: returned)
    trainer = stage.trainer(*own, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, module)
    stage.note("callbacks", who(trainer.callbacks))


@clause("CB-096", "A callback that configure_callbacks returns MUST also replace those whose type "
        "it inherits from, and leaves those that inherit from its type.", editions="2.2",
        needs="fit", source="differences 3 configure_callbacks_override",
        hooks="M.configure_callbacks return")
def cb_096(run):
    t = run.play(joined, kind="special")
    t.noted("callbacks", ["Other", "c3"])
    t.only("c3.setup", absent="c1.setup")
    t = run.play(joined, kind="plain")
    t.noted("callbacks", ["c1", "Other", "c3"])
    t.only("c1.setup c3.setup")


@clause("CB-097", "configure_callbacks MAY return a single callback instead of a list.",
        editions="2.2", needs="fit", source="lightning 2.2.5: a callback or a sequence",
        hooks="M.configure_callbacks return")
def cb_097(run):
    run.play(joined, kind="single").noted("callbacks", ["Other", "c3"])


@clause("CB-098", "When configure_callbacks returns none, the trainer's callbacks MUST stay as "
        "they are, and when it returns several of a type, all of them join.", editions="1.5 2.2",
        needs="on_exception", source="differences 3 configure_callbacks_override",
        hooks="M.configure_callbacks return")
def cb_098(run):
    run.play(joined, kind="none").noted("callbacks", ["c1", "Other"])
    run.play(joined, kind="two").noted("callbacks", ["c1", "Other", "Other"])


@clause("CB-099", "What configure_callbacks returns MUST be refused before prepare_data if it is "
        "no callback, as a class is none.", editions="beyond", needs="older_hooks",
        source="design 5: every misuse is refused before any work is lost",
        hooks="M.configure_callbacks return")
def cb_099(run):
    t = run.play(joined, fails=True, kind="wrong")
    t.raises("MisconfigurationException", "configure_callbacks", "Callback")
    t.only("M.configure_callbacks", absent="M.prepare_data")


def join_init(stage):
    """Let a callback with on_init hooks join through configure_callbacks."""
    def init(self, trainer):
        stage.note("init", "called")

    hooks = {"on_init_start": init, "on_init_end": init, "on_fit_start": lambda self, *args:
             stage.note("fit", "called")}
    made = type("Late", (stage.impl.Callback,), hooks)()
    trainer = stage.trainer(stage.Callback("c1"))
    stage.call("fit", trainer.fit, stage.module(configure_callbacks=lambda self: [made]))


@clause("CB-100", "on_init_start and on_init_end MUST NOT be called on a callback that joins after "
        "the Trainer was made.", editions="1.5", needs="older_hooks on_exception",
        source="differences 2 on_init_start", hooks=["C.on_init_start fires",
                                                     "C.on_init_end fires"])
def cb_100(run):
    t = run.play(join_init)
    t.noted("fit", "called")
    t.equal("on_init hooks called", t.noted("init"), [])


def who(callbacks):
    """Return recorded callbacks by name and others by class, without what a trainer adds."""
    names = [getattr(each, "who", type(each).__name__) for each in callbacks]
    return [name for name in names if name in ("c1", "c2", "c3", "Other", "ModelCheckpoint")]


def checkpoints_first(stage):
    """Give checkpoint callbacks first, and let another one join."""
    def saver(number):
        return stage.impl.ModelCheckpoint(dirpath=stage.path("ck%d" % number),
                                          filename="saved-by-%d" % number, **keys[number])

    keys = [dict(save_top_k=1), dict(monitor="v", save_top_k=1)]
    given = [saver(0), stage.Callback("c1"), saver(1), stage.Callback("c2")]
    Other = type("Other", (stage.impl.Callback,), {})
    trainer = stage.trainer(*given, enable_checkpointing=True, num_sanity_val_steps=0)
    stage.note("order", who(trainer.callbacks))
    stage.note("relative", [trainer.callbacks[-2] is given[0], trainer.callbacks[-1] is given[2]])
    stage.call("fit", trainer.fit, stage.module(
        validation_step=log_v, configure_callbacks=lambda self: [Other()]))
    stage.note("order", who(trainer.callbacks))


def log_v(self, batch, batch_idx, *more, **named):
    """Log v = 1."""
    self.log("v", torch.tensor(1.0))
    return self(batch).sum()


@clause("CB-101", "Checkpoint callbacks MUST stand at the end of trainer.callbacks, in the order "
        "in which they were given, wherever they were given and whoever joins.", editions="1.5 2.2",
        needs="model_checkpoint on_exception", source="differences 4.4; trace 2.2.5 "
        "model_checkpoint_default")
def cb_101(run):
    t = run.play(checkpoints_first)
    t.noted("order", ["c1", "c2", "ModelCheckpoint", "ModelCheckpoint"],
            ["c1", "c2", "Other", "ModelCheckpoint", "ModelCheckpoint"])
    t.noted("relative", [True, True])


def monitors(stage, key):
    """Note the order in which monitoring callbacks, others and the module are called."""
    def noting(word, Base, hooks):
        def hook(name):
            def noted(self, trainer, *args):
                if trainer.state.fn == "fit" and not trainer.sanity_checking:
                    stage.note(name, word)
                return getattr(super(Noting, self), name)(trainer, *args)
            return noted

        Noting = type("Noting", (Base,), {name: hook(name) for name in hooks})
        return Noting

    hooks = ("on_train_epoch_end", "on_validation_end", "on_train_start")
    Stop = noting("stopping", stage.impl.EarlyStopping, hooks)
    Save = noting("checkpoint", stage.impl.ModelCheckpoint, hooks)
    c1 = noting("callback", stage.impl.Callback, hooks)

    def tell(name):
        def noted(self):
            stage.note(name, "module")
            if name == "on_train_epoch_end":
                self.log("late", torch.tensor(1.0))
        return noted

    trainer = stage.trainer(
        Save(dirpath=stage.path("ck"), monitor=key), Stop(key, patience=1, mode="min"), c1(),
        enable_checkpointing=True, max_epochs=3, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(
        dict(train=1, val=1), validation_step=log_v, **{name: tell(name) for name in hooks}))
    stage.note("epochs", stage.recorder.trainer.current_epoch)


@clause("CB-102", "In on_train_epoch_end the callbacks that monitor a metric, EarlyStopping and "
        "ModelCheckpoint, MUST be called after the other callbacks and the module.",
        editions="2.2", needs="early_stopping model_checkpoint", source="bug 2; differences 1, "
        "10.18", hooks="CM.on_train_epoch_end fires")
def cb_102(run):
    order = ["callback", "module", "stopping", "checkpoint"]
    run.play(monitors, key="late").noted("on_train_epoch_end", *order * 2)


@clause("CB-103", "In every other hook EarlyStopping and ModelCheckpoint MUST be called before the "
        "module, at their place among the callbacks.", editions="1.5 2.2",
        needs="early_stopping model_checkpoint on_exception", source="differences 1",
        hooks="CM.on_validation_end fires")
def cb_103(run):
    order = ["stopping", "callback", "checkpoint", "module"]
    t = run.play(monitors, key="v")
    t.noted("on_train_start", *order)
    t.noted("on_validation_end", *order * 2)


@clause("CB-104", "EarlyStopping and ModelCheckpoint MUST find a metric that the module logs in "
        "on_train_epoch_end of the same epoch.", editions="2.2",
        needs="early_stopping model_checkpoint", source="bug 2")
def cb_104(run):
    t = run.play(monitors, key="late")
    t.noted("epochs", 2)
    t.equal("current_epoch", t.after["current_epoch"], 2)


def joins_late(stage, at):
    """Append a recorded callback to trainer.callbacks in a hook of c1."""
    def join(self, trainer, *args, **named):
        if "c3" not in who(trainer.callbacks):
            trainer.callbacks.append(stage.Callback("c3"))

    trainer = stage.trainer(stage.Callback("c1", **{at: join}), stage.Callback("c2"),
                            num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=1, val=1)))


@clause("CB-105", "A callback that is added to trainer.callbacks during a run MUST be called from "
        "the next hook on, after the others.", editions="1.1 1.5 2.2", needs="fit",
        source="design 4: never silently ignored; traces: callbacks are looked up at each hook",
        hooks=["C.on_fit_end fires", "C.on_train_batch_end fires"])
def cb_105(run):
    t = run.play(joins_late, at="setup")
    t.only("c1.on_fit_start c2.on_fit_start c3.on_fit_start M.on_fit_start "
           "c1.teardown c2.teardown c3.teardown")
    t = run.play(joins_late, at="on_train_batch_start")
    t.only("c1.on_train_batch_end c2.on_train_batch_end c3.on_train_batch_end "
           "M.on_train_batch_end c1.on_fit_end c2.on_fit_end c3.on_fit_end", absent="c3.setup")


def changes(stage, how):
    """Take c2 out of the trainer's callbacks, or replace it, in on_train_start of c1."""
    def change(self, trainer, *args):
        if how == "remove":
            trainer.callbacks.remove(trainer.callbacks[1])
        elif how == "delete":
            del trainer.callbacks[1]
        elif how == "item":
            trainer.callbacks[1] = stage.Callback("c3")
        else:
            trainer.callbacks = [self, stage.Callback("c3")]

    trainer = stage.trainer(stage.Callback("c1", on_train_start=change), stage.Callback("c2"),
                            num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=1, val=1)))


@clause("CB-106", "A callback that is taken out of trainer.callbacks during a run MUST NOT be "
        "called any more, and one that takes its place is.", editions="1.1 1.5 2.2", needs="fit",
        source="traces: callbacks are looked up at each hook", hooks="C.on_fit_end fires")
def cb_106(run):
    for how in ("remove", "delete"):
        t = run.play(changes, how=how)
        t.only("c1.on_fit_start c2.on_fit_start c1.on_fit_end", absent="c2.on_fit_end")
    for how in ("item", "list"):
        t = run.play(changes, how=how)
        t.only("c1.on_fit_start c2.on_fit_start c1.on_fit_end c3.on_fit_end",
               absent="c2.on_fit_end")


@clause("CB-107", "Callbacks MUST be called in the order of the list that the Trainer was given.",
        editions="1.1 1.5 2.2", needs="fit", source="design 3: in list order",
        hooks="C.on_train_start fires")
def cb_107(run):
    t = run.play(reversed_list)
    t.only("c2.setup c1.setup c2.on_train_start c1.on_train_start c2.teardown c1.teardown")


def reversed_list(stage):
    """Give c2 before c1."""
    trainer = stage.trainer(stage.Callback("c2"), stage.Callback("c1"))
    stage.call("fit", trainer.fit, stage.module(dict(train=1, val=1)))


def one_alone(stage):
    """Give a callback without a list around it."""
    flags = dict(default_root_dir=stage.folder, logger=False, enable_progress_bar=False,
                 enable_checkpointing=False, enable_model_summary=False, max_epochs=1)
    trainer = stage.impl.trainer(callbacks=stage.Callback("c1"), **flags)
    stage.recorder.trainer = trainer
    stage.call("fit", trainer.fit, stage.module(dict(train=1, val=1)))


@clause("CB-108", "Trainer(callbacks=...) MAY be given a single callback instead of a list.",
        editions="1.5 2.2", needs="on_exception", source="pytorch-lightning 1.5.10, lightning "
        "2.2.5: a callback or a list")
def cb_108(run):
    run.play(one_alone).only("c1.setup c1.on_train_start c1.teardown")


def no_callback(stage):
    """Give the class instead of an instance."""
    spare = stage.trainer()

    def make():
        try:
            stage.trainer(stage.impl.Callback)
        finally:
            stage.recorder.trainer = stage.recorder.trainer or spare

    stage.call("Trainer", make)


@clause("CB-109", "A class, or anything else that is no callback, MUST be refused by the Trainer.",
        editions="beyond", needs="older_hooks", source="design 5: every misuse is refused")
def cb_109(run):
    t = run.play(no_callback, fails=True)
    t.raises("MisconfigurationException", "callbacks", "instance")


# The built-in classes.


def built_in(stage):
    """Fit with the two."""
    made = [stage.impl.EarlyStopping("v", mode="min"),
            stage.impl.ModelCheckpoint(dirpath=stage.path("ck"))]
    trainer = stage.trainer(*made, enable_checkpointing=True, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(validation_step=log_v))
    stage.note("callbacks", [isinstance(each, stage.impl.Callback) and each in trainer.callbacks
                             for each in made])


@clause("CB-110", "Callback, EarlyStopping and ModelCheckpoint MUST be there, the latter two "
        "callbacks that the Trainer takes.", editions="1.1 1.5 2.2",
        needs="early_stopping model_checkpoint", source="seed 1.1 built-in callbacks")
def cb_110(run):
    run.play(built_in).noted("callbacks", [True, True])


@clause("CB-111", "ProgressBar MUST be the progress bar that the Trainer uses by default, and a "
        "ProgressBarBase.", editions="1.1", needs="progress_bar", source="seed 1.1 built-in "
        "callbacks: the default progress bar; the base class for progress bars")
def cb_111(run):
    t = run.fit(enable_progress_bar=True)
    bars = [each for each in t.trainer.callbacks if isinstance(each, run.impl.ProgressBarBase)]
    t.equal("kind of the bars", [isinstance(each, run.impl.ProgressBar) for each in bars], [True])
    t.true("the bar shows the epoch", "Epoch 0" in t.output)


def own_bar(stage):
    """Count with a bar of one's own."""
    def batch_end(self, trainer, *args, **named):
        super(Bar, self).on_train_batch_end(trainer, *args, **named)
        stage.note("batches", [self.train_batch_idx, self.total_train_batches])

    Bar = type("Bar", (stage.impl.ProgressBarBase,), {
        "on_train_batch_end": batch_end, "disable": lambda self: None})
    trainer = stage.trainer(Bar(), enable_progress_bar=True, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=3, val=1)))


@clause("CB-112", "A progress bar of one's own, made of ProgressBarBase, MUST know how many "
        "training batches are done and how many there are.", editions="1.1 1.5",
        needs="progress_bar",
        source="seed 1.1 built-in callbacks: the base class for progress bars")
def cb_112(run):
    run.play(own_bar).noted("batches", [1, 3], [2, 3], [3, 3])


def accumulates(stage):
    """Accumulate two batches from epoch 1 on."""
    scheduler = stage.impl.GradientAccumulationScheduler({1: 2})
    module = stage.module(dict(train=4), without=(
        "optimizer_step", "optimizer_zero_grad", "val_dataloader", "validation_step"))
    stage.call("fit", stage.trainer(scheduler, max_epochs=2, num_sanity_val_steps=0).fit, module)


@clause("CB-113", "GradientAccumulationScheduler MUST change the number of accumulated batches at "
        "the epochs of its scheduling.", editions="1.1 1.5 2.2",
        needs="gradient_accumulation_scheduler", source="seed 1.1 built-in callbacks: change "
        "gradient accumulation factor according to scheduling",
        arguments="GradientAccumulationScheduler.scheduling")
def cb_113(run):
    t = run.play(accumulates)
    t.only("O.step { M.training_step } " * 4 + "M.training_step O.step { M.training_step } " * 2)


def scheduled(self):
    """Return an optimizer and a schedule that halves its rate every epoch."""
    made = self.make_optimizer()
    return [made], [torch.optim.lr_scheduler.StepLR(made, 1, 0.5)]


def logs_rates(stage):
    """Log learning rates."""
    from .. import subjects

    logger = subjects.logger(stage.impl, stage.recorder)
    monitor = stage.impl.LearningRateMonitor(logging_interval="epoch")
    trainer = stage.trainer(monitor, max_epochs=2, num_sanity_val_steps=0, logger=logger)
    stage.call("fit", trainer.fit, stage.module(
        dict(train=1), without=("val_dataloader", "validation_step"),
        configure_optimizers=scheduled))
    rates = [list(metrics.values()) for _, metrics in logger.logged
             if any("lr-" in name for name in metrics)]
    stage.note("rates", [round(rate, 4) for values in rates for rate in values])


@clause("CB-114", "LearningRateMonitor MUST log the rates of the learning rate schedulers during "
        "training.", editions="1.1 1.5 2.2", needs="lr_monitor logger", source="seed 1.1 built-in "
        "callbacks: automatically monitor and logs learning rate",
        arguments="LearningRateMonitor.logging_interval")
def cb_114(run):
    run.play(logs_rates).noted("rates", [0.1, 0.05])


def watches_gpus(stage):
    """Use GPUStatsMonitor where there is no GPU."""
    spare = stage.trainer()

    def make_and_fit():
        stage.trainer(stage.impl.GPUStatsMonitor(), logger=True).fit(stage.module(dict(train=1)))

    def guarded():
        try:
            make_and_fit()
        finally:
            stage.recorder.trainer = stage.recorder.trainer or spare

    stage.call("fit", guarded)


@clause("CB-115", "GPUStatsMonitor MUST refuse to run where there is no GPU.", editions="1.1 1.5",
        needs="gpu_stats_monitor", source="seed 1.1 built-in callbacks: monitors and logs GPU "
        "stats")
def cb_115(run):
    t = run.play(watches_gpus, fails=True)
    t.raises("MisconfigurationException")
    t.none("M.on_train_start")


# EarlyStopping. A story of scores: one is logged as "score" by each validation, in turn.


def log_score(self, batch, batch_idx, *more, **named):
    """Log the score whose turn it is."""
    if not checking(self.trainer):
        self.log("score", torch.tensor(self.scores[self.validations]))
    return self(batch).sum()


def checking(trainer):
    """Return whether this is the sanity check."""
    return getattr(trainer, "sanity_checking", False) or getattr(
        trainer, "running_sanity_check", False)


def next_score(self, *args):
    """Count the validations."""
    self.validations += not checking(self.trainer)


def scored(stage, scores, train=2, val=1, **does):
    """Make a module that logs these scores."""
    module = stage.module(dict(train=train, val=val), **dict(
        dict(validation_step=log_score, on_validation_epoch_end=next_score), **does))
    module.scores, module.validations = list(scores), 0
    return module


def stops(stage, scores, stopping=(), **flags):
    """Fit with EarlyStopping, and note what came of it; c1 notes the counter after each check."""
    made = stage.impl.EarlyStopping(**dict(dict(monitor="score", mode="min"), **dict(stopping)))
    trainer = stage.trainer(made, stage.Callback("c1"), num_sanity_val_steps=flags.pop("sanity", 0),
                            **dict(dict(max_epochs=10), **flags))
    module = scored(stage, scores, train=flags.get("limit_train_batches", 2))
    stage.call("fit", trainer.fit, module)
    stage.note("validations", module.validations)
    stage.note("counter", made.wait_count)
    stage.note("best", round(float(made.best_score), 4))
    stage.note("stopped_epoch", made.stopped_epoch)


CONSTANT = [1.0] * 20


@clause("CB-116", "EarlyStopping MUST end training when its metric has not improved for patience "
        "checks in a row, the first value being the one to improve on.", editions="1.1 1.5 2.2",
        needs="early_stopping", source="seed 1.1 built-in callbacks: stop training when it stops "
        "improving; trace early_stopping_patience",
        arguments="EarlyStopping.monitor EarlyStopping.patience")
def cb_116(run):
    for scores, patience, epochs in ((CONSTANT, 1, 2), (CONSTANT, 3, 4),
                                     ([3.0, 2.0, 2.5, 1.0, 1.0, 1.0, 1.0], 2, 6)):
        t = run.play(stops, scores=scores, stopping={"patience": patience})
        t.count("M.on_train_epoch_start", epochs)
        t.noted("counter", patience)
        t.noted("stopped_epoch", epochs - 1)
        t.equal("should_stop", t.after["should_stop"], True)


@clause("CB-117", "EarlyStopping MUST check once per validation: with validation every 2 epochs "
        "and patience 2, a constant metric ends training after 6 epochs.", editions="1.5 2.2",
        needs="early_stopping on_exception", source="bug 9 (a)",
        arguments="EarlyStopping.patience")
def cb_117(run):
    t = run.play(stops, scores=CONSTANT, stopping={"patience": 2}, check_val_every_n_epoch=2)
    t.count("M.on_train_epoch_start", 6)
    t.noted("validations", 3)


@clause("CB-118", "EarlyStopping MUST check once per validation: with validation twice an epoch "
        "and patience 2, a constant metric ends training in the middle of the second epoch.",
        editions="1.5 2.2", needs="early_stopping on_exception", source="bug 9 (b)",
        arguments="EarlyStopping.patience")
def cb_118(run):
    t = run.play(stops, scores=CONSTANT, stopping={"patience": 2}, val_check_interval=0.5)
    t.count("M.training_step", 3)
    t.noted("validations", 3)
    t.noted("stopped_epoch", 1)


@clause("CB-119", "A change that equals min_delta MUST NOT count as an improvement, and one that "
        "is larger does.", editions="1.1 1.5 2.2", needs="early_stopping", source="bug 9 (c)",
        arguments="EarlyStopping.min_delta")
def cb_119(run):
    t = run.play(stops, scores=[3.0, 2.5, 2.0, 1.5], stopping={"patience": 1, "min_delta": 0.5})
    t.count("M.on_train_epoch_start", 2)
    t.noted("best", 3.0)
    t = run.play(stops, scores=[3.0, 2.0, 1.0, 0.75, 9.0],
                 stopping={"patience": 1, "min_delta": 0.5})
    t.count("M.on_train_epoch_start", 4)
    t.noted("best", 1.0)


@clause("CB-120", "In mode max EarlyStopping MUST take a larger value for an improvement.",
        editions="1.1 1.5 2.2", needs="early_stopping", source="bug 9; lightning 2.2.5 "
        "EarlyStopping",
        arguments="EarlyStopping.mode")
def cb_120(run):
    t = run.play(stops, scores=[1.0, 2.0, 3.0, 3.0, 9.0], stopping={"patience": 1, "mode": "max"})
    t.count("M.on_train_epoch_start", 4)
    t.noted("best", 3.0)


@clause("CB-121", "EarlyStopping MUST NOT count the sanity check.", editions="1.1 1.5 2.2",
        needs="early_stopping", source="bug 4; differences 3 early_stopping_patience")
def cb_121(run):
    t = run.play(stops, scores=CONSTANT, stopping={"patience": 1}, sanity=1)
    t.count("c1.on_sanity_check_end", 1)
    t.count("M.on_train_epoch_start", 2)
    t.noted("counter", 1)


@clause("CB-122", "EarlyStopping MUST end training at once when its metric is not finite, unless "
        "check_finite is False.", editions="1.5 2.2", needs="early_stopping on_exception",
        source="bug 10 (a)",
        arguments="EarlyStopping.check_finite")
def cb_122(run):
    for worst in ("nan", "inf", "-inf"):
        t = run.play(stops, scores=[3.0, float(worst), 1.0])
        t.count("M.on_train_epoch_start", 2)
        t.noted("counter", 0)
        t.noted("best", 3.0)
    t = run.play(stops, scores=[3.0, float("nan"), 1.0, 1.0, 1.0],
                 stopping={"check_finite": False, "patience": 2})
    t.count("M.on_train_epoch_start", 5)
    t.noted("best", 1.0)


@clause("CB-123", "A strict EarlyStopping whose metric was never logged MUST fail at its first "
        "check with an error that lists the metrics there are.", editions="1.1 1.5 2.2",
        needs="early_stopping", source="bug 10 (b); trace early_stopping_missing_monitor",
        arguments="EarlyStopping.monitor EarlyStopping.strict")
def cb_123(run):
    t = run.play(stops, fails=True, scores=CONSTANT, stopping={"monitor": "nope"})
    t.raises("RuntimeError", "nope", "score")
    t.count("M.on_train_epoch_start", 1)


@clause("CB-124", "An EarlyStopping that is not strict MUST skip the checks at which its metric "
        "was not logged, its counter untouched.", editions="1.5 2.2",
        needs="early_stopping on_exception", source="bug 10 (b)",
        arguments="EarlyStopping.strict")
def cb_124(run):
    t = run.play(stops, scores=CONSTANT, max_epochs=3,
                 stopping={"monitor": "nope", "strict": False, "patience": 1})
    t.count("M.on_train_epoch_start", 3)
    t.noted("counter", 0)


@clause("CB-125", "EarlyStopping and ModelCheckpoint MUST NOT fail in the epochs before the first "
        "validation.", editions="2.2", needs="early_stopping model_checkpoint", source="bug 10 (c)")
def cb_125(run):
    t = run.play(late_validation)
    t.noted("validations", 2)
    t.noted("files", ["epoch=1.ckpt", "epoch=3.ckpt"])


def late_validation(stage):
    """Monitor a metric that is first logged in epoch 1, without a sanity check."""
    stopping = stage.impl.EarlyStopping("score", patience=1, mode="min")
    saving = stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), filename="{epoch}",
                                        monitor="score", save_top_k=-1)
    trainer = stage.trainer(stopping, saving, enable_checkpointing=True, max_epochs=9,
                            check_val_every_n_epoch=2, num_sanity_val_steps=0)
    module = scored(stage, CONSTANT)
    stage.call("fit", trainer.fit, module)
    stage.note("validations", module.validations)
    stage.note("files", files(stage))


def files(stage):
    """Return the names of the files in the folder of checkpoints."""
    from pathlib import Path

    return sorted(each.name for each in Path(stage.path("ck")).glob("*"))


@clause("CB-126", "EarlyStopping MUST end training at once when the metric is better than "
        "stopping_threshold or worse than divergence_threshold.", editions="1.5 2.2",
        needs="early_stopping on_exception", source="lightning 2.2.5 EarlyStopping",
        arguments="EarlyStopping.stopping_threshold EarlyStopping.divergence_threshold")
def cb_126(run):
    t = run.play(stops, scores=[3.0, 1.0, 0.5, 9.0], stopping={"stopping_threshold": 1.0})
    t.count("M.on_train_epoch_start", 3)
    t = run.play(stops, scores=[3.0, 5.0, 6.0, 1.0], stopping={"divergence_threshold": 5.0})
    t.count("M.on_train_epoch_start", 3)


@clause("CB-127", "EarlyStopping MUST NOT end training before min_epochs are done, and the stop "
        "it asked for comes when they are.", editions="2.2", needs="early_stopping",
        source="bug 11; differences 10.9")
def cb_127(run):
    t = run.play(stops, scores=CONSTANT, stopping={"patience": 1}, min_epochs=4)
    t.count("M.on_train_epoch_start", 4)
    t.count("M.training_step", 8)


def reused(stage):
    """Use one EarlyStopping and one ModelCheckpoint in two fits of two trainers."""
    stopping = stage.impl.EarlyStopping("score", patience=2, mode="min")
    saving = stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), monitor="score")
    for scores in ([1.0] * 3, [2.0] * 3):
        trainer = stage.trainer(stopping, saving, max_epochs=9, enable_checkpointing=True,
                                num_sanity_val_steps=0)
        stage.call("fit", trainer.fit, scored(stage, scores))
        stage.note("epochs", trainer.current_epoch)
        stage.note("best", float(saving.best_model_score))


@clause("CB-128", "An EarlyStopping or ModelCheckpoint that is used in another trainer's fit MUST "
        "start afresh.", editions="beyond", needs="early_stopping model_checkpoint older_hooks",
        source="bug 15: a fresh fit without a checkpoint starts clean")
def cb_128(run):
    t = run.play(reused)
    t.noted("epochs", 3, 3)
    t.noted("best", 1.0, 2.0)


# ModelCheckpoint.


def saves(stage, scores=(), saving=(), **flags):
    """Fit with ModelCheckpoint and note the files, the best, the k-th, and when it saved."""
    def saved(self, trainer, *more):
        stage.note("saved", "%d@%d" % (trainer.current_epoch, trainer.global_step))

    made = stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), **dict(saving))
    does = {} if scores else dict(validation_step=log_v, on_validation_epoch_end=None)
    trainer = stage.trainer(stage.Callback("c1", on_save_checkpoint=saved), made, **dict(dict(
        enable_checkpointing=True, max_epochs=max(len(scores), 2), num_sanity_val_steps=0),
        **flags))
    stage.call("fit", trainer.fit, scored(stage, scores, **does))
    stage.note("files", files(stage))
    stage.note("best", name(made.best_model_path))
    stage.note("score", None if made.best_model_score is None
               else round(float(made.best_model_score), 4))
    stage.note("kth", [name(made.kth_best_model_path), round(float(made.kth_value), 4)])
    stage.note("last", name(made.last_model_path))
    stage.note("contents", {each: contents(stage, each) for each in files(stage)})


def name(path):
    """Return a path without its folder."""
    return str(path or "").replace("\\", "/").rpartition("/")[2]


def contents(stage, file):
    """Return the epoch and step in a file, and the best file in the state of ModelCheckpoint."""
    from .. import subjects  # noqa: F401  (torch is there from here on)

    path = stage.path("ck") + "/" + file
    try:
        read = torch.load(path, map_location="cpu", weights_only=False)
    except TypeError:  # torch before 1.13
        read = torch.load(path, map_location="cpu")
    states = [state for key, state in read.get("callbacks", {}).items()
              if "ModelCheckpoint" in str(key)]
    best = name(states[0]["best_model_path"]) if states else None
    return [read["global_step"], best]


@clause("CB-129", "By default ModelCheckpoint MUST save after every training epoch and keep the "
        "newest file.", editions="2.2", needs="model_checkpoint", source="seed 1.1 built-in "
        "callbacks: save the model after every epoch; trace 2.2.5 model_checkpoint_default")
def cb_129(run):
    t = run.play(saves)
    t.noted("saved", "0@2", "1@4")
    t.noted("files", ["epoch=1-step=4.ckpt"])
    t.noted("best", "epoch=1-step=4.ckpt")


@clause("CB-130", "ModelCheckpoint MUST save the model after every epoch whose monitored quantity "
        "is better than all before, and keep the best.", editions="1.1 1.5 2.2",
        needs="model_checkpoint", source="seed 1.1 built-in callbacks: save the model after every "
        "epoch by monitoring a quantity",
        arguments="ModelCheckpoint.monitor ModelCheckpoint.mode")
def cb_130(run):
    t = run.play(saves, scores=[3.0, 4.0, 2.0, 2.5], saving=dict(
        monitor="score", mode="min", filename="{epoch}"))
    t.noted("files", ["epoch=2.ckpt"])
    t.noted("best", "epoch=2.ckpt")
    t.noted("score", 2.0)


RANKED = dict(monitor="score", mode="max", filename="{epoch}")
TIES = [0.5, 0.7, 0.7, 0.6]


@clause("CB-131", "With save_top_k=-1 ModelCheckpoint MUST keep all files and still know the best.",
        editions="1.1 1.5 2.2", needs="model_checkpoint", source="bug 12",
        arguments="ModelCheckpoint.save_top_k")
def cb_131(run):
    t = run.play(saves, scores=TIES, saving=dict(RANKED, save_top_k=-1))
    t.noted("files", ["epoch=%d.ckpt" % epoch for epoch in range(4)])
    t.noted("best", "epoch=1.ckpt")
    t.noted("score", 0.7)


@clause("CB-132", "With save_top_k=0 ModelCheckpoint MUST write nothing, and its best path stays "
        "empty.", editions="1.1 1.5 2.2", needs="model_checkpoint", source="bug 12",
        arguments="ModelCheckpoint.save_top_k")
def cb_132(run):
    t = run.play(saves, scores=TIES, saving=dict(RANKED, save_top_k=0))
    t.count("M.on_train_epoch_start", 4)
    t.noted("files", [])
    t.noted("best", "")
    t.equal("saved", t.noted("saved"), [])


@clause("CB-133", "Of equal scores the earlier file MUST stay: with save_top_k=1 a tie saves "
        "nothing.", editions="1.1 1.5 2.2", needs="model_checkpoint", source="bug 12",
        arguments="ModelCheckpoint.save_top_k ModelCheckpoint.mode")
def cb_133(run):
    t = run.play(saves, scores=TIES, saving=dict(RANKED, save_top_k=1))
    t.noted("files", ["epoch=1.ckpt"])
    t.noted("score", 0.7)


@clause("CB-134", "With save_top_k=2 ModelCheckpoint MUST keep the two best files and know the "
        "worse of them and its score.", editions="1.5 2.2", needs="model_checkpoint on_exception",
        source="bug 12",
        arguments="ModelCheckpoint.save_top_k")
def cb_134(run):
    t = run.play(saves, scores=TIES, saving=dict(RANKED, save_top_k=2))
    t.noted("files", ["epoch=1.ckpt", "epoch=2.ckpt"])
    t.equal("k-th value", t.noted("kth")[0][1], 0.7)
    t.noted("best", "epoch=1.ckpt")


@clause("CB-135", "Of two equal scores at the end of the top k the later file MUST go.",
        editions="beyond", needs="model_checkpoint older_hooks", source="bug 12: the side of a tie "
        "is to be chosen")
def cb_135(run):
    t = run.play(saves, scores=[0.5, 0.5, 0.7], saving=dict(RANKED, save_top_k=2))
    t.noted("files", ["epoch=0.ckpt", "epoch=2.ckpt"])
    t.noted("kth", ["epoch=0.ckpt", 0.5])


@clause("CB-136", "ModelCheckpoint MUST rank NaN as the worst score.", editions="1.1 1.5 2.2",
        needs="model_checkpoint", source="bug 10 (a)")
def cb_136(run):
    nan = float("nan")
    t = run.play(saves, scores=[nan, 3.0, 2.0, nan, 1.0], saving=dict(
        monitor="score", mode="min", filename="{epoch}"))
    t.noted("files", ["epoch=4.ckpt"])
    t.noted("best", "epoch=4.ckpt")
    t.noted("score", 1.0)


@clause("CB-137", "A ModelCheckpoint whose metric was never logged MUST fail once validation has "
        "run, with an error that lists the metrics there are.", editions="2.2",
        needs="model_checkpoint", source="bug 10 (b); trace 2.2.5 model_checkpoint_missing_monitor",
        arguments="ModelCheckpoint.monitor")
def cb_137(run):
    t = run.play(saves, fails=True, scores=TIES, saving=dict(monitor="nope"))
    t.raises("MisconfigurationException", "nope", "score")
    t.only("M.on_validation_end M.on_train_epoch_end", absent="M.on_train_end")


@clause("CB-138", "A ModelCheckpoint whose metric was not yet logged MUST only warn until "
        "validation has run once.", editions="2.2", needs="model_checkpoint",
        source="bug 10 (b), (c)", arguments="ModelCheckpoint.save_on_train_epoch_end")
def cb_138(run):
    t = run.play(saves, scores=TIES, check_val_every_n_epoch=2,
                 saving=dict(RANKED, save_on_train_epoch_end=True))
    t.warned("score")
    t.noted("files", ["epoch=3.ckpt"])


@clause("CB-139", "ModelCheckpoint MUST NOT overwrite a file that it is not replacing: names that "
        "collide get -v1, -v2, in order.", editions="2.2", needs="model_checkpoint",
        source="bug 13")
def cb_139(run):
    t = run.play(saves, scores=[3.0, 2.0, 1.0], saving=dict(
        monitor="score", filename="a", save_top_k=-1))
    t.noted("files", ["a-v1.ckpt", "a-v2.ckpt", "a.ckpt"])
    steps = {each: what[0] for each, what in t.noted("contents")[0].items()}
    t.equal("steps", steps, {"a.ckpt": 2, "a-v1.ckpt": 4, "a-v2.ckpt": 6})


@clause("CB-140", "With a fixed name and no metric, save_top_k=-1 MUST keep every file.",
        editions="beyond", needs="model_checkpoint older_hooks", source="bug 13")
def cb_140(run):
    t = run.play(saves, max_epochs=3, saving=dict(filename="a", save_top_k=-1))
    t.noted("files", ["a-v1.ckpt", "a-v2.ckpt", "a.ckpt"])


@clause("CB-141", "With enable_version_counter=False ModelCheckpoint MUST write to the same name "
        "again.", editions="2.2", needs="model_checkpoint", source="bug 13",
        arguments="ModelCheckpoint.enable_version_counter")
def cb_141(run):
    t = run.play(saves, scores=[3.0, 2.0], saving=dict(
        monitor="score", filename="a", save_top_k=2, enable_version_counter=False))
    t.noted("files", ["a.ckpt"])
    t.equal("step", t.noted("contents")[0]["a.ckpt"][0], 4)


@clause("CB-142", "last.ckpt MUST be written after the files of the top k, so that the state in it "
        "names the newest best.", editions="1.5 2.2", needs="model_checkpoint on_exception",
        source="bug 13",
        arguments="ModelCheckpoint.save_last")
def cb_142(run):
    t = run.play(saves, scores=[3.0, 2.0, 1.0], saving=dict(
        monitor="score", mode="min", filename="{epoch}", save_last=True))
    t.noted("files", ["epoch=2.ckpt", "last.ckpt"])
    t.equal("best, as last.ckpt has it", t.noted("contents")[0]["last.ckpt"][1], "epoch=2.ckpt")
    t.noted("last", "last.ckpt")


@clause("CB-143", "last.ckpt MUST hold the newest state although its score is not the best.",
        editions="2.2", needs="model_checkpoint", source="bug 13; differences 0: 2.2.5 is the "
        "edition",
        arguments="ModelCheckpoint.save_last")
def cb_143(run):
    t = run.play(saves, scores=[1.0, 2.0, 3.0], saving=dict(
        monitor="score", filename="{epoch}", save_last=True))
    t.noted("files", ["epoch=0.ckpt", "last.ckpt"])
    t.equal("step", t.noted("contents")[0]["last.ckpt"][0], 6)


@clause("CB-144", "last.ckpt MUST be one file that does not wait for every_n_epochs.",
        editions="2.2", needs="model_checkpoint", source="bug 13",
        arguments="ModelCheckpoint.save_last ModelCheckpoint.every_n_epochs")
def cb_144(run):
    t = run.play(saves, scores=[3.0, 2.0, 1.0], saving=dict(
        monitor="score", filename="{epoch}", save_last=True, every_n_epochs=2))
    t.noted("files", ["epoch=1.ckpt", "last.ckpt"])
    t.equal("step", t.noted("contents")[0]["last.ckpt"][0], 6)


@clause("CB-145", "With every_n_train_steps ModelCheckpoint MUST save in on_train_batch_end at "
        "every so many optimizer steps.", editions="2.2", needs="model_checkpoint",
        source="trace 2.2.5 model_checkpoint_every_n_train_steps; differences 4.4",
        arguments="ModelCheckpoint.every_n_train_steps")
def cb_145(run):
    t = run.play(saves, max_epochs=2, saving=dict(every_n_train_steps=3, save_top_k=-1))
    t.noted("saved", "1@3")
    t.only("C.on_train_batch_end M.on_train_batch_end ".replace("C.", "c1.") * 2
           + "c1.on_train_batch_end c1.on_save_checkpoint M.on_train_batch_end "
           "c1.on_train_batch_end M.on_train_batch_end")


@clause("CB-146", "With validation inside the epoch ModelCheckpoint MUST save at the end of each "
        "validation, after the other callbacks and before the module's on_validation_end.",
        editions="1.5 2.2", needs="model_checkpoint on_exception", source="differences 4.4; trace "
        "2.2.5 model_checkpoint_val_check_interval_half")
def cb_146(run):
    t = run.play(saves, scores=[2.0, 1.0], max_epochs=1, val_check_interval=0.5,
                 saving=dict(monitor="score"))
    t.only("c1.on_validation_end c1.on_save_checkpoint M.on_validation_end " * 2)


@clause("CB-147", "ModelCheckpoint MUST save once per epoch in on_train_epoch_end, after the other "
        "callbacks and the module.", editions="2.2", needs="model_checkpoint",
        source="differences 4.4; trace 2.2.5 model_checkpoint_default",
        hooks="C.on_save_checkpoint fires")
def cb_147(run):
    t = run.play(saves)
    t.only("c1.on_train_epoch_end M.on_train_epoch_end c1.on_save_checkpoint " * 2)


@clause("CB-148", "ModelCheckpoint MUST NOT save in the sanity check.", editions="1.1 1.5 2.2",
        needs="model_checkpoint", source="bug 4; trace model_checkpoint_sanity_check_does_not_save")
def cb_148(run):
    t = run.play(saves, scores=[1.0], max_epochs=1, num_sanity_val_steps=1,
                 saving=dict(monitor="score"))
    t.only("c1.on_sanity_check_start c1.on_sanity_check_end c1.on_train_start "
           "c1.on_save_checkpoint")


@clause("CB-149", "A file that drops out of the top k MUST be deleted only when its successor is "
        "written.", editions="beyond", needs="model_checkpoint older_hooks", source="bug 19; "
        "design 8.3: a failed save never costs the previous one")
def cb_149(run):
    run.play(looks_at_files).noted("while saving", [], ["epoch=0.ckpt"], ["epoch=1.ckpt"])


def looks_at_files(stage):
    """Note which files there are while the next one is put together."""
    def look(self, trainer, module, checkpoint):
        stage.note("while saving", files(stage))

    made = stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), filename="{epoch}")
    trainer = stage.trainer(stage.Callback("c1", on_save_checkpoint=look), made, max_epochs=3,
                            enable_checkpointing=True, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=1, val=1)))


# More of the above.


@clause("CB-150", "The predict hooks of a callback MUST be called start, epoch start, for each "
        "batch its start and end, epoch end, end, on callbacks in list order.", editions="2.2",
        needs="predict", source="seed 1.5 on_predict_start, on_predict_epoch_start, "
        "on_predict_batch_start, on_predict_batch_end, on_predict_epoch_end, on_predict_end",
        hooks=["C.on_predict_start fires arguments", "C.on_predict_epoch_start fires arguments",
               "C.on_predict_epoch_end fires arguments", "C.on_predict_end fires arguments"])
def cb_150(run):
    run.predict().only(EVALUATED.format("predict", BATCH.format("predict") * 2))


def init_returns(stage):
    """Return something from the init hooks."""
    hooks = dict(on_init_start=minus_one, on_init_end=minus_one)
    made = type("Own", (stage.impl.Callback,), hooks)()
    trainer = stage.trainer(made, stage.Callback("c1"))
    stage.note("trainer", isinstance(trainer, stage.impl.Trainer))
    stage.call("fit", trainer.fit, stage.module())


@clause("CB-151", "What on_init_start and on_init_end return MUST be ignored.", editions="1.1 1.5",
        needs="older_hooks", source="seed 1.5: return type None",
        hooks=["C.on_init_start return", "C.on_init_end return"])
def cb_151(run):
    t = run.play(init_returns)
    t.noted("trainer", True)
    t.only("c1.on_fit_start M.on_fit_start c1.on_fit_end M.on_fit_end")


def lambdas(stage):
    """Make a callback of functions."""
    told = lambda *args: stage.note("told", ", ".join(  # noqa: E731
        map(stage.recorder.word, args)))
    made = stage.impl.LambdaCallback(on_fit_start=told, on_train_batch_end=lambda *args: told(
        *args[:5]))
    stage.call("fit", stage.trainer(made, stage.Callback("c2")).fit, stage.module(dict(train=1)))


@clause("CB-152", "A LambdaCallback MUST call each function that it was made of as that hook.",
        editions="1.1 1.5 2.2", needs="lambda_callback", source="lightning 2.2.5 LambdaCallback",
        arguments="LambdaCallback.functions")
def cb_152(run):
    first, second = run.play(lambdas).noted("told")
    run.play(lambdas).equal("on_fit_start", first, "trainer, module")
    run.play(lambdas).equal("on_train_batch_end", second.rpartition(", ")[2], "0")


def with_worker(self):
    """Return a loader with a process of its own."""
    return torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=1, num_workers=1)


def workers(stage):
    """Fail in training with a loader that has a worker, and look for it afterwards."""
    import multiprocessing

    before = set(multiprocessing.active_children())
    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(train_dataloader=with_worker, training_step=boom))
    stage.note("alive", len(set(multiprocessing.active_children()) - before))


@clause("CB-153", "After an error no worker process of a loader MUST be left alive, although the "
        "error is kept.", editions="2.2", needs="hooks_2.2", source="bug 8: own resources are "
        "released", hooks="C.on_exception fires")
def cb_153(run):
    t = run.play(workers, fails=True)
    t.raises("RuntimeError", "boom")
    t.noted("alive", 0)


# What the arguments of the built-in classes mean, beyond what is above.


def heard(function):
    """Call a function, and return what is said through logging meanwhile."""
    import logging

    said, before, disabled = [], logging.Logger.handle, logging.root.manager.disable
    logging.Logger.handle = lambda self, record: said.append(record.getMessage())
    logging.disable(logging.NOTSET)
    try:
        function()
    finally:
        logging.Logger.handle = before
        logging.disable(disabled)
    return said


def says(stage, story, about, **config):
    """Play a story and note how many messages are about something."""
    said = heard(lambda: story(stage, **config))
    stage.note("messages", sum(about in each for each in said))


def stops_aloud(stage, **stopping):
    """Stop early, and note how often the metric is named."""
    says(stage, stops, "score", scores=[3.0, 2.0, 2.0, 2.0], stopping=dict(stopping, patience=2))


@clause("CB-194", "With verbose EarlyStopping MUST say each improvement of its metric and why it "
        "stops, and without it nothing.", editions="1.5 2.2",
        needs="early_stopping on_exception", source="lightning 1.5.10 and 2.2.5 EarlyStopping",
        arguments="EarlyStopping.verbose")
def cb_194(run):
    run.play(stops_aloud, verbose=True).noted("messages", 3)
    run.play(stops_aloud, verbose=False).noted("messages", 0)


@clause("CB-155", "With log_rank_zero_only EarlyStopping MUST say on the first process what it "
        "says without.", editions="2.2", needs="early_stopping",
        source="lightning 2.2.5 EarlyStopping",
        arguments="EarlyStopping.log_rank_zero_only EarlyStopping.verbose")
def cb_155(run):
    run.play(stops_aloud, verbose=True, log_rank_zero_only=True).noted("messages", 3)


@clause("CB-156", "EarlyStopping MUST check at the end of training epochs if "
        "check_on_train_epoch_end is True, and at the end of validations if it is False.",
        editions="1.5 2.2", needs="early_stopping on_exception",
        source="lightning 1.5.10 and 2.2.5 EarlyStopping",
        arguments="EarlyStopping.check_on_train_epoch_end")
def cb_156(run):
    t = run.play(stops, scores=CONSTANT, val_check_interval=0.5,
                 stopping={"patience": 2, "check_on_train_epoch_end": True})
    t.count("M.on_train_epoch_start", 3)
    t.noted("validations", 6)
    t = run.play(stops, scores=CONSTANT, val_check_interval=0.5,
                 stopping={"patience": 3, "check_on_train_epoch_end": False})
    t.count("M.on_train_epoch_start", 2)
    t.noted("validations", 4)


@clause("CB-157", "A mode that is neither min nor max MUST be refused when EarlyStopping or "
        "ModelCheckpoint is made.", editions="1.5 2.2",
        needs="early_stopping model_checkpoint on_exception",
        source="lightning 1.5.10 and 2.2.5 EarlyStopping, ModelCheckpoint",
        arguments="EarlyStopping.mode ModelCheckpoint.mode")
def cb_157(run):
    for name in ("EarlyStopping", "ModelCheckpoint"):
        run.play(makes, what=name, monitor="v", mode="auto", fails=True).raises(
            "MisconfigurationException", "auto", "min", "max")


def makes(stage, what, **arguments):
    """Make an object of a class of the implementation, as a call that may fail."""
    spare = stage.trainer()

    def make():
        try:
            getattr(stage.impl, what)(**arguments)
        finally:
            stage.recorder.trainer = stage.recorder.trainer or spare

    stage.call("made", make)


def default_folder(stage, logger):
    """Note the folder that a ModelCheckpoint without one takes, below the root."""
    root, made = stage.folder, stage.impl.ModelCheckpoint()
    loggers = stage.impl.CSVLogger(root, name="n", version=3) if logger else False
    trainer = stage.trainer(made, logger=loggers, max_epochs=1, enable_checkpointing=True,
                            num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=1, val=1)))
    stage.note("dirpath", str(made.dirpath).replace(root, "").replace("\\", "/"))
    stage.note("file", name(made.best_model_path) != "")


@clause("CB-158", "Without a dirpath ModelCheckpoint MUST save to checkpoints in the folder of the "
        "logger's version, or of the trainer where there is no logger.", editions="1.5 2.2",
        needs="model_checkpoint csv_logger on_exception",
        source="lightning 1.5.10 and 2.2.5 ModelCheckpoint", arguments="ModelCheckpoint.dirpath")
def cb_158(run):
    run.play(default_folder, logger=True).noted("dirpath", "/n/version_3/checkpoints")
    run.play(default_folder, logger=False).noted("dirpath", "/checkpoints")
    run.play(default_folder, logger=False).noted("file", True)


@clause("CB-159", "A filename MUST be filled with the epoch, the step and the logged metrics, each "
        "after its name and formatted as it says.", editions="2.2", needs="model_checkpoint",
        source="lightning 2.2.5 ModelCheckpoint", arguments="ModelCheckpoint.filename")
def cb_159(run):
    t = run.play(saves, scores=[3.0, 2.0], saving=dict(
        monitor="score", filename="{epoch:02d}-{step}-{score:.2f}", save_top_k=-1))
    t.noted("files", ["epoch=00-step=2-score=3.00.ckpt", "epoch=01-step=4-score=2.00.ckpt"])


@clause("CB-160", "With auto_insert_metric_name=False a filename MUST be filled without the names.",
        editions="1.5 2.2", needs="model_checkpoint on_exception",
        source="lightning 1.5.10 and 2.2.5 ModelCheckpoint",
        arguments="ModelCheckpoint.auto_insert_metric_name ModelCheckpoint.filename")
def cb_160(run):
    t = run.play(saves, scores=[3.0, 2.0], saving=dict(
        monitor="score", filename="e{epoch}-s{score:.1f}", auto_insert_metric_name=False))
    t.noted("files", ["e1-s2.0.ckpt"])


@clause("CB-161", "A field of a filename that was never logged MUST be filled with 0.",
        editions="1.5 2.2", needs="model_checkpoint on_exception",
        source="lightning 1.5.10 and 2.2.5 ModelCheckpoint", arguments="ModelCheckpoint.filename")
def cb_161(run):
    t = run.play(saves, scores=[3.0], max_epochs=1, saving=dict(filename="{nope:.1f}"))
    t.noted("files", ["nope=0.0.ckpt"])


@clause("CB-162", "A field of a filename that was never logged MUST be told, with the names there "
        "are.", editions="beyond", needs="model_checkpoint older_hooks",
        source="design 5: every misuse is told", arguments="ModelCheckpoint.filename")
def cb_162(run):
    t = run.play(saves, scores=[3.0, 2.0], saving=dict(filename="{nope:.1f}"))
    t.warned("nope", "score")


def saves_aloud(stage, **saving):
    """Save by a metric, and note how often it is named."""
    says(stage, saves, "score", scores=[3.0, 2.0, 2.5], saving=dict(
        saving, monitor="score", filename="{epoch}"))


@clause("CB-163", "With verbose ModelCheckpoint MUST say of each check whether it saves, and "
        "without it nothing.", editions="1.5 2.2", needs="model_checkpoint on_exception",
        source="lightning 1.5.10 and 2.2.5 ModelCheckpoint", arguments="ModelCheckpoint.verbose")
def cb_163(run):
    run.play(saves_aloud, verbose=True).noted("messages", 3)
    run.play(saves_aloud, verbose=False).noted("messages", 0)


def links(stage):
    """Save the last as a link, and note where it points."""
    import os

    made = stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), filename="{epoch}",
                                      save_last="link")
    trainer = stage.trainer(made, enable_checkpointing=True, max_epochs=2, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=1, val=1)))
    stage.note("files", files(stage))
    last = os.path.join(stage.path("ck"), "last.ckpt")
    stage.note("points to", name(os.path.realpath(last)))
    stage.note("is a link", os.path.islink(last))


@clause("CB-164", "With save_last='link' last.ckpt MUST be a symbolic link to the newest file.",
        editions="2.2", needs="model_checkpoint", source="lightning 2.2.5 ModelCheckpoint",
        arguments="ModelCheckpoint.save_last")
def cb_164(run):
    t = run.play(links)
    t.noted("files", ["epoch=1.ckpt", "last.ckpt"])
    t.noted("points to", "epoch=1.ckpt")
    t.noted("is a link", True)


def keys_of_file(stage, weights_only):
    """Note which of these keys are in a file."""
    made = stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), filename="a",
                                      save_weights_only=weights_only)
    trainer = stage.trainer(made, enable_checkpointing=True, max_epochs=1, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=1, val=1)))
    path = stage.path("ck") + "/a.ckpt"
    try:
        read = torch.load(path, map_location="cpu", weights_only=False)
    except TypeError:  # torch before 1.13
        read = torch.load(path, map_location="cpu")
    stage.note("keys", sorted({"state_dict", "epoch", "callbacks", "optimizer_states",
                               "lr_schedulers"} & set(read)))


@clause("CB-165", "With save_weights_only a file MUST have the weights and no state of callbacks, "
        "optimizers and schedulers.", editions="1.5 2.2", needs="model_checkpoint on_exception",
        source="lightning 1.5.10 and 2.2.5 ModelCheckpoint",
        arguments="ModelCheckpoint.save_weights_only")
def cb_165(run):
    run.play(keys_of_file, weights_only=True).noted("keys", ["epoch", "state_dict"])
    run.play(keys_of_file, weights_only=False).noted(
        "keys", ["callbacks", "epoch", "lr_schedulers", "optimizer_states", "state_dict"])


def saves_by_time(stage, **time):
    """Save each time that this much time has passed."""
    import datetime

    saves(stage, max_epochs=2, saving=dict(
        train_time_interval=datetime.timedelta(**time), save_top_k=-1))


@clause("CB-166", "With train_time_interval ModelCheckpoint MUST save after the batches at whose "
        "end that much time has passed, and at no other time.", editions="2.2",
        needs="model_checkpoint", source="lightning 2.2.5 ModelCheckpoint",
        arguments="ModelCheckpoint.train_time_interval")
def cb_166(run):
    run.play(saves_by_time, microseconds=1).noted("saved", "0@1", "0@2", "1@3", "1@4")
    t = run.play(saves_by_time, hours=1)
    t.count("M.on_train_batch_end", 4)
    t.equal("saved", t.noted("saved"), [])


@clause("CB-167", "With every_n_epochs ModelCheckpoint MUST save after each so-manieth epoch.",
        editions="2.2", needs="model_checkpoint", source="lightning 2.2.5 ModelCheckpoint",
        arguments="ModelCheckpoint.every_n_epochs")
def cb_167(run):
    t = run.play(saves, max_epochs=4, saving=dict(every_n_epochs=2, save_top_k=-1))
    t.noted("saved", "1@4", "3@8")


@clause("CB-168", "ModelCheckpoint MUST save at the end of training epochs if "
        "save_on_train_epoch_end is True, and at the end of validations if it is False.",
        editions="1.5 2.2", needs="model_checkpoint on_exception",
        source="lightning 1.5.10 and 2.2.5 ModelCheckpoint",
        arguments="ModelCheckpoint.save_on_train_epoch_end")
def cb_168(run):
    t = run.play(saves, val_check_interval=0.5, max_epochs=1, scores=[2.0, 1.0],
                 saving=dict(monitor="score", save_on_train_epoch_end=True))
    t.only("c1.on_validation_end c1.on_validation_end c1.on_save_checkpoint")
    t = run.play(saves, max_epochs=1, scores=[2.0],
                 saving=dict(monitor="score", save_on_train_epoch_end=False))
    t.only("c1.on_validation_end c1.on_save_checkpoint c1.on_train_epoch_end")


def one_group(self):
    """Return an optimizer with one group."""
    return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def two_groups(self):
    """Return an optimizer with two groups, the second called by a name."""
    groups = [dict(params=[self.layer.weight], name="w"), dict(params=[self.layer.bias], lr=0.2,
                                                                name="b")]
    return torch.optim.SGD(groups, lr=0.1)


def two_unnamed(self):
    """Return an optimizer with two groups."""
    return torch.optim.SGD([dict(params=[self.layer.weight]), dict(params=[self.layer.bias])], 0.1)


def named_schedule(self):
    """Return an optimizer with a schedule that has a name and steps with the batches."""
    made = torch.optim.SGD(self.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(made, 1, 0.5)
    return [made], [dict(scheduler=schedule, name="mine", interval="step")]


def epoch_schedule(self):
    """Return an optimizer with a schedule that steps with the epochs."""
    made = torch.optim.SGD(self.parameters(), lr=0.1)
    return [made], [torch.optim.lr_scheduler.StepLR(made, 1, 0.5)]


def monitors_rates(stage, optimizers, **monitoring):
    """Monitor the rates of two epochs of three batches; note [step, {name: value}]."""
    from .. import subjects

    logger = subjects.logger(stage.impl, stage.recorder)
    trainer = stage.trainer(stage.impl.LearningRateMonitor(**monitoring), max_epochs=2,
                            num_sanity_val_steps=0, logger=logger, log_every_n_steps=1)
    stage.call("fit", trainer.fit, stage.module(
        dict(train=3), without=("val_dataloader", "validation_step"),
        configure_optimizers=optimizers))
    for step, metrics in logger.logged:
        stage.note("logged", [step, metrics])


@clause("CB-169", "A rate MUST be called lr and the optimizer's class, with /pgN or the group's "
        "name where there are several groups, or by the name of its scheduler.", editions="2.2",
        needs="lr_monitor logger", source="lightning 2.2.5 LearningRateMonitor",
        arguments="LearningRateMonitor.logging_interval")
def cb_169(run):
    for optimizers, names in ((one_group, ["lr-SGD"]), (two_groups, ["lr-SGD/b", "lr-SGD/w"]),
                              (two_unnamed, ["lr-SGD/pg1", "lr-SGD/pg2"]),
                              (named_schedule, ["mine"])):
        t = run.play(monitors_rates, optimizers=optimizers, logging_interval="epoch")
        for _, metrics in t.noted("logged"):
            t.equal("names", sorted(metrics), names)
        t.equal("times", len(t.noted("logged")), 2)


@clause("CB-170", "LearningRateMonitor MUST log at every step or at the start of every epoch as "
        "logging_interval says, and without one as the scheduler's interval says.", editions="2.2",
        needs="lr_monitor logger", source="lightning 2.2.5 LearningRateMonitor",
        arguments="LearningRateMonitor.logging_interval")
def cb_170(run):
    every, epochs = [0, 1, 2, 3, 4, 5], [0, 3]
    for optimizers, interval, steps in (
            (named_schedule, "epoch", epochs), (named_schedule, None, every),
            (epoch_schedule, "step", every), (epoch_schedule, None, epochs)):
        t = run.play(monitors_rates, optimizers=optimizers, logging_interval=interval)
        t.equal("steps", [step for step, _ in t.noted("logged")], steps)
    rates = [list(metrics.values())[0] for _, metrics in run.play(
        monitors_rates, optimizers=named_schedule, logging_interval=None).noted("logged")]
    t.equal("rates", rates, [0.1, 0.05, 0.025, 0.0125, 0.00625, 0.003125])


@clause("CB-171", "With log_momentum and log_weight_decay LearningRateMonitor MUST log these "
        "beside the rate, and by default neither.", editions="2.2", needs="lr_monitor logger",
        source="lightning 2.2.5 LearningRateMonitor",
        arguments="LearningRateMonitor.log_momentum LearningRateMonitor.log_weight_decay")
def cb_171(run):
    rate = {"lr-SGD": 0.1}
    for monitoring, more in (
            ({}, {}), ({"log_momentum": True}, {"lr-SGD-momentum": 0.9}),
            ({"log_weight_decay": True}, {"lr-SGD-weight_decay": 0.01})):
        t = run.play(monitors_rates, optimizers=one_group, logging_interval="epoch", **monitoring)
        t.noted("logged", [0, dict(rate, **more)], [3, dict(rate, **more)])


@clause("CB-172", "A logging_interval that is unknown MUST be refused when LearningRateMonitor is "
        "made, and a trainer without logger when training starts.", editions="1.5 2.2",
        needs="lr_monitor on_exception", source="lightning 1.5.10 and 2.2.5 LearningRateMonitor",
        arguments="LearningRateMonitor.logging_interval")
def cb_172(run):
    run.play(makes, what="LearningRateMonitor", logging_interval="day", fails=True).raises(
        "MisconfigurationException", "logging_interval")
    t = run.fit(callbacks=monitor, fails=True, val_batches=0)
    t.raises("MisconfigurationException", "logger")
    t.none("M.on_train_epoch_start")


def monitor(stage):
    """Return a LearningRateMonitor."""
    return [stage.impl.LearningRateMonitor()]


@clause("CB-173", "A scheduling that is empty or no dict, or whose keys are no epochs, MUST be "
        "refused when GradientAccumulationScheduler is made.", editions="1.5 2.2",
        needs="gradient_accumulation_scheduler on_exception",
        source="lightning 1.5.10 and 2.2.5 GradientAccumulationScheduler",
        arguments="GradientAccumulationScheduler.scheduling")
def cb_173(run):
    for scheduling, kind in (({}, "TypeError"), ({"1": 2}, "MisconfigurationException"),
                             ({-1: 2}, "MisconfigurationException"),
                             ({1: 0}, "MisconfigurationException")):
        run.play(makes, what="GradientAccumulationScheduler", scheduling=scheduling,
                 fails=True).raises(kind)


@clause("CB-174", "GPUStatsMonitor MUST log memory and utilisation before and after a batch unless "
        "asked not to, and times, fan and temperatures if asked.", editions="1.1 1.5",
        needs="gpu_stats_monitor logger", source="seed 1.1 built-in callbacks: monitors and logs "
        "GPU stats; lightning 1.5.10 GPUStatsMonitor", device="cuda",
        arguments="GPUStatsMonitor.memory_utilization GPUStatsMonitor.gpu_utilization "
                  "GPUStatsMonitor.intra_step_time GPUStatsMonitor.inter_step_time "
                  "GPUStatsMonitor.fan_speed GPUStatsMonitor.temperature")
def cb_174(run):
    nothing = dict(memory_utilization=False, gpu_utilization=False)
    for asked, words in (
            ({}, ["memory.used", "memory.free", "utilization.memory", "utilization.gpu"]),
            (dict(nothing, intra_step_time=True), ["intra_step"]),
            (dict(nothing, inter_step_time=True), ["inter_step"]),
            (dict(nothing, fan_speed=True), ["fan.speed"]),
            (dict(nothing, temperature=True), ["temperature.gpu", "temperature.memory"])):
        t = run.play(reads_gpus, **asked)
        t.noted("names", sorted(words))


def reads_gpus(stage, **asked):
    """Fit on a GPU with GPUStatsMonitor, and note which of the figures came."""
    from .. import subjects

    logger = subjects.logger(stage.impl, stage.recorder)
    trainer = stage.trainer(stage.impl.GPUStatsMonitor(**asked), logger=logger, max_epochs=1,
                            log_every_n_steps=1, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(
        dict(train=3), without=("val_dataloader", "validation_step")))
    words = ("memory.used", "memory.free", "utilization.memory", "utilization.gpu", "intra_step",
             "inter_step", "fan.speed", "temperature.gpu", "temperature.memory")
    names = [name for _, metrics in logger.logged for name in metrics]
    stage.note("names", sorted(word for word in words if any(word in name for name in names)))


def bars(stage, **arguments):
    """Fit two epochs of four batches with a bar; note the lines that it left."""
    import sys

    drawn = []

    class Look(stage.impl.Callback):
        def on_train_batch_end(self, trainer, module, *args, **named):
            bar = trainer.progress_bar_callback
            bar = (getattr(bar, "train_progress_bar", None)
                   or getattr(bar, "main_progress_bar", None))
            drawn.append(None if bar is None else abs(bar.pos))

    bar = stage.impl.TQDMProgressBar(**arguments)
    trainer = stage.trainer(bar, Look(), max_epochs=2, enable_progress_bar=True)
    stage.call("fit", trainer.fit, stage.module(
        dict(train=4), without=("val_dataloader", "validation_step")))
    sys.stdout.flush()
    shown = stage.output.getvalue()
    stage.note("lines of epochs", [shown.count("Epoch 0: 100%") > 0,
                                   shown.count("Epoch 1: 100%") > 0])
    stage.note("kept", [line for line in range(2) if any(
        part.rstrip("\r ").rpartition("\r")[2].startswith("Epoch %d: 100%%" % line)
        for part in shown.split("\n"))])
    stage.note("places", sorted(set(drawn), key=str))


@clause("CB-175", "With refresh_rate=0 a progress bar MUST draw nothing, and otherwise each epoch "
        "to its end.", editions="1.5 2.2", needs="tqdm_bar on_exception",
        source="lightning 1.5.10 and 2.2.5 TQDMProgressBar",
        arguments="TQDMProgressBar.refresh_rate")
def cb_175(run):
    run.play(bars, refresh_rate=0).noted("lines of epochs", [False, False])
    run.play(bars, refresh_rate=3).noted("lines of epochs", [True, True])


@clause("CB-176", "process_position MUST leave so many pairs of lines free above the bar.",
        editions="1.5 2.2", needs="tqdm_bar on_exception",
        source="lightning 1.5.10 and 2.2.5 TQDMProgressBar",
        arguments="TQDMProgressBar.process_position")
def cb_176(run):
    run.play(bars, process_position=2).noted("places", [4])
    run.play(bars, process_position=0).noted("places", [0])


@clause("CB-177", "With leave the bar of each epoch MUST stay, and without it only the last.",
        editions="2.2", needs="bar_leave", source="lightning 2.6.6 TQDMProgressBar",
        arguments="TQDMProgressBar.leave")
def cb_177(run):
    run.play(bars, leave=True).noted("kept", [0, 1])
    run.play(bars, leave=False).noted("kept", [1])


def timed(stage, interval="step", verbose=True, **duration):
    """Train until the time is up, and note what is said about it."""
    import datetime

    made = stage.impl.Timer(datetime.timedelta(**duration), interval=interval, verbose=verbose)
    trainer = stage.trainer(made, max_epochs=3, num_sanity_val_steps=0)
    module = stage.module(dict(train=2), without=("val_dataloader", "validation_step"))
    said = heard(lambda: stage.call("fit", trainer.fit, module))
    stage.note("messages", sum("time" in each.lower() for each in said))
    stage.note("elapsed", made.time_elapsed("train") > 0)
    stage.note("remaining", made.time_remaining("train") < 0)


@clause("CB-178", "A Timer MUST stop training once its duration has passed, after a batch or an "
        "epoch as interval says, and know the time that training took.", editions="1.5 2.2",
        needs="timer on_exception", source="lightning 1.5.10 and 2.2.5 Timer",
        arguments="Timer.duration Timer.interval")
def cb_178(run):
    for config, batches in ((dict(microseconds=1), 1), (dict(microseconds=1, interval="epoch"), 2),
                            (dict(hours=1), 6)):
        t = run.play(timed, **config)
        t.count("M.training_step", batches)
        t.noted("elapsed", True)
        t.noted("remaining", batches < 6)


@clause("CB-179", "A Timer MUST say that the time is up if it is verbose, and only then.",
        editions="1.5 2.2", needs="timer on_exception", source="lightning 1.5.10 and 2.2.5 Timer",
        arguments="Timer.verbose")
def cb_179(run):
    t = run.play(timed, microseconds=1)
    t.noted("messages", 1)
    run.play(timed, microseconds=1, verbose=False).noted("messages", 0)


def summed(stage, depth):
    """Fit with a summary, and note which of the layers it names."""
    module = stage.module(dict(train=1), without=("val_dataloader", "validation_step"))
    module.layer = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 1)))
    trainer = stage.trainer(stage.impl.ModelSummary(max_depth=depth), max_epochs=1)
    said = heard(lambda: stage.call("fit", trainer.fit, module))
    words = ("\n".join(said) + "\n" + stage.output.getvalue()).split()
    stage.note("layers", [each for each in ("layer", "layer.0", "layer.0.0", "drop")
                          if each in words])


@clause("CB-180", "ModelSummary MUST name the layers down to max_depth, all with -1, and none with "
        "0.", editions="1.5 2.2", needs="model_summary on_exception",
        source="lightning 1.5.10 and 2.2.5 ModelSummary", arguments="ModelSummary.max_depth")
def cb_180(run):
    for depth, layers in ((1, ["layer", "drop"]), (2, ["layer", "layer.0", "drop"]),
                          (-1, ["layer", "layer.0", "layer.0.0", "drop"]), (0, [])):
        run.play(summed, depth=depth).noted("layers", layers)


# Trainer.tune, and the Tuner of edition 2.2.


def problem():
    """Return a loader that is the same at every call: x, and 3 x_0 + x_1 ** 2."""
    drawn = torch.Generator().manual_seed(0)
    x = torch.randn(400, 8, generator=drawn)
    data = torch.cat([x, x[:, :1] * 3 + x[:, 1:2] ** 2], 1)
    return torch.utils.data.DataLoader(data, batch_size=16)


def learner(stage, loss=None, **attributes):
    """Return a recorded module that learns it, with a rate that is kept in ``lr``."""
    def step(self, batch, *more):
        error = ((self.net(batch[:, :8]) - batch[:, 8:]) ** 2).mean()
        return loss(error) if loss else error

    without = ["%s_dataloader" % kind for kind in ("train", "val", "test", "predict")]
    module = stage.module(without=without + ["validation_step"], training_step=step,
                          configure_optimizers=own_rate)
    torch.manual_seed(3)
    module.net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(),
                                     torch.nn.Linear(32, 1))
    for each, value in dict(dict(lr=0.25), **attributes).items():
        setattr(module, each, value)
    return module


def own_rate(self):
    """Return an optimizer with the module's own rate."""
    return torch.optim.SGD(self.parameters(), lr=self.lr)


def tunes(stage, flag=True, loss=None, attributes=(), **how):
    """Tune as in edition 1.5, with a data module; note the result, and what is left."""
    module = learner(stage, loss, **dict(attributes))
    before = {key: value.clone() for key, value in module.state_dict().items()}
    trainer = stage.trainer(stage.Callback("c1"), max_epochs=20, num_sanity_val_steps=0,
                            auto_lr_find=flag)
    data = stage.Datamodule(train_dataloader=lambda self: problem(), batches=dict(val=0))
    stage.call("tune", trainer.tune, module, datamodule=data, lr_find_kwargs=dict(how))
    finish(stage, stage.values["tune"]["lr_find"], module, before, trainer)


def finish(stage, found, module, before, trainer):
    """Note what was found, and what it left."""
    stage.note("rates", list(found.results["lr"]))
    stage.note("losses", list(found.results["loss"]))
    stage.note("suggestion", found.suggestion())
    stage.note("lr", float(module.lr))
    stage.note("speed", getattr(module, "speed", None))
    stage.note("weights", all(torch.equal(value, before[key])
                              for key, value in module.state_dict().items()))
    stage.note("counters", [trainer.global_step, trainer.current_epoch])


@clause("CB-181", "Trainer.tune MUST call setup and teardown with the stage tune on the data "
        "module and the module.", editions="1.5", needs="tune datamodule on_exception",
        source="seed 1.5 setup, teardown: tune begins, tune ends; lightning 1.5.10 Trainer.tune",
        hooks=["DM.setup arguments", "DM.teardown arguments"])
def cb_181(run):
    t = run.play(tunes, num_training=3, update_attr=False)
    t.only("D.setup(tune) M.setup(tune) M.training_step M.training_step M.training_step "
           "D.teardown(tune) M.teardown(tune)")


@clause("CB-182", "Trainer.tune MUST call setup and teardown with the stage tune on callbacks.",
        editions="1.5", needs="tune datamodule on_exception",
        source="seed 1.5 setup, teardown: tune begins, tune ends",
        hooks=["C.setup arguments", "C.teardown arguments"])
def cb_182(run):
    t = run.play(tunes, num_training=3, update_attr=False)
    t.only("c1.setup(tune) M.setup(tune) c1.teardown(tune) M.teardown(tune)")


@clause("CB-183", "While the rate is swept the trainer's callbacks MUST NOT be called.",
        editions="1.5", needs="tune datamodule on_exception", source="lightning 1.5.10 "
        "Trainer.tune")
def cb_183(run):
    t = run.play(tunes, num_training=3, update_attr=False)
    t.only("M.on_train_start " + "M.on_train_batch_start M.training_step " * 3 + "M.on_train_end",
           absent="c1.on_train_start c1.on_train_batch_start c1.on_train_end c1.on_fit_start")


@clause("CB-184", "Trainer.tune MUST sweep the rate from min_lr to max_lr in num_training steps, "
        "by the same factor or the same amount as mode says.", editions="1.5",
        needs="tune datamodule on_exception", source="lightning 1.5.10 lr_find",
        arguments="Trainer.tune.lr_find_kwargs Tuner.lr_find.min_lr Tuner.lr_find.max_lr "
                  "Tuner.lr_find.num_training Tuner.lr_find.mode")
def cb_184(run):
    how = dict(min_lr=0.001, max_lr=0.1, num_training=20, early_stop_threshold=None)
    for mode, second, tenth in (("exponential", 0.001 * 100 ** 0.1, 0.01),
                                ("linear", 0.001 + 0.099 * 0.1, 0.0505)):
        t = run.play(tunes, mode=mode, **how)
        rates = t.noted("rates")[0]
        t.equal("number of rates", len(rates), 20)
        t.equal("rates", [rates[0], rates[1], rates[9], rates[19]], [0.001, second, tenth, 0.1])


@clause("CB-185", "Trainer.tune MUST set the module's lr to the rate at which the running mean of "
        "the losses falls most steeply.", editions="1.5", needs="tune datamodule on_exception",
        source="lightning 1.5.10 lr_find", arguments="Trainer.tune.model Trainer.tune.datamodule "
        "Tuner.lr_find.update_attr")
def cb_185(run):
    t = run.play(tunes)
    t.equal("suggestion, times a million", 1e6 * t.noted("suggestion")[0], 0.478630)
    t.equal("lr, times a million", 1e6 * t.noted("lr")[0], 0.478630)
    t.equal("number of rates", len(t.noted("rates")[0]), 99)


@clause("CB-186", "With auto_lr_find='name' Trainer.tune MUST set the attribute of that name.",
        editions="1.5", needs="tune datamodule on_exception", source="lightning 1.5.10 lr_find",
        arguments="Tuner.lr_find.attr_name")
def cb_186(run):
    t = run.play(tunes, flag="speed", attributes=dict(speed=1.0))
    t.noted("lr", 0.25)
    t.equal("speed, times a million", 1e6 * t.noted("speed")[0], 0.478630)


def explodes(error):
    """Return the loss, which is a thousandfold from call 16 on."""
    explodes.calls += 1
    return error * 0 + (1000.0 if explodes.calls > 15 else 1.0)


explodes.calls = 0


def tunes_and_explodes(stage, **how):
    """Tune a module whose loss explodes."""
    explodes.calls = 0
    tunes(stage, loss=explodes, update_attr=False, **how)


@clause("CB-187", "The sweep MUST end once the loss is more than early_stop_threshold times the "
        "best, and go on to the end without one.", editions="1.5",
        needs="tune datamodule on_exception",
        source="lightning 1.5.10 lr_find", arguments="Tuner.lr_find.early_stop_threshold")
def cb_187(run):
    t = run.play(tunes_and_explodes)
    t.equal("number of rates", len(t.noted("rates")[0]), 16)
    t = run.play(tunes_and_explodes, early_stop_threshold=None)
    t.equal("number of rates", len(t.noted("rates")[0]), 100)


@clause("CB-188", "After Trainer.tune weights and counters MUST be those of before.",
        editions="1.5", needs="tune datamodule on_exception", source="lightning 1.5.10 lr_find")
def cb_188(run):
    t = run.play(tunes, num_training=20, update_attr=False)
    t.count("M.training_step", 20)
    t.noted("weights", True)
    t.noted("counters", [0, 0])


def draws(stage):
    """Note the random number before and after a sweep whose losses draw some."""
    module = learner(stage, noisy)
    trainer = stage.trainer(max_epochs=20, num_sanity_val_steps=0)
    torch.manual_seed(5)
    expected = torch.rand(()).item()
    torch.manual_seed(5)
    stage.call("tune", trainer.tune, module, problem(), lr_find_kwargs=dict(num_training=5))
    stage.note("steps", len(stage.values["tune"]["lr_find"].results["lr"]))
    stage.note("is the same", torch.rand(()).item() == expected)


def noisy(error):
    """Return the loss with noise."""
    return error + torch.rand(())


@clause("CB-189", "Trainer.tune MUST draw no random number that a fit after it would have drawn, "
        "and sweep also without auto_lr_find.", editions="beyond", needs="tune older_hooks",
        source="design 5: no trace is left", arguments="Trainer.tune.train_dataloaders")
def cb_189(run):
    t = run.play(draws)
    t.noted("steps", 5)
    t.noted("is the same", True)


def finds(stage, by_datamodule=False, **arguments):
    """Sweep as in edition 2.2."""
    module = learner(stage)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    trainer = stage.trainer(stage.Callback("c1"), max_epochs=20, num_sanity_val_steps=0)
    data = dict(train_dataloaders=problem())
    if by_datamodule:
        data = dict(datamodule=stage.Datamodule(train_dataloader=lambda self: problem(),
                                                batches=dict(val=0)))
    stage.call("lr_find", stage.impl.Tuner(trainer).lr_find, module, **dict(data, **arguments))
    finish(stage, stage.values["lr_find"], module, before, trainer)


@clause("CB-190", "Tuner.lr_find MUST sweep from min_lr to max_lr, suggest the rate at which the "
        "loss falls most steeply from step to step, and set the module's lr to it.", editions="2.2",
        needs="tuner hooks_2.2", source="lightning 2.2.5 Tuner.lr_find",
        arguments="Tuner.lr_find.model Tuner.lr_find.train_dataloaders Tuner.lr_find.datamodule "
                  "Tuner.lr_find.update_attr Tuner.lr_find.method")
def cb_190(run):
    for config in (dict(method="fit"), dict(by_datamodule=True)):
        t = run.play(finds, **config)
        t.equal("suggestion, times a million", 1e6 * t.noted("suggestion")[0], 0.478630)
        t.equal("lr", t.noted("lr")[0] * 1e6, t.noted("suggestion")[0] * 1e6)
        t.equal("number of rates", len(t.noted("rates")[0]), 99)
        t.noted("weights", True)
    run.play(finds, num_training=20, update_attr=False).noted("lr", 0.25)


def refuses_to_find(stage, **arguments):
    """Sweep with arguments that do not go together."""
    module, trainer = learner(stage), stage.trainer(max_epochs=20)
    stage.call("lr_find", stage.impl.Tuner(trainer).lr_find, module, **arguments)


@clause("CB-191", "Tuner.lr_find MUST refuse another method than fit, and dataloaders.",
        editions="2.2", needs="tuner hooks_2.2", source="lightning 2.2.5 Tuner.lr_find",
        arguments="Tuner.lr_find.method Tuner.lr_find.dataloaders")
def cb_191(run):
    for arguments in (dict(method="test"), dict(dataloaders=[[1]])):
        t = run.play(refuses_to_find, fails=True, **arguments)
        t.raises("MisconfigurationException", list(arguments)[0])
        t.none("M.training_step")


def sweeps_beside_validation(stage, by_tune):
    """Sweep with a loader and a step for validation."""
    module = stage.module()
    module.lr = 0.25
    trainer = stage.trainer(max_epochs=20, num_sanity_val_steps=2)
    loaders = [module.train_dataloader(), module.val_dataloader()]
    if by_tune:
        stage.call("tune", trainer.tune, module, *loaders, lr_find_kwargs=dict(num_training=5))
    else:
        stage.call("lr_find", stage.impl.Tuner(trainer).lr_find, module, *loaders, num_training=5)


@clause("CB-192", "While the rate is swept there MUST be no validation, also if there is a loader "
        "for it.", editions="beyond", needs="tune tuner older_hooks",
        source="design 5: it would cost "
        "time and change nothing", arguments="Trainer.tune.val_dataloaders "
        "Tuner.lr_find.val_dataloaders")
def cb_192(run):
    for by_tune in (True, False):
        t = run.play(sweeps_beside_validation, by_tune=by_tune)
        t.only("M.training_step " * 5, absent="M.validation_step")


def finds_and_explodes(stage, **arguments):
    """Sweep a module whose loss explodes at step 16; note the rates and the attributes."""
    explodes.calls = 0
    module = learner(stage, explodes, speed=1.0)
    trainer = stage.trainer(max_epochs=20, num_sanity_val_steps=0)
    stage.call("lr_find", stage.impl.Tuner(trainer).lr_find, module, problem(), **arguments)
    stage.note("rates", list(stage.values["lr_find"].results["lr"]))
    stage.note("set", [module.lr != 0.25, module.speed != 1.0])


@clause("CB-193", "Tuner.lr_find MUST sweep from min_lr to max_lr in num_training steps by the "
        "same factor or amount, end early as early_stop_threshold says, and set the attribute "
        "attr_name.",
        editions="2.2", needs="tuner hooks_2.2", source="lightning 2.2.5 Tuner.lr_find",
        arguments=" ".join("Tuner.lr_find." + each for each in (
            "min_lr max_lr num_training mode early_stop_threshold attr_name").split()))
def cb_193(run):
    how = dict(min_lr=0.001, max_lr=0.1, num_training=20, early_stop_threshold=None)
    for mode, second, tenth in (("exponential", 0.001 * 100 ** 0.1, 0.01),
                                ("linear", 0.001 + 0.099 * 0.1, 0.0505)):
        rates = run.play(finds_and_explodes, mode=mode, **how).noted("rates")[0]
        run.play(finds_and_explodes, mode=mode, **how).equal(
            "rates", [len(rates), rates[0], rates[1], rates[9], rates[-1]],
            [20, 0.001, second, tenth, 0.1])
    t = run.play(finds_and_explodes, early_stop_threshold=4.0, attr_name="speed")
    t.equal("number of rates", len(t.noted("rates")[0]), 16)
    t.noted("set", [False, True])


def shards_in_setup(stage):
    """Put on_configure_sharded_model on an instance in setup."""
    def setup(self, trainer, pl_module, stage):
        self.on_configure_sharded_model = lambda trainer, pl_module: noted("told", "callback")

    noted, made = stage.note, type("Late", (stage.impl.Callback,), {"setup": setup})()
    stage.call("fit", stage.trainer(made, stage.Callback("c2")).fit, stage.module())


@clause("CB-195", "An on_configure_sharded_model that setup puts on a callback MUST be called.",
        editions="1.5", needs="fit older_hooks on_exception",
        source="pytorch-lightning 1.5.10: hooks are looked for when they fire",
        hooks="C.on_configure_sharded_model fires")
def cb_195(run):
    run.play(shards_in_setup).noted("told", "callback")


WATCHED = "setup on_train_start on_train_batch_end on_validation_end on_train_end teardown".split()


def watched(stage):
    """Fit while a trace watches, and note what it shows."""
    trainer, module = stage.trainer(num_sanity_val_steps=0), stage.module(dict(train=2, val=1))
    with stage.impl.trace(trainer) as seen:
        stage.call("fit", trainer.fit, module, datamodule=stage.Datamodule())
    for event in seen.events:
        if event.hook in WATCHED:
            stage.note("seen", event.who[0] + "." + event.hook)


@clause("CB-196", "A trace of a run MUST show every call of a hook, in order, and who was called.",
        editions="beyond", needs="fit datamodule trace", source="design 8.7", device="cpu")
def cb_196(run):
    t = run.play(watched)
    t.noted("seen", *["%s.%s" % (event.who[0].lower(), event.hook) for event in t.events
                      if event.hook in WATCHED])


@clause("CB-197", "on_epoch_start MUST be called behind on_validation_start and on_test_start, and "
        "on_epoch_end before on_validation_end and on_test_end.", editions="1.5",
        needs="validate test older_hooks on_exception", source="pytorch-lightning 1.5.10",
        hooks=["C.on_epoch_start fires", "C.on_epoch_end fires"])
def cb_197(run):
    for entry, stage in (("validate", "validation"), ("test", "test")):
        t = getattr(run, entry)(older=True)
        t.only("C.on_{0}_start M.on_{0}_start C.on_epoch_start C.on_epoch_end C.on_{0}_end "
               "M.on_{0}_end".format(stage))
