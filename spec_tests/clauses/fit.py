"""Fit: what fires, in which order, with what, in which state."""

from ..clause import clause


@clause("FIT-001", "on_train_start MUST be called once per fit, on callbacks in list order and then "
        "on the module.", editions="1.1 1.5 2.2", needs="fit", source="seed 2.2 on_train_start",
        hooks="CM.on_train_start fires")
def fit_001(run):
    t = run.fit(max_epochs=2)
    t.only("C.on_train_start M.on_train_start")


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


def skip_from_1(self, batch, batch_idx):
    """Skip the rest of the epoch at batch 1."""
    return -1 if batch_idx == 1 else None


@clause("FIT-024", "A module's on_train_batch_start that returns -1 MUST end the epoch's batches "
        "without training_step and on_train_batch_end of that batch.", editions="1.5 2.2",
        needs="fit", source="seed 2.2 on_train_batch_start",
        hooks="M.on_train_batch_start return")
def fit_024(run):
    t = run.fit(train_batches=3, val_batches=0, module={"on_train_batch_start": skip_from_1})
    t.only("""
        M.on_train_batch_start  M.training_step  C.on_train_batch_end  M.on_train_batch_end
        M.on_train_batch_start  C.on_train_epoch_end  M.on_train_epoch_end
    """)


@clause("FIT-025", "In on_train_batch_start, the module MUST be in train mode with gradients on and "
        "global_step counting the optimizer steps before it.", editions="2.2", needs="fit", source="trace 2.2.5 fit_no_sanity",
        hooks="CM.on_train_batch_start state")
def fit_025(run):
    t = run.fit(max_epochs=2)
    for who in ("c1", "M"):
        t.state(who + ".on_train_batch_start", "0/0 TG training", "1/0 TG training",
                "2/1 TG training", "3/1 TG training")


def boom(self, *args):
    """Fail."""
    raise RuntimeError("boom")


@clause("FIT-090", "An error raised by a hook MUST propagate out of fit unchanged.",
        editions="1.5 2.2", needs="fit", source="seed 1.5 on_exception; trace 2.2.5 "
        "exception_in_training_step", hooks="C.on_exception fires")
def fit_090(run):
    t = run.fit(fails=True, module={"training_step": boom})
    t.raises("RuntimeError", "boom")
    t.only("M.training_step C.on_exception(RuntimeError)", absent="CM.on_train_end CM.on_fit_end")
