"""Validation: the pass inside fit, and `validate`."""

from ..clause import clause, torch
from .shared import keep, of_end, of_start, one_batch, sigterm

PASS = """
    M.on_validation_model_eval
    C.on_validation_start        M.on_validation_start
    C.on_validation_epoch_start  M.on_validation_epoch_start
    C.on_validation_batch_start  M.on_validation_batch_start  M.validation_step
    C.on_validation_batch_end    M.on_validation_batch_end
    C.on_validation_epoch_end    M.on_validation_epoch_end
    C.on_validation_end          M.on_validation_end
"""


@clause("VAL-001", "A validation inside fit MUST run between the last on_train_batch_end and "
        "on_train_epoch_end of its epoch.", editions="1.5 2.2", needs="fit",
        source="bug 2; trace 2.2.5 fit_basic", hooks="CM.on_validation_start fires")
def val_001(run):
    t = run.fit(train_batches=1, val_batches=1)
    t.only("C.on_train_batch_end M.on_train_batch_end C.on_validation_start M.on_validation_start "
           "C.on_validation_end M.on_validation_end C.on_train_epoch_end M.on_train_epoch_end")


@clause("VAL-002", "One pass of validation MUST fire its hooks in the order eval mode, start, "
        "epoch start, for each batch start, step and end, then epoch end and end, callbacks before "
        "the module.", editions="1.5 2.2", needs="fit",
        source="seed 2.2 on_validation_*; trace fit_basic",
        hooks=["CM.on_validation_start fires", "CM.on_validation_epoch_start fires",
               "CM.on_validation_batch_start fires", "CM.on_validation_batch_end fires",
               "CM.on_validation_epoch_end fires", "CM.on_validation_end fires",
               "M.on_validation_model_eval fires", "M.validation_step fires"])
def val_002(run):
    run.fit(train_batches=1, val_batches=1).only(PASS)


@clause("VAL-003", "on_validation_model_zero_grad MUST be called in fit's validation only, before "
        "eval mode and with gradients on.", editions="2.2", needs="fit validate hooks_2.2",
        source="seed 2.2 on_validation_model_zero_grad; differences 1.1",
        hooks="M.on_validation_model_zero_grad fires arguments state")
def val_003(run):
    t = run.fit(train_batches=1, val_batches=1, sanity=1)
    t.only("M.on_validation_model_eval M.on_validation_model_zero_grad M.on_validation_model_eval")
    t.state("M.on_validation_model_zero_grad", "1/0 TG validating")
    t.args("M.on_validation_model_zero_grad", "")
    run.validate().only("M.on_validation_model_eval", absent="M.on_validation_model_zero_grad")


@clause("VAL-004", "on_validation_model_zero_grad MUST NOT be called inside an accumulation "
        "window, whose gradients are still needed.", editions="2.2", needs="fit hooks_2.2",
        source="oracle 2.2.5", hooks="M.on_validation_model_zero_grad fires")
def val_004(run):
    t = run.fit(train_batches=2, val_batches=1, val_check_interval=1, accumulate_grad_batches=2)
    t.only("""
        M.training_step M.on_validation_model_eval
        M.training_step M.on_validation_model_zero_grad M.on_validation_model_eval
    """)


def gradient_is_there(self, *args):
    """Note whether a parameter has a gradient."""
    self.note("gradient", any(p.grad is not None for p in self.parameters()))


@clause("VAL-005", "Gradients MUST be released before the validation of fit begins.",
        editions="2.2", needs="fit hooks_2.2", source="seed 2.2 on_validation_model_zero_grad",
        hooks="M.on_validation_model_zero_grad return")
def val_005(run):
    t = run.fit(train_batches=1, val_batches=1, module={
        "on_validation_start": gradient_is_there, "on_train_batch_end": gradient_is_there})
    t.noted("gradient", True, False)


@clause("VAL-006", "Validation hooks inside fit MUST see eval mode, no gradients and the counters "
        "of the training so far.", editions="2.2", needs="fit", source="trace 2.2.5 fit_basic",
        hooks=["CM.on_validation_start state", "CM.on_validation_epoch_start state",
               "CM.on_validation_batch_start state", "CM.on_validation_batch_end state",
               "CM.on_validation_epoch_end state", "CM.on_validation_end state"])
def val_006(run):
    t = run.fit(train_batches=1, val_batches=1)
    for hook in ("start", "epoch_start", "batch_start", "batch_end", "epoch_end", "end"):
        for who in ("c1", "M"):
            t.state("%s.on_validation_%s" % (who, hook), "1/0 Eg validating")


@clause("VAL-007", "on_validation_model_eval MUST be called with the model still in its mode and "
        "gradients off.", editions="2.2", needs="fit", source="trace 2.2.5 fit_basic",
        hooks="M.on_validation_model_eval state arguments")
def val_007(run):
    t = run.fit(train_batches=1, val_batches=1)
    t.state("M.on_validation_model_eval", "1/0 Tg validating")
    t.args("M.on_validation_model_eval", "")


@clause("VAL-008", "validate MUST run under inference mode, and fit's validation under no_grad.",
        editions="2.2", needs="fit validate", source="differences 1.1; trace 2.2.5 grad_mode",
        hooks="M.validation_step state")
def val_008(run):
    run.validate(val_batches=1).state("M.validation_step", "0/0 Ei validating")
    run.fit(train_batches=1, val_batches=1).state("M.validation_step", "1/0 Eg validating")


@clause("VAL-009", "With inference_mode=False, validate MUST run under no_grad.",
        editions="2.2", needs="validate", source="differences 1.1", hooks="M.validation_step state")
def val_009(run):
    t = run.validate(val_batches=1, inference_mode=False)
    t.state("M.validation_step", "0/0 Eg validating")


@clause("VAL-010", "With one loader, validation hooks and steps MUST receive the batch and its "
        "index only, and batch ends the step's output too.", editions="2.2", needs="fit",
        source="trace 2.2.5 fit_basic",
        hooks=["CM.on_validation_batch_start arguments", "CM.on_validation_batch_end arguments",
               "M.validation_step arguments"])
def val_010(run):
    t = run.fit(train_batches=1, val_batches=2)
    for who in ("c1", "c2", "M"):
        t.args(who + ".on_validation_batch_start", "Tensor, 0", "Tensor, 1")
        t.args(who + ".on_validation_batch_end", "Tensor, Tensor, 0", "Tensor, Tensor, 1")
    t.args("M.validation_step", "Tensor, 0", "Tensor, 1")
    t = run.fit(train_batches=1, val_batches=1, params={
        "validation_step": "batch batch_idx dataloader_idx=-1"})
    t.args("M.validation_step", "Tensor, 0")


@clause("VAL-011", "Validation hooks without a batch MUST receive nothing more than trainer and "
                   "module.",
        editions="1.5 2.2", needs="fit",
        source="seed 1.5 on_validation_*; seed 2.2 on_validation_*",
        hooks=["CM.on_validation_start arguments", "CM.on_validation_epoch_start arguments",
               "CM.on_validation_epoch_end arguments", "CM.on_validation_end arguments"])
def val_011(run):
    t = run.fit(train_batches=1, val_batches=1)
    for hook in ("start", "epoch_start", "epoch_end", "end"):
        for who in ("c1", "M"):
            t.args("%s.on_validation_%s" % (who, hook), "")


def two_loaders():
    """Two validation loaders, of two batches and of one."""
    loader = torch.utils.data.DataLoader
    return [[loader(torch.ones(2, 2)), loader(torch.ones(1, 2))]]


@clause("VAL-012", "Several validation loaders MUST run one after another in one epoch, with the "
        "index of the loader passed to transfer, hooks and step.", editions="2.2",
        needs="validate", source="trace 2.2.5 validate_two_dataloaders",
        hooks=["CM.on_validation_batch_start arguments", "CM.on_validation_batch_end arguments",
               "M.validation_step arguments"])
def val_012(run):
    t = run.play(validate_two_loaders)
    t.args("M.validation_step", "Tensor, 0, 0", "Tensor, 1, 0", "Tensor, 0, 1")
    for who in ("c1", "M"):
        t.args(who + ".on_validation_batch_start", "Tensor, 0", "Tensor, 1", "Tensor, 0, 1")
        t.args(who + ".on_validation_batch_end", "Tensor, Tensor, 0", "Tensor, Tensor, 1",
               "Tensor, Tensor, 0, 1")
    t.args("M.on_before_batch_transfer", "Tensor, 0", "Tensor, 0", "Tensor, 1")
    t.only("C.on_validation_epoch_start M.on_validation_epoch_start "
           "C.on_validation_epoch_end M.on_validation_epoch_end")


def log_v(self, batch, batch_idx, *dataloader_idx):
    """Log the index of the batch."""
    self.log("v", float(batch_idx))
    return self(batch).sum()


def validate_two_loaders(stage):
    """Validate over two loaders."""
    module = stage.module(validation_step=log_v, params={
        "validation_step": "batch batch_idx dataloader_idx"})
    trainer = stage.trainer(stage.Callback("c1"), stage.Callback("c2"))
    stage.call("validate", trainer.validate, module, *two_loaders())


@clause("VAL-013", "validate MUST return a dict for each loader, with the loader's index in the "
        "name of what was logged when there are several.", editions="2.2", needs="validate",
        source="trace 2.2.5 validate_two_dataloaders", hooks="M.validation_step return")
def val_013(run):
    t = run.play(validate_two_loaders)
    t.equal("value", t.value, [{"v/dataloader_idx_0": 0.5}, {"v/dataloader_idx_1": 0.0}])


@clause("VAL-014", "validate MUST run set-up, one pass and teardown for its own stage, without "
        "hooks of fit and without optimizers.", editions="2.2", needs="validate",
        source="seed 2.2 setup, teardown; trace 2.2.5 validate",
        hooks=["CM.setup fires arguments", "CM.teardown fires arguments"])
def val_014(run):
    t = run.validate(val_batches=1)
    t.only("""
        M.configure_callbacks M.prepare_data C.setup(validate) M.setup(validate)
        M.configure_model M.val_dataloader M.on_validation_model_eval
        C.on_validation_start M.on_validation_start C.on_validation_end M.on_validation_end
        C.teardown(validate) M.teardown(validate)
    """, absent="CM.on_fit_start CM.on_fit_end M.configure_optimizers CM.on_train_start "
                "C.on_sanity_check_start M.training_step")


@clause("VAL-015", "validation_step returning None MUST give its batch end None.",
        editions="1.5 2.2", needs="fit", source="trace 2.2.5 validation_step_returns_none",
        hooks="M.validation_step return")
def val_015(run):
    t = run.fit(train_batches=1, val_batches=1, module={"validation_step": nothing})
    t.args("c1.on_validation_batch_end", "None, Tensor, 0")
    t.args("M.on_validation_batch_end", "None, Tensor, 0")


def nothing(self, *args):
    """Return None."""


def minus_one(self, *args):
    """Return what means something in on_train_batch_start only."""
    return -1


@clause("VAL-016", "Return values of validation hooks MUST be ignored.", editions="1.5 2.2",
        needs="fit", source="seed 2.2 on_validation_*", hooks=[
            "CM.on_validation_%s return" % hook
            for hook in ("start", "epoch_start", "batch_start", "batch_end", "epoch_end", "end")])
def val_016(run):
    hooks = ["on_validation_" + hook for hook in (
        "start", "epoch_start", "batch_start", "batch_end", "epoch_end", "end")]
    returning = dict.fromkeys(hooks, minus_one)
    run.fit(train_batches=1, val_batches=1, module=returning, c1=returning).only(PASS)


def half_in_eval(stage, module):
    """Put a submodule in eval mode before the run."""
    module.layer.eval()


def layer_mode(trainer, module):
    """Return the mode of the submodule."""
    return module.layer.training


@clause("VAL-017", "After a validation, every submodule MUST be in the mode that it had before.",
        editions="2.2", needs="fit", source="bug 3; trace 2.2.5 model_mode_restored",
        hooks=["M.on_validation_model_train fires", "CM.on_train_batch_start state"])
def val_017(run):
    t = run.fit(train_batches=2, val_batches=1, val_check_interval=1, before=half_in_eval,
                look={"M.on_train_batch_start": layer_mode, "M.validation_step": layer_mode})
    t.looked("M.on_train_batch_start", False, False)
    t.state("M.on_train_batch_start", "0/0 TG training", "1/0 TG training")
    t.state("M.validation_step", "1/0 Eg validating", "2/0 Eg validating")


@clause("VAL-018", "An overridden on_validation_model_train MUST be called after on_validation_end "
        "and is then all that changes the mode back.", editions="2.2", needs="fit hooks_2.2",
        source="seed 2.2 on_validation_model_train; trace "
               "on_validation_model_train_overridden_noop",
        hooks="M.on_validation_model_train fires arguments return state")
def val_018(run):
    t = run.fit(train_batches=1, val_batches=1, extra=("on_validation_model_train",),
                module={"on_validation_model_train": nothing})
    t.only("M.on_validation_end M.on_validation_model_train C.on_train_epoch_end "
           "M.on_train_epoch_end")
    t.state("M.on_validation_model_train", "1/0 Eg validating")
    t.args("M.on_validation_model_train", "")
    t.state("M.on_train_epoch_end", "1/0 EG training")


@clause("VAL-019", "Without a validation loader, no hook of validation or of the sanity check MUST "
        "be called.", editions="1.5 2.2", needs="fit", source="trace 2.2.5 fit_no_val",
        hooks="C.on_sanity_check_start fires")
def val_019(run):
    t = run.fit(val_batches=0, sanity=2)
    t.only("C.on_train_epoch_end M.on_train_epoch_end", absent="CM.on_validation_start "
           "C.on_sanity_check_start C.on_sanity_check_end M.on_validation_model_eval")


@clause("VAL-020", "With limit_val_batches=0, fit MUST neither validate nor ask for the validation "
        "loader.", editions="2.2", needs="fit", source="trace 2.2.5 limit_val_batches_0",
        hooks="M.val_dataloader fires")
def val_020(run):
    t = run.fit(train_batches=1, limit_val_batches=0, sanity=2)
    t.only("M.train_dataloader C.on_train_epoch_end M.on_train_epoch_end",
           absent="M.val_dataloader CM.on_validation_start C.on_sanity_check_start")


@clause("VAL-021", "check_val_every_n_epoch=2 MUST validate in every second epoch only.",
        editions="1.5 2.2", needs="fit", source="trace 2.2.5 fit_two_epochs_check_val_every_2",
        hooks="CM.on_validation_start fires")
def val_021(run):
    t = run.fit(train_batches=1, val_batches=1, max_epochs=4, check_val_every_n_epoch=2)
    t.only("M.on_train_epoch_start M.on_train_epoch_start M.on_validation_start "
           "M.on_train_epoch_start M.on_train_epoch_start M.on_validation_start")


@clause("VAL-022", "val_check_interval MUST validate after so many batches of each epoch, or that "
        "share of them: 0.25 of 10 after every second batch.",
        editions="1.5 2.2", needs="fit", source="bug 27; trace 2.2.5 fit_val_check_interval_half",
        hooks="CM.on_validation_start fires")
def val_022(run):
    t = run.fit(train_batches=10, val_batches=1, val_check_interval=0.25)
    t.only("M.training_step M.training_step M.on_validation_start " * 5)
    t = run.fit(train_batches=3, val_batches=1, val_check_interval=2, max_epochs=2)
    t.only("M.training_step M.training_step M.on_validation_start M.training_step " * 2)


@clause("VAL-023", "val_check_interval as an int with check_val_every_n_epoch=None MUST count "
        "training batches over epochs.", editions="2.2", needs="fit", source="bug 27",
        hooks="CM.on_validation_start fires")
def val_023(run):
    t = run.fit(train_batches=2, val_batches=1, max_epochs=3, val_check_interval=3,
                check_val_every_n_epoch=None)
    t.only("M.training_step M.training_step M.training_step M.on_validation_start " * 2)


@clause("VAL-024", "An integer val_check_interval beyond the epoch's batches MUST be refused, "
        "unless batches are counted over epochs.", editions="2.2", needs="fit", source="bug 27")
def val_024(run):
    run.fit(train_batches=2, val_batches=1, val_check_interval=3, fails=True).raises(
        "ValueError", "val_check_interval")


@clause("VAL-025", "An error in a validation inside fit MUST reach on_exception, and neither "
        "on_validation_end, on_train_epoch_end nor teardown may follow.", editions="beyond",
        needs="fit on_exception", source="bug 8; trace 2.2.5 exception_in_validation_step",
        hooks="C.on_exception fires")
def val_025(run):
    t = run.fit(train_batches=1, val_batches=1, module={"validation_step": boom}, fails=True)
    t.raises("RuntimeError", "boom")
    t.only("M.validation_step C.on_exception(RuntimeError)",
           absent="CM.on_validation_end CM.on_train_epoch_end CM.teardown")
    t.true("gradients are on again", torch.is_grad_enabled())


def boom(self, *args):
    """Fail."""
    raise RuntimeError("boom")


@clause("VAL-026", "The validation loader MUST be asked for once, inside the sanity check when "
        "there is one and before on_train_start when there is none.", editions="2.2", needs="fit",
        source="differences 1.1; traces 2.2.5 fit_basic, fit_no_sanity",
        hooks="M.val_dataloader fires arguments state")
def val_026(run):
    t = run.fit(sanity=2, max_epochs=2)
    t.only("C.on_sanity_check_start M.val_dataloader M.on_validation_model_eval "
           "C.on_sanity_check_end M.train_dataloader C.on_train_start M.on_train_start "
           "M.on_validation_model_eval M.on_validation_model_eval")
    t.args("M.val_dataloader", "")
    run.fit(max_epochs=2).only("M.train_dataloader M.val_dataloader C.on_train_start "
                               "M.on_train_start")


@clause("VAL-027", "validation_epoch_end MUST get the epoch's step outputs right before the "
        "callbacks' on_validation_epoch_end.", editions="1.5", needs="fit epoch_end_outputs",
        source="seed 1.5 on_train_epoch_end; design 4",
        hooks="M.validation_epoch_end fires arguments")
def val_027(run):
    t = run.fit(train_batches=1, val_batches=2, extra=("validation_epoch_end",))
    t.only("M.validation_epoch_end([Tensor,Tensor]) C.on_validation_epoch_end "
           "M.on_validation_epoch_end")


def evaluates(self):
    """Go to eval mode, and return something."""
    self.eval()
    return -1


@clause("VAL-030", "What on_validation_model_eval returns MUST be ignored.", editions="2.2",
        needs="fit hooks_2.2", source="seed 2.2 on_validation_model_eval: it returns None",
        hooks="M.on_validation_model_eval return")
def val_030(run):
    t = run.fit(train_batches=1, val_batches=1, module={"on_validation_model_eval": evaluates})
    t.only("M.on_validation_model_eval [E g] M.validation_step [T G] M.on_train_epoch_end")


@clause("VAL-031", "validation_epoch_end MUST find eval mode and gradients off, and what it "
        "returns is ignored.", editions="1.5", needs="fit epoch_end_outputs",
        source="oracle 1.5.10", hooks="M.validation_epoch_end state return")
def val_031(run):
    t = run.fit(train_batches=1, val_batches=1, extra=("validation_epoch_end",), module={
        "validation_epoch_end": minus_one})
    t.only("[E g validating] M.validation_epoch_end M.on_validation_epoch_end M.on_validation_end "
           "[T G training] M.on_train_epoch_end")


@clause("VAL-032", "The hooks of a validation batch and its step MUST be given the very batch that "
        "was transferred, and the hook at its end what validation_step returned.", editions="2.2",
        needs="validate", source="seed 2.2 on_validation_batch_start, on_validation_batch_end",
        hooks=["M.on_validation_batch_start arguments", "M.on_validation_batch_end arguments"])
def val_032(run):
    t = run.validate(val_batches=1, module={
        "validation_step": keep, "on_validation_batch_start": of_start,
        "on_validation_batch_end": of_end})
    one_batch(t)
    t.noted("outputs", 3 * 1.1)


def stays(self):
    """Leave the mode as it is."""


@clause("VAL-033", "An overridden on_validation_model_eval MUST be all that sets the mode: with "
        "one that does nothing, validation runs in train mode.", editions="2.2",
        needs="validate hooks_2.2",
        source="seed 2.2 on_validation_model_eval: override to change the behavior",
        hooks="M.on_validation_model_eval fires")
def val_033(run):
    t = run.validate(val_batches=1, module={"on_validation_model_eval": stays})
    t.only("M.on_validation_model_eval [T i] M.validation_step")


def goes_to_train_mode(stage, **config):
    """Validate with a module that lets the base class set the mode back."""
    subject = stage.module(dict(val=1), extra=("on_validation_model_train",))
    subject.layer.eval()
    stage.look({"M.teardown": each_mode})
    stage.call("validate", stage.trainer().validate, subject)


def each_mode(trainer, module):
    """Return the modes of module and submodules."""
    return [module.training, module.layer.training, module.drop.training]


@clause("VAL-034", "The base class's on_validation_model_train, where an override calls it, MUST "
        "put every submodule in train mode.", editions="2.2", needs="validate hooks_2.2",
        source="seed 2.2 on_validation_model_train", hooks="M.on_validation_model_train fires")
def val_034(run):
    run.play(goes_to_train_mode).looked("M.teardown", [True, True, True])


@clause("VAL-040", "After SIGTERM validate MUST end behind the batch that runs, with "
        "SIGTERMException.", editions="2.2", needs="validate", source="lightning 2.2.5",
        hooks="C.on_exception fires", device="cpu")
def val_040(run):
    t = run.validate(val_batches=4, fails=True, c1={"on_validation_batch_start": sigterm})
    t.only("M.validation_step C.on_validation_batch_end " * 2
           + "C.on_exception(SIGTERMException)", absent="CM.on_validation_epoch_end")
    t.raises("SystemExit")


def log_printed(self, batch, batch_idx):
    """Log under a name that nothing else prints."""
    self.log("the_metric", 1.0)


@clause("VAL-041", "validate and test MUST print what was logged once, and with verbose=False "
        "nothing.", editions="2.2", needs="validate test", source="lightning 2.2.5",
        arguments="Trainer.validate.verbose Trainer.test.verbose", device="cpu")
def val_041(run):
    for entry, step in (("validate", "validation_step"), ("test", "test_step")):
        for verbose, printed in ((True, 1), (False, 0)):
            t = getattr(run, entry)(module={step: log_printed}, call={"verbose": verbose})
            t.equal("%s prints it" % entry, t.output.count("the_metric"), printed)


def to_lists(stage):
    """Validate over two loaders, with a validation_epoch_end."""
    module = stage.module(extra=("validation_epoch_end",), params={
        "validation_step": "batch batch_idx dataloader_idx"})
    trainer = stage.trainer(stage.Callback("c1"))
    stage.call("validate", trainer.validate, module, *two_loaders())


@clause("VAL-042", "With several loaders validation_epoch_end MUST get a list of outputs for each.",
        editions="1.5", needs="validate epoch_end_outputs", source="pytorch-lightning 1.5.10",
        hooks="M.validation_epoch_end arguments")
def val_042(run):
    run.play(to_lists).args("M.validation_epoch_end", "[[Tensor,Tensor],[Tensor]]")


@clause("VAL-043", "Several loaders for a validation_step or test_step without dataloader_idx MUST "
        "be refused before any of it runs.", editions="2.2", needs="validate test",
        source="lightning 2.2.5", hooks=["M.validation_step arguments", "M.test_step arguments"])
def val_043(run):
    for entry, step in (("validate", "validation_step"), ("test", "test_step")):
        t = getattr(run, entry)(loaders=two_loaders, params={step: "batch batch_idx"}, fails=True)
        t.raises("RuntimeError", "dataloader_idx", step)
        t.only("C.on_exception", absent="M.%s CM.on_%s_start" % (step, step.split("_")[0]))


def skips_one(self, batch, batch_idx):
    """Skip the rest of the first epoch at its second batch."""
    return -1 if (self.current_epoch, batch_idx) == (0, 1) else None


@clause("VAL-044", "A batch that a -1 leaves out MUST count where val_check_interval counts "
        "batches over epochs.", editions="2.2", needs="fit", source="lightning 2.2.5",
        hooks="M.on_train_batch_start return", device="cpu")
def val_044(run):
    t = run.fit(train_batches=3, val_batches=1, max_epochs=2, check_val_every_n_epoch=None,
                val_check_interval=4, module={"on_train_batch_start": skips_one})
    t.only("M.training_step " * 3 + "M.validation_step M.training_step")
