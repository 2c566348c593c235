"""`self.log`: who may, what is kept, how it is reduced, and who sees it when."""

from ..clause import clause, torch


def metrics(trainer, module):
    """Return what callbacks can monitor."""
    return {name: round(float(value), 6) for name, value in trainer.callback_metrics.items()}


def logs(**how):
    """Return a step that logs its batch index + 1 as "v"."""
    def step(self, batch, batch_idx):
        self.log("v", float(batch_idx + 1), **how)
        return self(batch).sum()
    return step


PLAIN, ON_EPOCH, BOTH = logs(), logs(on_step=False, on_epoch=True), logs(on_step=True, on_epoch=True)
SUM = logs(on_epoch=True, reduce_fx="sum", batch_size=4)
MIN, MAX = logs(on_epoch=True, reduce_fx="min", batch_size=4), logs(
    reduce_fx="max", on_epoch=True, batch_size=4)
BAR, NO_LOGGER = logs(prog_bar=True), logs(logger=False)


@clause("LOG-001", "In training_step, self.log MUST keep each value as it comes unless asked otherwise.",
        editions="1.5 2.2", needs="fit", source="trace log_in_each_hook_allowed",
        hooks="M.training_step return")
def log_001(run):
    t = run.fit(train_batches=3, val_batches=0, module={"training_step": PLAIN},
                look={"M.on_train_batch_end": metrics, "M.on_train_end": metrics})
    t.looked("M.on_train_batch_end", {"v": 1.0}, {"v": 2.0}, {"v": 3.0})
    t.looked("M.on_train_end", {"v": 3.0})


@clause("LOG-002", "In validation_step, self.log MUST keep the mean over the epoch unless asked otherwise.",
        editions="1.5 2.2", needs="validate", source="trace log_in_each_hook_allowed",
        hooks="M.validation_step return")
def log_002(run):
    t = run.validate(val_batches=3, module={"validation_step": PLAIN})
    t.equal("value", t.value, [{"v": 2.0}])


@clause("LOG-003", "With on_step and on_epoch, names MUST get _step and _epoch, and the plain name is the "
        "last step before the epoch's end and the mean after it.", editions="2.2", needs="fit",
        source="trace 2.2.5 log_on_step_and_epoch")
def log_003(run):
    t = run.fit(train_batches=2, val_batches=0, module={"training_step": BOTH},
                look={"M.on_train_batch_end": metrics, "M.on_train_epoch_end": metrics})
    t.looked("M.on_train_batch_end", {"v": 1.0, "v_step": 1.0}, {"v": 2.0, "v_step": 2.0})
    t.looked("M.on_train_epoch_end", {"v": 1.5, "v_step": 2.0, "v_epoch": 1.5})


@clause("LOG-004", "Step values of validation MUST NOT reach callback_metrics, while its epoch values do.",
        editions="2.2", needs="fit", source="trace 2.2.5 log_on_step_and_epoch")
def log_004(run):
    t = run.fit(train_batches=1, val_batches=2, module={"validation_step": BOTH},
                look={"M.on_validation_batch_end": metrics, "M.on_validation_epoch_end": metrics})
    t.looked("M.on_validation_batch_end", {}, {})
    t.looked("M.on_validation_epoch_end", {"v": 1.5, "v_epoch": 1.5})


STEP = """backward clip_gradients configure_gradient_clipping on_after_backward on_before_backward
    on_before_optimizer_step on_before_zero_grad on_train_batch_end on_train_batch_start
    optimizer_step optimizer_zero_grad training_step""".split()
EITHER = """on_test_batch_end on_test_batch_start on_validation_batch_end on_validation_batch_start
    test_step validation_step""".split()
EPOCH = """on_test_epoch_end on_test_epoch_start on_test_start on_train_epoch_end on_train_epoch_start
    on_train_start on_validation_epoch_end on_validation_epoch_start on_validation_start""".split()
MODULE_ONLY = """backward clip_gradients configure_gradient_clipping optimizer_step
    optimizer_zero_grad training_step test_step validation_step""".split()


@clause("LOG-005", "Each hook MUST log per step, per epoch or not at all as its table says, whether the "
        "module or a callback asks.", editions="2.2", needs="fit test predict",
        source="trace 2.2.5 log_in_each_hook_allowed")
def log_005(run):
    verdicts = run.scenario("log_in_each_hook_allowed").stage.results
    t = run.scenario("log_in_each_hook_allowed")
    for verdict, hooks in (("per step unless asked otherwise", STEP),
                           ("per epoch unless asked otherwise", EITHER), ("per epoch only", EPOCH)):
        expected = ["M." + hook for hook in hooks]
        expected += ["c1." + hook for hook in hooks if hook not in MODULE_ONLY]
        t.equal(verdict, sorted(verdicts.get(verdict, "").split()), sorted(expected))
    t.equal("verdicts", len(verdicts), 4)


def weighted(self, batch, batch_idx):
    """Log 0.7, 0.8 and 0.9 with the sizes 256, 256 and 10."""
    self.log("v", (0.7, 0.8, 0.9)[batch_idx], on_epoch=True, on_step=False,
             batch_size=(256, 256, 10)[batch_idx])
    return self(batch).sum()


@clause("LOG-006", "The mean over an epoch MUST be weighted by batch size.", editions="1.5 2.2",
        needs="fit", source="bug 25")
def log_006(run):
    t = run.fit(train_batches=3, val_batches=0, module={"training_step": weighted},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"v": round(393 / 522, 6)})


def uneven():
    """One loader of ten rows in batches of eight: eight and two."""
    rows = torch.arange(10.0).view(10, 1).expand(10, 2)
    return [torch.utils.data.DataLoader(rows, batch_size=8)]


def log_mean(self, batch, batch_idx):
    """Log the mean of the batch."""
    self.log("v", batch.mean(), on_epoch=True, on_step=False)
    return self(batch).sum()


@clause("LOG-007", "Without batch_size, the weight of a value MUST be the size of its batch.",
        editions="1.5 2.2", needs="fit", source="bug 25")
def log_007(run):
    t = run.fit(val_batches=0, loaders=uneven, module={"training_step": log_mean},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"v": 4.5})


@clause("LOG-008", "reduce_fx sum, min and max MUST reduce over the epoch without weights.",
        editions="1.5 2.2", needs="fit", source="bug 25")
def log_008(run):
    for step, expected in ((SUM, 6.0), (MIN, 1.0), (MAX, 3.0)):
        t = run.fit(train_batches=3, val_batches=0, module={"training_step": step},
                    look={"M.on_train_end": metrics})
        t.equal("v_epoch", t.looked("M.on_train_end")[0]["v_epoch"], expected)


@clause("LOG-009", "Metrics of the sanity check MUST be gone when training starts.", editions="1.5 2.2",
        needs="fit", source="bug 4; trace log_on_step_and_epoch", hooks="C.on_sanity_check_end state")
def log_009(run):
    t = run.fit(train_batches=1, val_batches=2, sanity=2, module={"validation_step": PLAIN},
                look={"M.on_train_start": metrics, "M.on_train_end": metrics,
                      "M.on_validation_end": metrics})
    t.looked("M.on_validation_end", {"v": 1.5}, {"v": 1.5})
    t.looked("M.on_train_start", {})
    t.looked("M.on_train_end", {"v": 1.5})


def log_tensor(self, batch, batch_idx):
    """Log a tensor of two elements."""
    self.log("v", torch.ones(2))
    return self(batch).sum()


@clause("LOG-010", "A tensor of several elements MUST be refused.", editions="2.2", needs="fit",
        source="oracle 2.2.5")
def log_010(run):
    run.fit(train_batches=1, val_batches=0, module={"training_step": log_tensor}, fails=True).raises(
        "ValueError", "v")


def twice(self, batch, batch_idx):
    """Log one name with two settings."""
    self.log("v", 1.0)
    self.log("v", 1.0, prog_bar=True)
    return self(batch).sum()


@clause("LOG-011", "One name logged in one hook with different settings MUST be refused.",
        editions="2.2", needs="fit", source="bug 25; oracle 2.2.5")
def log_011(run):
    run.fit(train_batches=1, val_batches=0, module={"training_step": twice}, fails=True).raises(
        "MisconfigurationException", "v")


def log_here(self, *args, **kwargs):
    """Log from a hook that may not."""
    self.log("v", 1.0)


@clause("LOG-012", "Logging from a hook that may not MUST be refused with a message that names the hook.",
        editions="1.5 2.2", needs="fit", source="trace log_in_each_hook_allowed")
def log_012(run):
    for hook in ("setup", "on_fit_start", "on_train_end", "on_validation_end", "configure_optimizers"):
        t = run.fit(train_batches=1, val_batches=1, module={hook: log_here}, fails=True)
        t.raises("MisconfigurationException", hook)


def epoch_only(self, *args):
    """Ask for step values where there is no step."""
    self.log("v", 1.0, on_step=True)


@clause("LOG-013", "on_step=True in a hook that runs once an epoch MUST be refused.",
        editions="1.5 2.2", needs="fit", source="trace log_in_each_hook_allowed")
def log_013(run):
    for hook in ("on_train_start", "on_train_epoch_end", "on_validation_epoch_end"):
        t = run.fit(train_batches=1, val_batches=1, module={hook: epoch_only}, fails=True)
        t.raises("MisconfigurationException", "on_step", hook)


def from_callback(self, trainer, module, *args):
    """Log from a callback."""
    module.log("c", 4.0)


@clause("LOG-014", "What a callback logs through the module MUST be kept as if the module had logged it.",
        editions="1.5 2.2", needs="fit", source="differences 6")
def log_014(run):
    t = run.fit(train_batches=1, val_batches=0, c1={"on_train_epoch_end": from_callback},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"c": 4.0})


def grad_value(self, batch, batch_idx):
    """Log the loss with its graph."""
    loss = self(batch).sum()
    self.log("v", loss)
    return loss


def requires_grad(trainer, module):
    """Return whether a kept metric has a graph."""
    return trainer.callback_metrics["v"].requires_grad


@clause("LOG-015", "Logged values MUST be detached from the graph.", editions="1.5 2.2", needs="fit",
        source="bug 32")
def log_015(run):
    t = run.fit(train_batches=1, val_batches=0, module={"training_step": grad_value},
                look={"M.on_train_batch_end": requires_grad})
    t.looked("M.on_train_batch_end", False)


def bar(trainer, module):
    """Return what the progress bar is given."""
    return {name: float(value) for name, value in trainer.progress_bar_metrics.items()}


@clause("LOG-016", "prog_bar=True MUST show the value in the progress bar's metrics, and the default not.",
        editions="1.5 2.2", needs="fit", source="seed 1.1 ProgressBar; trace log_on_step_and_epoch")
def log_016(run):
    for step, expected in ((BAR, {"v": 1.0}), (PLAIN, {})):
        t = run.fit(train_batches=1, val_batches=0, module={"training_step": step},
                    look={"M.on_train_batch_end": bar})
        shown = {k: v for k, v in t.looked("M.on_train_batch_end")[0].items() if k == "v"}
        t.equal("shown", shown, expected)


@clause("LOG-017", "Return values MUST leave out what was logged with logger=False.", editions="2.2",
        needs="validate", source="oracle 2.2.5")
def log_017(run):
    t = run.validate(val_batches=1, module={"validation_step": NO_LOGGER})
    t.equal("value", t.value, [{}])
    t.equal("callback_metrics", metrics(t.trainer, None), {"v": 1.0})




def none_some(self, batch, batch_idx):
    """Skip batch 1 without logging."""
    if batch_idx == 1:
        return None
    self.log("v", float(batch_idx), on_epoch=True, on_step=False)
    return self(batch).sum()


@clause("LOG-018", "The epoch's mean MUST cover only the batches that logged.", editions="1.5 2.2",
        needs="fit", source="bug 6")
def log_018(run):
    t = run.fit(train_batches=4, val_batches=0, module={"training_step": none_some},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"v": round(5 / 3, 6)})


def several(self, batch, batch_idx):
    """Log a dict."""
    self.log_dict({"a": 1.0, "b": 2.0})
    return self(batch).sum()


@clause("LOG-019", "log_dict MUST log each item under its key.", editions="1.5 2.2", needs="fit",
        source="oracle 2.2.5, 1.5.10")
def log_019(run):
    t = run.fit(train_batches=1, val_batches=0, module={"training_step": several},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"a": 1.0, "b": 2.0})


@clause("LOG-020", "The metrics of one entry point MUST be gone when the next begins.", editions="2.2",
        needs="fit validate", source="trace 2.2.5 log_on_step_and_epoch")
def log_020(run):
    t = run.play(fit_then_validate)
    t.noted("after fit", ["t", "v"])
    t.noted("after validate", ["v"])


def log_t(self, batch, batch_idx):
    """Log in training."""
    self.log("t", 1.0)
    return self(batch).sum()


def fit_then_validate(stage):
    """Fit, then validate."""
    module = stage.module(training_step=log_t, validation_step=PLAIN)
    trainer = stage.trainer(stage.Callback("c1"), stage.Callback("c2"), max_epochs=1)
    stage.call("fit", trainer.fit, module)
    stage.note("after fit", sorted(trainer.callback_metrics))
    stage.call("validate", trainer.validate, module)
    stage.note("after validate", sorted(trainer.callback_metrics))


@clause("LOG-021", "Step metrics MUST be passed to the loggers at every log_every_n_steps-th step, with the "
        "number of steps before, and epoch metrics at the last step of the epoch.", editions="2.2",
        needs="fit logger", source="trace 2.2.5 log_every_n_steps")
def log_021(run):
    t = run.scenario("log_every_n_steps")
    logged = [[step, sorted(set(values) - {"epoch"})] for step, values in t.stage.results["logged"]]
    t.equal("logged", logged, [
        [1, ["a_step"]], [3, ["a_step"]], [4, ["a_epoch"]], [5, ["a_step"]], [7, ["a_step"]],
        [9, ["a_step"]], [9, ["a_epoch"]]])
