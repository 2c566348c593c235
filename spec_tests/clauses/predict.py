"""`predict`: its hooks, and what it returns."""

from ..clause import clause, torch
from .shared import keep, of_end, of_start, one_batch, sigterm, stays

HOOKS = ("start", "epoch_start", "batch_start", "batch_end", "epoch_end", "end")
PASS = """
    M.on_predict_model_eval
    C.on_predict_start        M.on_predict_start
    C.on_predict_epoch_start  M.on_predict_epoch_start
    C.on_predict_batch_start  M.on_predict_batch_start  M.predict_step
    C.on_predict_batch_end    M.on_predict_batch_end
    C.on_predict_epoch_end    M.on_predict_epoch_end
    C.on_predict_end          M.on_predict_end
"""


@clause("PREDICT-001", "One pass of predict MUST fire its hooks in the order eval mode, start, "
        "epoch start, for each batch start, step and end, then epoch end and end, callbacks before "
        "the module.", editions="1.5 2.2", needs="predict",
        source="seed 2.2 on_predict_*; trace predict",
        hooks=["CM.on_predict_%s fires" % hook for hook in HOOKS] + [
            "M.on_predict_model_eval fires", "M.predict_step fires"])
def predict_001(run):
    run.predict(predict_batches=1).only(PASS)


@clause("PREDICT-002", "predict MUST run set-up, one pass and teardown for its own stage.",
        editions="1.5 2.2", needs="predict", source="seed 2.2 setup; trace 2.2.5 predict",
        hooks=["CM.setup arguments", "CM.teardown arguments",
               "M.predict_dataloader fires arguments state"])
def predict_002(run):
    t = run.predict(predict_batches=1)
    t.only("""
        M.prepare_data C.setup(predict) M.setup(predict) M.predict_dataloader M.predict_step
        C.teardown(predict) M.teardown(predict)
    """, absent="CM.on_fit_start CM.on_validation_start M.configure_optimizers")
    t.args("M.predict_dataloader", "")


@clause("PREDICT-003", "Hooks of predict MUST see eval mode and inference mode.", editions="2.2",
        needs="predict", source="trace 2.2.5 predict",
        hooks=["CM.on_predict_%s state" % hook for hook in HOOKS]
        + ["M.on_predict_model_eval state"])
def predict_003(run):
    t = run.predict(predict_batches=1)
    for hook in HOOKS:
        for who in ("c1", "M"):
            t.state("%s.on_predict_%s" % (who, hook), "0/0 Ei predicting")
    t.state("M.on_predict_model_eval", "0/0 Ti predicting")
    t.state("M.predict_dataloader", "0/0 Ti predicting")


@clause("PREDICT-004", "With one loader, the hooks of predict MUST receive the batch and its "
        "index, and batch ends the predictions too.", editions="2.2", needs="predict",
        source="trace 2.2.5 predict",
        hooks=["CM.on_predict_%s arguments" % hook for hook in HOOKS]
        + ["M.on_predict_model_eval arguments", "M.predict_step arguments"])
def predict_004(run):
    t = run.predict(predict_batches=2)
    for who in ("c1", "c2", "M"):
        t.args(who + ".on_predict_batch_start", "Tensor, 0", "Tensor, 1")
        t.args(who + ".on_predict_batch_end", "Tensor, Tensor, 0", "Tensor, Tensor, 1")
        for hook in ("start", "epoch_start", "epoch_end", "end"):
            t.args("%s.on_predict_%s" % (who, hook), "")
    t.args("M.predict_step", "Tensor, 0", "Tensor, 1")
    t.args("M.on_predict_model_eval", "")


def minus_one(self, *args):
    """Return what means something in on_train_batch_start only."""
    return -1


@clause("PREDICT-005", "Return values of the hooks of predict MUST be ignored.", editions="1.5 2.2",
        needs="predict", source="seed 2.2 on_predict_*",
        hooks=["CM.on_predict_%s return" % hook for hook in HOOKS])
def predict_005(run):
    returning = {"on_predict_" + hook: minus_one for hook in HOOKS}
    run.predict(predict_batches=1, module=returning, c1=returning).only(PASS)


def index(self, batch, batch_idx, dataloader_idx=0):
    """Predict where one is."""
    return [dataloader_idx, batch_idx]


@clause("PREDICT-006", "predict MUST return what predict_step returned, in the order of the "
                       "batches.",
        editions="1.5 2.2", needs="predict", source="trace 2.2.5 predict_return_predictions_value",
        hooks="M.predict_step return")
def predict_006(run):
    t = run.predict(predict_batches=3, module={"predict_step": index})
    t.equal("value", t.value, [[0, 0], [0, 1], [0, 2]])


def two_loaders(stage):
    """Predict over two loaders."""
    loader = torch.utils.data.DataLoader
    module = stage.module(predict_step=index, params={
        "predict_step": "batch batch_idx dataloader_idx"})
    trainer = stage.trainer(stage.Callback("c1"), stage.Callback("c2"))
    stage.call("predict", trainer.predict, module,
               [loader(torch.ones(2, 2)), loader(torch.ones(1, 2))])


@clause("PREDICT-007", "With several loaders, predict MUST return a list for each, and pass the "
        "index of the loader to hooks and step.", editions="2.2", needs="predict",
        source="trace 2.2.5 predict_two_dataloaders",
        hooks=["CM.on_predict_batch_start arguments", "CM.on_predict_batch_end arguments"])
def predict_007(run):
    t = run.play(two_loaders)
    t.equal("value", t.value, [[[0, 0], [0, 1]], [[1, 0]]])
    for who in ("c1", "M"):
        t.args(who + ".on_predict_batch_start", "Tensor, 0", "Tensor, 1", "Tensor, 0, 1")
    t.count("M.on_predict_epoch_start", 1)


@clause("PREDICT-008", "With return_predictions=False, predict MUST return None and run all the "
                       "same.",
        editions="1.5 2.2", needs="predict", source="trace 2.2.5 predict_return_predictions_value")
def predict_008(run):
    t = run.predict(predict_batches=1, call=dict(return_predictions=False))
    t.equal("value", t.value, None)
    t.only(PASS)


@clause("PREDICT-009", "A 1.5 callback's on_predict_epoch_end MUST receive the predictions, a list "
        "for each loader.", editions="1.5", needs="predict", source="seed 1.5 on_predict_epoch_end",
        hooks="C.on_predict_epoch_end arguments")
def predict_009(run):
    t = run.predict(predict_batches=2, module={"predict_step": index},
                    callback_params="on_predict_epoch_end outputs", c1={
                        "on_predict_epoch_end": note_outputs})
    t.noted("outputs", [[[0, 0], [0, 1]]])


def note_outputs(self, trainer, module, outputs):
    """Note the predictions."""
    self.note("outputs", [list(loader) for loader in outputs])


def half_in_eval(stage, module):
    """Put a submodule in eval mode before the run."""
    module.layer.eval()


def modes(trainer, module):
    """Return the modes of module and submodules."""
    return [module.training, module.layer.training, module.drop.training]


@clause("PREDICT-010", "After predict, every submodule MUST be in the mode that it had before.",
        editions="2.2", needs="predict", source="bug 3; differences 3",
        hooks="M.predict_step state")
def predict_010(run):
    t = run.predict(predict_batches=1, before=half_in_eval, look={
        "M.predict_step": modes, "M.teardown": modes})
    t.looked("M.predict_step", [False, False, False])
    t.looked("M.teardown", [True, False, True])


def log_it(self, batch, batch_idx):
    """Log, which predict cannot."""
    self.log("p", 1.0)


@clause("PREDICT-011", "self.log in predict MUST be refused.", editions="1.5 2.2", needs="predict",
        source="trace 2.2.5 log_in_each_hook_allowed")
def predict_011(run):
    t = run.predict(predict_batches=1, module={"predict_step": log_it}, fails=True)
    t.raises("MisconfigurationException", "log")


@clause("PREDICT-012", "on_epoch_start and on_epoch_end MUST NOT be called for predict, while the "
        "hooks of its own epoch are.", editions="1.5", needs="predict older_hooks",
        source="ruling: on_epoch_start for train, sanity check, validation, test",
        hooks=["C.on_epoch_start fires", "C.on_epoch_end fires"])
def predict_012(run):
    t = run.predict(predict_batches=1, older=True)
    t.only("C.on_predict_epoch_start M.on_predict_epoch_start C.on_predict_epoch_end "
           "M.on_predict_epoch_end", absent="C.on_epoch_start C.on_epoch_end")


@clause("PREDICT-013", "The hooks of a prediction batch and its step MUST be given the very batch "
        "that was transferred, and the hook at its end what predict_step returned.", editions="2.2",
        needs="predict", source="seed 2.2 on_predict_batch_start, on_predict_batch_end",
        hooks=["M.on_predict_batch_start arguments", "M.on_predict_batch_end arguments"])
def predict_013(run):
    t = run.predict(predict_batches=1, module={
        "predict_step": keep, "on_predict_batch_start": of_start, "on_predict_batch_end": of_end})
    one_batch(t)
    t.noted("outputs", 3 * 1.1)


@clause("PREDICT-014", "An overridden on_predict_model_eval MUST be all that sets the mode: with "
        "one that does nothing, predict runs in train mode, whatever it returns.", editions="2.2",
        needs="predict hooks_2.2", source="seed 2.2 on_predict_model_eval: override to change the "
        "behavior", hooks="M.on_predict_model_eval fires return")
def predict_014(run):
    t = run.predict(predict_batches=1, module={"on_predict_model_eval": stays})
    t.only("M.on_predict_model_eval [T i] M.predict_step")


@clause("PREDICT-020", "After SIGTERM predict MUST end behind the batch that runs, with "
        "SIGTERMException.", editions="beyond", needs="predict older_hooks callback_state_dict",
        source="lightning 2.2.5, where validate does", hooks="C.on_exception fires", device="cpu")
def predict_020(run):
    t = run.predict(predict_batches=4, fails=True, c1={"on_predict_batch_start": sigterm})
    t.only("M.predict_step C.on_predict_batch_end " * 2
           + "C.on_exception(SIGTERMException)", absent="CM.on_predict_epoch_end")
    t.raises("SystemExit")


def doubled(self, batch, dataloader_idx):
    """Return another batch."""
    return 2 * batch


@clause("PREDICT-021", "The transfer hooks MUST be called for each batch of a prediction, and what "
        "they return is predicted.", editions="2.2", needs="predict",
        source="seed 2.2 on_after_batch_transfer", hooks="M.on_after_batch_transfer fires return")
def predict_021(run):
    t = run.predict(predict_batches=1, module={"on_after_batch_transfer": doubled,
                                               "predict_step": keep})
    t.only("M.on_before_batch_transfer M.transfer_batch_to_device M.on_after_batch_transfer "
           "C.on_predict_batch_start M.predict_step")
    t.equal("outputs", round(float(t.value[0]), 4), round(2 * 3 * 1.1, 4))


def two_given():
    """Two loaders, for the entry point."""
    return [[torch.utils.data.DataLoader(torch.ones(2, 2)) for _ in range(2)]]


@clause("PREDICT-022", "Several loaders for a predict_step without dataloader_idx MUST be refused "
        "before any of it runs.", editions="2.2", needs="predict", source="lightning 2.2.5",
        hooks="M.predict_step arguments")
def predict_022(run):
    t = run.predict(loaders=two_given, params={"predict_step": "batch batch_idx"}, fails=True)
    t.raises("RuntimeError", "dataloader_idx", "predict_step")
    t.only("C.on_exception", absent="M.predict_step CM.on_predict_start")
