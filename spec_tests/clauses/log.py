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


PLAIN, ON_EPOCH = logs(), logs(on_step=False, on_epoch=True)
BOTH = logs(on_step=True, on_epoch=True)
SUM = logs(on_epoch=True, reduce_fx="sum", batch_size=4)
MIN, MAX = logs(on_epoch=True, reduce_fx="min", batch_size=4), logs(
    reduce_fx="max", on_epoch=True, batch_size=4)
BAR, NO_LOGGER = logs(prog_bar=True), logs(logger=False)


@clause("LOG-001", "In training_step, self.log MUST keep each value as it comes unless asked "
                   "otherwise.",
        editions="1.5 2.2", needs="fit", source="trace log_in_each_hook_allowed",
        hooks="M.training_step return",
        arguments="LightningModule.log.name LightningModule.log.value LightningModule.log.on_step")
def log_001(run):
    t = run.fit(train_batches=3, val_batches=0, module={"training_step": PLAIN},
                look={"M.on_train_batch_end": metrics, "M.on_train_end": metrics})
    t.looked("M.on_train_batch_end", {"v": 1.0}, {"v": 2.0}, {"v": 3.0})
    t.looked("M.on_train_end", {"v": 3.0})


@clause("LOG-002", "In validation_step, self.log MUST keep the mean over the epoch unless asked "
                   "otherwise.",
        editions="1.5 2.2", needs="validate", source="trace log_in_each_hook_allowed",
        hooks="M.validation_step return",
        arguments="LightningModule.log.on_epoch")
def log_002(run):
    t = run.validate(val_batches=3, module={"validation_step": PLAIN})
    t.equal("value", t.value, [{"v": 2.0}])


@clause("LOG-003", "With on_step and on_epoch, names MUST get _step and _epoch, and the plain name "
        "is the last step before the epoch's end and the mean after it.", editions="2.2",
        needs="fit", source="trace 2.2.5 log_on_step_and_epoch",
        arguments="LightningModule.log.on_step LightningModule.log.on_epoch")
def log_003(run):
    t = run.fit(train_batches=2, val_batches=0, module={"training_step": BOTH},
                look={"M.on_train_batch_end": metrics, "M.on_train_epoch_end": metrics})
    t.looked("M.on_train_batch_end", {"v": 1.0, "v_step": 1.0}, {"v": 2.0, "v_step": 2.0})
    t.looked("M.on_train_epoch_end", {"v": 1.5, "v_step": 2.0, "v_epoch": 1.5})


@clause("LOG-004", "Step values of validation MUST NOT reach callback_metrics, while its epoch "
                   "values do.",
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
EPOCH = """on_test_epoch_end on_test_epoch_start on_test_start on_train_epoch_end
    on_train_epoch_start on_train_start on_validation_epoch_end on_validation_epoch_start
    on_validation_start""".split()
MODULE_ONLY = """backward clip_gradients configure_gradient_clipping optimizer_step
    optimizer_zero_grad training_step test_step validation_step""".split()


@clause("LOG-005", "Each hook MUST log per step, per epoch or not at all as its table says, "
        "whether the module or a callback asks.", editions="2.2", needs="fit test predict",
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
        needs="fit", source="bug 25",
        arguments="LightningModule.log.batch_size")
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
        editions="1.5 2.2", needs="fit", source="bug 25",
        arguments="LightningModule.log.batch_size")
def log_007(run):
    t = run.fit(val_batches=0, loaders=uneven, module={"training_step": log_mean},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"v": 4.5})


@clause("LOG-008", "reduce_fx sum, min and max MUST reduce over the epoch without weights.",
        editions="1.5 2.2", needs="fit", source="bug 25",
        arguments="LightningModule.log.reduce_fx")
def log_008(run):
    for step, expected in ((SUM, 6.0), (MIN, 1.0), (MAX, 3.0)):
        t = run.fit(train_batches=3, val_batches=0, module={"training_step": step},
                    look={"M.on_train_end": metrics})
        t.equal("v_epoch", t.looked("M.on_train_end")[0]["v_epoch"], expected)


@clause("LOG-009", "Metrics of the sanity check MUST be gone when training starts.",
        editions="1.5 2.2",
        needs="fit", source="bug 4; trace log_on_step_and_epoch",
        hooks="C.on_sanity_check_end state")
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
        source="oracle 2.2.5",
        arguments="LightningModule.log.value")
def log_010(run):
    run.fit(train_batches=1, val_batches=0, module={"training_step": log_tensor},
            fails=True).raises(
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


@clause("LOG-012", "Logging from a hook that may not MUST be refused with a message that names the "
                   "hook.",
        editions="1.5 2.2", needs="fit", source="trace log_in_each_hook_allowed")
def log_012(run):
    for hook in ("setup", "on_fit_start", "on_train_end", "on_validation_end",
                 "configure_optimizers"):
        t = run.fit(train_batches=1, val_batches=1, module={hook: log_here}, fails=True)
        t.raises("MisconfigurationException", hook)


def epoch_only(self, *args):
    """Ask for step values where there is no step."""
    self.log("v", 1.0, on_step=True)


@clause("LOG-013", "on_step=True in a hook that runs once an epoch MUST be refused.",
        editions="1.5 2.2", needs="fit", source="trace log_in_each_hook_allowed",
        arguments="LightningModule.log.on_step")
def log_013(run):
    for hook in ("on_train_start", "on_train_epoch_end", "on_validation_epoch_end"):
        t = run.fit(train_batches=1, val_batches=1, module={hook: epoch_only}, fails=True)
        t.raises("MisconfigurationException", "on_step", hook)


def from_callback(self, trainer, module, *args):
    """Log from a callback."""
    module.log("c", 4.0)


@clause("LOG-014", "What a callback logs through the module MUST be kept as if the module had "
                   "logged it.",
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


@clause("LOG-015", "Logged values MUST be detached from the graph.", editions="1.5 2.2",
        needs="fit", source="bug 32",
        arguments="LightningModule.log.enable_graph")
def log_015(run):
    t = run.fit(train_batches=1, val_batches=0, module={"training_step": grad_value},
                look={"M.on_train_batch_end": requires_grad})
    t.looked("M.on_train_batch_end", False)


def bar(trainer, module):
    """Return what the progress bar is given."""
    return {name: float(value) for name, value in trainer.progress_bar_metrics.items()}


@clause("LOG-016", "prog_bar=True MUST show the value in the progress bar's metrics, and the "
                   "default not.",
        editions="1.5 2.2", needs="fit", source="seed 1.1 ProgressBar; trace log_on_step_and_epoch",
        arguments="LightningModule.log.prog_bar")
def log_016(run):
    for step, expected in ((BAR, {"v": 1.0}), (PLAIN, {})):
        t = run.fit(train_batches=1, val_batches=0, module={"training_step": step},
                    look={"M.on_train_batch_end": bar})
        shown = {k: v for k, v in t.looked("M.on_train_batch_end")[0].items() if k == "v"}
        t.equal("shown", shown, expected)


@clause("LOG-017", "Return values MUST leave out what was logged with logger=False.",
        editions="2.2", needs="validate", source="oracle 2.2.5",
        arguments="LightningModule.log.logger")
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
        source="oracle 2.2.5, 1.5.10",
        arguments="LightningModule.log_dict.dictionary")
def log_019(run):
    t = run.fit(train_batches=1, val_batches=0, module={"training_step": several},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"a": 1.0, "b": 2.0})


@clause("LOG-020", "The metrics of one entry point MUST be gone when the next begins.",
        editions="2.2", needs="fit validate", source="trace 2.2.5 log_on_step_and_epoch")
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


@clause("LOG-021", "Step metrics MUST be passed to the loggers at every log_every_n_steps-th step, "
        "with the number of steps before, and epoch metrics at the last step of the epoch.",
        editions="2.2", needs="fit logger", source="trace 2.2.5 log_every_n_steps")
def log_021(run):
    t = run.scenario("log_every_n_steps")
    logged = [[step, sorted(set(values) - {"epoch"})] for step, values in t.stage.results["logged"]]
    t.equal("logged", logged, [
        [1, ["a_step"]], [3, ["a_step"]], [4, ["a_epoch"]], [5, ["a_step"]], [7, ["a_step"]],
        [9, ["a_step"]], [9, ["a_epoch"]]])


# What the other arguments of log and log_dict mean.


def to_logger(stage, step, **config):
    """Fit one epoch of three batches; note what the logger got, as [step, {name: value}]."""
    from .. import subjects

    logger = subjects.logger(stage.impl, stage.recorder)
    trainer = stage.trainer(logger=logger, log_every_n_steps=1, max_epochs=1,
                            num_sanity_val_steps=0, **config)
    stage.call("fit", trainer.fit, stage.module(
        dict(train=3), without=("val_dataloader", "validation_step"), training_step=step))
    for step, values in logger.logged:
        values = {name: value for name, value in values.items() if name != "epoch"}
        if values:
            stage.note("logged", [step, values])
    stage.note("seen", sorted(trainer.callback_metrics))


def epochs_to_logger(stage):
    """Fit two epochs of two batches; note how the number of the epoch is written."""
    from .. import subjects

    logger = subjects.logger(stage.impl, stage.recorder)
    logger.does = {"log_metrics": lambda self, metrics, step=None: stage.note(
        "epoch", repr(metrics["epoch"]))}
    trainer = stage.trainer(logger=logger, log_every_n_steps=1, max_epochs=2)
    stage.call("fit", trainer.fit, stage.module(
        dict(train=2), without=("val_dataloader", "validation_step"), training_step=log_t))


@clause("LOG-045", "The number of the epoch MUST be passed to the loggers with the metrics of a "
        "training step, as a whole number.", editions="2.2", needs="fit logger",
        source="lightning 2.2.5 and 2.6.6 log_metrics")
def log_045(run):
    run.play(epochs_to_logger).noted("epoch", "0", "0", "1", "1")


@clause("LOG-022", "What is logged with logger=False MUST NOT reach the loggers, and what is "
        "logged without it does, at its step.", editions="1.5 2.2", device="cpu",
        needs="fit logger on_exception",
        source="lightning 1.5.10 and 2.2.5 log", arguments="LightningModule.log.logger")
def log_022(run):
    t = run.play(to_logger, step=NO_LOGGER)
    t.noted("seen", ["v"])
    t.equal("logged", t.noted("logged"), [])
    run.play(to_logger, step=PLAIN).noted(
        "logged", [0, {"v": 1.0}], [1, {"v": 2.0}], [2, {"v": 3.0}])


def log_by_loader(**how):
    """Return a step that logs the index of the loader."""
    def step(self, batch, batch_idx, dataloader_idx=0):
        name = "v" if how.get("add_dataloader_idx", True) else "v%d" % dataloader_idx
        self.log(name, float(dataloader_idx), **how)
        return self(batch).sum()
    return step


BY_LOADER, BY_NAME = log_by_loader(), log_by_loader(add_dataloader_idx=False)


def two_loaders(self):
    """Return two loaders of one batch."""
    return [torch.utils.data.DataLoader(torch.ones(1, 2)) for _ in range(2)]


@clause("LOG-023", "With several loaders /dataloader_idx_N MUST be added to a name, unless "
        "add_dataloader_idx is False.", editions="1.5 2.2", needs="validate on_exception",
        source="lightning 1.5.10 and 2.2.5 log",
        arguments="LightningModule.log.add_dataloader_idx")
def log_023(run):
    t = run.validate(module={"validation_step": BY_LOADER, "val_dataloader": two_loaders})
    t.equal("value", t.value, [{"v/dataloader_idx_0": 0.0}, {"v/dataloader_idx_1": 1.0}])
    t = run.validate(module={"validation_step": BY_NAME, "val_dataloader": two_loaders})
    t.equal("value", t.value, [{"v0": 0.0}, {"v1": 1.0}])


UNKNOWN = logs(on_epoch=True, reduce_fx="median")


@clause("LOG-024", "A reduce_fx that is no function, and none of mean, sum, min and max, MUST be "
        "refused.", editions="1.5 2.2", needs="fit on_exception",
        source="lightning 1.5.10 and 2.2.5 log", arguments="LightningModule.log.reduce_fx")
def log_024(run):
    t = run.fit(train_batches=1, val_batches=0, module={"training_step": UNKNOWN}, fails=True)
    t.raises("MisconfigurationException", "median")


def spread(values):
    """Return the difference between the largest and the smallest."""
    return values.max() - values.min()


SPREAD = logs(on_step=False, on_epoch=True, reduce_fx=spread)


@clause("LOG-025", "A function as reduce_fx MUST be given the values of the epoch, and its result "
        "is the value of the epoch.", editions="beyond", needs="fit older_hooks",
        source="lightning "
        "2.2.5 log: only functions of torch are taken", arguments="LightningModule.log.reduce_fx")
def log_025(run):
    t = run.fit(train_batches=4, val_batches=0, module={"training_step": SPREAD},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"v": 3.0})


ALONE = logs(on_step=False, on_epoch=True, sync_dist=True, rank_zero_only=False)
ALONE_SUM = logs(on_step=False, on_epoch=True, reduce_fx="sum", sync_dist=True,
                 sync_dist_group=None)
FIRST = logs(on_step=False, on_epoch=True, rank_zero_only=True)


@clause("LOG-026", "In one process sync_dist, sync_dist_group and rank_zero_only MUST change no "
        "value.", editions="1.5 2.2", device="cpu", needs="fit on_exception",
        source="lightning 1.5.10 and 2.2.5 log",
        arguments="LightningModule.log.sync_dist LightningModule.log.sync_dist_group "
                  "LightningModule.log.rank_zero_only")
def log_026(run):
    for step, value in ((ALONE, 2.0), (ALONE_SUM, 6.0), (FIRST, 2.0)):
        t = run.fit(train_batches=3, val_batches=0, module={"training_step": step},
                    look={"M.on_train_end": metrics})
        t.looked("M.on_train_end", {"v": value})


def with_graph(self, batch, batch_idx):
    """Log the loss, and ask for its graph."""
    loss = self(batch).sum()
    self.log("v", loss, enable_graph=True, on_step=True, on_epoch=True)
    return loss


@clause("LOG-027", "callback_metrics MUST have no graph also if enable_graph is True.",
        editions="1.5 2.2", needs="fit on_exception", source="lightning 1.5.10 and 2.2.5 log",
        arguments="LightningModule.log.enable_graph")
def log_027(run):
    t = run.fit(train_batches=2, val_batches=0, module={"training_step": with_graph},
                look={"M.on_train_batch_end": requires_grad, "M.on_train_end": requires_grad})
    t.looked("M.on_train_batch_end", False, False)
    t.looked("M.on_train_end", False)


class Largest:
    """A metric object of one's own: update, compute, reset."""

    def __init__(self):
        self.values, self.resets = [], 0

    def update(self, value):
        """Take a value."""
        self.values.append(float(value))

    def compute(self):
        """Return the largest."""
        return torch.tensor(max(self.values))

    def reset(self):
        """Forget the values."""
        self.values, self.resets = [], self.resets + 1


def with_object(self, batch, batch_idx):
    """Update a metric object and log it."""
    if not hasattr(self, "largest"):
        self.largest = Largest()
    self.largest.update([3.0, 7.0, 5.0][batch_idx] + self.current_epoch)
    self.log("v", self.largest, on_step=False, on_epoch=True)
    return self(batch).sum()


@clause("LOG-028", "A metric object with update, compute and reset MUST be computed and then reset "
        "at the end of each epoch.", editions="beyond", needs="fit older_hooks", source="lightning "
        "2.2.5 log: only those of torchmetrics are taken", arguments="LightningModule.log.value")
def log_028(run):
    t = run.fit(train_batches=3, val_batches=0, max_epochs=2, module={"training_step": with_object},
                look={"M.on_train_epoch_end": metrics})
    t.looked("M.on_train_epoch_end", {"v": 7.0}, {"v": 8.0})
    t.equal("resets", t.module.largest.resets, 2)


def outside_object(attribute):
    """Return a step that logs a metric object which is a module, but none of this one's."""
    def step(self, batch, batch_idx):
        if not hasattr(type(self), "kept"):
            bases = (Largest, torch.nn.Module)
            members = dict(__init__=lambda it: (torch.nn.Module.__init__(it),
                                                Largest.__init__(it)) and None)
            type(self).kept = [type("Kept", bases, members)()]
        self.kept[0].update(4.0)
        self.log("v", self.kept[0], on_step=False, on_epoch=True, metric_attribute=attribute)
        return self(batch).sum()
    return step


STRAY, TOLD = outside_object(None), outside_object("kept")


@clause("LOG-029", "A metric object that is a module outside of this one MUST be refused, unless "
        "metric_attribute says where it is.", editions="beyond", needs="fit older_hooks",
        source="lightning 2.2.5 log, for those of torchmetrics",
        arguments="LightningModule.log.metric_attribute")
def log_029(run):
    t = run.fit(train_batches=1, val_batches=0, module={"training_step": STRAY}, fails=True)
    t.raises("MisconfigurationException", "metric_attribute", "v")
    t = run.fit(train_batches=1, val_batches=0, module={"training_step": TOLD},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"v": 4.0})


def no_size():
    """Return one loader whose batches have no size."""
    return [torch.utils.data.DataLoader([object()] * 2, batch_size=None, collate_fn=only)]


def only(batch):
    """Return the batch as it is."""
    return batch


def log_unsized(self, batch, batch_idx):
    """Log a mean."""
    self.log("v", 1.0, on_step=False, on_epoch=True)
    return self(torch.ones(1, 2, device=self.device)).sum()


def log_sized(self, batch, batch_idx):
    """Log a mean with its weight."""
    self.log("v", 1.0, on_step=False, on_epoch=True, batch_size=3)
    return self(torch.ones(1, 2, device=self.device)).sum()


@clause("LOG-030", "A mean over batches whose size cannot be told MUST be refused with a message "
        "that names batch_size, unless that is given.", editions="2.2", needs="fit",
        source="lightning 2.2.5 log", arguments="LightningModule.log.batch_size")
def log_030(run):
    t = run.fit(val_batches=0, loaders=no_size, module={"training_step": log_unsized}, fails=True)
    t.raises("MisconfigurationException", "batch_size")
    t = run.fit(val_batches=0, loaders=no_size, module={"training_step": log_sized},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"v": 1.0})


NEITHER = logs(on_step=False, on_epoch=False)


@clause("LOG-031", "on_step=False with on_epoch=False MUST be refused.", editions="2.2",
        needs="fit", source="lightning 2.2.5 log",
        arguments="LightningModule.log.on_step LightningModule.log.on_epoch")
def log_031(run):
    run.fit(train_batches=1, val_batches=0, module={"training_step": NEITHER}, fails=True).raises(
        "MisconfigurationException", "on_step=False", "on_epoch=False")


def dicts(**how):
    """Return a step that logs its batch index + 1, and its tenfold, as a dict."""
    def step(self, batch, batch_idx):
        self.log_dict({"a": float(batch_idx + 1), "b": 10.0 * (batch_idx + 1)}, **how)
        return self(batch).sum()
    return step


BAR_DICT = dicts(prog_bar=True)
SUM_DICT = dicts(on_step=False, on_epoch=True, reduce_fx="sum", sync_dist=True,
                 sync_dist_group=None, enable_graph=True, rank_zero_only=False)
MEAN_DICT = dicts(on_step=False, on_epoch=True, batch_size=2)
SILENT_DICT = dicts(logger=False)


def dict_by_loader(self, batch, batch_idx, dataloader_idx=0):
    """Log a dict with names of the loader's own."""
    self.log_dict({"v%d" % dataloader_idx: float(dataloader_idx)}, add_dataloader_idx=False)
    return self(batch).sum()


@clause("LOG-032", "The arguments of log_dict MUST mean for each item what they mean for log.",
        editions="1.5 2.2", device="cpu", needs="fit validate logger on_exception",
        source="lightning 1.5.10 and 2.2.5 log_dict", arguments=" ".join(
            "LightningModule.log_dict." + each for each in (
                "dictionary prog_bar logger on_step on_epoch reduce_fx enable_graph sync_dist "
                "sync_dist_group add_dataloader_idx batch_size rank_zero_only").split()))
def log_032(run):
    for step, expected in ((SUM_DICT, {"a": 6.0, "b": 60.0}), (MEAN_DICT, {"a": 2.0, "b": 20.0})):
        t = run.fit(train_batches=3, val_batches=0, module={"training_step": step},
                    look={"M.on_train_end": metrics})
        t.looked("M.on_train_end", expected)
    t = run.fit(train_batches=1, val_batches=0, module={"training_step": BAR_DICT},
                look={"M.on_train_batch_end": bar})
    shown = {k: v for k, v in t.looked("M.on_train_batch_end")[0].items() if k in "ab"}
    t.equal("shown", shown, {"a": 1.0, "b": 10.0})
    t = run.play(to_logger, step=SILENT_DICT)
    t.noted("seen", ["a", "b"])
    t.equal("logged", t.noted("logged"), [])
    t = run.validate(module={"validation_step": dict_by_loader, "val_dataloader": two_loaders})
    t.equal("value", t.value, [{"v0": 0.0}, {"v1": 1.0}])


# Loggers.


def rows_of(folder):
    """Return the rows of a file of metrics, each without its empty cells."""
    import csv
    import os

    with open(os.path.join(folder, "metrics.csv"), newline="") as file:
        return [{name: cell for name, cell in row.items() if cell} for row in csv.DictReader(file)]


def writes_csv(stage, rows, flush=0, **how):
    """Write rows by hand; note the folder below the root, and the rows there are after each."""
    import os

    stage.trainer()
    more = dict(flush_logs_every_n_steps=flush) if flush else {}
    logger = stage.impl.CSVLogger(stage.folder, **dict(how, **more))
    stage.note("folder", logger.log_dir.replace(stage.folder, "").replace("\\", "/"))
    for step, metrics in enumerate(rows):
        logger.log_metrics(dict(metrics), step)
        if not flush:
            logger.save()
        there = os.path.exists(os.path.join(logger.log_dir, "metrics.csv"))
        stage.note("counts", len(rows_of(logger.log_dir)) if there else 0)
        if there and not flush:
            stage.note("lines", open(os.path.join(logger.log_dir, "metrics.csv")).read().split())
    stage.call("finalize", logger.finalize, "success")
    stage.note("rows", rows_of(logger.log_dir))


@clause("LOG-033", "CSVLogger MUST write metrics.csv in the folder of its save_dir, name and "
                   "version.",
        editions="1.5 2.2", device="cpu", needs="csv_logger on_exception",
        source="lightning 1.5.10 and 2.2.5 CSVLogger",
        arguments="CSVLogger.save_dir CSVLogger.name CSVLogger.version")
def log_033(run):
    for how, folder in ((dict(name="n"), "/n/version_0"),
                        (dict(name="n", version=7), "/n/version_7"),
                        (dict(name="n", version="mine"), "/n/mine"), (dict(name=""), "/version_0")):
        t = run.play(writes_csv, rows=[{"a": 1.0}], **how)
        t.equal("folder", t.noted("folder")[0].replace("//", "/"), folder)
        t.noted("rows", [{"step": "0", "a": "1.0"}])


@clause("LOG-034", "A prefix MUST stand before the name of each metric.", editions="1.5 2.2",
        device="cpu",
        needs="csv_logger on_exception", source="lightning 1.5.10 and 2.2.5 CSVLogger",
        arguments="CSVLogger.prefix")
def log_034(run):
    t = run.play(writes_csv, rows=[{"a": 1.0}], name="n", prefix="p")
    t.noted("rows", [{"step": "0", "p-a": "1.0"}])


@clause("LOG-035", "CSVLogger MUST write its rows at every flush_logs_every_n_steps-th step, and "
        "the rest when it is finalized.", editions="2.2", device="cpu", needs="csv_logger",
        source="lightning 2.2.5 CSVLogger", arguments="CSVLogger.flush_logs_every_n_steps")
def log_035(run):
    t = run.play(writes_csv, rows=[{"a": 1.0}] * 7, name="n", flush=3)
    t.noted("counts", 0, 0, 3, 3, 3, 6, 6)
    t.equal("rows", len(t.noted("rows")[0]), 7)


GROWING = [{"z": 1.0}, {"z": 2.0}, {"a": 3.0}, {"z": 4.0, "b": 5.0}]


@clause("LOG-036", "One metrics.csv MUST hold every row and every column, whenever it came.",
        editions="2.2", device="cpu", needs="csv_logger", source="lightning 2.2.5 CSVLogger")
def log_036(run):
    run.play(writes_csv, rows=GROWING, name="n").noted("rows", [
        {"step": "0", "z": "1.0"}, {"step": "1", "z": "2.0"}, {"step": "2", "a": "3.0"},
        {"step": "3", "z": "4.0", "b": "5.0"}])


@clause("LOG-037", "A row that is written MUST stay as it is when a new column comes.",
        editions="beyond", device="cpu",
        needs="csv_logger older_hooks", source="lightning 2.2.5 CSVLogger, which "
        "writes every row again")
def log_037(run):
    lines = run.play(writes_csv, rows=GROWING, name="n").noted("lines")
    run.play(writes_csv, rows=GROWING, name="n").equal(
        "first rows", [each[1:3] for each in lines[1:]], [["0,1.0", "1,2.0"]] * 3)


def to_tensorboard(stage, hooks=(), **how):
    """Fit with a TensorBoardLogger; note its folder and what TensorBoard would show."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = stage.impl.TensorBoardLogger(stage.folder, **dict(how))
    module = stage.module(dict(train=3), without=("val_dataloader", "validation_step"),
                          training_step=PLAIN, **dict(hooks))
    module.example_input_array = torch.ones(1, 2)
    logger.log_hyperparams({"rate": 0.5})
    trainer = stage.trainer(logger=logger, log_every_n_steps=1, max_epochs=1)
    stage.call("fit", trainer.fit, module)
    stage.note("folder", logger.log_dir.replace(stage.folder, "").replace("\\", "/"))
    shown = EventAccumulator(logger.log_dir)
    shown.Reload()
    tags = shown.Tags()
    stage.note("scalars", sorted(tags["scalars"]))
    stage.note("values", {tag: [[each.step, each.value] for each in shown.Scalars(tag)]
                          for tag in tags["scalars"] if tag.endswith("v")})
    stage.note("histograms", sorted(tags["histograms"]))
    stage.note("graph", bool(tags["graph"]))


@clause("LOG-038", "TensorBoardLogger MUST write to the folder of its save_dir, name, version and "
        "sub_dir.", editions="1.5 2.2", device="cpu", needs="tensorboard on_exception",
        source="lightning 1.5.10 and 2.2.5 TensorBoardLogger",
        arguments="TensorBoardLogger.save_dir TensorBoardLogger.name TensorBoardLogger.version "
                  "TensorBoardLogger.sub_dir")
def log_038(run):
    for how, folder in ((dict(name="n"), "/n/version_0"),
                        (dict(name="n", version=3, sub_dir="s"), "/n/version_3/s"),
                        (dict(name="n", version="mine"), "/n/mine")):
        t = run.play(to_tensorboard, **how)
        t.noted("folder", folder)
        t.noted("values", {"v": [[0, 1.0], [1, 2.0], [2, 3.0]]})


@clause("LOG-039", "A prefix of TensorBoardLogger MUST stand before the name of each metric.",
        editions="1.5 2.2", device="cpu", needs="tensorboard on_exception",
        source="lightning 1.5.10 and 2.2.5 TensorBoardLogger", arguments="TensorBoardLogger.prefix")
def log_039(run):
    run.play(to_tensorboard, prefix="p").noted(
        "values", {"p-v": [[0, 1.0], [1, 2.0], [2, 3.0]]})


@clause("LOG-040", "TensorBoardLogger MUST list hyperparameters with an hp_metric, unless "
        "default_hp_metric is False.", editions="1.5 2.2", device="cpu",
        needs="tensorboard on_exception",
        source="lightning 1.5.10 and 2.2.5 TensorBoardLogger",
        arguments="TensorBoardLogger.default_hp_metric")
def log_040(run):
    run.play(to_tensorboard, name="n").noted("scalars", ["epoch", "hp_metric", "v"])
    run.play(to_tensorboard, name="n", default_hp_metric=False).noted("scalars", ["epoch", "v"])


@clause("LOG-041", "TensorBoardLogger MUST draw the graph of the model if log_graph is True, and "
        "only then.", editions="2.2", device="cpu",
        needs="tensorboard", source="lightning 2.2.5 TensorBoardLogger",
        arguments="TensorBoardLogger.log_graph")
def log_041(run):
    run.play(to_tensorboard, log_graph=True).noted("graph", True)
    run.play(to_tensorboard, log_graph=False).noted("graph", False)


def gradients(self, optimizer):
    """Log gradients as the example of the seed does, at every other step."""
    if self.trainer.global_step % 2 == 0:
        for k, v in self.named_parameters():
            self.logger.experiment.add_histogram(
                tag=k, values=v.grad, global_step=self.trainer.global_step)


@clause("LOG-042", "The experiment of a TensorBoardLogger MUST take histograms of gradients in "
        "on_before_optimizer_step, as the example writes.", editions="2.2", device="cpu",
        needs="tensorboard",
        source="seed 2.2 on_before_optimizer_step")
def log_042(run):
    run.play(to_tensorboard, hooks=dict(on_before_optimizer_step=gradients)).noted(
        "histograms", ["layer.bias", "layer.weight"])


def several_loggers(stage, breaks):
    """Fit with two loggers, of which the first may fail; note what each was told."""
    from .. import subjects

    def broken(self, metrics, step=None):
        raise OSError("no space left")

    made = [subjects.logger(stage.impl, stage.recorder) for _ in range(2)]
    if breaks:
        made[0].does["log_metrics"] = broken
    for which, logger in enumerate(made):
        logger.does["finalize"] = lambda self, status, which=which: stage.note(
            "finalized", [which, status])
    trainer = stage.trainer(stage.Callback("c1"), logger=made, log_every_n_steps=1, max_epochs=1)
    stage.note("loggers", [trainer.loggers == made, trainer.logger is made[0]])
    try:
        stage.call("fit", trainer.fit, stage.module(
            dict(train=3), without=("val_dataloader", "validation_step"), training_step=PLAIN))
    finally:
        stage.note("after", [[step for step, values in logger.logged if "v" in values]
                             for logger in made])


@clause("LOG-043", "Each of several loggers MUST get all that is logged, and logger is the first "
        "of loggers.", editions="2.2", device="cpu",
        needs="logger fit", source="lightning 2.2.5 Trainer")
def log_043(run):
    t = run.play(several_loggers, breaks=False)
    t.noted("loggers", [True, True])
    t.noted("after", [[0, 1, 2], [0, 1, 2]])
    t.noted("finalized", [0, "success"], [1, "success"])


@clause("LOG-044", "The error of a logger MUST end the run, be told to callbacks, and leave all "
        "loggers finalized as failed.", editions="2.2", device="cpu", needs="logger fit",
        source="lightning 2.2.5 Trainer", hooks="C.on_exception fires")
def log_044(run):
    t = run.play(several_loggers, breaks=True, fails=True)
    t.raises("OSError", "no space left")
    t.count("c1.on_exception", 1)
    t.noted("finalized", [0, "failed"], [1, "failed"])


def with_hparams(stage, entry):
    """Call an entry point with a recorded logger and a module with hyperparameters."""
    from .. import subjects

    logger = subjects.logger(stage.impl, stage.recorder)
    module, recorder = stage.module(), stage.recorder
    type(logger).log_hyperparams = lambda self, params, *args, **kwargs: stage.note(
        "params", [dict(params), ("M", "setup") in [each[:2] for each in recorder.events]])
    module.save_hyperparameters({"rate": 0.5})
    trainer = stage.trainer(logger=logger, num_sanity_val_steps=0)
    stage.call(entry, getattr(trainer, entry), module)


@clause("LOG-060", "Each entry point MUST pass the hyperparameters to the logger once, after the "
        "module is set up.", editions="2.2", needs="fit validate test predict logger",
        source="lightning 2.2.5", hooks="M.setup fires")
def log_060(run):
    for entry in ("fit", "validate", "test", "predict"):
        run.play(with_hparams, entry=entry).noted("params", [{"rate": 0.5}, True])


class Talkative:
    """Rows that log when they are asked for, between two hooks."""

    def __init__(self, module):
        self.module = module

    def __len__(self):
        return 2

    def __getitem__(self, at):
        self.module.log("v", 1.0)
        return torch.ones(2)


def talkative_rows(self):
    """Return a loader of them."""
    return torch.utils.data.DataLoader(Talkative(self))


def counted(stage):
    """Fit an epoch, save, and go on with a logger."""
    from .. import subjects
    from . import ckpt

    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=3)))
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    module, logger = stage.module(dict(train=3)), subjects.logger(stage.impl, stage.recorder)
    type(logger).log_hyperparams = lambda self, *args, **kwargs: stage.note(
        "steps", module.trainer.global_step)
    module.save_hyperparameters({"rate": 0.5})
    ckpt.go_on(stage, module, stage.path("m.ckpt"), max_epochs=2, logger=logger)


@clause("LOG-063", "A logger MUST be told the hyperparameters before the counters go on from the "
        "file.", editions="2.2", needs="fit logger", source="lightning 2.2.5", device="cpu")
def log_063(run):
    run.play(counted).noted("steps", 0)


def begun(stage):
    """Fit with a logger; note whether on_fit_start came before the hyperparameters."""
    from .. import subjects

    module, logger = stage.module(), subjects.logger(stage.impl, stage.recorder)
    recorder = stage.recorder
    type(logger).log_hyperparams = lambda self, *args, **kwargs: stage.note(
        "begun", ("M", "on_fit_start") in [each[:2] for each in recorder.events])
    module.save_hyperparameters({"rate": 0.5})
    stage.call("fit", stage.trainer(logger=logger, num_sanity_val_steps=0).fit, module)


@clause("LOG-065", "A logger MUST be told the hyperparameters after on_fit_start.", editions="2.2",
        needs="fit logger", source="lightning 2.6.6", hooks="M.on_fit_start fires", device="cpu")
def log_065(run):
    run.play(begun).noted("begun", True)


@clause("LOG-061", "self.log MUST be refused between hooks, as in a dataset that is asked for a "
        "row, also after hooks that may log.", editions="2.2", needs="fit",
        source="lightning 2.2.5 log")
def log_061(run):
    t = run.fit(val_batches=0, module={"train_dataloader": talkative_rows,
                                       "on_train_epoch_start": logs_in_hook}, fails=True)
    t.raises("MisconfigurationException", "log")
    t.only("M.on_train_epoch_start C.on_exception", absent="M.training_step")


def logs_in_hook(self):
    """Log where it may be done."""
    self.log("w", 1.0)


@clause("LOG-062", "What a batch of training logs MUST be seen in the validation behind it.",
        editions="2.2", needs="fit", source="lightning 2.2.5 log", hooks="M.training_step return")
def log_062(run):
    t = run.fit(train_batches=2, val_batches=1, val_check_interval=1,
                module={"training_step": PLAIN}, look={"M.on_validation_start": metrics})
    t.looked("M.on_validation_start", {"v": 1.0}, {"v": 2.0})


@clause("LOG-064", "In an evaluation, too, the weight of a value MUST be the size of its batch.",
        editions="1.5 2.2", needs="validate", source="bug 25",
        arguments="LightningModule.log.batch_size")
def log_064(run):
    t = run.validate(loaders=uneven, module={"validation_step": log_mean})
    t.equal("value", t.value, [{"v_epoch" if "v_epoch" in t.value[0] else "v": 4.5}])


def evaluated_steps(stage):
    """Fit 2 epochs with a logger, and log at each step of a validation."""
    from .. import subjects

    logger = subjects.logger(stage.impl, stage.recorder)
    module = stage.module(dict(train=1, val=2), validation_step=STEP_ALONE)
    trainer = stage.trainer(logger=logger, num_sanity_val_steps=2, max_epochs=2)
    stage.call("fit", trainer.fit, module)
    stage.note("logged", [[step, values["v"]] for step, values in logger.logged if "v" in values])


STEP_ALONE = logs(on_step=True, on_epoch=False)


@clause("LOG-066", "What validation_step logs with on_step MUST be passed to the loggers at each "
        "batch, which are counted over epochs without the sanity check.", editions="2.2",
        needs="fit logger", source="lightning 2.6.6", device="cpu",
        arguments="LightningModule.log.on_step")
def log_066(run):
    run.play(evaluated_steps).noted("logged", [[0, 1.0], [1, 2.0], [2, 1.0], [3, 2.0]])


def with_object_of_validation(self, batch, batch_idx):
    """Update a metric object and log it."""
    if not hasattr(self, "largest"):
        self.largest = Largest()
    self.largest.update([3.0, 7.0][batch_idx] - self.current_epoch)
    self.log("v", self.largest)


@clause("LOG-067", "A metric object that is logged in a validation MUST be computed and then reset "
        "at its end.", editions="beyond", needs="fit older_hooks", source="lightning 2.2.5 log: "
        "only those of torchmetrics are taken", arguments="LightningModule.log.value")
def log_067(run):
    t = run.fit(train_batches=1, val_batches=2, max_epochs=2,
                module={"validation_step": with_object_of_validation},
                look={"M.on_train_epoch_end": metrics})
    t.looked("M.on_train_epoch_end", {"v": 7.0}, {"v": 6.0})
    t.equal("resets", t.module.largest.resets, 2)
