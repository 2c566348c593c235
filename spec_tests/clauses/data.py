"""Data: who prepares and loads it, how a batch gets to its device, and how many batches it has."""

import collections
import gc
import weakref

from ..clause import clause, torch

TRANSFER = "on_before_batch_transfer transfer_batch_to_device on_after_batch_transfer"


@clause("DATA-001", "prepare_data MUST be called once per entry point, on the data module and then "
        "on the module, before any setup.", editions="1.5 2.2", needs="fit datamodule",
        source="seed 2.2 prepare_data; trace datamodule_hooks",
        hooks=["M.prepare_data fires arguments", "D.prepare_data fires arguments"])
def data_001(run):
    t = run.fit(train_batches=1, val_batches=0, data={})
    t.only("D.prepare_data M.prepare_data D.setup C.setup M.setup")
    t.args("M.prepare_data", "")
    t.args("D.prepare_data", "")


@clause("DATA-002", "setup MUST be called with the stage, data module first, then callbacks, then "
        "the module, before any loader is asked for.", editions="1.5 2.2", needs="fit datamodule",
        source="seed 2.2 setup; trace datamodule_hooks",
        hooks=["CM.setup fires arguments", "D.setup fires arguments"])
def data_002(run):
    t = run.fit(train_batches=1, val_batches=1, data={})
    t.only("D.setup(fit) C.setup(fit) M.setup(fit) D.train_dataloader D.val_dataloader")


@clause("DATA-003", "teardown MUST be the last thing that is called, with the stage, data module "
        "first, then callbacks, then the module.", editions="1.5 2.2", needs="fit datamodule",
        source="seed 2.2 teardown; trace datamodule_hooks",
        hooks=["CM.teardown fires arguments", "D.teardown fires arguments"])
def data_003(run):
    t = run.fit(train_batches=1, val_batches=0, data={})
    t.only("C.on_fit_end M.on_fit_end D.teardown(fit) C.teardown(fit) M.teardown(fit)")


@clause("DATA-004", "setup and teardown MUST see train mode, gradients on and the stage of their "
        "entry point.", editions="2.2", needs="fit datamodule",
        source="trace 2.2.5 datamodule_hooks",
        hooks=["CDM.setup state", "CDM.teardown state", "DM.prepare_data state"])
def data_004(run):
    t = run.fit(train_batches=1, val_batches=0, data={})
    for who in ("D", "c1", "M"):
        t.state(who + ".setup", "0/0 TG training")
        t.state(who + ".teardown", "1/1 TG training")
    t.state("D.prepare_data", "0/0 TG training")
    t.state("M.prepare_data", "0/0 TG training")


def minus_one(self, *args, **kwargs):
    """Return what means something in on_train_batch_start only."""
    return -1


@clause("DATA-005", "What prepare_data, setup and teardown return MUST be ignored.",
        editions="1.5 2.2", needs="fit", source="seed 2.2 prepare_data, setup, teardown",
        hooks=["M.prepare_data return", "CM.setup return", "CM.teardown return"])
def data_005(run):
    returning = dict.fromkeys(("setup", "teardown"), minus_one)
    t = run.fit(train_batches=1, val_batches=0, c1=returning,
                module=dict(returning, prepare_data=minus_one))
    t.only("M.prepare_data C.setup M.setup M.training_step C.teardown M.teardown")


@clause("DATA-006", "A data module's loaders MUST be used instead of the module's.",
        editions="1.5 2.2", needs="fit datamodule", source="trace datamodule_hooks",
        hooks=["D.train_dataloader fires", "D.val_dataloader fires"])
def data_006(run):
    t = run.fit(train_batches=1, val_batches=1, data={})
    t.only("D.train_dataloader D.val_dataloader M.training_step M.validation_step",
           absent="M.train_dataloader M.val_dataloader")


@clause("DATA-007", "A data module's transfer hooks MUST be called instead of the module's, for "
        "every batch of training and validation.", editions="2.2", needs="fit datamodule",
        source="seed 2.2 transfer_batch_to_device; trace datamodule_hooks",
        hooks=["D.on_before_batch_transfer fires arguments",
               "D.transfer_batch_to_device fires arguments",
               "D.on_after_batch_transfer fires arguments"])
def data_007(run):
    t = run.fit(train_batches=1, val_batches=1, data={})
    one = "".join("D.%s " % hook for hook in TRANSFER.split())
    t.only(one + "M.training_step " + one + "M.validation_step",
           absent=" ".join("M." + hook for hook in TRANSFER.split()))
    t.args("D.transfer_batch_to_device", "Tensor, cpu, 0", "Tensor, cpu, 0")


@clause("DATA-008", "The transfer hooks MUST be called on the CPU too, with the batch, the device "
        "and the index of the loader, before the batch's first hook.", editions="1.5 2.2",
        needs="fit", source="seed 2.2 transfer_batch_to_device; ruling 3",
        hooks=["M.on_before_batch_transfer fires arguments",
               "M.transfer_batch_to_device fires arguments",
               "M.on_after_batch_transfer fires arguments"])
def data_008(run):
    t = run.fit(train_batches=2, val_batches=0)
    t.only("""M.on_before_batch_transfer(Tensor, 0) M.transfer_batch_to_device(Tensor, cpu, 0)
              M.on_after_batch_transfer(Tensor, 0) C.on_train_batch_start
              M.on_train_batch_start """ * 2)


@clause("DATA-009", "The transfer hooks MUST see the state of the loop that they serve.",
        editions="2.2", needs="fit test predict", source="seed 2.2 transfer_batch_to_device: "
        "trainer.training/testing/validating/predicting; trace 2.2.5 fit_basic",
        hooks=["M.on_before_batch_transfer state", "M.transfer_batch_to_device state",
               "M.on_after_batch_transfer state"])
def data_009(run):
    t = run.fit(train_batches=1, val_batches=1)
    for hook in TRANSFER.split():
        t.state("M." + hook, "0/0 TG training", "1/0 Eg validating")
        run.test(test_batches=1).state("M." + hook, "0/0 Ei testing")
        run.predict(predict_batches=1).state("M." + hook, "0/0 Ei predicting")


def plus(amount):
    """Return a transfer hook that adds to the batch."""
    return lambda self, batch, *args: batch + amount


BEFORE, MOVE, AFTER = plus(1.0), plus(10.0), plus(100.0)


def note_batch(self, batch, *args):
    """Note what the step gets."""
    self.note("batch", batch[0, 0].item())
    return self(batch).sum()


def ones():
    """One loader of one batch of ones."""
    return [torch.utils.data.DataLoader(torch.ones(1, 2))]


@clause("DATA-010", "What a transfer hook returns MUST be the batch for the next one, and at last "
        "for hooks and step.", editions="1.5 2.2", needs="fit",
        source="seed 2.2 on_before_batch_transfer, on_after_batch_transfer",
        hooks=["M.on_before_batch_transfer return", "M.transfer_batch_to_device return",
               "M.on_after_batch_transfer return"])
def data_010(run):
    t = run.fit(val_batches=0, loaders=ones, module={
        "on_before_batch_transfer": BEFORE, "transfer_batch_to_device": MOVE,
        "on_after_batch_transfer": AFTER, "training_step": note_batch})
    t.noted("batch", 112.0)


@clause("DATA-011", "The training loader MUST be asked for after the sanity check and before "
        "on_train_start, once per fit.", editions="1.5 2.2", needs="fit",
        source="differences 1.1; trace fit_basic", hooks="M.train_dataloader fires arguments state")
def data_011(run):
    t = run.fit(sanity=2, max_epochs=2)
    t.only("C.on_sanity_check_end M.train_dataloader C.on_train_start M.on_train_start")
    t.args("M.train_dataloader", "")
    t.state("M.train_dataloader", "0/0 TG training")


@clause("DATA-012", "With limit_train_batches=0 the training loader MUST NOT be asked for, and fit "
        "ends after the sanity check.", editions="2.2", needs="fit",
        source="trace 2.2.5 limit_train_batches_0", hooks="M.train_dataloader fires")
def data_012(run):
    t = run.fit(limit_train_batches=0, sanity=2)
    t.only("C.on_sanity_check_end C.on_fit_end M.on_fit_end C.teardown M.teardown",
           absent="M.train_dataloader CM.on_train_start CM.on_train_end")


@clause("DATA-013", "Loaders passed to fit MUST be used instead of those of the module.",
        editions="1.5 2.2", needs="fit", source="trace fit_loaders_as_arguments",
        hooks="M.train_dataloader fires")
def data_013(run):
    t = run.fit(val_batches=0, loaders=ones)
    t.only("M.training_step", absent="M.train_dataloader")


@clause("DATA-014", "reload_dataloaders_every_n_epochs=1 MUST ask for the training loader again "
        "before each later epoch begins, and for the validation loader before each later "
        "validation.",
        editions="2.2", needs="fit", source="trace 2.2.5 reload_dataloaders_every_n_epochs_1",
        hooks=["M.train_dataloader fires", "M.val_dataloader fires"])
def data_014(run):
    t = run.fit(train_batches=1, val_batches=1, max_epochs=3, reload_dataloaders_every_n_epochs=1)
    t.only("M.train_dataloader M.val_dataloader M.on_train_epoch_start M.on_validation_start "
           + "M.train_dataloader M.on_train_epoch_start M.val_dataloader M.on_validation_start "
           * 2)


def two_lengths():
    """A dict of loaders, of three batches and of two."""
    loader = torch.utils.data.DataLoader
    return [{"a": loader(torch.arange(6.0).view(3, 2)), "b": loader(torch.arange(4.0).view(2, 2))}]


def note_keys(self, batch, batch_idx):
    """Note the first number of each part of the batch."""
    self.note("batch", {name: part[0, 0].item() for name, part in sorted(batch.items())})
    return self(batch["a"]).sum()


@clause("DATA-015", "Training on a dict of loaders MUST yield dicts until the longest loader ends, "
        "the shorter ones starting again.", editions="1.5 2.2", needs="fit",
        source="trace train_two_dataloaders_combined; seed 2.2 train_dataloader")
def data_015(run):
    t = run.fit(val_batches=0, loaders=two_lengths, module={"training_step": note_keys})
    t.noted("batch", {"a": 0.0, "b": 0.0}, {"a": 2.0, "b": 2.0}, {"a": 4.0, "b": 0.0})


@clause("DATA-016", "limit_train_batches as an int MUST count batches and as a float take a share "
        "of them.", editions="1.5 2.2", needs="fit", source="bug 27")
def data_016(run):
    for limit, batches in ((1, 1), (1.0, 10), (0.25, 2), (7, 7), (20, 10)):
        t = run.fit(train_batches=10, val_batches=0, limit_train_batches=limit)
        t.count("M.training_step", batches)
        t.equal("num_training_batches", t.trainer.num_training_batches, batches)


@clause("DATA-017", "A share of the batches that is not one whole batch MUST be refused, and the "
        "message tells the smallest share.", editions="2.2", needs="fit", source="bug 27")
def data_017(run):
    t = run.fit(train_batches=10, val_batches=0, limit_train_batches=0.05, fails=True)
    t.raises("MisconfigurationException", "limit_train_batches", "0.1")


def stream(batches, declared=None):
    """Return a function that makes one loader over a stream that ends after so many batches."""
    def loaders():
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(torch.ones(batches, 2))

        class Declared(Stream):
            def __len__(self):
                return declared

        return [torch.utils.data.DataLoader((Declared if declared else Stream)(), batch_size=1)]
    return loaders


STREAM_5, STREAM_5_OF_10 = stream(5), stream(5, declared=10)


@clause("DATA-018", "The end of a stream of unknown length MUST end the epoch, whose last batch is "
        "known as such, so that the last accumulation window steps.", editions="2.2", needs="fit",
        source="bug 26")
def data_018(run):
    t = run.fit(val_batches=0, loaders=STREAM_5, accumulate_grad_batches=2)
    t.count("M.training_step", 5)
    t.equal("global_step", t.after["global_step"], 3)
    t.equal("is_last_batch", t.after["is_last_batch"], True)


@clause("DATA-019", "A stream that ends before its declared length MUST still end the epoch with "
        "its last window stepped and its validation run.", editions="beyond", needs="fit",
        source="bug 26")
def data_019(run):
    t = run.fit(val_batches=1, loaders=STREAM_5_OF_10, accumulate_grad_batches=2)
    t.count("M.training_step", 5)
    t.equal("global_step", t.after["global_step"], 3)
    t.only("C.on_validation_start M.on_validation_start C.on_train_epoch_end M.on_train_epoch_end")


@clause("DATA-020", "A share of a stream of unknown length MUST be refused, naming the flag.",
        editions="1.5 2.2", needs="fit", source="bug 26")
def data_020(run):
    t = run.fit(val_batches=0, loaders=STREAM_5, limit_train_batches=0.5, fails=True)
    t.raises("MisconfigurationException", "limit_train_batches")


@clause("DATA-021", "An integer limit MUST work on a stream of unknown length.", editions="1.5 2.2",
        needs="fit", source="bug 26")
def data_021(run):
    t = run.fit(val_batches=0, loaders=STREAM_5, limit_train_batches=3)
    t.count("M.training_step", 3)


class Movable:
    """Something with a `to`, which notes where it was sent."""

    def __init__(self):
        self.sent = None

    def to(self, device):
        """Note the device."""
        self.sent = str(device)
        return self


Pair = collections.namedtuple("Pair", "x label")


def moves(stage):
    """Move containers of all kinds to a device and note what comes out."""
    module = stage.module()
    tensor, text = torch.ones(1), "text"
    ordered = collections.OrderedDict([("b", tensor), ("a", text)])
    default = collections.defaultdict(list, {"k": tensor})
    batch = {"list": [tensor, text, None], "pair": Pair(tensor, text), "ordered": ordered,
             "default": default, "movable": Movable(), "tuple": (tensor, 3)}
    moved = module.transfer_batch_to_device(batch, torch.device("meta"), 0)
    kinds = [type(moved[name]).__name__ for name in sorted(batch)]
    stage.note("kinds", kinds)
    stage.note("devices", [str(found.device) for found in (
        moved["list"][0], moved["pair"].x, moved["ordered"]["b"], moved["default"]["k"],
        moved["tuple"][0])])
    stage.note("untouched", [moved["list"][1:] == [text, None], moved["pair"].label is text,
                             list(moved["ordered"]) == ["b", "a"], moved["tuple"][1] == 3])
    stage.note("movable", moved["movable"].sent)
    stage.note("original", str(batch["list"][0].device))


@clause("DATA-022", "transfer_batch_to_device MUST move tensors in nested lists, tuples, "
        "namedtuples and mappings and whatever has a `to`, keep types and order, and leave the "
        "rest and the original alone.", editions="1.5 2.2", needs="fit",
        source="seed 2.2 transfer_batch_to_device; bug 28",
        hooks="M.transfer_batch_to_device return")
def data_022(run):
    t = run.play(moves)
    t.noted("kinds", ["defaultdict", "list", "Movable", "OrderedDict", "Pair", "tuple"])
    t.noted("devices", ["meta"] * 5)
    t.noted("untouched", [True] * 4)
    t.noted("movable", "meta")
    t.noted("original", "cpu")




@clause("DATA-023", "What a step returned MUST be gone when the next but one begins, if nobody "
        "asked for the outputs of the epoch.", editions="beyond", needs="fit", source="bug 32")
def data_023(run):
    t = run.fit(train_batches=4, val_batches=0, module={"training_step": note_survivors})
    t.noted("alive", [], [], [False], [False])


def note_survivors(self, batch, batch_idx):
    """Note whether the outputs of the step before last are alive."""
    import weakref
    kept = self.__dict__.setdefault("kept", [])
    self.note("alive", [ref() is not None for ref in kept[-2:-1]])
    big = self(batch)
    kept.append(weakref.ref(big))
    return {"loss": big.sum(), "big": big}


@clause("DATA-024", "A data module given together with loaders MUST be refused.",
        editions="1.5 2.2", needs="fit datamodule", source="oracle 2.2.5, 1.5.10")
def data_024(run):
    t = run.fit(val_batches=0, loaders=ones, data={}, fails=True)
    t.raises("MisconfigurationException")


@clause("DATA-025", "An empty training loader MUST end fit without training and without an error.",
        editions="2.2", needs="fit", source="trace 2.2.5 empty_train_loader")
def data_025(run):
    t = run.fit(train_batches=0, val_batches=0)
    t.only("C.on_fit_start M.on_fit_start M.train_dataloader C.on_fit_end M.on_fit_end",
           absent="CM.on_train_start M.training_step")


@clause("DATA-026", "overfit_batches MUST use the same first training batches in every epoch, "
        "without shuffling.", editions="2.2", needs="fit", source="bug 27")
def data_026(run):
    t = run.fit(val_batches=0, loaders=shuffled, max_epochs=2, overfit_batches=2,
                module={"training_step": note_row})
    t.noted("rows", 0.0, 1.0, 0.0, 1.0)


def shuffled():
    """A loader that shuffles ten rows, row i of which holds i."""
    rows = torch.arange(10.0).view(10, 1).expand(10, 2)
    return [torch.utils.data.DataLoader(rows, shuffle=True)]


def note_row(self, batch, batch_idx):
    """Note the row."""
    self.note("rows", batch[0, 0].item())
    return self(batch).sum()


@clause("DATA-027", "prepare_data_per_node and allow_zero_length_dataloader_with_multiple_devices "
        "MUST be attributes of module and data module, True and False by default.", editions="2.2",
        needs="fit datamodule", source="seed 2.2 DataHooks")
def data_027(run):
    t = run.fit(train_batches=1, val_batches=0, data={})
    for owner in (t.module, t.trainer.datamodule):
        t.equal("prepare_data_per_node", owner.prepare_data_per_node, True)
        t.equal("allow_zero_length_dataloader_with_multiple_devices",
                owner.allow_zero_length_dataloader_with_multiple_devices, False)


@clause("DATA-028", "Asking a module without a loader hook for its loader MUST be an error that "
        "names the hook.", editions="2.2", needs="fit validate test predict",
        source="seed 2.2 train_dataloader")
def data_028(run):
    t = run.play(bare_loaders)
    t.noted("named", ["train_dataloader", "val_dataloader", "test_dataloader",
                      "predict_dataloader"])


def bare_loaders(stage):
    """Ask the base class for its loaders."""
    named = []
    module = stage.impl.LightningModule()
    for kind in ("train", "val", "test", "predict"):
        try:
            getattr(module, kind + "_dataloader")()
        except Exception as error:
            name = kind + "_dataloader"
            named.append(name if name in str(error) and
                         type(error).__name__ == "MisconfigurationException" else repr(error))
    stage.note("named", named)


@clause("DATA-029", "A data module's on_exception MUST be called with the error, after those of "
        "the callbacks.", editions="beyond", needs="fit datamodule_on_exception on_exception",
        source="design 2.4; trace 2.6.6 exception_in_training_step_with_datamodule",
        hooks="D.on_exception fires arguments")
def data_029(run):
    t = run.fit(train_batches=1, val_batches=0, data={}, module={"training_step": boom}, fails=True)
    t.only("M.training_step C.on_exception(RuntimeError) D.on_exception(RuntimeError)",
           absent="D.teardown")


def boom(self, *args):
    """Fail."""
    raise RuntimeError("boom")


@clause("DATA-040", "test and predict MUST ask the data module for their loader, once, after "
        "setup, in train mode and with nothing.", editions="1.5 2.2",
        needs="test predict datamodule",
        source="seed 2.2 prepare_data: the order of calls; traces 1.5.10 and 2.2.5 "
               "datamodule_hooks",
        hooks=["D.test_dataloader fires arguments", "D.predict_dataloader fires arguments"])
def data_040(run):
    for entry, step in (("test", "M.test_step"), ("predict", "M.predict_step")):
        t = getattr(run, entry)(test_batches=1, predict_batches=1, data={})
        loader = entry + "_dataloader"
        t.only("D.prepare_data D.setup M.setup [T] D.%s() [E] %s" % (loader, step),
               absent="M." + loader)


@clause("DATA-041", "A data module's loader hooks MUST see train mode and the stage that they "
        "serve, and those of evaluation its gradient mode: the sanity check's for the first "
        "validation.",
        editions="2.2", needs="fit validate test predict datamodule", source="trace 2.2.5 "
        "datamodule_hooks", hooks=["D.train_dataloader state arguments",
                                   "D.val_dataloader state arguments",
                                   "D.test_dataloader state", "D.predict_dataloader state"])
def data_041(run):
    t = run.fit(train_batches=1, val_batches=1, sanity=1, data={})
    t.state("D.train_dataloader", "0/0 TG training")
    t.state("D.val_dataloader", "0/0 Tg sanity_checking")
    t.args("D.train_dataloader", "")
    t.args("D.val_dataloader", "")
    run.validate(val_batches=1, data={}).state("D.val_dataloader", "0/0 Ti validating")
    run.test(test_batches=1, data={}).state("D.test_dataloader", "0/0 Ti testing")
    run.predict(predict_batches=1, data={}).state("D.predict_dataloader", "0/0 Ti predicting")


def two_of_them(self):
    """Return two loaders of one batch each, of ones and of twos."""
    rows = [torch.ones(1, 2), torch.full((1, 2), 2.0)]
    return [torch.utils.data.DataLoader(each) for each in rows]


def note_evaluated(self, batch, batch_idx, dataloader_idx=0):
    """Note which row of which loader came."""
    self.note("row", [batch[0, 0].item(), dataloader_idx])
    return self(batch)


def served(entry, kind):
    """Return a run of an entry point whose loader hook returns two loaders."""
    def served(run, data):
        hooks = {kind + "_dataloader": two_of_them}
        step = {("validation" if kind == "val" else kind) + "_step": note_evaluated}
        config = dict(module=step, data=hooks) if data else dict(module=dict(hooks, **step))
        return getattr(run, entry)(**config)
    return served


SERVED = [served("validate", "val"), served("test", "test"), served("predict", "predict")]


@clause("DATA-042", "What val_dataloader, test_dataloader and predict_dataloader return on the "
        "module MUST be what is run: a list is several loaders, one after another.",
        editions="1.5 2.2",
        needs="validate test predict", source="seed 2.2 val_dataloader, test_dataloader, "
        "predict_dataloader: an iterable or a collection of them",
        hooks=["M.val_dataloader return", "M.test_dataloader return",
               "M.predict_dataloader return"])
def data_042(run):
    for play in SERVED:
        play(run, data=False).noted("row", [1.0, 0], [2.0, 1])


@clause("DATA-043", "What val_dataloader, test_dataloader and predict_dataloader return on the "
        "data module MUST be what is run: a list is several loaders, one after another.",
        editions="1.5 2.2", needs="validate test predict datamodule", source="seed 2.2 "
        "val_dataloader, test_dataloader, predict_dataloader: an iterable or a collection of them",
        hooks=["D.val_dataloader return", "D.test_dataloader return",
               "D.predict_dataloader return"])
def data_043(run):
    for play in SERVED:
        play(run, data=True).noted("row", [1.0, 0], [2.0, 1])


def twos(self):
    """Return one loader of one batch of twos."""
    return torch.utils.data.DataLoader(torch.full((1, 2), 2.0))


@clause("DATA-044", "What train_dataloader returns MUST be what is trained on.", editions="1.5 2.2",
        needs="fit datamodule", source="seed 2.2 train_dataloader",
        hooks="DM.train_dataloader return")
def data_044(run):
    for where in ({"module": {"train_dataloader": twos, "training_step": note_batch}},
                  {"module": {"training_step": note_batch}, "data": {"train_dataloader": twos}}):
        run.fit(val_batches=0, **where).noted("batch", 2.0)


@clause("DATA-045", "What prepare_data, setup and teardown return on the data module MUST be "
                    "ignored.",
        editions="1.5 2.2", needs="fit datamodule", source="seed 2.2 prepare_data, setup, teardown",
        hooks=["D.prepare_data return", "D.setup return", "D.teardown return"])
def data_045(run):
    t = run.fit(train_batches=1, val_batches=0, data=dict.fromkeys(
        ("prepare_data", "setup", "teardown"), minus_one))
    t.only("""D.prepare_data M.prepare_data D.setup C.setup M.setup D.train_dataloader
              M.training_step D.teardown C.teardown M.teardown""")


@clause("DATA-046", "What a data module's transfer hook returns MUST be the batch for the next "
        "one, and at last for hooks and step.", editions="1.5 2.2", needs="fit datamodule",
        source="seed 2.2 on_before_batch_transfer, on_after_batch_transfer",
        hooks=["D.on_before_batch_transfer return", "D.transfer_batch_to_device return",
               "D.on_after_batch_transfer return"])
def data_046(run):
    t = run.fit(val_batches=0, module={"training_step": note_batch}, data={
        "train_dataloader": twos, "on_before_batch_transfer": BEFORE,
        "transfer_batch_to_device": MOVE, "on_after_batch_transfer": AFTER})
    t.noted("batch", 113.0)


@clause("DATA-047", "A data module's transfer hooks MUST see the state of the loop that they "
                    "serve.",
        editions="2.2", needs="fit datamodule", source="trace 2.2.5 datamodule_hooks",
        hooks=["D.on_before_batch_transfer state", "D.transfer_batch_to_device state",
               "D.on_after_batch_transfer state"])
def data_047(run):
    t = run.fit(train_batches=1, val_batches=1, data={})
    for hook in TRANSFER.split():
        t.state("D." + hook, "0/0 TG training", "1/0 Eg validating")


@clause("DATA-048", "A data module's on_exception MUST find the run as the error left it, and what "
        "it returns is ignored.", editions="beyond",
        needs="fit datamodule_on_exception on_exception",
        source="oracle 2.6.6", hooks="D.on_exception state return")
def data_048(run):
    t = run.fit(train_batches=2, val_batches=0, data={"on_exception": minus_one},
                module={"training_step": boom_at_second}, fails=True)
    t.raises("RuntimeError", "boom")
    t.state("D.on_exception", "1/0 TG training")


def boom_at_second(self, batch, batch_idx):
    """Fail in the second batch."""
    if batch_idx:
        raise RuntimeError("boom")
    return self(batch).sum()


def data_module_first(stage, entry):
    """Give an entry point the data module in the place of its loaders."""
    data = stage.Datamodule(batches=dict(train=2, val=2, test=2, predict=2))
    trainer = stage.trainer(num_sanity_val_steps=0)
    stage.call(entry, getattr(trainer, entry), stage.module(), data)


@clause("DATA-060", "A data module that is given in the place of the loaders MUST be the data "
        "module.", editions="1.5 2.2", needs="fit validate test predict datamodule",
        source="lightning 2.2.5; pytorch-lightning 1.5.10", hooks="D.train_dataloader fires")
def data_060(run):
    for entry, kind in (("fit", "train"), ("validate", "val"), ("test", "test"),
                        ("predict", "predict")):
        run.play(data_module_first, entry=entry).only(
            "D.prepare_data D.setup(%s) D.%s_dataloader D.teardown(%s)" % (entry, kind, entry))


def told_the_epoch(stage):
    """Fit with a sampler, and with one inside of a batch sampler, that can be told the epoch."""
    told = []
    for inside in (False, True):
        rows = [torch.ones(2)] * 4
        sampler = torch.utils.data.SequentialSampler(rows)
        sampler.set_epoch = told.append
        how = dict(sampler=sampler)
        if inside:
            how = dict(batch_sampler=torch.utils.data.BatchSampler(sampler, 2, False))
        stage.call("fit", stage.trainer(max_epochs=3, num_sanity_val_steps=0).fit, stage.module(
            dict(train=1, val=1)), torch.utils.data.DataLoader(rows, **how))
        stage.note("told", sorted(set(told)))
        told.clear()


@clause("DATA-061", "Before each epoch a sampler that has set_epoch MUST be told its number, also "
        "in one process.", editions="2.2", needs="fit", source="lightning 2.2.5")
def data_061(run):
    run.play(told_the_epoch).noted("told", [0, 1, 2], [0, 1, 2])


def has_trainer(self, stage=None):
    """Note whose data module this is."""
    self.note("trains", self.trainer is not None and self.trainer.datamodule is self)


@clause("DATA-062", "A data module MUST know its trainer from prepare_data on.", editions="1.5 2.2",
        needs="fit datamodule", source="lightning 2.6.6", hooks="D.prepare_data state")
def data_062(run):
    t = run.fit(data={"prepare_data": has_trainer, "setup": has_trainer})
    t.true("it knows", set(t.noted("trains")) == {True})


@clause("DATA-063", "A stream that has no batch at all MUST train nothing, without an error.",
        editions="beyond", needs="fit older_hooks", source="design 5; bug 26", device="cpu")
def data_063(run):
    t = run.fit(val_batches=0, loaders=stream(0))
    t.only("C.on_train_start M.on_train_start C.on_train_end M.on_train_end",
           absent="M.training_step")


def held_rows(stage):
    """Fit on a loader whose iterators can be told to be there."""
    class Rows:
        def __init__(self):
            self.left = [torch.ones(1, 2)] * 2

        def __iter__(self):
            return self

        def __next__(self):
            if not self.left:
                raise StopIteration
            return self.left.pop()

    class Loader:
        def __iter__(self):
            made = Rows()
            stage.held = weakref.ref(made)
            return made

        def __len__(self):
            return 2

    def ends(self):
        gc.collect()
        stage.note("held", stage.held() is not None)

    stage.call("fit", stage.trainer(num_sanity_val_steps=0).fit, stage.module(
        without=("val_dataloader", "validation_step"), on_train_epoch_end=ends), Loader())


@clause("DATA-064", "The iterator of a training loader MUST be let go of when its epoch ends, and "
        "its workers with it.", editions="beyond", needs="fit older_hooks",
        source="bug 8: what is its own is released", device="cpu")
def data_064(run):
    run.play(held_rows).noted("held", False)
