"""Several processes: what runs where, and what all of them agree on."""

import os
import time

from ..clause import clause, torch
from .shared import sigterm


@clause("DDP-001", "setup MUST be called on every process.", editions="1.1 1.5 2.2", needs="fit",
        source="seed 2.2 setup", device="ddp", hooks="CM.setup fires")
def ddp_001(run):
    t = run.fit()
    t.only("C.setup(fit) M.setup(fit)")
    t.equal("processes with a setup", run.ranks(t.count("M.setup")), [1, 1])


@clause("DDP-002", "prepare_data MUST be called in one process of a node, on the module and on the "
        "data module.", editions="1.5 2.2", needs="fit datamodule", source="seed 2.2 prepare_data",
        device="ddp", hooks=["M.prepare_data fires", "D.prepare_data fires"])
def ddp_002(run):
    t = run.fit(data={})
    counts = [t.count("M.prepare_data"), t.count("D.prepare_data")]
    t.equal("calls by rank", run.ranks(counts), [[1, 1], [0, 0]])


def in_total(stage, module):
    """Let data be prepared once in total."""
    module.prepare_data_per_node = False


@clause("DDP-003", "With prepare_data_per_node=False, prepare_data MUST be called in the first of "
        "all processes alone.", editions="1.5 2.2", needs="fit", source="seed 2.2 prepare_data",
        device="ddp", hooks="M.prepare_data fires")
def ddp_003(run):
    t = run.fit(before=in_total)
    t.equal("calls by rank", run.ranks(t.count("M.prepare_data")), [1, 0])


def prepares_slowly(self):
    """Leave a file, after a while."""
    time.sleep(0.3)
    with open(os.path.join(self.trainer.default_root_dir, "prepared"), "w"):
        pass


def looks_for_it(self, stage=None):
    """Note whether the file is there."""
    self.note("prepared", os.path.exists(os.path.join(self.trainer.default_root_dir, "prepared")))


@clause("DDP-004", "A process MUST NOT enter setup before prepare_data is done, on whichever "
        "process it runs.", editions="1.5 2.2", needs="fit", source="seed 2.2 prepare_data, setup",
        device="ddp", hooks="M.setup fires")
def ddp_004(run):
    t = run.fit(module={"prepare_data": prepares_slowly, "setup": looks_for_it})
    t.equal("prepared", run.ranks(t.noted("prepared")), [[True], [True]])


def has_group(self):
    """Note whether the processes can speak with each other."""
    self.note("group", torch.distributed.is_initialized())


def without_group(stage, module):
    """End what an earlier run has left."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@clause("DDP-005", "prepare_data MUST be called before the processes are connected.",
        editions="beyond", needs="fit", source="seed 2.2 prepare_data; ruling 1", device="ddp",
        hooks="M.prepare_data state")
def ddp_005(run):
    t = run.fit(before=without_group, module={"prepare_data": has_group})
    t.equal("group", run.ranks(t.noted("group")), [[False], []])


def train_sampler(trainer, module):
    """Return what there is to know of the sampler of the training loader."""
    sampler = trainer.train_dataloader.sampler
    return [sampler.num_replicas, sampler.rank, sampler.shuffle]


@clause("DDP-006", "The training loader MUST get a DistributedSampler that shuffles.",
        editions="2.2",
        needs="fit", source="seed 2.2 train_dataloader: the correct sampler; lightning 2.2.5",
        device="ddp", hooks="M.train_dataloader return")
def ddp_006(run):
    t = run.fit(train_batches=4, use_distributed_sampler=True,
                look={"M.on_train_start": train_sampler})
    t.looked("M.on_train_start", [2, run.rank, True])
    t.count("M.training_step", 2)


def notes_row(self, batch, batch_idx):
    """Note the first number of each row."""
    self.note("rows", [round(row, 3) for row in batch[:, 0].tolist()])
    return self(batch).sum()


@clause("DDP-007", "An evaluation loader MUST get every second row in each of two processes, in "
        "the order of the data.", editions="2.2", needs="validate",
        source="seed 2.2 val_dataloader: the correct sampler; lightning 2.2.5", device="ddp",
        hooks="M.val_dataloader return")
def ddp_007(run):
    t = run.validate(val_batches=4, use_distributed_sampler=True,
                     module={"validation_step": notes_row})
    t.equal("rows", run.ranks(t.noted("rows")), [[[0.1], [0.3]], [[0.2], [0.4]]])


def numbers(count, size=4):
    """Return a loader of rows, row i of which holds i."""
    rows = torch.arange(float(count)).view(count, 1).expand(count, 2)
    return torch.utils.data.DataLoader(rows, batch_size=size)


def twenty_one():
    """Return 21 rows."""
    return [numbers(21)]


def one():
    """Return one row."""
    return [numbers(1)]


def logs_row(self, batch, batch_idx):
    """Note the rows, and log their mean over all processes."""
    self.note("rows", batch[:, 0].tolist())
    self.log("v", batch[:, 0].mean(), sync_dist=True)
    return self(batch)


def notes_prediction(self, batch, batch_idx):
    """Note the rows."""
    self.note("rows", batch[:, 0].tolist())
    return batch[:, 0]


EVALUATED = [("validate", "validation_step"), ("test", "test_step")]


def seen(run, t):
    """Return the rows that all processes have seen."""
    return sorted(row for rows in run.ranks(t.noted("rows")) for batch in rows for row in batch)


@clause("DDP-008", "validate, test and predict MUST see each sample once, however many processes "
        "share it.", editions="beyond", needs="validate test predict", source="design 8.5",
        device="ddp",
        hooks=["M.val_dataloader return", "M.test_dataloader return",
               "M.predict_dataloader return"])
def ddp_008(run):
    for entry, step in EVALUATED:
        t = getattr(run, entry)(loaders=twenty_one, use_distributed_sampler=True,
                                module={step: logs_row})
        t.equal("rows of " + entry, seen(run, t), [float(i) for i in range(21)])
    t = run.predict(loaders=twenty_one, use_distributed_sampler=True,
                    module={"predict_step": notes_prediction})
    t.equal("rows of predict", seen(run, t), [float(i) for i in range(21)])


@clause("DDP-009", "A mean that is logged with sync_dist MUST be that of one process, also where "
        "the processes have different numbers of samples.", editions="beyond",
        needs="validate test", source="design 8.5", device="ddp")
def ddp_009(run):
    for entry, step in EVALUATED:
        t = getattr(run, entry)(loaders=twenty_one, use_distributed_sampler=True,
                                module={step: logs_row})
        t.equal("mean", t.value, [{"v": 10.0}])


@clause("DDP-010", "A process that has no sample MUST go through an evaluation with the others, "
        "and know its results.", editions="beyond", needs="validate", source="design 8.5",
        device="ddp", hooks="CM.on_validation_epoch_end fires")
def ddp_010(run):
    t = run.validate(loaders=one, use_distributed_sampler=True,
                     module={"validation_step": logs_row})
    t.only("C.on_validation_epoch_end M.on_validation_epoch_end")
    t.equal("rows", run.ranks(t.noted("rows")), [[[0.0]], []])
    t.equal("mean", t.value, [{"v": 0.0}])


class Own:
    """A distributed sampler of the user's own, that tells the epochs it hears of."""

    num_replicas = 2

    def __init__(self):
        self.epochs = []

    def __iter__(self):
        return iter([0, 1])

    def __len__(self):
        return 2

    def set_epoch(self, epoch):
        self.epochs.append(epoch)


def own_sampler(stage):
    """Fit two epochs with a distributed sampler of one's own."""
    torch_sampler = torch.utils.data.DistributedSampler
    Sampler = type("Sampler", (Own, torch_sampler), {})
    sampler = Sampler()
    loader = torch.utils.data.DataLoader(torch.ones(4, 2), sampler=sampler)
    module = stage.module(dict(train=1))
    trainer = stage.trainer(max_epochs=2, use_distributed_sampler=True)
    stage.call("fit", trainer.fit, module, loader)
    stage.note("same", trainer.train_dataloader.sampler is sampler)
    stage.note("epochs", sorted(set(sampler.epochs)))


@clause("DDP-011", "A distributed sampler of the user's own MUST be left alone, and hear of each "
        "epoch.", editions="2.2", needs="fit", source="design 5 data; lightning 2.2.5",
        device="ddp", hooks="M.train_dataloader return")
def ddp_011(run):
    t = run.play(own_sampler)
    t.noted("same", True)
    t.noted("epochs", [0, 1])
    t.count("M.training_step", 4)


@clause("DDP-012", "With use_distributed_sampler=False each process MUST get the loader as it is.",
        editions="2.2", needs="fit", source="lightning 2.2.5 use_distributed_sampler", device="ddp",
        hooks="M.train_dataloader return")
def ddp_012(run):
    t = run.fit(train_batches=2, module={"training_step": notes_row})
    t.noted("rows", [0.1], [0.2])


def weighs_rank(self, batch, batch_idx):
    """Return a loss whose gradient is larger on the second process."""
    return self(batch).sum() * (1 + self.trainer.global_rank)


def weights(trainer, module):
    """Return the weights as a list."""
    return [round(each, 5) for each in next(module.parameters()).detach().flatten().tolist()]


def gradient(trainer, module):
    """Return the gradients as a list."""
    return [round(each, 5) for each in next(module.parameters()).grad.flatten().tolist()]


@clause("DDP-013", "Gradients MUST be averaged over the processes before the optimizer steps, so "
        "that weights stay alike.", editions="1.5 2.2", needs="fit",
        source="DistributedDataParallel; traces ddp_fit_2proc", device="ddp",
        hooks="CM.on_before_optimizer_step state")
def ddp_013(run):
    t = run.fit(train_batches=1, val_batches=0, module={"training_step": weighs_rank},
                look={"M.on_before_optimizer_step": gradient, "M.on_train_end": weights})
    (mine,) = t.looked("M.on_before_optimizer_step")
    t.equal("gradient", mine, [0.15, 1.5])
    (after,) = t.looked("M.on_train_end")
    t.equal("weights alike", run.ranks(after), [after, after])


@clause("DDP-014", "Inside an accumulation window gradients MUST NOT be averaged; the last "
        "backward pass of the window averages their sums.", editions="1.5 2.2", needs="fit",
        source="DistributedDataParallel.no_sync; lightning 2.2.5", device="ddp",
        hooks="CM.on_after_backward state")
def ddp_014(run):
    t = run.fit(train_batches=2, val_batches=0, accumulate_grad_batches=2,
                module={"training_step": weighs_rank}, look={"M.on_after_backward": gradient})
    inside, last = t.looked("M.on_after_backward")
    t.equal("inside", run.ranks(inside), [[0.05, 0.5], [0.1, 1.0]])
    t.equal("last", run.ranks(last), [[0.225, 1.5], [0.225, 1.5]])


def second_says(value):
    """Return a hook that answers on the second process only."""
    def answers(self, *args):
        return value if self.trainer.global_rank == 1 else None
    return answers


SKIPS = second_says(-1)


@clause("DDP-015", "When on_train_batch_start returns -1 in one process, all MUST skip the rest of "
        "the epoch.", editions="beyond", needs="fit", source="design 8.6", device="ddp",
        hooks="M.on_train_batch_start return")
def ddp_015(run):
    t = run.fit(module={"on_train_batch_start": SKIPS})
    t.only("M.on_train_batch_start M.on_train_epoch_end", absent="M.training_step")


def no_loss_on_second(self, batch, batch_idx):
    """Skip the first batch, on the second process."""
    skips = batch_idx == 0 and self.trainer.global_rank == 1
    return None if skips else self(batch).sum()


@clause("DDP-016", "When training_step returns None in one process, all MUST leave out the "
        "backward pass of that batch.", editions="beyond", needs="fit", source="design 8.6",
        device="ddp", hooks="M.training_step return")
def ddp_016(run):
    t = run.fit(val_batches=0, module={"training_step": no_loss_on_second})
    t.only("M.training_step M.on_train_batch_end(dict(), Tensor, 0) M.training_step M.backward "
           "M.on_train_batch_end(dict(loss), Tensor, 1)")


def stops_on_second(self, trainer, module, *args):
    """Ask for a stop on the second process."""
    trainer.should_stop = trainer.should_stop or trainer.global_rank == 1


@clause("DDP-017", "When one process sets should_stop, all MUST stop after the same batch.",
        editions="beyond", needs="fit", source="design 8.6", device="ddp",
        hooks="C.on_train_batch_end fires")
def ddp_017(run):
    t = run.fit(train_batches=3, max_epochs=3, c1={"on_train_batch_end": stops_on_second})
    t.equal("batches", run.ranks(t.count("M.training_step")), [1, 1])
    t.count("M.on_validation_epoch_end", 1)


def uneven(stage, stream):
    """Fit with three batches on the first process and two on the second."""
    trainer = stage.trainer()
    rows = torch.ones(3 - trainer.global_rank, 2)
    data = type("Stream", (torch.utils.data.IterableDataset,), {
        "__iter__": lambda self: iter(rows)})() if stream else rows
    module = stage.module(dict(train=1))
    stage.call("fit", trainer.fit, module, torch.utils.data.DataLoader(data, batch_size=1))


@clause("DDP-018", "When the processes have different numbers of training batches, the epoch MUST "
        "end for all where the shortest ends, with a warning.", editions="beyond", needs="fit",
        source="design 8.5", device="ddp", hooks="CM.on_train_epoch_end fires")
def ddp_018(run):
    for stream in (False, True):
        t = run.play(uneven, stream=stream)
        t.equal("batches", run.ranks(t.count("M.training_step")), [2, 2])
        t.only("M.on_train_epoch_end M.on_train_end")
        if not stream:
            t.warned("different numbers")


def logs_rank(self, batch, batch_idx):
    """Log the rank, reduced in four ways."""
    for how in ("mean", "sum", "min", "max"):
        self.log("v_" + how, float(self.trainer.global_rank), on_step=True, on_epoch=True,
                 sync_dist=True, reduce_fx=how)
    return self(batch).sum()


def metrics(trainer, module):
    """Return what was logged."""
    return {name: value.item() for name, value in trainer.callback_metrics.items()
            if name.startswith("v_")}


@clause("DDP-019", "What is logged with sync_dist MUST be reduced over the processes as reduce_fx "
        "says, at a step and over an epoch.", editions="2.2", needs="fit",
        source="lightning 2.2.5 self.log", device="ddp")
def ddp_019(run):
    t = run.fit(train_batches=2, val_batches=0, module={"training_step": logs_rank},
                look={"M.on_train_end": metrics})
    (got,) = t.looked("M.on_train_end")
    t.equal("at a step", [got["v_%s_step" % how] for how in ("mean", "sum", "min", "max")],
            [0.5, 1.0, 0.0, 1.0])
    t.equal("over the epoch", [got["v_%s_epoch" % how] for how in ("mean", "sum", "min", "max")],
            [0.5, 2.0, 0.0, 1.0])


def asks_others(stage):
    """Fit, and let the processes exchange values in on_train_start."""
    def exchange(self):
        rank = self.trainer.global_rank
        strategy = self.trainer.strategy
        stage.note("gathered", self.all_gather(torch.tensor([float(rank)])).flatten().tolist())
        stage.note("broadcast", strategy.broadcast(["from", rank]))
        stage.note("sum", strategy.reduce(torch.tensor(float(rank)), reduce_op="sum").item())
        stage.note("mean", strategy.reduce(torch.tensor(float(rank)), reduce_op="mean").item())
        stage.note("any", strategy.reduce_boolean_decision(rank == 1, all=False))
        stage.note("all", strategy.reduce_boolean_decision(rank == 1, all=True))
        strategy.barrier()

    trainer = stage.trainer()
    stage.call("fit", trainer.fit, stage.module(dict(train=1), on_train_start=exchange))


@clause("DDP-020", "all_gather, broadcast, reduce and reduce_boolean_decision MUST give every "
        "process the same.", editions="2.2", needs="fit", source="lightning 2.2.5 Strategy",
        device="ddp")
def ddp_020(run):
    t = run.play(asks_others)
    t.noted("gathered", [0.0, 1.0])
    t.noted("broadcast", ["from", 0])
    t.noted("sum", 1.0)
    t.noted("mean", 0.5)
    t.noted("any", True)
    t.noted("all", False)


def checkpoints(stage):
    """Fit with a ModelCheckpoint; note what each process knows of it."""
    saver = stage.impl.ModelCheckpoint(dirpath=stage.path("kept"))
    trainer = stage.trainer(saver, enable_checkpointing=True)
    stage.call("fit", trainer.fit, stage.module(dict(train=1)))
    stage.note("best", os.path.basename(saver.best_model_path))


@clause("DDP-021", "A checkpoint MUST be written once, and every process knows the best one's "
                   "path.",
        editions="1.5 2.2", needs="fit model_checkpoint",
        source="traces ddp_model_checkpoint_2proc", device="ddp",
        hooks="CM.on_save_checkpoint fires")
def ddp_021(run):
    t = run.play(checkpoints)
    (best,) = t.noted("best")
    t.equal("best by rank", run.ranks(best), [best, best])
    t.equal("files", os.listdir(t.stage.path("kept")), [best])
    t.count("M.on_save_checkpoint", 1)


def prints(self):
    """Say something."""
    self.print("from the module")


@clause("DDP-022", "self.print MUST print in the first process only.", editions="1.5 2.2",
        needs="fit", source="lightning 2.2.5 LightningModule.print", device="ddp")
def ddp_022(run):
    t = run.fit(module={"on_train_start": prints})
    said = "from the module" in t.stage.output.getvalue()
    t.equal("printed", run.ranks(said), [True, False])


def unwritable(stage):
    """Save below a file instead of a folder."""
    trainer = stage.trainer()
    stage.call("fit", trainer.fit, stage.module(dict(train=1)))
    if trainer.global_rank == 0:
        with open(stage.path("file"), "w"):
            pass
    stage.call("save", trainer.save_checkpoint, os.path.join(stage.path("file"), "some.ckpt"))


@clause("DDP-023", "When a checkpoint cannot be written, every process MUST learn of it.",
        editions="beyond", needs="fit save_checkpoint", source="design 8.3", device="ddp")
def ddp_023(run):
    t = run.play(unwritable, fails=True)
    t.true("save raised", "save" in t.stage.errors)


def no_rows(stage, allowed):
    """Fit with a training loader that is empty on the second process."""
    trainer = stage.trainer(use_distributed_sampler=False)
    module = stage.module(dict(train=1))
    module.allow_zero_length_dataloader_with_multiple_devices = allowed
    rows = torch.ones(1 - trainer.global_rank, 2)
    stage.call("fit", trainer.fit, module, torch.utils.data.DataLoader(rows))


@clause("DDP-024", "A training loader that is empty on one process MUST be refused on all, unless "
        "allow_zero_length_dataloader_with_multiple_devices is set.", editions="beyond",
        needs="fit", source="seed 2.2 allow_zero_length_dataloader_with_multiple_devices",
        device="ddp", hooks="M.train_dataloader return")
def ddp_024(run):
    run.play(no_rows, fails=True, allowed=False).raises(
        "MisconfigurationException", "rank 1", "no training batches")
    run.play(no_rows, allowed=True).count("M.training_step", 0)


def with_buffer(stage, module):
    """Give the module a buffer."""
    module.register_buffer("count", torch.zeros(1))


def counts(self, batch, batch_idx):
    """Note the buffer, and change it on each process in its own way."""
    self.note("count", self.count.item())
    self.count += 1 + self.trainer.global_rank
    return self(batch).sum()


@clause("DDP-025", "At the start of each training step the buffers of all processes MUST be those "
        "of the first.", editions="2.2", needs="fit",
        source="DistributedDataParallel broadcast_buffers; lightning 2.2.5", device="ddp",
        hooks="M.training_step state")
def ddp_025(run):
    t = run.fit(train_batches=3, val_batches=0, before=with_buffer,
                module={"training_step": counts})
    t.noted("count", 0.0, 1.0, 2.0)


@clause("DDP-026", "teardown MUST be called on every process.", editions="1.1 1.5 2.2", needs="fit",
        source="seed 2.2 teardown", device="ddp", hooks="CM.teardown fires")
def ddp_026(run):
    t = run.fit()
    t.only("C.teardown(fit) M.teardown(fit)")
    t.equal("processes with a teardown", run.ranks(t.count("M.teardown")), [1, 1])


def batch_sampler(stage):
    """Fit two epochs with a sampler, inside of a batch sampler, that can be told the epoch."""
    trainer = stage.trainer(max_epochs=2)
    sampler = torch.utils.data.DistributedSampler(range(8), 2, trainer.global_rank, shuffle=False)
    told = []
    sampler.set_epoch = told.append
    batches = torch.utils.data.BatchSampler(sampler, 2, False)
    loader = torch.utils.data.DataLoader(torch.ones(8, 2), batch_sampler=batches)
    stage.call("fit", trainer.fit, stage.module(dict(train=1)), loader)
    stage.note("told", sorted(set(told)))


@clause("DDP-027", "Before each epoch a sampler inside of a batch sampler MUST be told its number.",
        editions="2.2", needs="fit", source="lightning 2.2.5 use_distributed_sampler", device="ddp")
def ddp_027(run):
    run.play(batch_sampler).noted("told", [0, 1])


def apart(self, batch, batch_idx):
    """Log what gets better on the first process and worse on the second."""
    better = -float(self.trainer.current_epoch)
    self.log("v", torch.tensor(-better if self.trainer.global_rank else better), sync_dist=False)


def stopper(stage):
    """Return an EarlyStopping that stops at once."""
    return [stage.impl.EarlyStopping("v", patience=1)]


@clause("DDP-028", "EarlyStopping MUST decide the same on every process, whatever each has logged.",
        editions="1.5 2.2", needs="fit early_stopping", source="design 6", device="ddp")
def ddp_028(run):
    t = run.fit(max_epochs=4, callbacks=stopper, module={"validation_step": apart})
    ends = run.ranks(t.count("M.on_train_epoch_end"))
    t.true("both stop in one epoch", ends[0] and ends[0] == ends[1])


def drawn(stage, module):
    """Give the module other weights on each process; which one this is, the launcher has said."""
    with torch.no_grad():
        module.layer.weight.fill_(1.0 + int(os.environ["RANK"]))


def all_weights(trainer, module):
    """Return the sum of the weights."""
    return module.layer.weight.sum().item()


@clause("DDP-029", "Weights MUST be those of the first process when training begins.",
        editions="1.5 2.2", needs="fit", source="torch DistributedDataParallel", device="ddp",
        hooks="CM.on_train_start state")
def ddp_029(run):
    t = run.fit(val_batches=0, before=drawn, look={"M.on_train_start": all_weights})
    t.looked("M.on_train_start", 2.0)


def gathers(self):
    """Gather with gradients."""
    own = torch.tensor([1.0 + self.trainer.global_rank], requires_grad=True)
    (self.all_gather(own, sync_grads=True) * torch.tensor([[2.0], [3.0]])).sum().backward()
    self.note("gradient", own.grad.item() if own.grad is not None else None)


@clause("DDP-030", "all_gather with sync_grads MUST let gradients flow back.", editions="1.5 2.2",
        needs="fit", source="lightning 2.2.5 all_gather", device="ddp")
def ddp_030(run):
    run.fit(module={"on_train_start": gathers}).noted("gradient", 2.0 * (2.0 + run.rank))


class Chosen:
    """A sampler of the user's own: these rows, in this order."""

    def __init__(self, *rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)


def chosen(stage, rows, entry="fit", in_batches=False):
    """Play an entry point over rows that the user's own sampler chooses, and note those seen."""
    rows, epochs = Chosen(*rows), []
    rows.set_epoch = epochs.append
    how = {"batch_sampler" if in_batches else "sampler": rows}
    data = torch.arange(8.0).view(8, 1).expand(8, 2)
    loader = torch.utils.data.DataLoader(data, **how)
    step = "training_step" if entry == "fit" else EVALUATES[entry]

    def notes_sampled(self, batch, batch_idx):
        stage.note("rows", batch[:, 0].int().tolist())
        return self(batch).sum()

    module = stage.module(dict(train=1), **{step: notes_sampled})
    trainer = stage.trainer(use_distributed_sampler=True, max_epochs=2 if entry == "fit" else 1)
    stage.call(entry, getattr(trainer, entry), module, loader)
    stage.note("epochs", sorted(set(epochs)))


EVALUATES = {"validate": "validation_step", "predict": "predict_step"}


def in_training(stage):
    """Train on four rows, of which one comes twice, for two epochs."""
    chosen(stage, [5, 3, 3, 1])


@clause("DDP-031", "What the user's own sampler of a training loader draws MUST be shared, each "
        "process a half.", editions="2.2", needs="fit",
        source="design 5 data; lightning 2.2.5 use_distributed_sampler", device="ddp",
        hooks="M.train_dataloader return")
def ddp_031(run):
    rows = run.ranks(run.play(in_training).noted("rows"))
    t = run.play(in_training)
    for epoch in (0, 1):
        both = [row for each in rows for batch in each[2 * epoch:2 * epoch + 2] for row in batch]
        t.equal("rows of epoch %d" % epoch, sorted(both), [1, 3, 3, 5])
    t.equal("steps", [len(each) for each in rows], [4, 4])


def in_training_odd(stage):
    """Train on an odd number of rows."""
    chosen(stage, [5, 3, 1])


@clause("DDP-032", "What the user's own sampler draws MUST begin again where the processes would "
        "not take as many training steps otherwise.", editions="2.2", needs="fit",
        source="torch DistributedSampler; lightning 2.2.5 use_distributed_sampler", device="ddp")
def ddp_032(run):
    t = run.play(in_training_odd)
    rows = run.ranks(t.noted("rows"))
    t.equal("steps", [len(each) for each in rows], [4, 4])
    first = [row for each in rows for batch in each[:2] for row in batch]
    t.equal("rows of an epoch", sorted(set(first)), [1, 3, 5])


def in_validation(stage):
    """Validate an odd number of rows."""
    chosen(stage, [5, 3, 1], "validate")


def in_prediction(stage):
    """Predict an odd number of rows."""
    chosen(stage, [5, 3, 1], "predict")


@clause("DDP-033", "An evaluation MUST see what the user's own sampler draws, each of it once.",
        editions="beyond", needs="validate predict", source="design 8.5", device="ddp")
def ddp_033(run):
    for story in (in_validation, in_prediction):
        t = run.play(story)
        t.equal("rows", run.ranks(t.noted("rows")), [[[5], [1]], [[3]]])


def in_batches(stage):
    """Train on three batches of one's own."""
    chosen(stage, [[5, 3], [1], [0, 2]], in_batches=True)


@clause("DDP-034", "The batches of the user's own batch sampler MUST stay whole, and be shared: "
        "each process every second one, as many in each.", editions="beyond", needs="fit",
        source="design 5 data", device="ddp")
def ddp_034(run):
    t = run.play(in_batches)
    t.equal("batches", run.ranks(t.noted("rows")),
            [[[5, 3], [0, 2]] * 2, [[1], [5, 3]] * 2])
    t.noted("epochs", [0, 1])


def gathers_nested(self):
    """Gather numbers and tensors in a nesting."""
    rank = self.trainer.global_rank
    got = self.all_gather({"number": rank, "list": [torch.tensor([float(rank), 7.0])]})
    self.note("number", got["number"].tolist())
    self.note("list", got["list"][0].tolist())


@clause("DDP-035", "all_gather MUST stack the numbers and tensors of all processes, wherever they "
        "stand in a nesting.", editions="2.2", needs="fit",
        source="lightning 2.2.5 LightningModule.all_gather", device="ddp")
def ddp_035(run):
    t = run.fit(module={"on_train_start": gathers_nested})
    t.noted("number", [0, 1])
    t.noted("list", [[0.0, 7.0], [1.0, 7.0]])


def reduces_nested(self):
    """Reduce the tensors in a nesting, whole numbers among them, and as nobody knows how."""
    rank, reduce = self.trainer.global_rank, self.trainer.strategy.reduce
    got = reduce({"a": torch.tensor(1.0 + rank), "b": [torch.tensor([3 * rank])]})
    self.note("mean", [got["a"].item(), got["b"][0].item()])
    self.note("largest", reduce([torch.tensor(rank)], reduce_op="max")[0].item())
    try:
        reduce(torch.tensor(1.0), reduce_op="median")
    except Exception as error:
        self.note("refused", str(error))


@clause("DDP-036", "strategy.reduce MUST reduce each tensor in a nesting, and say which operations "
        "there are.", editions="beyond", needs="fit", source="lightning 2.2.5 Strategy.reduce, "
        "which leaves nestings as they are", device="ddp")
def ddp_036(run):
    t = run.fit(module={"on_train_start": reduces_nested})
    t.noted("mean", [1.5, 1])
    t.noted("largest", 1)
    (refused,) = t.noted("refused")
    for word in ("median", "mean", "sum", "min", "max"):
        t.true("the error has %r" % word, word in refused)


def logs_first(self, batch, batch_idx):
    """Log on the first process only."""
    self.log("v_first", 3.0, rank_zero_only=True)
    return self(batch).sum()


@clause("DDP-037", "With rank_zero_only a value MUST be kept in the first process only.",
        editions="beyond", needs="fit", source="lightning 2.2.5 self.log: logged only on rank 0; "
        "it is kept on both", device="ddp")
def ddp_037(run):
    t = run.fit(val_batches=0, module={"training_step": logs_first},
                look={"M.on_train_end": metrics})
    t.equal("metrics", run.ranks(t.looked("M.on_train_end")), [[{"v_first": 3.0}], [{}]])


def spread(values):
    """Return how far the values lie apart."""
    return values.max() - values.min()


def logs_spread(self, batch, batch_idx):
    """Log a value with a function."""
    self.log("v_spread", torch.tensor(10.0 * self.trainer.global_rank + batch_idx),
             on_step=False, on_epoch=True, reduce_fx=spread, sync_dist=True)
    return self(batch).sum()


@clause("DDP-038", "A function that is given as reduce_fx MUST get the epoch's values of all "
        "processes.", editions="beyond", needs="fit", source="lightning 2.2.5 self.log: reduce_fx "
        "reduces over the epoch, sync_dist over the processes", device="ddp")
def ddp_038(run):
    t = run.fit(train_batches=3, val_batches=0, module={"training_step": logs_spread},
                look={"M.on_train_end": metrics})
    t.looked("M.on_train_end", {"v_spread": 12.0})


def shown(stage):
    """Return a progress bar."""
    return [stage.impl.TQDMProgressBar()]


def bar_is_on(trainer, module):
    """Return whether the bar is shown."""
    return trainer.progress_bar_callback.is_enabled


@clause("DDP-039", "A progress bar MUST be shown by the first process only.", editions="1.5 2.2",
        needs="fit tqdm_bar", source="lightning 2.2.5 ProgressBar.setup", device="ddp")
def ddp_039(run):
    t = run.fit(callbacks=shown, enable_progress_bar=True, look={"M.on_train_start": bar_is_on})
    t.equal("shown", run.ranks(t.looked("M.on_train_start")), [[True], [False]])


def logs_to_file(stage):
    """Fit with a CSVLogger, log by hand and by the module."""
    folder = stage.path("logs")
    logger = stage.impl.CSVLogger(folder, name="n")
    trainer = stage.trainer(logger=logger, log_every_n_steps=1)

    def by_hand(self):
        self.logger.log_hyperparams({"width": 1})
        self.logger.log_metrics({"by_hand": 1.0 + self.trainer.global_rank}, 0)

    module = stage.module(dict(train=1), on_train_start=by_hand)
    stage.call("fit", trainer.fit, module)
    stage.note("version", logger.version)
    stage.note("folder", os.path.basename(logger.log_dir))


@clause("DDP-040", "Every process MUST know which version a logger writes, and the first one alone "
        "writes it.", editions="2.2", needs="fit csv_logger",
        source="lightning 2.2.5 CSVLogger", device="ddp")
def ddp_040(run):
    t = run.play(logs_to_file)
    t.noted("version", 0)
    t.noted("folder", "version_0")
    folder = os.path.join(t.stage.path("logs"), "n")
    t.equal("folders", os.listdir(folder), ["version_0"])
    with open(os.path.join(folder, "version_0", "metrics.csv")) as file:
        rows = [line for line in file.read().splitlines() if "1.0" in line or "2.0" in line]
    t.equal("rows by hand", len(rows), 1)
    t.true("it is the first process's", "1.0" in rows[0])


ONCE = ("prepare_data", "state_dict")  # by one process; by those that write


@clause("DDP-041", "Every process MUST have the same events in the same order, but for "
        "prepare_data.", editions="1.5 2.2", needs="fit",
        source="traces ddp_fit_2proc, ddp_fit_2proc_two_epochs_shuffle", device="ddp",
        hooks=["CM.on_train_batch_end fires", "CM.on_validation_batch_end fires"])
def ddp_041(run):
    t = run.fit(train_batches=3, max_epochs=2, sanity=1)
    events = [each.who + "." + each.hook for each in t.events if each.hook not in ONCE]
    first, second = run.ranks(events)
    t.equal("the other's events", second, first)
    t.true("both have trained", "M.on_train_batch_end" in first)


def trains_twice(stage, strategy):
    """Validate, train, save, go on from the file and validate, and note what can be compared."""
    from ..fsdp_ranks import played

    shares = played(stage.impl.package, stage.path(""), strategy, "cpu", 2)
    for name, value in shares.items():
        stage.note(name, value)


@clause("DDP-045", "With strategy='fsdp' each process MUST hold its share of the parameters, and "
        "train, evaluate, save and go on with the numbers of strategy='ddp'.", editions="beyond",
        needs="fit fully_shard", device="ddp",
        source="seed 2.2 configure_model: sharded strategies; torch fully_shard")
def ddp_045(run):
    from ..fsdp_ranks import difference

    ddp, fsdp = [run.play(trains_twice, strategy=name) for name in ("ddp", "fsdp")]
    whole = ddp.noted("held")[0]
    shares = [held for held, in run.ranks(fsdp.noted("held"))]
    fsdp.equal("parameters that the processes hold", [sum(shares), max(shares) < whole],
               [whole, True])
    for name in ("seen", "steps"):
        fsdp.equal(name, fsdp.noted(name), ddp.noted(name))
    for name in ("before", "after"):
        fsdp.true("%s as with ddp" % name, abs(fsdp.noted(name)[0] - ddp.noted(name)[0]) < 1e-5)
    for file in ("", "_end"):
        saved = [torch.load(each.stage.path(name + file + ".ckpt"), weights_only=True)
                 for each, name in ((ddp, "ddp"), (fsdp, "fsdp"))]
        fsdp.true("weights and states of optimizers are those of ddp", difference(
            *[[each["state_dict"], each["optimizer_states"]] for each in saved]) < 1e-5)


def prints_by_trainer(self):
    """Say something by the trainer."""
    self.trainer.print("by", "the trainer", sep=": ")


@clause("DDP-046", "trainer.print MUST print in the first process of a node only.",
        editions="2.2", needs="fit on_exception", source="lightning 2.2.5 Trainer.print",
        device="ddp")
def ddp_046(run):
    t = run.fit(module={"on_train_start": prints_by_trainer})
    said = [line for line in t.stage.output.getvalue().splitlines() if line.startswith("by")]
    t.equal("printed", run.ranks(said), [["by: the trainer"], []])


def streams():
    """Return a loader of a stream of four rows, and a stream of two batches that has no loader."""
    class Given(torch.utils.data.IterableDataset):
        def __init__(self, *shape):
            self.rows = torch.arange(4.0).view(*shape, 1).expand(*shape, 2)

        def __iter__(self):
            return iter(self.rows)

    return {"stream": torch.utils.data.DataLoader(Given(4), 2), "other": Given(2, 2)}


def notes_both(self, batch, batch_idx):
    """Note the rows of both."""
    self.note("rows", [batch[name][:, 0].tolist() for name in ("stream", "other")])
    return self(batch["stream"]).sum()


@clause("DDP-047", "A stream, and a loader that is no DataLoader, MUST be left as they are: every "
        "process gets all that it has.", editions="2.2", needs="fit",
        source="lightning 2.2.5 Trainer(use_distributed_sampler=...)", device="ddp")
def ddp_047(run):
    t = run.fit(val_batches=0, without=["train_dataloader"], loaders=lambda: [streams()],
                use_distributed_sampler=True, module={"training_step": notes_both})
    t.equal("rows", t.noted("rows"), [[[0.0, 1.0]] * 2, [[2.0, 3.0]] * 2])


def looks_early(self, trainer, module):
    """Note whether the file is there."""
    looks_for_it(module)


@clause("DDP-060", "on_before_accelerator_backend_setup MUST find the data prepared, on whichever "
        "process that was done.", editions="beyond", needs="fit older_hooks",
        source="design 4: after prepare_data", device="ddp",
        hooks="C.on_before_accelerator_backend_setup state")
def ddp_060(run):
    t = run.fit(older=True, module={"prepare_data": prepares_slowly},
                c1={"on_before_accelerator_backend_setup": looks_early})
    t.equal("prepared", run.ranks(t.noted("prepared")), [[True], [True]])


@clause("DDP-061", "When one process sets should_stop behind a validation or at the end of an "
        "epoch, all MUST stop there.", editions="beyond", needs="fit", source="design 8.6",
        device="ddp", hooks=["C.on_validation_end fires", "C.on_train_epoch_end fires"])
def ddp_061(run):
    for hook, batches in (("on_validation_end", 1), ("on_train_epoch_end", 2)):
        t = run.fit(train_batches=2, max_epochs=3, val_check_interval=1, c1={
            hook: stops_on_second})
        t.equal("batches", run.ranks(t.count("M.training_step")), [batches] * 2)


@clause("DDP-062", "What an evaluation logs with sync_dist MUST be reduced over the processes, "
        "once, as reduce_fx says.", editions="2.2", needs="validate",
        source="lightning 2.2.5 self.log", device="ddp")
def ddp_062(run):
    got = run.validate(module={"validation_step": logs_rank}).value[0]
    run.validate(module={"validation_step": logs_rank}).equal(
        "over the epoch", [got["v_%s_epoch" % how] for how in ("mean", "sum", "min", "max")],
        [0.5, 2.0, 0.0, 1.0])


def has_group_yet(self, trainer, module):
    """Note whether the processes can speak with each other."""
    has_group(module)


@clause("DDP-063", "on_before_accelerator_backend_setup MUST be called before the processes are "
        "connected.", editions="beyond", needs="fit older_hooks",
        source="design 4: before the accelerator is set up", device="ddp",
        hooks="C.on_before_accelerator_backend_setup state")
def ddp_063(run):
    t = run.fit(older=True, before=without_group,
                c1={"on_before_accelerator_backend_setup": has_group_yet})
    t.equal("group", run.ranks(t.noted("group")), [[False], [False]])


def versions_of_their_own(stage):
    """Fit with loggers that would write different versions."""
    without_group(stage, None)
    rank = int(os.environ["RANK"])
    logger = stage.impl.CSVLogger(stage.path("logs"), name="n", version=3 + rank)
    stage.call("fit", stage.trainer(logger=logger).fit, stage.module(
        dict(train=1), setup=lambda self, name: stage.note("version", logger.version)))
    stage.note("version", logger.version)


@clause("DDP-064", "Where the processes would choose versions of their own, all loggers MUST write "
        "the first one's, from setup on.", editions="beyond", needs="fit csv_logger",
        source="design 8.6", device="ddp")
def ddp_064(run):
    run.play(versions_of_their_own).noted("version", 3, 3)


def fails_on_first(self):
    """Fail where data is prepared."""
    time.sleep(0.3)
    raise ValueError("no data")


@clause("DDP-065", "When prepare_data fails in one process, no other MUST wait for it, and the "
        "error says where it was.", editions="beyond", needs="fit on_exception older_hooks",
        source="design 8.6: a rank that fails ends the job at once", device="ddp",
        hooks="C.on_exception fires")
def ddp_065(run):
    t = run.fit(before=without_group, module={"prepare_data": fails_on_first}, fails=True)
    t.only("C.on_exception", absent="CM.setup")
    if run.rank == 0:
        error = t.raises("ValueError", "no data")
        if hasattr(error, "add_note"):  # Python 3.11 and later
            notes = [note for note in getattr(error, "__notes__", ()) if "rank 0" in note]
            t.equal("notes that say the rank", len(notes), 1)
    else:
        t.raises("RuntimeError", "no data")


def sigterm_on_second(self, trainer, *args):
    """Be told to end by SIGTERM, at the second call on the second process."""
    if trainer.global_rank == 1:
        sigterm(self)


@clause("DDP-066", "When one process is told SIGTERM, all MUST end behind the same batch.",
        editions="beyond", needs="fit on_exception older_hooks", source="design 8.6", device="ddp",
        hooks="C.on_exception fires")
def ddp_066(run):
    t = run.fit(train_batches=4, fails=True, c1={"on_train_batch_start": sigterm_on_second})
    t.raises("SystemExit")
    t.equal("batches", run.ranks(t.count("M.training_step")), [2, 2])


def with_scale(stage, module):
    """Give the module a parameter that is in none of its layers."""
    module.scale = torch.nn.Parameter(torch.ones(4, 2))


def uses_scale(self, batch, batch_idx):
    """Use it before any layer is called."""
    self.note("scale", list((batch * self.scale).shape))
    return self(batch * self.scale).sum()


@clause("DDP-067", "With strategy='fsdp' a step MUST find the module's own parameters whole, "
        "whatever it calls first.", editions="beyond", needs="fit fully_shard", device="ddp",
        source="seed 2.2 configure_model: sharded strategies; torch fully_shard")
def ddp_067(run):
    t = run.fit(strategy="fsdp", train_batches=1, val_batches=0, before=with_scale,
                module={"training_step": uses_scale})
    t.noted("scale", [4, 2])
