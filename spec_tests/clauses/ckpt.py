"""Checkpoints: what is saved and in which order, whose state is whose, and how a run goes on."""

import gc
import inspect
import os
import random
import signal
import weakref

from ..clause import clause, torch

AS_IN_1_1 = "on_save_checkpoint"
AS_IN_1_5 = "on_save_checkpoint checkpoint | on_load_checkpoint callback_state"


def read(path):
    """Return what a checkpoint holds."""
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except TypeError:  # torch before 1.13
        return torch.load(path, map_location="cpu")


def made(stage, who, params="", **does):
    """Make a recorded callback, some of its hooks with other parameters."""
    from .. import subjects

    if not params:
        return stage.Callback(who, **does)
    table = stage.callback_hooks("\n%s\n" % params)
    return subjects.callback_class(stage.impl, stage.recorder, table)(who, **does)


def both(stage, params="", c1=(), c2=()):
    """Make c1 and c2."""
    return made(stage, "c1", params, **dict(c1)), made(stage, "c2", params, **dict(c2))


def go_on(stage, module, path, *callbacks, **flags):
    """Fit on from a checkpoint, as "resume", in a new trainer."""
    given = {key: flags.pop(key) for key in ("datamodule", "weights_only") if key in flags}
    if "ckpt_path" in inspect.signature(stage.impl.Trainer.fit).parameters:
        given["ckpt_path"] = path
    else:
        flags["resume_from_checkpoint"] = path
    trainer = stage.trainer(*callbacks, **dict(dict(num_sanity_val_steps=0), **flags))
    stage.call("resume", trainer.fit, module, **given)
    return trainer


def save_and_resume(stage, params="", c1=(), c2=(), module=(), data=None, file="m.ckpt"):
    """Fit one epoch, save by hand, and fit on in a new trainer with the same hooks."""
    def new(**flags):
        if data is not None:
            flags["datamodule"] = stage.Datamodule(
                batches=dict(train=2, val=1, test=2, predict=2), **data)
        return flags, stage.module(dict(train=2, val=1), **dict(module))

    given, subject = new()
    trainer = stage.trainer(*both(stage, params, c1, c2), num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, subject, **given)
    stage.call("save", trainer.save_checkpoint, stage.path(file))
    given, subject = new()
    go_on(stage, subject, stage.path(file), *both(stage, params, c1, c2), max_epochs=2, **given)


# Saving.


@clause("CKPT-001", "A checkpoint MUST be put together in this order: the module's state_dict, the "
        "callbacks', the data module's, then on_save_checkpoint of the callbacks in list order, "
        "and last of the module.", editions="2.2", needs="callback_state_dict datamodule",
        source="differences 4.1; trace 2.2.5 save_checkpoint_with_datamodule", hooks=[
            "CM.on_save_checkpoint fires", "CDM.state_dict fires"])
def ckpt_001(run):
    t = run.play(save_and_resume, data={})
    t.call("save").only("M.state_dict C.state_dict D.state_dict C.on_save_checkpoint(checkpoint) "
                        "M.on_save_checkpoint(checkpoint)")


@clause("CKPT-002", "When a checkpoint is saved, on_save_checkpoint MUST be called once on each "
        "callback in list order, and then on the module.", editions="1.1 1.5 2.2",
        needs="save_checkpoint", source="seed 1.1 on_save_checkpoint; seed 1.5 on_save_checkpoint; "
        "seed 2.2 on_save_checkpoint", hooks="CM.on_save_checkpoint fires")
def ckpt_002(run):
    t = run.play(save_and_resume, params=AS_IN_1_1 if older(run) else "")
    t.call("save").only("C.on_save_checkpoint M.on_save_checkpoint")


def older(run):
    """Return whether callbacks are called as in edition 1.1 alone: it passes no checkpoint."""
    return not hasattr(run.impl.Callback, "on_exception")


@clause("CKPT-003", "A callback's on_save_checkpoint and the module's MUST receive the checkpoint.",
        editions="1.5 2.2", needs="on_exception", source="seed 1.5 on_save_checkpoint; seed 2.2 "
        "on_save_checkpoint", hooks="CM.on_save_checkpoint arguments")
def ckpt_003(run):
    t = run.play(save_and_resume, params=AS_IN_1_5).call("save")
    t.args("M.on_save_checkpoint", "checkpoint")
    run.play(adds).noted("callback got", [True, True, True])


@clause("CKPT-004", "An on_save_checkpoint with the signature of edition 1.1 MUST be called "
        "without the checkpoint.", editions="1.1", needs="older_hooks", source="seed 1.1 "
        "on_save_checkpoint(trainer, pl_module)", hooks="C.on_save_checkpoint arguments")
def ckpt_004(run):
    t = run.play(save_and_resume, params=AS_IN_1_1).call("save")
    t.args("c1.on_save_checkpoint", "")
    t.args("c2.on_save_checkpoint", "")


def adds(stage):
    """Add to the checkpoint, in a callback and in the module, and note what is there then."""
    def of_callback(self, trainer, module, checkpoint):
        stage.note("callback got", [key in checkpoint for key in (
            "epoch", "global_step", "state_dict")])
        checkpoint["of c1"] = [1, 2]

    def of_module(self, checkpoint):
        stage.note("keys", sorted(checkpoint))
        stage.note("seen", checkpoint.get("of c1"))
        checkpoint["of module"] = {"a": 1}
        return {"ignored": 1}

    def loads(self, checkpoint):
        stage.note("loaded", [checkpoint.get("of c1"), checkpoint.get("of module")])
        return {"ignored": 1}

    trainer = stage.trainer(*both(stage, c1={"on_save_checkpoint": of_callback}))
    stage.call("fit", trainer.fit, stage.module(on_save_checkpoint=of_module))
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    saved = read(stage.path("m.ckpt"))
    stage.note("file", [saved.get("of c1"), saved.get("of module"), "ignored" in saved])
    go_on(stage, stage.module(on_load_checkpoint=loads), stage.path("m.ckpt"), *both(stage),
          max_epochs=2)


@clause("CKPT-005", "What on_save_checkpoint adds to the checkpoint MUST be in the file, be it "
        "added by a callback or by the module.", editions="1.5 2.2", needs="on_exception",
        source="seed 2.2 on_save_checkpoint; seed 1.5 on_save_checkpoint",
        hooks=["CM.on_save_checkpoint fires", "M.on_save_checkpoint return"])
def ckpt_005(run):
    t = run.play(adds)
    t.equal("file", t.noted("file")[0][:2], [[1, 2], {"a": 1}])


@clause("CKPT-006", "The module's on_save_checkpoint MUST see what the callbacks added, and what "
        "it returns itself is ignored.", editions="2.2", needs="hooks_2.2",
        source="differences 4.1, 10.19", hooks=["M.on_save_checkpoint return"])
def ckpt_006(run):
    t = run.play(adds)
    t.noted("seen", [1, 2])
    t.noted("file", [[1, 2], {"a": 1}, False])


@clause("CKPT-007", "The module's on_load_checkpoint MUST receive what its on_save_checkpoint "
        "added, and what it returns is ignored.", editions="1.5 2.2", needs="on_exception",
        source="seed 2.2 on_load_checkpoint", hooks="M.on_load_checkpoint arguments return")
def ckpt_007(run):
    t = run.play(adds)
    t.noted("loaded", [[1, 2], {"a": 1}])
    t.call("resume").only("M.on_load_checkpoint(checkpoint) M.on_train_end")


KEYS = ["callbacks", "epoch", "global_step", "lr_schedulers", "optimizer_states", "state_dict"]


@clause("CKPT-008", "The module's on_save_checkpoint MUST find the full checkpoint: epoch, "
        "global_step, weights, states of optimizers, schedulers and callbacks.",
        editions="1.5 2.2", needs="on_exception", source="seed 2.2 on_save_checkpoint: the full "
        "checkpoint dictionary; differences 4.1", hooks="M.on_save_checkpoint arguments")
def ckpt_008(run):
    keys = run.play(adds).noted("keys")[0]
    run.play(adds).equal("keys", [key for key in KEYS if key in keys], KEYS)


def saved_inside(stage):
    """Save in on_train_epoch_end of c2, and note the state at the hooks and in the file."""
    def save(self, trainer, module, *more):
        path = stage.path("e%d.ckpt" % trainer.current_epoch)
        trainer.save_checkpoint(path)
        saved = read(path)
        weight = saved["state_dict"]["layer.weight"]
        stage.note("counters", [saved["epoch"], saved["global_step"]])
        stage.note("weights", torch.equal(weight, module.layer.weight.detach()))
        momentum = saved["optimizer_states"][0]["state"][0]["momentum_buffer"]
        live = trainer.optimizers[0].state[module.layer.weight]["momentum_buffer"]
        stage.note("momentum", torch.equal(momentum, live))

    trainer = stage.trainer(*both(stage, c2={"on_train_epoch_end": save}), max_epochs=2,
                            num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=3, val=1),
                                                configure_optimizers=with_momentum))


def with_momentum(self):
    """Return SGD with momentum."""
    return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


@clause("CKPT-009", "In on_train_epoch_end a checkpoint MUST hold the index of the epoch that ends "
        "and the number of optimizer steps so far.", editions="2.2", needs="hooks_2.2",
        source="bug 17; differences 4.1", hooks="CM.on_save_checkpoint state")
def ckpt_009(run):
    t = run.play(saved_inside)
    t.noted("counters", [0, 3], [1, 6])
    t.only("[step=3 epoch=0 T G training] c2.on_train_epoch_end C.on_save_checkpoint "
           "M.on_save_checkpoint [step=6 epoch=1] c2.on_train_epoch_end C.on_save_checkpoint "
           "M.on_save_checkpoint")


@clause("CKPT-010", "A checkpoint MUST hold the module's weights and the optimizers' states as "
        "they are when it is saved.", editions="1.5 2.2", needs="on_exception",
        source="seed 2.2 on_save_checkpoint: Lightning saves all aspects of training")
def ckpt_010(run):
    t = run.play(saved_inside)
    t.noted("weights", True, True)
    t.noted("momentum", True, True)


@clause("CKPT-011", "After a fit of N epochs a checkpoint MUST hold epoch N, and as many optimizer "
        "steps as were taken.", editions="2.2", needs="hooks_2.2", source="differences 4.1, 10.3")
def ckpt_011(run):
    t = run.play(kept_by_hand, fails=True)
    t.noted("counters", [2, 4])


def kept_by_hand(stage):
    """Fit two epochs and save twice by hand, in full and the weights alone."""
    trainer = stage.trainer(max_epochs=2, num_sanity_val_steps=0)
    module = stage.module(on_save_checkpoint=add_mine)
    stage.call("fit", trainer.fit, module)
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    stage.call("weights", trainer.save_checkpoint, stage.path("w.ckpt"), weights_only=True)
    saved, weights = read(stage.path("m.ckpt")), read(stage.path("w.ckpt"))
    stage.note("counters", [saved["epoch"], saved["global_step"]])
    stage.note("kept", [key for key in KEYS if key in weights])
    stage.note("equal", torch.equal(weights["state_dict"]["layer.weight"],
                                    saved["state_dict"]["layer.weight"]))
    stage.note("mine", weights.get("mine"))
    go_on(stage, stage.module(), stage.path("w.ckpt"), max_epochs=3)


def add_mine(self, checkpoint):
    """Add something."""
    checkpoint["mine"] = 1


@clause("CKPT-012", "save_checkpoint(weights_only=True) MUST leave out the states of callbacks, "
        "optimizers and schedulers, and keep weights and counters.", editions="1.5 2.2",
        needs="on_exception", source="differences 4.1; trace 2.2.5 save_checkpoint_manually")
def ckpt_012(run):
    t = run.play(kept_by_hand, fails=True)
    t.noted("kept", ["epoch", "global_step", "state_dict"])
    t.noted("equal", True)


@clause("CKPT-013", "Saving weights only MUST call the module's on_save_checkpoint and no hook of "
        "a callback.", editions="2.2", needs="callback_state_dict", source="differences 4.1",
        hooks="CM.on_save_checkpoint fires")
def ckpt_013(run):
    t = run.play(kept_by_hand, fails=True)
    t.call("weights").only("M.state_dict M.on_save_checkpoint(weights)",
                           absent="C.state_dict C.on_save_checkpoint")
    t.noted("mine", 1)


@clause("CKPT-014", "Training MUST NOT go on from a file that holds weights only: it is refused "
        "with an error before training.", editions="2.2", needs="hooks_2.2",
        source="differences 4.1: weights_only drops optimizer_states")
def ckpt_014(run):
    t = run.play(kept_by_hand, fails=True)
    t.raises("KeyError")
    t.call("resume").only("M.on_load_checkpoint", absent="M.on_train_start")


def too_early(stage):
    """Save before there is a module."""
    stage.call("save", stage.trainer().save_checkpoint, stage.path("m.ckpt"))
    stage.note("there", os.path.exists(stage.path("m.ckpt")))


@clause("CKPT-015", "save_checkpoint MUST fail with AttributeError before a module was ever given.",
        editions="1.5 2.2", needs="on_exception", source="differences 4.1; trace "
        "save_checkpoint_before_fit")
def ckpt_015(run):
    t = run.play(too_early, fails=True)
    t.raises("AttributeError")
    t.noted("there", False)


def returns_dm(self):
    """Return a state."""
    return {"dm": 1}


@clause("CKPT-016", "A data module's state_dict MUST be saved under its class's name, if it is not "
        "empty, and given back to its load_state_dict.", editions="2.2",
        needs="callback_state_dict datamodule", source="differences 4.1; trace 2.2.5 "
        "save_checkpoint_with_datamodule", hooks="D.state_dict return")
def ckpt_016(run):
    t = run.play(save_and_resume, data={"state_dict": returns_dm})
    t.equal("state", read(t.folder + "/m.ckpt").get("RecordedDataModule"), {"dm": 1})
    t.call("resume").args("D.load_state_dict", "dict(dm)")
    t = run.play(save_and_resume, data={})
    t.equal("without a state", "RecordedDataModule" in read(t.folder + "/m.ckpt"), False)
    t.call("resume").only("D.setup", absent="D.load_state_dict")


def older_data_module(stage):
    """Give a data module the checkpoint hooks of 1.x."""
    def told(hook):
        def hear(self, checkpoint):
            stage.note("told", [hook, "state_dict" in checkpoint])
            stage.note("steps", stage.recorder.trainer.global_step)
            return {"state_dict": "lost"}

        return hear

    hooks = ("on_save_checkpoint", "on_load_checkpoint")
    Data = type("Data", (type(stage.Datamodule()),), {hook: told(hook) for hook in hooks})
    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(), datamodule=Data(dict(train=1, val=1)))
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))


@clause("CKPT-017", "A data module's on_save_checkpoint MUST be called with the checkpoint.",
        editions="1.1 1.5", needs="older_hooks datamodule save_checkpoint",
        source="differences 4.1, 9.3", hooks="D.on_save_checkpoint fires arguments")
def ckpt_017(run):
    run.play(older_data_module).noted("told", ["on_save_checkpoint", True])


# Whose state is whose.


def states_in(stage_or_run, file="m.ckpt"):
    """Return the states of callbacks in a file."""
    folder = stage_or_run.folder
    return read(os.path.join(folder, file)).get("callbacks", {})


def seven(self, *args):
    """Return a state."""
    return {"n": 7}


@clause("CKPT-020", "What a callback's on_save_checkpoint returns MUST be its state, kept among "
        "checkpoint[\"callbacks\"].", editions="1.1 1.5", needs="older_hooks save_checkpoint",
        source="seed 1.1 persisting state; seed 1.5 on_save_checkpoint: returns the callback state",
        hooks="C.on_save_checkpoint return")
def ckpt_020(run):
    t = run.play(own_state, params="third" if "state_key" in run.impl.capabilities else "state")
    t.equal("states", list(states_in(t).values()), [{"n": 7}])


@clause("CKPT-021", "A callback's state MUST stand in checkpoint[\"callbacks\"] under its "
                    "state_key.",
        editions="1.5", needs="older_hooks state_key", source="seed 1.5 state_key",
        hooks="C.on_save_checkpoint return")
def ckpt_021(run):
    t = run.play(save_and_resume, params=AS_IN_1_5, c1={"on_save_checkpoint": seven})
    t.equal("states", states_in(t), {"recorded:c1": {"n": 7}})


@clause("CKPT-022", "What a callback's state_dict returns MUST stand in checkpoint[\"callbacks\"] "
        "under its state_key.", editions="2.2", needs="callback_state_dict",
        source="differences 4.2; trace 2.2.5 callback_state_via_state_dict",
        hooks="C.state_dict return")
def ckpt_022(run):
    t = run.play(save_and_resume, c1={"state_dict": seven})
    t.equal("states", states_in(t), {"recorded:c1": {"n": 7}})


def eight(self, *args):
    """Return another state."""
    return {"n": 8}


@clause("CKPT-023", "Of a callback that has both, what on_save_checkpoint returned MUST win over "
        "state_dict.", editions="beyond", needs="older_hooks callback_state_dict",
        source="design 5 State", hooks="C.on_save_checkpoint return")
def ckpt_023(run):
    t = run.play(save_and_resume, c1={"state_dict": seven, "on_save_checkpoint": eight})
    t.equal("states", states_in(t), {"recorded:c1": {"n": 8}})


def empty(self, *args):
    """Return a state with nothing in it."""
    return {}


@clause("CKPT-024", "An empty state MUST NOT be saved.", editions="1.1 1.5 2.2",
        needs="save_checkpoint", source="differences 4.2: falsy state is not stored",
        hooks="C.on_save_checkpoint return")
def ckpt_024(run):
    params = AS_IN_1_1 if older(run) else ""
    t = run.play(save_and_resume, params=params,
                 c1={"on_save_checkpoint": empty, "state_dict": empty})
    t.call("save").count("c1.on_save_checkpoint", 1)
    t.equal("states", states_in(t), {})


@clause("CKPT-025", "An on_load_checkpoint with the signature of edition 1.5 MUST receive the "
        "callback's own state, and is not called without one.", editions="1.5",
        needs="older_hooks state_key", source="seed 1.5 on_load_checkpoint, its note",
        hooks="C.on_load_checkpoint fires arguments")
def ckpt_025(run):
    t = run.play(save_and_resume, params=AS_IN_1_5, c1={"on_save_checkpoint": seven})
    t.call("resume").only("c1.on_load_checkpoint(dict(n))", absent="c2.on_load_checkpoint")


def importable(cls):
    """Let a class be pickled by reference: edition 1.1 keeps states by class."""
    cls.__module__, cls.__qualname__ = __name__, cls.__name__
    globals()[cls.__name__] = cls
    return cls


def own_state(stage, params):
    """Save a state and get it back in on_load_checkpoint, with the parameters of an edition."""
    @importable
    class Stateful(stage.impl.Callback):
        def on_save_checkpoint(self, trainer, pl_module, *checkpoint):
            return {"n": 7}

    class Stateless(stage.impl.Callback):
        pass

    def tell(who):
        return {
            "state": lambda self, state: stage.note(who, state),
            "checkpointed_state": lambda self, checkpointed_state: stage.note(
                who, checkpointed_state),
            "third": lambda self, trainer, pl_module, state: stage.note(
                who, [stage.recorder.word(trainer), stage.recorder.word(pl_module), state]),
        }[params]

    Stateful.on_load_checkpoint, Stateless.on_load_checkpoint = tell("stateful"), tell("stateless")
    trainer = stage.trainer(Stateful(), Stateless())
    stage.call("fit", trainer.fit, stage.module())
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    go_on(stage, stage.module(), stage.path("m.ckpt"), Stateful(), Stateless(), max_epochs=2)


@clause("CKPT-026", "An on_load_checkpoint with the one parameter of edition 1.1, whatever its "
        "name, MUST receive the state that its class saved, and is not called without one.",
        editions="1.1", needs="older_hooks", source="seed 1.1 persisting state; differences 9.1: "
        "(checkpointed_state)", hooks="C.on_load_checkpoint fires arguments")
def ckpt_026(run):
    for params in ("checkpointed_state", "state"):
        t = run.play(own_state, params=params)
        t.noted("stateful", {"n": 7})
        t.equal("calls of the stateless one", t.noted("stateless"), [])


@clause("CKPT-027", "An on_load_checkpoint with three parameters MUST receive the callback's own "
        "state unless the third is named checkpoint.", editions="1.5",
        needs="older_hooks state_key", source="seed 1.5 on_load_checkpoint; design 4",
        hooks="C.on_load_checkpoint arguments")
def ckpt_027(run):
    t = run.play(own_state, params="third")
    t.noted("stateful", ["trainer", "module", {"n": 7}])
    t.equal("calls of the stateless one", t.noted("stateless"), [])


@clause("CKPT-028", "An on_load_checkpoint whose third parameter is named checkpoint MUST receive "
        "the whole checkpoint, and is called whether the callback saved a state or not.",
        editions="2.2", needs="callback_state_dict", source="differences 4.2; design 4; trace "
        "2.2.5 callback_state_via_state_dict", hooks="C.on_load_checkpoint fires arguments")
def ckpt_028(run):
    t = run.play(save_and_resume, c1={"state_dict": seven})
    t.call("resume").only("C.on_load_checkpoint(checkpoint)")


def note_state(self, state):
    """Note the state, and change it."""
    self.note("state", dict(state))
    state["n"] = "changed"


def note_whole(self, trainer, module, checkpoint):
    """Note the state as the checkpoint has it."""
    self.note("whole", [dict(checkpoint["callbacks"][key]) for key in ("recorded:c1",
                                                                      "recorded:c2")])


def noting(stage):
    """Save and resume with callbacks that note what they load."""
    def callbacks():
        made = both(stage, c1=dict(state_dict=seven, load_state_dict=note_state),
                    c2=dict(state_dict=eight, load_state_dict=note_state,
                            on_load_checkpoint=note_whole))
        for each in made:
            each.note = stage.note
        return made

    trainer = stage.trainer(*callbacks())
    stage.call("fit", trainer.fit, stage.module())
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    go_on(stage, stage.module(), stage.path("m.ckpt"), *callbacks(), max_epochs=2)


@clause("CKPT-029", "load_state_dict MUST be called with the saved state on those callbacks that "
        "have one, after on_load_checkpoint of all callbacks.", editions="2.2",
        needs="callback_state_dict", source="differences 4.2, 10.19",
        hooks=["C.load_state_dict fires arguments", "C.on_load_checkpoint fires"])
def ckpt_029(run):
    t = run.play(noting)
    t.noted("state", {"n": 7}, {"n": 8})
    t.call("resume").only("C.on_load_checkpoint C.load_state_dict(dict(n))")
    t = run.play(save_and_resume, c1={"state_dict": seven})
    t.call("resume").only("c1.load_state_dict(dict(n))", absent="c2.load_state_dict")


def key(stage):
    """Note default keys of state."""
    class Plain(stage.impl.Callback):
        pass

    class Own(stage.impl.Callback):
        state_key = property(lambda self: "own")

    stage.note("keys", [Plain().state_key, Own().state_key])
    stage.call("fit", stage.trainer(Plain(), Own()).fit, stage.module())


@clause("CKPT-030", "state_key MUST be the class's qualified name unless the class gives its own.",
        editions="1.5 2.2", needs="state_key", source="seed 1.5 state_key; differences 4.2")
def ckpt_030(run):
    t = run.play(key)
    t.noted("keys", ["key.<locals>.Plain", "own"])


@clause("CKPT-031", "Instances of one class with different state_keys MUST each get their own "
        "state back.", editions="1.5", needs="older_hooks state_key",
        source="seed 1.5 state_key; bug 14; "
        "ruling 7", hooks="C.on_save_checkpoint return")
def ckpt_031(run):
    t = run.play(save_and_resume, params=AS_IN_1_5,
                 c1={"on_save_checkpoint": seven, "on_load_checkpoint": expects_seven},
                 c2={"on_save_checkpoint": eight, "on_load_checkpoint": expects_eight})
    t.equal("states", states_in(t), {"recorded:c1": {"n": 7}, "recorded:c2": {"n": 8}})
    t.call("resume").only("c1.on_load_checkpoint(dict(n)) c2.on_load_checkpoint(dict(n))")


def expects_seven(self, trainer, module, state):
    """Fail unless the state is c1's."""
    if state != {"n": 7}:
        raise ValueError("got %r" % state)


def expects_eight(self, trainer, module, state):
    """Fail unless the state is c2's."""
    if state != {"n": 8}:
        raise ValueError("got %r" % state)


def clash(stage, hook, number=2):
    """Make a trainer with callbacks of one class that have a state, or none."""
    spare = stage.trainer()
    hooks = {hook: seven} if hook else {}
    Twin = type("Twin", (stage.impl.Callback,), hooks)

    def make_and_fit():
        try:
            stage.trainer(*[Twin() for _ in range(number)]).fit(stage.module())
        finally:
            stage.recorder.trainer = stage.recorder.trainer or spare

    stage.call("fit", make_and_fit)


@clause("CKPT-032", "Two callbacks with one state_key whose state_dict is overridden MUST be "
        "refused before training, with an error that names the key.", editions="2.2",
        needs="callback_state_dict", source="bug 14; ruling 7; differences 10.20")
def ckpt_032(run):
    t = run.play(clash, fails=True, hook="state_dict")
    t.raises("RuntimeError", "state_key", "Twin")
    t.none("M.prepare_data M.on_train_start")


@clause("CKPT-033", "Two callbacks with one state_key that both return a state from "
        "on_save_checkpoint MUST be refused alike, and the error says how to give each its own.",
        editions="beyond", needs="older_hooks callback_state_dict", source="bug 14; ruling 7",
        hooks="C.on_save_checkpoint return")
def ckpt_033(run):
    t = run.play(clash, fails=True, hook="on_save_checkpoint")
    t.raises("RuntimeError", "state_key", "Twin", "property")
    t.none("M.prepare_data M.on_train_start")


@clause("CKPT-034", "Two callbacks of one class that keep no state MUST be accepted.",
        editions="1.1 1.5 2.2", needs="fit", source="bug 14; differences 4.2")
def ckpt_034(run):
    run.play(clash, hook="").only("M.on_train_start M.on_train_end")


def lacks_callback(stage):
    """Go on without a callback that saved a state."""
    class Counter(stage.impl.Callback):
        state_key = property(lambda self: "the counter")
        on_save_checkpoint = seven
        state_dict = seven

    trainer = stage.trainer(Counter())
    stage.call("fit", trainer.fit, stage.module())
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    del stage.warnings[:]
    go_on(stage, stage.module(), stage.path("m.ckpt"), stage.Callback("c1"), max_epochs=2)


@clause("CKPT-035", "A state in the checkpoint that no callback claims MUST be warned of by name.",
        editions="1.5 2.2", needs="state_key", source="bug 16; differences 4.2")
def ckpt_035(run):
    t = run.play(lacks_callback)
    t.call("resume").count("M.on_train_end", 1)
    t.warned("the counter")


class Picklable:
    """What can be pickled and is no plain container."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Picklable) and self.value == other.value


def picklable(self, *args):
    """Return a state that is pickled by reference to its class."""
    return {"object": Picklable(3)}


def any_state(stage):
    """Save a state that can be pickled, and no more than that."""
    @importable
    class Odd(stage.impl.Callback):
        def on_save_checkpoint(self, trainer, pl_module, *checkpoint):
            return picklable(self)

    trainer = stage.trainer(Odd())
    stage.call("fit", trainer.fit, stage.module())
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))


@clause("CKPT-036", "A state that can be pickled MUST be saved.", editions="1.1 1.5",
        needs="older_hooks save_checkpoint", source="seed 1.1 persisting state",
        hooks="C.on_save_checkpoint return")
def ckpt_036(run):
    t = run.play(any_state)
    t.equal("state", list(states_in(t).values()), [{"object": Picklable(3)}])


# Loading, and going on.


@clause("CKPT-040", "When training goes on from a checkpoint, state MUST be given back in this "
        "order: after setup and configure_model the module's on_load_checkpoint and weights, the "
        "data module's state, on_load_checkpoint of all callbacks, their load_state_dict; then the "
        "module moves to its device.", editions="2.2", needs="callback_state_dict datamodule",
        source="differences 4.3; trace 2.2.5 save_checkpoint_with_datamodule", hooks=[
            "CM.on_load_checkpoint fires", "CDM.load_state_dict fires"])
def ckpt_040(run):
    t = run.play(save_and_resume, data={"state_dict": returns_dm}, c1={"state_dict": seven},
                 c2={"state_dict": eight})
    t.call("resume").only("""D.setup C.setup M.setup M.configure_model
        M.on_load_checkpoint(checkpoint(RecordedDataModule)) M.load_state_dict D.load_state_dict
        C.on_load_checkpoint C.load_state_dict M.to M.configure_optimizers C.on_fit_start""")


@clause("CKPT-041", "The module's on_load_checkpoint and weights MUST come before the callbacks' "
        "on_load_checkpoint, all of them after setup and before configure_optimizers and "
        "on_fit_start.", editions="1.5", needs="older_hooks state_key", source="bug 16; "
        "differences 4.3, 10.19", hooks="CM.on_load_checkpoint fires")
def ckpt_041(run):
    t = run.play(save_and_resume, params=AS_IN_1_5, c1={"on_save_checkpoint": seven},
                 c2={"on_save_checkpoint": eight})
    t.call("resume").only("C.setup M.setup M.on_load_checkpoint M.load_state_dict "
                          "C.on_load_checkpoint M.configure_optimizers C.on_fit_start")


@clause("CKPT-042", "In on_load_checkpoint of module and callbacks, and still in on_fit_start, "
        "global_step and current_epoch MUST be 0; from on_train_start on they go on from the file.",
        editions="2.2", needs="callback_state_dict", source="differences 4.3",
        hooks=["CM.on_load_checkpoint state", "C.load_state_dict state"])
def ckpt_042(run):
    t = run.play(save_and_resume, c1={"state_dict": seven}, c2={"state_dict": eight})
    t.call("resume").only("""[step=0 epoch=0 T G training] M.on_load_checkpoint
        C.on_load_checkpoint C.load_state_dict C.on_fit_start M.on_fit_start
        [step=2 epoch=1] C.on_train_start M.on_train_start""")


@clause("CKPT-043", "Without a checkpoint no on_load_checkpoint and no load_state_dict MUST be "
        "called.", editions="1.1 1.5 2.2", needs="fit", source="seed 1.5 on_load_checkpoint: "
        "called when loading", hooks="CM.on_load_checkpoint fires")
def ckpt_043(run):
    run.fit().only("C.on_fit_start M.on_fit_start",
                   absent="CM.on_load_checkpoint CM.load_state_dict")


def three_editions(stage):
    """Save and go on with callbacks of three editions."""
    def callbacks():
        made = []
        for who, hooks in (
                ("1.1", dict(on_save_checkpoint=lambda self, trainer, pl_module: {"n": 1},
                             on_load_checkpoint=lambda self, checkpointed_state: stage.note(
                                 "1.1", checkpointed_state))),
                ("1.5", dict(on_save_checkpoint=lambda self, trainer, pl_module, checkpoint: {
                    "n": 5}, on_load_checkpoint=lambda self, trainer, pl_module, callback_state:
                    stage.note("1.5", callback_state))),
                ("2.2", dict(state_dict=lambda self: {"n": 2},
                             load_state_dict=lambda self, state: stage.note("2.2", state),
                             on_load_checkpoint=lambda self, trainer, pl_module, checkpoint:
                             stage.note("whole", sorted(checkpoint["callbacks"]))))):
            made.append(type("Of" + who, (stage.impl.Callback,), dict(
                hooks, state_key=property(lambda self: type(self).__name__)))())
        return made

    trainer = stage.trainer(*callbacks())
    stage.call("fit", trainer.fit, stage.module())
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    go_on(stage, stage.module(), stage.path("m.ckpt"), *callbacks(), max_epochs=2)


@clause("CKPT-047", "Callbacks of the editions 1.1, 1.5 and 2.2 in one trainer MUST each save and "
        "get back their state in the way of their own edition.", editions="beyond",
        needs="older_hooks callback_state_dict", source="design 8.1", hooks=[
            "C.on_save_checkpoint return", "C.on_load_checkpoint arguments"])
def ckpt_047(run):
    t = run.play(three_editions)
    t.noted("1.1", {"n": 1})
    t.noted("1.5", {"n": 5})
    t.noted("2.2", {"n": 2})
    t.noted("whole", ["Of1.1", "Of1.5", "Of2.2"])


def returns_state(self, *args):
    """Return what would be a state."""
    return {"state_dict": {}, "epoch": 7}


@clause("CKPT-048", "What on_load_checkpoint returns MUST be ignored.", editions="1.5 2.2",
        needs="on_exception", source="seed 1.5 on_load_checkpoint: return type None; seed 2.2 "
        "on_load_checkpoint", hooks="CM.on_load_checkpoint return")
def ckpt_048(run):
    does = {"on_load_checkpoint": returns_state}
    plain = run.play(save_and_resume, params=AS_IN_1_5, c1={"on_save_checkpoint": seven})
    t = run.play(save_and_resume, params=AS_IN_1_5, module=does,
                 c1=dict(does, on_save_checkpoint=seven))
    t.call("resume").only("M.on_load_checkpoint c1.on_load_checkpoint")
    t.equal("events of the resumed run", [tuple(each) for each in t.call("resume").events],
            [tuple(each) for each in plain.call("resume").events])


def rename(self, checkpoint):
    """Save the weight under an older name."""
    weights = dict(checkpoint["state_dict"])
    weights["old.weight"] = weights.pop("layer.weight")
    checkpoint["state_dict"] = weights


def rename_back(self, checkpoint):
    """Take the older name for the newer one."""
    checkpoint["state_dict"]["layer.weight"] = checkpoint["state_dict"].pop("old.weight")


def grows(stage):
    """Build a layer in setup, rename another in the file; go on, and look before training."""
    def build(self, stage):
        self.late = torch.nn.Linear(2, 1)

    def look(self, trainer, pl_module):
        saved = read(stage.path("m.ckpt"))
        weights, optimizer = saved["state_dict"], trainer.optimizers[0]
        stage.note("late", torch.equal(weights["late.weight"], pl_module.late.weight))
        stage.note("layer", torch.equal(weights["old.weight"], pl_module.layer.weight))
        held = [id(each) for each in optimizer.param_groups[0]["params"]]
        stage.note("held", held == [id(each) for each in pl_module.parameters()])
        momentum = saved["optimizer_states"][0]["state"][0]["momentum_buffer"]
        state = optimizer.state[pl_module.layer.weight]
        stage.note("momentum", torch.equal(momentum, state["momentum_buffer"]))

    def module():
        return stage.module(configure_optimizers=with_momentum, setup=build, forward=both_layers,
                            on_save_checkpoint=rename, on_load_checkpoint=rename_back)

    trainer = stage.trainer()
    stage.call("fit", trainer.fit, module())
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    go_on(stage, module(), stage.path("m.ckpt"), stage.Callback("c1", on_train_start=look),
          stage.Callback("c2"), max_epochs=2)


def both_layers(self, x):
    """Use both layers."""
    return self.layer(x) + self.late(x)


@clause("CKPT-044", "Layers that are built in setup MUST be there when the weights are loaded.",
        editions="1.5 2.2", needs="on_exception", source="bug 16; seed 2.2 setup: build models "
        "dynamically", hooks="M.on_load_checkpoint fires")
def ckpt_044(run):
    run.play(grows).noted("late", True)


@clause("CKPT-045", "The module's on_load_checkpoint MUST be called before the weights are loaded, "
        "so that it can adapt them.", editions="1.5 2.2", needs="on_exception", source="bug 16",
        hooks="M.on_load_checkpoint fires")
def ckpt_045(run):
    run.play(grows).noted("layer", True)


@clause("CKPT-046", "In on_train_start of a resumed run the optimizer MUST hold the module's own "
        "parameters and the state of the file.", editions="1.5 2.2", needs="on_exception",
        source="bug 16")
def ckpt_046(run):
    t = run.play(grows)
    t.noted("held", True)
    t.noted("momentum", True)


def seeded(stage, **does):
    """Make the same module each time."""
    torch.manual_seed(3)
    return stage.module(dict(train=3, val=1), **dict(dict(
        training_step=note_step, configure_optimizers=with_momentum), **does))


def note_step(self, batch, batch_idx):
    """Note epoch and batch."""
    self.note("steps", [self.current_epoch, batch_idx])
    return self(batch).sum()


def in_pieces(stage, at):
    """Fit three epochs, one by one, from checkpoints saved in a hook, and then at once."""
    def save(self, trainer, *args):
        stage.note("counters", [trainer.current_epoch, trainer.global_step])
        trainer.save_checkpoint(stage.path("m%d.ckpt" % trainer.current_epoch))

    def start(self, trainer, *args):
        stage.note("started", [trainer.current_epoch, trainer.global_step])

    def callbacks():
        return stage.Callback("c1", on_train_epoch_start=start), stage.Callback("c2", **{at: save})

    module = seeded(stage)
    module.note = stage.note
    stage.call("fit", stage.trainer(*callbacks(), num_sanity_val_steps=0).fit, module)
    for epochs in (2, 3):
        module = seeded(stage)
        module.note = stage.note
        trainer = go_on(stage, module, stage.path("m%d.ckpt" % (epochs - 2)), *callbacks(),
                        max_epochs=epochs)
    stage.note("after", [trainer.current_epoch, trainer.global_step])
    stage.note("in pieces", [each.tolist() for each in module.state_dict().values()])
    module = seeded(stage, training_step=lambda self, batch, batch_idx: self(batch).sum())
    stage.call("whole", stage.trainer(max_epochs=3, num_sanity_val_steps=0).fit, module)
    stage.note("at once", [each.tolist() for each in module.state_dict().values()])


NINE = [[epoch, batch] for epoch in range(3) for batch in range(3)]


@clause("CKPT-050", "Three epochs in three pieces, each going on from a checkpoint saved in "
        "on_train_epoch_end, MUST train each batch once and end with the weights of one run.",
        editions="1.5 2.2", needs="on_exception", source="bug 17",
        hooks="CM.on_train_epoch_end state")
def ckpt_050(run):
    t = run.play(in_pieces, at="on_train_epoch_end")
    t.noted("steps", *NINE)
    t.equal("weights", t.noted("in pieces"), t.noted("at once"))


@clause("CKPT-051", "A checkpoint that is saved in on_validation_end at the end of an epoch MUST "
        "lead to the next epoch, with no batch trained again.", editions="2.2", needs="hooks_2.2",
        source="bug 17")
def ckpt_051(run):
    t = run.play(in_pieces, at="on_validation_end")
    t.noted("steps", *NINE)
    t.equal("weights", t.noted("in pieces"), t.noted("at once"))


@clause("CKPT-052", "A run that goes on from the end of epoch 0 MUST begin epoch 1 with the number "
        "of steps that were taken, and not more.", editions="2.2", needs="hooks_2.2",
        source="bug 17; differences 4.3", hooks="C.on_train_epoch_start state")
def ckpt_052(run):
    t = run.play(in_pieces, at="on_train_epoch_end")
    t.noted("counters", [0, 3], [1, 6], [2, 9])
    t.noted("started", [0, 0], [1, 3], [2, 6])
    t.noted("after", [3, 9])


@clause("CKPT-053", "A resumed run with nothing left to do MUST train and validate nothing, and "
        "end as usual.", editions="2.2", needs="hooks_2.2", source="bug 17; differences 4.3, 10.12")
def ckpt_053(run):
    t = run.play(finished).call("resume")
    t.only("C.on_fit_start C.on_fit_end C.teardown", absent="M.training_step M.validation_step "
           "CM.on_train_start CM.on_train_epoch_start CM.on_train_end")
    t.equal("counters", [t.after["current_epoch"], t.after["global_step"]], [1, 2])


def finished(stage):
    """Go on where there is nothing left to do."""
    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module())
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    go_on(stage, stage.module(), stage.path("m.ckpt"), *both(stage), max_epochs=1)


def first_column(self, batch, batch_idx):
    """Note epoch, batch and row."""
    self.note("steps", [self.current_epoch, batch_idx])
    self.note("rows", round(batch[0][0].item(), 4))
    return self(batch).sum()


def inside_an_epoch(stage):
    """Save after batch 0 of 3, and go on from there to the end of epoch 1."""
    def save(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx == 0:
            trainer.save_checkpoint(stage.path("m.ckpt"))

    trainer = stage.trainer(*both(stage, c2={"on_train_batch_end": save}), num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=3, val=1)))
    module = stage.module(dict(train=3, val=1), training_step=first_column)
    module.note = stage.note
    go_on(stage, module, stage.path("m.ckpt"), *both(stage), max_epochs=2, num_sanity_val_steps=1)


@clause("CKPT-054", "A run that goes on inside an epoch MUST continue with the next batch's index, "
        "without a second on_train_epoch_start, and count on.", editions="2.2", needs="hooks_2.2",
        source="design 2.4; differences 4.3", hooks="CM.on_train_epoch_start fires")
def ckpt_054(run):
    t = run.play(inside_an_epoch)
    t.noted("steps", [0, 1], [0, 2], [1, 0], [1, 1], [1, 2])
    t.call("resume").only("""C.on_train_start M.on_train_start M.training_step M.training_step
        C.on_train_epoch_end M.on_train_epoch_end C.on_train_epoch_start M.on_train_epoch_start
        M.training_step M.training_step M.training_step C.on_train_epoch_end M.on_train_epoch_end
        """)
    t.equal("global_step", t.after["global_step"], 6)


@clause("CKPT-055", "A run that goes on inside an epoch MUST NOT repeat or skip a row of the "
        "loader.", editions="beyond", needs="older_hooks callback_state_dict", source="design 8.2; "
        "differences 10.27")
def ckpt_055(run):
    t = run.play(inside_an_epoch)
    t.noted("rows", 0.2, 0.3, 0.1, 0.2, 0.3)


@clause("CKPT-056", "The sanity check MUST run when training goes on from the end of an epoch, and "
        "not when it goes on inside one.", editions="2.2", needs="hooks_2.2",
        source="differences 4.3", hooks="C.on_sanity_check_start fires")
def ckpt_056(run):
    t = run.play(checked_again).call("resume")
    t.only("C.on_sanity_check_start C.on_sanity_check_end C.on_train_start")
    t = run.play(inside_an_epoch).call("resume")
    t.only("C.on_train_start", absent="C.on_sanity_check_start")


def checked_again(stage):
    """Go on from the end of an epoch, with a sanity check."""
    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module())
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    go_on(stage, stage.module(), stage.path("m.ckpt"), *both(stage), max_epochs=2,
          num_sanity_val_steps=1)


def shuffled(self):
    """Return a loader that draws its order from the global generator."""
    rows = torch.arange(8.0).reshape(4, 2) / 8
    return torch.utils.data.DataLoader(rows, batch_size=1, shuffle=True)


def with_dropout(self, batch, batch_idx):
    """Draw random numbers of torch and of Python; keep them with the row."""
    self.draws.append([round(batch[0][0].item(), 4), random.random()])
    return self.drop(self(batch)).sum()


def exact(stage, save_at):
    """Train 2 epochs of 4 shuffled batches, at once, and again from batch ``save_at`` on."""
    def save(self, trainer, module, outputs, batch, batch_idx):
        if trainer.current_epoch * 4 + batch_idx == save_at:
            trainer.save_checkpoint(stage.path("m.ckpt"))

    def new(seed):
        torch.manual_seed(seed)
        random.seed(seed)
        module = stage.module(dict(val=1), train_dataloader=shuffled, training_step=with_dropout,
                              configure_optimizers=with_momentum)
        module.draws = []
        return module

    def final(module, trainer, skip):
        state = trainer.optimizers[0].state_dict()["state"]
        return {"draws": module.draws[skip:],
                "weights": [each.tolist() for each in module.state_dict().values()],
                "momentum": [state[at]["momentum_buffer"].tolist() for at in sorted(state)]}

    flags = dict(max_epochs=2, num_sanity_val_steps=0)
    module = new(5)
    trainer = stage.trainer(*both(stage, c2={"on_train_batch_end": save}), **flags)
    stage.call("fit", trainer.fit, module)
    whole = final(module, trainer, save_at + 1)
    module = new(99)
    trainer = go_on(stage, module, stage.path("m.ckpt"), *both(stage), **flags)
    resumed = final(module, trainer, 0)
    stage.note("count", len(resumed["draws"]))
    for name in whole:
        stage.note(name, resumed[name] == whole[name])


@clause("CKPT-057", "A run that goes on from any batch MUST end with the weights, the optimizer "
        "state and the batch order of the run that was never stopped, bit for bit.",
        editions="beyond", needs="older_hooks callback_state_dict", source="design 8.2; bug 17")
def ckpt_057(run):
    for save_at in (0, 3, 5):  # inside an epoch, at its end, inside the next one
        t = run.play(exact, save_at=save_at)
        t.noted("count", 7 - save_at)
        for name in ("draws", "weights", "momentum"):
            t.noted(name, True)


@clause("CKPT-058", "A scheduler in the file MUST be as far as the weights in it: the rates of a "
        "resumed run are those of one that was never stopped.", editions="2.2", needs="hooks_2.2",
        source="bug 18")
def ckpt_058(run):
    t = run.play(rates)
    whole = [0.1] * 8 + [0.01] * 4
    t.equal("rates at once", t.noted("whole"), whole)
    t.equal("rates in two pieces", t.noted("pieces"), whole)


def rates(stage):
    """Note the rate of each step: MultiStepLR at epoch 4, and a resume after epoch 2."""
    def noting(name):
        def step(self, batch, batch_idx):
            stage.note(name, round(self.optimizers().param_groups[0]["lr"], 6))
            return self(batch).sum()
        return dict(training_step=step, configure_optimizers=drop_at_4)

    def save(self, trainer, *args):
        trainer.save_checkpoint(stage.path("m%d.ckpt" % trainer.current_epoch))

    batches, quiet = dict(train=2, val=1), dict(num_sanity_val_steps=0)
    trainer = stage.trainer(max_epochs=6, **quiet)
    stage.call("whole", trainer.fit, stage.module(batches, **noting("whole")))
    trainer = stage.trainer(*both(stage, c2={"on_train_epoch_end": save}), max_epochs=2, **quiet)
    stage.call("fit", trainer.fit, stage.module(batches, **noting("pieces")))
    go_on(stage, stage.module(batches, **noting("pieces")), stage.path("m1.ckpt"), *both(stage),
          max_epochs=6)


def drop_at_4(self):
    """Return an optimizer whose rate falls to a tenth at epoch 4."""
    made = self.make_optimizer()
    return [made], [torch.optim.lr_scheduler.MultiStepLR(made, [4], 0.1)]


def every_step(self):
    """Return an optimizer and a schedule that counts its steps."""
    made = self.make_optimizer()
    schedule = torch.optim.lr_scheduler.StepLR(made, 1000)
    return {"optimizer": made, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


@clause("CKPT-059", "A scheduler that steps with the optimizer MUST have done so in a file saved "
        "in on_train_batch_end, by ModelCheckpoint as by hand.", editions="2.2",
        needs="model_checkpoint hooks_2.2", source="bug 18")
def ckpt_059(run):
    t = run.play(step_counts)
    t.noted("by hand", [2, 2], [4, 4])
    t.noted("by ModelCheckpoint", [2, 2], [4, 4])


def step_counts(stage):
    """Note [optimizer steps, scheduler steps] in files saved at every second step."""
    def counts(file):
        saved = read(stage.path(file))
        return [saved["global_step"], saved["lr_schedulers"][0]["last_epoch"]]

    def save(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step % 2 == 0:
            trainer.save_checkpoint(stage.path("m.ckpt"))
            stage.note("by hand", counts("m.ckpt"))

    saving = stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), filename="{step}", save_top_k=-1,
                                        every_n_train_steps=2)
    trainer = stage.trainer(*both(stage, c2={"on_train_batch_end": save}), saving,
                            enable_checkpointing=True, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=4, val=1),
                                                configure_optimizers=every_step))
    for step in (2, 4):
        stage.note("by ModelCheckpoint", counts(os.path.join("ck", "step=%d.ckpt" % step)))


def no_file(stage):
    """Go on from a file that is not there."""
    go_on(stage, stage.module(), stage.path("none.ckpt"), *both(stage))


@clause("CKPT-060", "Going on from a file that is not there MUST fail with FileNotFoundError "
        "before training, by way of on_exception.", editions="1.5 2.2", needs="on_exception",
        source="differences 4.3; trace resume_missing_file", hooks="C.on_exception fires")
def ckpt_060(run):
    t = run.play(no_file, fails=True)
    t.raises("FileNotFoundError", "none.ckpt")
    t.only("C.setup C.on_exception(FileNotFoundError)", absent="M.on_fit_start M.on_train_start")


def other_optimizers(stage):
    """Go on with two optimizers from a file of one."""
    trainer = stage.trainer()
    stage.call("fit", trainer.fit, stage.module())
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    module = stage.module(configure_optimizers=lambda self: [
        torch.optim.SGD([self.layer.weight], 0.1), torch.optim.SGD([self.layer.bias], 0.1)],
        training_step=lambda self, batch, batch_idx: None)
    module.automatic_optimization = False
    go_on(stage, module, stage.path("m.ckpt"), max_epochs=2)


@clause("CKPT-061", "Going on with another number of optimizers than the file has MUST be refused "
        "before training, with both numbers.", editions="beyond",
        needs="older_hooks callback_state_dict", source="design 5: every misuse is refused")
def ckpt_061(run):
    t = run.play(other_optimizers, fails=True)
    t.raises("MisconfigurationException", "1 optimizers", "returned 2")
    t.call("resume").only("M.configure_optimizers", absent="M.on_train_start")


# Early stopping and the best file, restored.


def log_score(self, batch, batch_idx, *more, **named):
    """Log the score of the epoch."""
    self.log("score", torch.tensor(self.scores[self.current_epoch]))
    return self(batch).sum()


def monitored(stage, scores, mode="min", top=1):
    """Fit three epochs with EarlyStopping and ModelCheckpoint, save by hand, and go on."""
    def callbacks():
        return (stage.impl.EarlyStopping("score", patience=3, mode=mode),
                stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), filename="{epoch}",
                                           monitor="score", mode=mode, save_top_k=top))

    def module():
        made = stage.module(dict(train=1, val=1), validation_step=log_score)
        made.scores = scores
        return made

    def note():
        stage.note("counter", stopping.wait_count)
        stage.note("best", [os.path.basename(saving.best_model_path),
                            round(float(saving.best_model_score), 4)])
        stage.note("files", sorted(os.listdir(stage.path("ck"))))

    stopping, saving = callbacks()
    trainer = stage.trainer(stopping, saving, stage.Callback("c1"), enable_checkpointing=True,
                            max_epochs=3, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, module())
    note()
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    for name in os.listdir(stage.path("ck")):
        states = read(os.path.join(stage.path("ck"), name))["callbacks"]
        stage.note(name, [state["wait_count"] for state in states.values()
                          if "wait_count" in state])
    stopping, saving = callbacks()
    go_on(stage, module(), stage.path("m.ckpt"), stopping, saving, stage.Callback("c1"),
          max_epochs=9, enable_checkpointing=True)
    note()


@clause("CKPT-062", "EarlyStopping MUST go on counting where it was: after 1.0, 1.1, 1.2 and a "
        "resume, patience 3 ends training at 1.3.", editions="1.5 2.2",
        needs="early_stopping model_checkpoint on_exception", source="bug 15")
def ckpt_062(run):
    t = run.play(monitored, scores=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8])
    t.noted("counter", 2, 3)
    t.call("resume").count("M.training_step", 1)


@clause("CKPT-063", "The state of EarlyStopping that is saved at the end of an epoch MUST include "
        "that epoch's check.", editions="2.2", needs="early_stopping model_checkpoint hooks_2.2",
        source="bug 15")
def ckpt_063(run):
    t = run.play(monitored, scores=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8], top=-1)
    for epoch in range(3):
        t.noted("epoch=%d.ckpt" % epoch, [epoch])


@clause("CKPT-064", "After a resume a worse score MUST leave the best file as it is, and a better "
        "one takes its place.", editions="1.5 2.2",
        needs="early_stopping model_checkpoint on_exception", source="bug 15")
def ckpt_064(run):
    t = run.play(monitored, scores=[0.5, 0.55, 0.6, 0.58, 0.57, 0.56, 0.5], mode="max")
    t.noted("best", ["epoch=2.ckpt", 0.6], ["epoch=2.ckpt", 0.6])
    t.noted("files", ["epoch=2.ckpt"], ["epoch=2.ckpt"])
    t = run.play(monitored, scores=[0.5, 0.55, 0.6, 0.7, 0.6, 0.6, 0.6], mode="max")
    t.noted("best", ["epoch=2.ckpt", 0.6], ["epoch=3.ckpt", 0.7])


def pairs(stage, settings):
    """Make a trainer with two EarlyStoppings; save, go on, and note the counters."""
    spare = stage.trainer()

    def callbacks():
        return [stage.impl.EarlyStopping(**each) for each in settings]

    def module():
        made = stage.module(dict(train=1, val=1), validation_step=log_two)
        return made

    def all_of_it():
        try:
            first = callbacks()
            trainer = stage.trainer(*first, max_epochs=3, num_sanity_val_steps=0)
            trainer.fit(module())
            trainer.save_checkpoint(stage.path("m.ckpt"))
            second = callbacks()
            trainer = stage.trainer(*second, max_epochs=4, num_sanity_val_steps=0)
            trainer.fit(module(), ckpt_path=stage.path("m.ckpt"))
            stage.note("counters", [each.wait_count for each in first + second])
        finally:
            stage.recorder.trainer = stage.recorder.trainer or spare

    stage.call("fit", all_of_it)


def log_two(self, batch, batch_idx, *more, **named):
    """Log one value that stays and one that falls."""
    self.log("stays", torch.tensor(1.0))
    self.log("falls", torch.tensor(-1.0 * self.current_epoch))
    return self(batch).sum()


@clause("CKPT-065", "Two EarlyStoppings on different metrics MUST each get their own state back.",
        editions="2.2", needs="early_stopping hooks_2.2", source="bug 14")
def ckpt_065(run):
    t = run.play(pairs, settings=[dict(monitor="stays", mode="min", patience=9),
                                  dict(monitor="falls", mode="min", patience=9)])
    t.noted("counters", [2, 0, 3, 0])


@clause("CKPT-066", "Two EarlyStoppings that differ in their patience alone MUST be refused before "
        "training, with an error that names their class.", editions="2.2",
        needs="early_stopping hooks_2.2", source="bug 14; ruling 7")
def ckpt_066(run):
    t = run.play(pairs, fails=True, settings=[dict(monitor="stays", mode="min", patience=3),
                                              dict(monitor="stays", mode="min", patience=1)])
    t.raises("RuntimeError", "state_key", "EarlyStopping")
    t.none("M.on_train_start")


# Files: safe to read, whole or not there.


def plain(stage):
    """Save all that a trainer saves, and read it by the safe loader."""
    class Sized(type(stage.module())):
        def __init__(self, width, names=("a", "b")):
            super().__init__()
            self.save_hyperparameters()

    module = stage.use(Sized(3))
    module.batches.update(train=1, val=1)
    module.does.update(validation_step=log_two, configure_optimizers=every_step)
    saving = stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), filename="a", monitor="stays")
    trainer = stage.trainer(stage.impl.EarlyStopping("stays", mode="min"), saving,
                            enable_checkpointing=True, num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, module)
    read_safely = torch.load(os.path.join(stage.path("ck"), "a.ckpt"), weights_only=True)
    stage.note("keys", sorted(set(read_safely) & set(KEYS + ["hyper_parameters"])))


@clause("CKPT-070", "What a trainer saves of itself, hyperparameters, callbacks and schedulers "
        "included, MUST load under torch.load(weights_only=True).", editions="2.2",
        needs="early_stopping model_checkpoint hooks_2.2", source="bug 21; design 8.4")
def ckpt_070(run):
    t = run.play(plain)
    t.noted("keys", sorted(KEYS + ["hyper_parameters"]))


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def hostile(stage, entry, trusts=False):
    """Read a file that would run code, through an entry point."""
    def plant(self, checkpoint):
        checkpoint["bomb"] = Bomb(stage.path("ran"))

    module = stage.module(on_save_checkpoint=plant)
    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call("first", trainer.fit, module)
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    stage.note("ran", os.path.exists(stage.path("ran")))
    trust = {"weights_only": False} if trusts else {}
    if entry == "load_from_checkpoint":
        stage.call(entry, type(module).load_from_checkpoint, stage.path("m.ckpt"), **trust)
    else:
        new = stage.trainer(num_sanity_val_steps=0, max_epochs=2)
        stage.call(entry, getattr(new, entry), stage.module(), ckpt_path=stage.path("m.ckpt"),
                   **trust)
    stage.note("ran", os.path.exists(stage.path("ran")))


READERS = ("fit", "validate", "test", "predict", "load_from_checkpoint")


@clause("CKPT-071", "A file that would run code MUST be refused before any of it runs, with an "
        "error that names the type and the way to trust the file.", editions="beyond",
        needs="older_hooks callback_state_dict", source="bug 21; design 8.4")
def ckpt_071(run):
    for entry in READERS:
        t = run.play(hostile, fails=True, entry=entry)
        t.raises("UnpicklingError", "open", "weights_only=False", "m.ckpt")
        t.noted("ran", False, False)


@clause("CKPT-072", "With weights_only=False a file MUST be trusted, at every entry point and in "
        "load_from_checkpoint.", editions="beyond", needs="older_hooks callback_state_dict",
        source="design 8.4")
def ckpt_072(run):
    for entry in READERS:
        run.play(hostile, entry=entry, trusts=True).noted("ran", False, True)


def no_checkpoint(stage, content):
    """Go on from a file that is none."""
    path = stage.path("m.ckpt")
    if content is None:
        trainer = stage.trainer()
        stage.call("fit", trainer.fit, stage.module())
        stage.call("save", trainer.save_checkpoint, path)
        with open(path, "rb") as file:
            content = file.read()
        content = content[:len(content) // 2]
    with open(path, "wb") as file:
        file.write(content)
    go_on(stage, stage.module(), path, *both(stage), max_epochs=2)


@clause("CKPT-073", "A file that is no checkpoint, or half of one, MUST be refused before training "
        "with an error that names it.", editions="beyond", needs="older_hooks callback_state_dict",
        source="design 8.3; design 5: every misuse is refused")
def ckpt_073(run):
    for content in (b"", b"these are words", None):
        t = run.play(no_checkpoint, fails=True, content=content)
        t.raises("MisconfigurationException", "m.ckpt", "checkpoint")
        t.call("resume").only("M.setup", absent="M.on_train_start")


class Breaks:
    """Cannot be saved."""

    def __reduce__(self):
        raise ValueError("cannot be saved")


class Kills:
    """Ends the process while it is saved."""

    def __reduce__(self):
        os._exit(9)


def fails_to_save(stage, kind):
    """Save, then save to the same path what cannot be saved; then save again."""
    def plant(self, checkpoint):
        if planted:
            checkpoint["late"] = [torch.ones(1000), planted[0]()]

    planted = []
    trainer = stage.trainer(num_sanity_val_steps=0)
    module = stage.module(on_save_checkpoint=plant)
    stage.call("fit", trainer.fit, module)
    os.mkdir(stage.path("ck"))
    path = os.path.join(stage.path("ck"), "m.ckpt")
    stage.call("save", trainer.save_checkpoint, path)
    with open(path, "rb") as file:
        before = file.read()
    planted.append(kind)
    if kind is Kills:
        child = os.fork()
        if not child:
            trainer.save_checkpoint(path)
            os._exit(0)
        stage.note("exit", os.waitpid(child, 0)[1] >> 8)
    else:
        stage.call("save badly", trainer.save_checkpoint, path)
    with open(path, "rb") as file:
        stage.note("same", file.read() == before)
    stage.note("files", sorted(os.listdir(stage.path("ck"))))
    del planted[:]
    stage.call("save again", trainer.save_checkpoint, path)
    stage.note("step", read(path)["global_step"])


@clause("CKPT-074", "When saving fails, the old file MUST stay as it was, nothing is left beside "
        "it, and the error reaches the caller.", editions="beyond",
        needs="older_hooks callback_state_dict", source="bug 19; design 8.3")
def ckpt_074(run):
    t = run.play(fails_to_save, fails=True, kind=Breaks)
    t.call("save badly").raises("ValueError", "cannot be saved")
    t.noted("same", True)
    t.noted("files", ["m.ckpt"])
    t.noted("step", 2)


@clause("CKPT-075", "When the process is killed while it saves, the old file MUST stay as it was.",
        editions="beyond", needs="older_hooks callback_state_dict", source="bug 19; design 8.3")
def ckpt_075(run):
    t = run.play(fails_to_save, kind=Kills)
    t.noted("exit", 9)
    t.noted("same", True)
    t.noted("step", 2)


# Reading a model back.


def sized(stage, **given):
    """Fit a module with hyperparameters, and load it."""
    @importable
    class Sized(type(stage.module())):
        def __init__(self, width=2, depth=1):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(2, width)
            self.depth = depth

    module = stage.use(Sized(width=3, depth=5))
    trainer = stage.trainer()
    stage.call("fit", trainer.fit, module)
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    module.eval()
    loaded = stage.call("load", Sized.load_from_checkpoint, stage.path("m.ckpt"), **given)
    stage.note("loaded", [loaded.layer.out_features, loaded.depth])
    stage.note("hparams", [loaded.hparams["width"], loaded.hparams["depth"]])
    stage.note("equal", torch.equal(loaded.layer.weight, module.layer.weight))
    stage.note("training", loaded.training)


@clause("CKPT-080", "load_from_checkpoint MUST make the module from the saved hyperparameters and "
        "give it the saved weights, in train mode.", editions="1.1 1.5 2.2",
        needs="save_checkpoint",
        source="differences 4.3 load_from_checkpoint; trace load_weights_into_other_model")
def ckpt_080(run):
    t = run.play(sized)
    t.noted("loaded", [3, 5])
    t.noted("equal", True)
    t.noted("training", True)


@clause("CKPT-081", "Keyword arguments of load_from_checkpoint MUST win over saved "
        "hyperparameters.", editions="1.1 1.5 2.2", needs="save_checkpoint",
        source="differences 4.3 load_from_checkpoint")
def ckpt_081(run):
    t = run.play(sized, depth=6)
    t.noted("loaded", [3, 6])
    t.noted("hparams", [3, 6])


@clause("CKPT-082", "load_from_checkpoint MUST call configure_model, then on_load_checkpoint with "
        "the checkpoint, then load the weights, and no hook of a callback.", editions="2.2",
        needs="hooks_2.2", source="differences 4.3 load_from_checkpoint",
        hooks="M.on_load_checkpoint fires arguments")
def ckpt_082(run):
    t = run.play(sized).call("load")
    t.only("M.configure_model M.on_load_checkpoint(checkpoint) M.load_state_dict",
           absent="C.on_load_checkpoint C.load_state_dict C.setup M.setup")


def renamed(stage, strict):
    """Load weights of which one layer has another name."""
    module = stage.module()
    trainer = stage.trainer()
    stage.call("fit", trainer.fit, module)
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    torch.manual_seed(8)

    class Other(type(module)):
        def __init__(self):
            super().__init__()
            self.fresh = torch.nn.Linear(2, 1)
            self.old, self.layer = self.layer, torch.nn.Linear(2, 1)
            del self.old

    class Renamed(type(module)):
        def __init__(self):
            super().__init__()
            self.renamed = self.layer
            del self.layer

    given = {} if strict is None else {"strict": strict}
    loaded = stage.call("load other", Other.load_from_checkpoint, stage.path("m.ckpt"),
                        strict=False)
    stage.note("equal", torch.equal(loaded.layer.weight, module.layer.weight))
    stage.call("load", Renamed.load_from_checkpoint, stage.path("m.ckpt"), **given)


@clause("CKPT-083", "load_from_checkpoint MUST be strict unless told otherwise: its error lists "
        "the keys that are missing and those that are unexpected.", editions="1.1 1.5 2.2",
        needs="save_checkpoint", source="bug 21; differences 4.3 load_from_checkpoint")
def ckpt_083(run):
    for strict in (None, True):
        t = run.play(renamed, fails=True, strict=strict)
        t.raises("RuntimeError", "renamed.weight", "layer.weight", "missing", "unexpected")


@clause("CKPT-084", "With strict=False load_from_checkpoint MUST load the keys that match.",
        editions="1.1 1.5 2.2", needs="save_checkpoint", source="bug 21")
def ckpt_084(run):
    run.play(renamed, strict=False).noted("equal", True)


@clause("CKPT-085", "With strict=False load_from_checkpoint MUST report the missing and the "
        "unexpected keys.", editions="2.2", needs="hooks_2.2", source="bug 21")
def ckpt_085(run):
    t = run.play(renamed, strict=False)
    t.warned("renamed.weight")
    t.warned("layer.weight")


# Evaluating a checkpoint.


def evaluated(stage):
    """Fit two epochs, keep both files, and test the first one; then in a fresh trainer."""
    def momentum(trainer):
        state = trainer.optimizers[0].state_dict()["state"]
        return [state[at]["momentum_buffer"].tolist() for at in sorted(state)]

    saving = stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), filename="{epoch}", save_top_k=-1)
    callbacks = both(stage, c1={"state_dict": seven})
    trainer = stage.trainer(*callbacks, saving, enable_checkpointing=True, max_epochs=2,
                            num_sanity_val_steps=0)
    module = stage.module(configure_optimizers=with_momentum)
    stage.call("fit", trainer.fit, module)
    path = os.path.join(stage.path("ck"), "epoch=0.ckpt")
    weights, before = read(path)["state_dict"], momentum(trainer)
    stage.call("test", trainer.test, module, ckpt_path=path)
    stage.note("weights", torch.equal(weights["layer.weight"], module.layer.weight))
    stage.note("momentum", momentum(trainer) == before)
    stage.note("counters", [trainer.current_epoch, trainer.global_step])
    trainer = stage.trainer(*both(stage, c1={"state_dict": seven}))
    for entry in ("validate", "test", "predict"):
        fresh = stage.module()
        stage.call("fresh " + entry, getattr(trainer, entry), fresh, ckpt_path=path)
        stage.note("weights", torch.equal(weights["layer.weight"], fresh.layer.weight))
    stage.note("counters", [trainer.current_epoch, trainer.global_step])
    stage.note("optimizers", len(trainer.optimizers or []))


@clause("CKPT-090", "validate, test and predict with a ckpt_path MUST use the weights of that "
                    "file.",
        editions="1.5 2.2", needs="model_checkpoint on_exception", source="bug 22")
def ckpt_090(run):
    run.play(evaluated).noted("weights", True, True, True, True)


@clause("CKPT-091", "Evaluating a checkpoint MUST NOT make or touch optimizers, nor alter the "
        "counters.", editions="2.2", needs="model_checkpoint hooks_2.2", source="bug 22")
def ckpt_091(run):
    t = run.play(evaluated)
    t.noted("momentum", True)
    t.noted("counters", [2, 4], [0, 0])
    t.noted("optimizers", 0)
    t.call("fresh test").only("M.load_state_dict M.test_step M.test_step",
                              absent="M.configure_optimizers")


@clause("CKPT-092", "Evaluating a checkpoint MUST call the module's on_load_checkpoint, and no "
        "load hook of a callback.", editions="2.2", needs="model_checkpoint callback_state_dict",
        source="design 2.4: 2.2.5 is the edition; differences 0",
        hooks=["CM.on_load_checkpoint fires", "C.load_state_dict fires"])
def ckpt_092(run):
    for call in ("test", "fresh validate", "fresh test", "fresh predict"):
        t = run.play(evaluated).call(call)
        t.only("C.setup M.setup M.on_load_checkpoint(checkpoint) M.load_state_dict",
               absent="C.on_load_checkpoint C.load_state_dict")


def best(stage, **saving):
    """Fit three epochs of which the second is the best, and test by name."""
    made = stage.impl.ModelCheckpoint(dirpath=stage.path("ck"), filename="{epoch}",
                                      monitor="score", mode="min", **saving)
    trainer = stage.trainer(stage.Callback("c1"), made, enable_checkpointing=True, max_epochs=3,
                            num_sanity_val_steps=0)
    module = stage.module(dict(train=1, val=1), validation_step=log_score)
    module.scores = [2.0, 1.0, 3.0]
    stage.call("fit", trainer.fit, module)
    newest = module.layer.weight.tolist()
    saved = {name: read(os.path.join(stage.path("ck"), name))["state_dict"][
        "layer.weight"].tolist() for name in os.listdir(stage.path("ck"))}
    stage.note("files", sorted(saved))
    for given in ("model", "nothing", "best", "last"):
        args = (module,) if given == "model" else ()
        named = {"ckpt_path": given} if given in ("best", "last") else {}
        stage.call(given, trainer.test, *args, **named)
        found = module.layer.weight.tolist()
        files = [name for name in sorted(saved) if saved[name] == found]
        stage.note(given, files or ["newest" if found == newest else "other"])


@clause("CKPT-093", "test MUST use the weights as they are if it is given a model and no "
        "ckpt_path, and those of the best file if it is given neither, or \"best\".",
        editions="2.2", needs="model_checkpoint hooks_2.2", source="differences 10.25; trace 2.2.5 "
        "test_after_fit_ckpt_best")
def ckpt_093(run):
    t = run.play(best)
    t.noted("files", ["epoch=1.ckpt"])
    t.noted("model", ["newest"])
    t.noted("nothing", ["epoch=1.ckpt"])
    t.noted("best", ["epoch=1.ckpt"])


@clause("CKPT-094", "ckpt_path=\"last\" MUST take the file that save_last wrote.", editions="2.2",
        needs="model_checkpoint hooks_2.2", source="differences 10.25")
def ckpt_094(run):
    t = run.play(best, save_last=True, save_top_k=-1)
    t.noted("best", ["epoch=1.ckpt"])
    t.noted("last", ["epoch=2.ckpt", "last.ckpt"])


def no_best(stage):
    """Ask for the best file where no callback saves any."""
    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module())
    stage.call("test", trainer.test, ckpt_path="best")


@clause("CKPT-095", "ckpt_path=\"best\" without a ModelCheckpoint MUST be refused.",
        editions="2.2", needs="hooks_2.2", source="differences 10.25")
def ckpt_095(run):
    t = run.play(no_best, fails=True)
    t.raises("ValueError", "best", "ModelCheckpoint")
    t.call("test").none("M.test_step")


# What state_dict and load_state_dict see and return, on everyone who has them.


def weights_of(self):
    """Return the weights, and one more."""
    return dict(torch.nn.Module.state_dict(self), more=torch.ones(1))


def loads(self, state_dict, strict=True):
    """Load the weights, and return something."""
    state_dict.pop("more", None)
    torch.nn.Module.load_state_dict(self, state_dict)
    return -1


def minus_one(self, *args):
    """Return what means nothing here."""
    return -1


RETURNING = dict(c1={"state_dict": seven, "load_state_dict": minus_one}, data={
    "state_dict": returns_dm, "load_state_dict": minus_one},
    module={"state_dict": weights_of, "load_state_dict": loads})


@clause("CKPT-110", "state_dict MUST be asked of module, callbacks and data module with nothing, "
        "in the state in which the checkpoint is saved.", editions="2.2",
        needs="callback_state_dict datamodule",
        source="trace 2.2.5 save_checkpoint_with_datamodule",
        hooks=["CDM.state_dict arguments state"])
def ckpt_110(run):
    t = run.play(save_and_resume, **RETURNING).call("save")
    for who in ("M", "c1", "D"):
        t.args(who + ".state_dict", "")
        t.state(who + ".state_dict", "2/1 TG no_stage")


@clause("CKPT-111", "What the module's state_dict returns MUST be the weights in the file.",
        editions="2.2", needs="callback_state_dict datamodule", source="oracle 2.2.5",
        hooks=["M.state_dict return"])
def ckpt_111(run):
    t = run.play(save_and_resume, **RETURNING)
    t.equal("keys", sorted(read(t.folder + "/m.ckpt")["state_dict"]), [
        "layer.bias", "layer.weight", "more"])


@clause("CKPT-112", "load_state_dict MUST be given the state that was saved, before on_fit_start "
        "and with the counters at 0, and what it returns is ignored.", editions="2.2",
        needs="callback_state_dict datamodule",
        source="trace 2.2.5 save_checkpoint_with_datamodule",
        hooks=["CDM.load_state_dict arguments state return"])
def ckpt_112(run):
    t = run.play(save_and_resume, **RETURNING).call("resume")
    states = {"M": "layer.bias,layer.weight,more", "D": "dm", "c1": "n"}
    for who in states:
        t.args(who + ".load_state_dict", "dict(%s)" % states[who])
        t.state(who + ".load_state_dict", "0/0 TG training")
    t.only("M.load_state_dict D.load_state_dict c1.load_state_dict c1.on_fit_start c1.on_train_end")


@clause("CKPT-113", "A data module's on_save_checkpoint MUST find the steps counted, and what it "
        "returns is ignored.", editions="1.1 1.5", needs="older_hooks datamodule save_checkpoint",
        source="oracle 1.1.8, 1.5.10", hooks="D.on_save_checkpoint state return")
def ckpt_113(run):
    t = run.play(older_data_module)
    t.noted("steps", 1)
    t.equal("weights", sorted(read(t.folder + "/m.ckpt")["state_dict"]), [
        "layer.bias", "layer.weight"])


# Saved in the middle of something, which is finished before the file is of use.


def draws(self, batch, batch_idx):
    """Validate with a random number."""
    self.log("v", torch.rand(()))


def on_plateau(self):
    """Return SGD with momentum, and a scheduler that waits for a metric."""
    optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    return {"optimizer": optimizer, "lr_scheduler": {
        "scheduler": plateau, "monitor": "v", "interval": self.interval, "strict": False}}


def exact_from(stage, where, nth, interval="epoch"):
    """Train 2 epochs of 4 shuffled batches, at once, and again from what was saved at an event."""
    calls = []

    def save(trainer, module):
        calls.append(where)
        if len(calls) == nth:
            trainer.save_checkpoint(stage.path("m.ckpt"))

    def new(seed):
        torch.manual_seed(seed)
        random.seed(seed)
        module = stage.module(
            dict(val=1), train_dataloader=shuffled, training_step=with_dropout,
            validation_step=draws, configure_optimizers=on_plateau)
        module.draws, module.interval = [], interval
        return module

    flags = dict(max_epochs=2, num_sanity_val_steps=1)
    whole, again = new(5), new(99)
    stage.look({where: save})
    torch.manual_seed(5)
    random.seed(5)
    first = stage.trainer(*both(stage), **flags)
    stage.call("fit", first.fit, whole)
    stage.look({})
    second = go_on(stage, again, stage.path("m.ckpt"), *both(stage), **flags)
    stage.note("left", len(again.draws))
    stage.note("draws", again.draws == whole.draws[8 - len(again.draws):])
    for name in ("weights", "optimizer", "scheduler"):
        stage.note(name, _end(first, whole)[name] == _end(second, again)[name])


def _end(trainer, module):
    """Return where a run has come to."""
    state = trainer.optimizers[0].state_dict()["state"]
    return {"weights": [each.tolist() for each in module.state_dict().values()],
            "optimizer": [state[at]["momentum_buffer"].tolist() for at in sorted(state)],
            "scheduler": trainer.lr_scheduler_configs[0].scheduler.state_dict()["best"]}


# The event, which of its calls, and how many of the eight training batches are left behind it.
INSIDE = [("M.training_step", 2, 6), ("M.on_before_zero_grad", 5, 3), ("M.validation_step", 2, 4),
          ("M.on_validation_start", 3, 0), ("M.validation_step", 1, 8),
          ("M.on_validation_epoch_end", 1, 8), ("M.lr_scheduler_step", 1, 4)]


@clause("CKPT-130", "A file saved inside a batch, a validation or the sanity check, or as a "
        "scheduler steps, MUST be one from which a run goes on, bit for bit, behind it.",
        editions="beyond", needs="older_hooks callback_state_dict", source="design 8.2; bug 17")
def ckpt_130(run):
    for where, nth, left in INSIDE:
        t = run.play(exact_from, where=where, nth=nth)
        t.noted("left", left)
        for name in ("draws", "weights", "optimizer", "scheduler"):
            t.noted(name, True)
    t = run.play(exact_from, where="M.lr_scheduler_step", nth=2, interval="step")
    t.noted("left", 3)  # the first call came behind the validation of batch 3, the second behind 4


def goes_on_with_data(stage):
    """Fit with a data module that hears of checkpoints, save, and go on."""
    older_data_module(stage)
    Data = type(stage.recorder.trainer.datamodule)
    trainer = stage.trainer(num_sanity_val_steps=0, max_epochs=2)
    stage.call("resume", trainer.fit, stage.module(), datamodule=Data(dict(train=1, val=1)),
               ckpt_path=stage.path("m.ckpt"))


@clause("CKPT-140", "A data module's on_load_checkpoint MUST be called with the checkpoint, and "
        "the counters still at 0, when a fit goes on from it.", editions="1.5",
        needs="older_hooks datamodule save_checkpoint on_exception",
        source="trace 1.5.10 save_checkpoint_with_datamodule",
        hooks="D.on_load_checkpoint fires arguments state")
def ckpt_140(run):
    t = run.play(goes_on_with_data)
    t.equal("told", t.noted("told")[1:], [["on_load_checkpoint", True]])
    t.equal("steps", t.noted("steps")[1:], [0])


def drawn_anew(self):
    """Return a loader of rows that are drawn when it is made."""
    return torch.utils.data.DataLoader(torch.rand(4, 2))


def anew(stage, at_end):
    """Train 3 epochs with a new loader each, at once, and again from the end of the first."""
    def save(self, trainer, module):
        if trainer.current_epoch == 0 and not at_end:
            trainer.save_checkpoint(stage.path("m.ckpt"))

    def new(seed):
        torch.manual_seed(seed)
        module = stage.module(train_dataloader=drawn_anew, training_step=with_dropout,
                              without=("val_dataloader", "validation_step"))
        module.draws = []
        return module

    def fit(module, epochs):
        trainer = stage.trainer(*both(stage, c2={"on_train_epoch_end": save}),
                                **dict(flags, max_epochs=epochs))
        stage.call("fit", trainer.fit, module)
        return trainer

    flags = dict(max_epochs=3, reload_dataloaders_every_n_epochs=1, num_sanity_val_steps=0)
    if at_end:
        fit(new(5), 1).save_checkpoint(stage.path("m.ckpt"))
    whole = new(5)
    fit(whole, 3)
    again = new(99)
    go_on(stage, again, stage.path("m.ckpt"), *both(stage), **flags)
    rows = [row for row, _ in again.draws]
    stage.note("rows", len(rows))
    stage.note("same", rows == [row for row, _ in whole.draws[4:]])


@clause("CKPT-131", "A loader that is asked for anew in each epoch MUST draw in a run that goes on "
        "what it would have drawn in one that was never stopped.", editions="beyond",
        needs="older_hooks callback_state_dict", source="design 8.2")
def ckpt_131(run):
    for at_end in (False, True):
        t = run.play(anew, at_end=at_end)
        t.noted("rows", 8)
        t.noted("same", True)


# What a receiver saves, those behind it have not heard of, and hear of when the run goes on.


OF_EPOCHS = """CM.on_train_epoch_start C.on_epoch_start CM.on_train_batch_start M.training_step
    CM.on_train_batch_end C.on_batch_end CM.on_validation_start M.validation_step
    CM.on_validation_end CM.on_train_epoch_end C.on_epoch_end"""


OLDER = "on_epoch_start | on_epoch_end | on_batch_end"


def saved_in(stage, hook, nth):
    """Train 2 epochs, the first callback saving in a hook; and again from there."""
    calls = []

    def save(self, trainer, module, *args):
        calls.append(hook)
        if len(calls) == nth:
            trainer.save_checkpoint(stage.path("m.ckpt"))

    flags = dict(max_epochs=2, num_sanity_val_steps=0)
    trainer = stage.trainer(*both(stage, OLDER, c1={hook: save}), **flags)
    stage.call("fit", trainer.fit, stage.module(dict(train=2, val=1)))
    go_on(stage, stage.module(dict(train=2, val=1)), stage.path("m.ckpt"), *both(stage, OLDER),
          **flags)


@clause("CKPT-132", "From a file that a receiver saves, a run MUST go on with the receivers behind "
        "it, as if it had not been stopped.", editions="beyond",
        needs="older_hooks callback_state_dict", source="design 8.2")
def ckpt_132(run):
    for hook, nth in (("on_epoch_start", 1), ("on_train_epoch_start", 2), ("on_epoch_start", 3),
                      ("on_train_batch_end", 1), ("on_train_batch_end", 2), ("on_batch_end", 3),
                      ("on_validation_end", 1), ("on_validation_end", 2),
                      ("on_train_epoch_end", 1), ("on_epoch_end", 2)):
        t = run.play(saved_in, hook=hook, nth=nth)
        whole, rest = ([event.who + "." + event.hook for event in t.call(name).select(OF_EPOCHS)]
                       for name in ("fit", "resume"))
        at = [i for i, event in enumerate(whole) if event == "c1." + hook][nth - 1]
        t.equal("events behind c1.%s" % hook, rest, whole[at + 1:])


def saved_at(stage, where, nth):
    """Train 2 epochs, saving as a hook of the module is entered; and again from there."""
    calls = []

    def save(trainer, module):
        calls.append(where)
        if len(calls) == nth:
            trainer.save_checkpoint(stage.path("m.ckpt"))

    flags = dict(max_epochs=2, num_sanity_val_steps=0)
    stage.look({where: save})
    trainer = stage.trainer(*both(stage, OLDER), **flags)
    stage.call("fit", trainer.fit, stage.module(dict(train=2, val=1)))
    stage.look({})
    go_on(stage, stage.module(dict(train=2, val=1)), stage.path("m.ckpt"), *both(stage, OLDER),
          **flags)


@clause("CKPT-133", "From a file that is saved in training_step, a run MUST go on with what "
        "follows the batch.", editions="beyond", needs="older_hooks callback_state_dict",
        source="design 8.2")
def ckpt_133(run):
    for nth in (1, 2):
        t = run.play(saved_at, where="M.training_step", nth=nth)
        whole, rest = ([event.who + "." + event.hook for event in t.call(name).select(OF_EPOCHS)]
                       for name in ("fit", "resume"))
        at = [i for i, event in enumerate(whole) if event == "M.training_step"][nth - 1]
        t.equal("events behind it", rest, whole[at + 1:])


@clause("CKPT-134", "From a file that is saved in on_validation_end, a run MUST go on with the "
        "scheduler that waits for the metric.", editions="beyond",
        needs="older_hooks callback_state_dict", source="design 8.2")
def ckpt_134(run):
    t = run.play(exact_from, where="M.on_validation_end", nth=2, interval="step")
    t.noted("left", 4)
    for name in ("draws", "weights", "optimizer", "scheduler"):
        t.noted(name, True)


def exact_after(stage, where, nth, told):
    """Train 2 epochs at once, and again with an end in the middle, from what was saved there."""
    calls = []

    def end(trainer, module):
        calls.append(where)
        if len(calls) == nth and told:
            os.kill(os.getpid(), signal.SIGTERM)
        elif len(calls) == nth:
            trainer.save_checkpoint(stage.path("last-sigterm.ckpt"))
            raise RuntimeError("an end")

    def fit(name, seed, **look):
        torch.manual_seed(seed)
        random.seed(seed)
        module = stage.module(
            dict(val=1), train_dataloader=shuffled, training_step=with_dropout,
            validation_step=draws, configure_optimizers=on_plateau)
        module.draws, module.interval = [], "step"
        trainer = stage.trainer(*both(stage), **flags)
        stage.look(look)
        try:
            stage.call(name, trainer.fit, module, **given)
        except (RuntimeError, SystemExit):
            pass
        return trainer, module

    flags, given = dict(max_epochs=2, num_sanity_val_steps=0), {}
    first, whole = fit("whole", 5)
    _, cut = fit("cut", 5, **{where: end})
    given["ckpt_path"] = stage.path("last-sigterm.ckpt")
    second, again = fit("again", 99)
    stage.note("cut", len(cut.draws) < 8)
    for name in ("weights", "optimizer", "scheduler"):
        stage.note(name, _end(first, whole)[name] == _end(second, again)[name])


@clause("CKPT-135", "A run that SIGTERM or an error in a validation has ended MUST, from what was "
        "saved, end with the weights and the scheduler of one that was never stopped.",
        editions="beyond", needs="older_hooks callback_state_dict", source="design 8.2")
def ckpt_135(run):
    for where, nth, told in (("M.on_train_batch_start", 6, True), ("M.on_validation_end", 1, True),
                             ("M.on_validation_epoch_end", 1, False)):
        t = run.play(exact_after, where=where, nth=nth, told=told, fails=True)
        for name in ("cut", "weights", "optimizer", "scheduler"):
            t.noted(name, True)


def at_the_end_of_an_epoch(stage):
    """Fit an epoch, saving at its end, and go on."""
    def save(self, trainer, module):
        trainer.save_checkpoint(stage.path("m.ckpt"))

    trainer = stage.trainer(*both(stage, c2={"on_train_epoch_end": save}), num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=2, val=0)))
    go_on(stage, stage.module(dict(train=2, val=0)), stage.path("m.ckpt"), *both(stage),
          max_epochs=2)


@clause("CKPT-136", "From a file that is saved in on_train_epoch_end, on_train_start MUST find the "
        "number of the next epoch.", editions="2.2", needs="hooks_2.2", source="lightning 2.6.6",
        hooks="M.on_train_start state")
def ckpt_136(run):
    t = run.play(at_the_end_of_an_epoch).call("resume")
    t.equal("epoch", [each.epoch for each in t.select("M.on_train_start")], [1])


def fails_to_go_on(stage):
    """Fit, fail to go on from the file, and fit from the start with the same trainer."""
    def fails(self):
        raise RuntimeError("boom")

    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=2)))
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    trainer = stage.trainer(num_sanity_val_steps=0)
    try:
        stage.call("failing", trainer.fit, stage.module(dict(train=2), on_fit_start=fails),
                   ckpt_path=stage.path("m.ckpt"))
    except RuntimeError:
        pass
    stage.call("again", trainer.fit, stage.module(dict(train=2)))


@clause("CKPT-137", "A fit that could not go on from a file MUST leave nothing of it to the next "
        "fit, which begins at the start.", editions="beyond",
        needs="older_hooks callback_state_dict", source="bug 8: what is its own is released")
def ckpt_137(run):
    t = run.play(fails_to_go_on, fails=True).call("again")
    t.only("M.on_train_start M.training_step M.training_step M.on_train_end")
    t.equal("steps", t.after["global_step"], 2)


def let_go_of(stage):
    """Fit, save, and go on; note whether the file's content is still held as training begins."""
    def loads(self, checkpoint):
        stage.held = weakref.ref(checkpoint["mine"])

    def starts(self):
        gc.collect()
        stage.note("held", stage.held() is not None)

    saves = {"on_save_checkpoint": lambda self, checkpoint: checkpoint.update(mine=torch.ones(3))}
    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call("fit", trainer.fit, stage.module(dict(train=1), **saves))
    stage.call("save", trainer.save_checkpoint, stage.path("m.ckpt"))
    go_on(stage, stage.module(dict(train=1), on_load_checkpoint=loads, on_train_start=starts),
          stage.path("m.ckpt"), max_epochs=2)


@clause("CKPT-138", "What a run goes on from MUST be let go of before it trains, which needs the "
        "memory.", editions="2.2", needs="hooks_2.2", source="lightning 2.6.6")
def ckpt_138(run):
    run.play(let_go_of).noted("held", False)
