"""The executable specification: what a run of edition 2.2 calls, without running one.

``events(configuration)`` returns every event of a run; the language of configurations is in
``configurations.py``. Read ``Run.fit`` first, and go on downwards: each function is named after
what happens, and yields what is called, in the order of the calls.

    C.on_train_start          the callbacks c1 and c2;  M: the module;  D: the data module, if any
    DCM.setup(fit)            the data module, then the callbacks, then the module, with "fit"
    H.val_dataloader          who has the data hooks: the data module, or else the module
    O.step  S.step            the optimizer, the learning rate scheduler
    { ... }                   what happens inside the call before it
    Tensor, dict(loss), ...   an argument, told by its kind; defaults are left out

The state of the trainer is kept in plain attributes, and a call is noted as an event with the
state of that moment; one that fails raises ``Raised``. The hooks that only editions 1.1 and 1.5
have (``OLDER``) stand where they are laid over edition 2.2, and are left out unless asked for.
"""

import re
from collections import namedtuple

Event = namedtuple("Event", "who hook args depth step epoch mode grad stage parts")
OLDER = set("""
on_init_start on_init_end on_before_accelerator_backend_setup on_configure_sharded_model
on_pretrain_routine_start on_pretrain_routine_end on_epoch_start on_epoch_end on_batch_start
on_batch_end on_keyboard_interrupt
""".split())

STAGES = dict(fit="training", validate="validating", test="testing", predict="predicting")
KINDS = dict(validate="validation", test="test", predict="predict")  # as in on_validation_start
LOADERS = dict(validation="val", test="test", predict="predict")
PARTS = ("module", "drop", "layer")
SAVE = "M.state_dict C.state_dict D.state_dict CM.on_save_checkpoint(checkpoint)"
CALL = re.compile(r"([{}])|\b([A-Z]+|c\d)\.(\w+)(?:\(((?:[^()]|\([^()]*\))*)\))?")


class Raised(Exception):
    """An error inside the run, told by its name."""


def events(configuration, older=False):
    """Return the events of a configuration; ``older``: with the hooks of editions 1.1 and 1.5."""
    run = Run(configuration, older)
    if configuration.resume is not None:
        run.first_of_two()
    run.make_trainer()
    for entry in configuration.entry.split():
        run.call(entry)
    return run.noted


def limited(batches, limit):
    """Return how many batches of a loader are used: an int counts them, a float is a share."""
    used = min(batches, limit) if isinstance(limit, int) else int(batches * limit)
    if not used and batches and limit:
        raise Raised("MisconfigurationException")
    return used


class Run:
    """One run: its configuration, the state of trainer and module, and the events so far."""

    def __init__(self, configuration, older):
        self.config, self.older = configuration, older
        self.noted = []
        self.checkpoint = self.saves_at = None
        self.rest = ""  # the hook that a resumed run has to bring to its end

    # The calls that a user makes.

    def make_trainer(self):
        """``Trainer(...)``, beside a module that has not been trained."""
        self.stage, self.grad, self.depth = "no_stage", "G", 0
        self.mode = {part: "E" if part in self.config.in_eval.split() else "T" for part in PARTS}
        self.epochs = 0  # finished ones: moves on before on_train_epoch_end, self.epoch after it
        self.batches = self.all_batches = 0  # trained, in this epoch and in all
        self.validated = self.metric_is_there = self.should_stop = False
        self.step = self.epoch = None  # global_step, current_epoch
        self.note("C.on_init_start(trainer) C.on_init_end(trainer)")
        self.step = self.epoch = 0

    def call(self, entry):
        """``trainer.fit(...)`` and the others: returns, or raises what was raised inside."""
        self.asked_in, self.counts = {}, {}  # of a kind of loaders: epoch, batches of each
        self.calls_to_failing = 0
        self.stage = STAGES[entry]
        try:
            for text in self.fit() if entry == "fit" else self.evaluate(entry):
                self.note(text)
        except Raised as raised:
            self.fail(str(raised))
        else:
            self.stage = "no_stage"
            self.note_one("trainer", "returns")

    def fail(self, error):
        """What follows an error. An interrupt ends the run, and the entry point returns."""
        self.depth, self.grad = 0, "G"  # modes stay as they are
        if error == "KeyboardInterrupt":
            self.note("C.on_keyboard_interrupt CD.on_exception(KeyboardInterrupt)")
            self.note_one("trainer", "returns")
        else:
            self.note("CD.on_exception(%s)" % error)
            self.stage = "no_stage"
            self.note_one("trainer", "raises", error)

    def first_of_two(self):
        """Another trainer, which trains for one epoch and saves the checkpoint on its way."""
        config = self.config
        self.config = config._replace(max_epochs=1, max_steps=-1, stop_at=None, skip_at=None,
                                      none_at=None, raises=None, resume=None)
        self.saves_at = config.resume
        self.make_trainer()
        self.call("fit")
        if self.saves_at == "fit" and self.noted[-1].hook == "returns":
            self.save(SAVE)
        self.config, self.saves_at = config, None

    # What every run begins with.

    def set_up(self, entry):
        yield "M.configure_callbacks"
        yield "DM.prepare_data"
        yield "C.on_before_accelerator_backend_setup DCM.setup(%s)" % entry
        yield "C.on_configure_sharded_model M.configure_model"
        if self.config.resume is not None:
            if not self.checkpoint:
                raise Raised("FileNotFoundError")
            yield "M.on_load_checkpoint(checkpoint)"
            yield "M.load_state_dict(dict(layer.bias,layer.weight))"
            yield "C.on_load_checkpoint(checkpoint)"
        yield "M.to(cpu)"

    # Training.

    def fit(self):
        yield from self.set_up("fit")
        yield "M.configure_optimizers"
        yield "CM.on_fit_start"
        self.__dict__.update(self.checkpoint or {})  # counters go on from here
        yield "C.on_pretrain_routine_start C.on_pretrain_routine_end"
        yield "M.zero_grad"
        yield from self.sanity_check()
        yield from self.training()
        yield "CM.on_fit_end"
        yield "DCM.teardown(fit)"

    def sanity_check(self):
        inside_epoch = self.batches > 0
        if not self.validates() or not self.config.num_sanity_val_steps or inside_epoch:
            return
        self.stage = "sanity_checking"
        yield "C.on_sanity_check_start"
        self.grad = "g"
        yield from self.evaluation("validation")
        self.grad = "G"
        yield "C.on_sanity_check_end"
        self.stage = "training"

    def training(self):
        if self.config.limit_train_batches == 0:
            return
        yield from self.ask_for_train_batches()
        self.epoch = self.epochs
        if self.is_done() and not self.rest:
            return
        if self.epoch_validates() and "val" not in self.asked_in:
            self.stage = "validating"
            yield from self.ask_for("val")
            self.stage = "training"
        yield "CM.on_train_start"
        if self.rest in ("on_train_epoch_end", "on_epoch_end"):
            yield from self.rest_of_an_epoch()
        while self.batches or not self.is_done():
            yield from self.train_epoch()
        yield "CM.on_train_end"

    def train_epoch(self):
        if self.batches == 0:
            yield from self.ask_for_train_batches()  # again, if it is due
            yield "C.on_epoch_start CM.on_train_epoch_start"
        else:  # resumed inside this epoch
            yield from self.rest_of_a_batch()
        is_over = self.batches and (self.steps_are_done() or self.stops())
        for i in range(self.batches, 0 if is_over else self.train_batches):
            self.all_batches += 1
            self.validated = False
            yield from self.transfer(self.batch, 0)
            yield "C.on_batch_start CM.on_train_batch_start(%s, %d)" % (self.batch, i)
            if self.config.skip_at == (self.epoch, i):  # no batch end, no validation, no more
                yield from self.schedulers_step("epoch")
                break
            yield from self.train_batch(i)
            yield from self.what_follows_a_batch()
            if self.steps_are_done() or self.stops():
                break
        complete = self.batches == self.train_batches
        self.epochs, self.batches = self.epochs + 1, 0
        yield "CM.on_train_epoch_end C.on_epoch_end"
        if complete:
            yield from self.schedulers_step("epoch", plateau=True)
        self.epoch = self.epochs

    # A run that goes on from a checkpoint: c2 has saved it, the module was not called yet.

    def rest_of_an_epoch(self):
        self.epoch = self.epochs - 1
        yield "M.on_train_epoch_end" if self.rest == "on_train_epoch_end" else ""
        yield "C.on_epoch_end"
        yield from self.schedulers_step("epoch", plateau=True)
        self.epoch = self.epochs

    def rest_of_a_batch(self):
        if self.rest == "on_train_batch_end":
            outputs = "dict(loss)" if self.config.automatic else "dict()"
            yield "M.on_train_batch_end(%s, %s, %d)" % (outputs, self.batch, self.batches - 1)
            yield "C.on_batch_end"
        elif self.rest == "on_validation_end":
            self.stage, self.grad = "validating", "g"
            before, self.mode = self.mode, dict.fromkeys(PARTS, "E")
            yield "M.on_validation_end"
            yield from self.leave_eval_mode("validation", before)
            self.stage, self.grad = "training", "G"
        yield from self.what_follows_a_batch()

    # A batch.

    def train_batch(self, i):
        returns_none = self.config.none_at == (self.epoch, i)
        optimize = self.optimize if self.config.automatic else self.optimize_manually
        yield from optimize(i, returns_none)
        self.batches = i + 1
        yield from self.schedulers_step("step")
        if self.batches == self.train_batches:
            yield from self.schedulers_step("epoch")
        outputs = "dict(loss)" if self.config.automatic and not returns_none else "dict()"
        yield "CM.on_train_batch_end(%s, %s, %d)" % (outputs, self.batch, i)
        yield "C.on_batch_end"

    def optimize(self, i, returns_none):
        if self.accumulates(i):
            yield from self.closure(i, returns_none)
            return
        clip = self.config.gradient_clip_val
        clip = "" if clip is None else ", %s" % clip
        yield "M.optimizer_step(%d, %d, wrapped(O), closure) { O.step(closure) {" % (self.epoch, i)
        yield from self.closure(i, returns_none)
        yield "CM.on_before_optimizer_step(O)"
        yield "M.configure_gradient_clipping(O%s) { M.clip_gradients(O%s) }" % (clip, clip)
        yield "} }"
        self.step += 1

    def closure(self, i, returns_none):
        forward = "" if returns_none else "{ M.forward(Tensor) }"
        yield "M.training_step(%s, %d) %s" % (self.batch, i, forward)
        if i % self.config.accumulate_grad_batches == 0:  # the first of a window
            yield "CM.on_before_zero_grad(O)"
            yield "M.optimizer_zero_grad(%d, %d, O) { O.zero_grad }" % (self.epoch, i)
        if not returns_none:
            yield "CM.on_before_backward(Tensor) M.backward(Tensor) CM.on_after_backward"

    def optimize_manually(self, i, returns_none):
        yield "M.training_step(%s, %d) {" % (self.batch, i)
        if not returns_none:
            yield "O.zero_grad M.forward(Tensor)"
            yield "CM.on_before_backward(Tensor) M.backward(Tensor) CM.on_after_backward"
            yield "O.step(closure) { CM.on_before_optimizer_step(O) }"
            self.step += 1
        yield "}"

    def what_follows_a_batch(self):
        if not self.validated and self.validation_is_due():
            yield from self.validation()
        yield from self.schedulers_step("step", plateau=True)

    def schedulers_step(self, interval, plateau=False):
        config = self.config
        if not config.scheduler or not config.automatic or config.plateau != plateau:
            return
        wanted, frequency = config.scheduler
        count = self.batches if interval == "step" else self.epoch + 1
        accumulates = interval == "step" and self.accumulates(self.batches - 1)
        if interval != wanted or count % frequency != 0 or accumulates:
            return
        if plateau and not self.metric_is_there:
            raise Raised("MisconfigurationException")
        yield "M.lr_scheduler_step(S, %s)" % ("Tensor" if plateau else "None")
        yield "{ S.step%s }" % ("(Tensor)" if plateau else "")

    # When training goes on, stops, and is validated.

    def accumulates(self, i):
        is_last = i + 1 == self.train_batches  # the last window may be shorter
        return (i + 1) % self.config.accumulate_grad_batches != 0 and not is_last

    def is_done(self):
        epochs_are_done = self.epochs >= self.config.max_epochs != -1
        return not self.train_batches or self.steps_are_done() or epochs_are_done or self.stops()

    def steps_are_done(self):
        return self.step >= self.config.max_steps != -1

    def stops(self):
        enough_epochs = self.epochs >= (self.config.min_epochs or 0)
        enough_steps = self.step >= (self.config.min_steps or 0)
        return self.should_stop and enough_epochs and enough_steps

    def validates(self):
        return self.config.val is not None and self.config.limit_val_batches != 0

    def epoch_validates(self):
        every = self.config.check_val_every_n_epoch
        return self.validates() and (every is None or (self.epoch + 1) % every == 0)

    def validation_is_due(self):
        if not self.epoch_validates():
            return False
        if self.stops():
            return True
        over_epochs = self.config.check_val_every_n_epoch is None
        return (self.all_batches if over_epochs else self.batches) % self.val_check_batch == 0

    # Validation, test, predict.

    def validation(self):
        """The one inside a training epoch."""
        self.validated = True
        self.stage = "validating"
        if not self.accumulates(self.batches - 1):  # gradients of a window are still needed
            yield "M.on_validation_model_zero_grad { M.zero_grad }"
        self.grad = "g"
        yield from self.evaluation("validation")
        self.stage, self.grad = "training", "G"

    def evaluate(self, entry):
        """``validate``, ``test`` and ``predict``."""
        yield from self.set_up(entry)
        yield "M.zero_grad"
        self.grad = "i" if self.config.inference_mode else "g"
        yield from self.evaluation(KINDS[entry])
        self.grad = "G"
        yield "DCM.teardown(%s)" % entry

    def evaluation(self, kind):
        counts = yield from self.ask_for_evaluation_batches(LOADERS[kind])
        if not any(counts):
            return
        yield "M.on_%s_model_eval { M.eval { M.train(False) } }" % kind
        before, self.mode = self.mode, dict.fromkeys(PARTS, "E")
        yield "CM.on_%s_start" % kind
        if kind != "predict":
            yield "C.on_epoch_start"
        yield "CM.on_%s_epoch_start" % kind
        for dataloader_idx, count in enumerate(counts):
            for i in range(count):
                yield from self.evaluation_batch(kind, i, dataloader_idx)
        if self.stage == "validating":  # with several loaders the names of metrics say which
            self.metric_is_there |= len(counts) == 1
        yield "CM.on_%s_epoch_end" % kind
        if kind != "predict":
            yield "C.on_epoch_end"
        yield "CM.on_%s_end" % kind
        yield from self.leave_eval_mode(kind, before)

    def evaluation_batch(self, kind, i, dataloader_idx):
        place = "%d, %d" % (i, dataloader_idx) if dataloader_idx else i
        yield from self.transfer("Tensor", dataloader_idx)
        yield "CM.on_%s_batch_start(Tensor, %s)" % (kind, place)
        yield "M.%s_step(Tensor, %s) { M.forward(Tensor) }" % (kind, place)
        yield "CM.on_%s_batch_end(Tensor, Tensor, %s)" % (kind, place)

    def leave_eval_mode(self, kind, before):
        """Each part as it was before, unless the module takes care of it by itself."""
        overridden = "" if kind == "predict" else self.config.model_train
        if overridden == "super":
            yield "M.on_%s_model_train { M.train }" % kind
            self.mode = dict.fromkeys(PARTS, "T")
        elif overridden:
            yield "M.on_%s_model_train" % kind
        else:
            self.mode = before

    # Data.

    def transfer(self, batch, dataloader_idx):
        yield "H.on_before_batch_transfer(%s, %d)" % (batch, dataloader_idx)
        yield "H.transfer_batch_to_device(%s, cpu, %d)" % (batch, dataloader_idx)
        yield "H.on_after_batch_transfer(%s, %d)" % (batch, dataloader_idx)

    def ask_for(self, kind):
        """Ask for loaders and count their batches, unless they are there and need no reload."""
        every = self.config.reload_dataloaders_every_n_epochs
        epoch = self.asked_in.get(kind)
        if epoch is not None and not (every and self.epoch - epoch >= every):
            return
        self.asked_in[kind] = self.epoch
        if self.stage == "sanity_checking" and not self.epoch_validates():
            self.asked_in[kind] = float("-inf")  # those of a sanity check alone are not kept
        if self.config.data != "arguments":
            yield "H.%s_dataloader" % kind
        lengths = getattr(self.config, kind)
        lengths = [lengths] if isinstance(lengths, int) else lengths
        limit = getattr(self.config, "limit_%s_batches" % kind)
        self.counts[kind] = [limited(length, limit) for length in lengths]

    def ask_for_train_batches(self):
        config = self.config
        yield from self.ask_for("train")
        self.batch = "Tensor" if isinstance(config.train, int) else "dict(a,b)"
        self.train_batches = max(self.counts["train"])
        interval = config.val_check_interval
        if isinstance(interval, float):
            interval = max(1, int(interval * self.train_batches))
        elif interval > self.train_batches > 0 and config.check_val_every_n_epoch is not None:
            raise Raised("ValueError")
        self.val_check_batch = interval

    def ask_for_evaluation_batches(self, kind):
        if getattr(self.config, "limit_%s_batches" % kind) == 0:
            return []
        yield from self.ask_for(kind)
        steps = self.config.num_sanity_val_steps
        if self.stage == "sanity_checking" and steps != -1:
            return [min(count, steps) for count in self.counts[kind]]
        return self.counts[kind]

    # Noting events, and what hooks do besides being called.

    def note(self, text):
        """Note the calls of a text as events, with the state as it is now."""
        has_data = "D" if self.config.data == "datamodule" else ""
        for brace, who, hook, arguments in CALL.findall(text):
            if brace:
                self.depth += 1 if brace == "{" else -1
            elif self.older or hook not in OLDER:
                who = who.replace("D", has_data).replace("H", has_data or "M")
                for each in re.findall(r"c\d|[A-Z]", who.replace("C", "c1c2")):
                    self.note_one(each, hook, arguments)
                    self.act(each, hook)

    def note_one(self, who, hook, arguments=""):
        parts = " ".join("%s=%s" % (part, self.mode[part]) for part in PARTS[1:])
        self.noted.append(Event(who, hook, arguments, self.depth, self.step, self.epoch,
                                self.mode["module"], self.grad, self.stage, parts))

    def act(self, who, hook):
        """Do what the configuration says that this hook does: fail, stop the training, save."""
        error, *failing, nth = self.config.raises or [None, None, None, None]
        if failing == [who, hook]:
            self.calls_to_failing += 1
            if self.calls_to_failing == nth:
                raise Raised(error)
        moments = dict(on_train_batch_end=self.batches - 1, on_train_epoch_end="epoch")
        if self.stage == "validating":
            moments["on_validation_end"] = "validation"
        if (who, hook) == ("c1", "on_train_batch_end"):
            self.should_stop |= self.config.stop_at == (self.epoch, self.batches - 1)
        elif who == "c2" and hook in moments and moments[hook] == self.saves_at:
            self.save("{ %s }" % SAVE, hook)
        elif (who, hook, self.saves_at) == ("M", "on_train_epoch_end", "file"):
            self.save(SAVE, "on_epoch_end")  # by a ModelCheckpoint, behind all others

    def save(self, calls, hook=""):
        """``trainer.save_checkpoint(...)``: what another run goes on from, and in which hook."""
        self.saves_at = None  # once is enough
        self.note(calls)
        kept = "step epoch epochs batches all_batches validated metric_is_there".split()
        self.checkpoint = dict({name: getattr(self, name) for name in kept}, rest=hook)
