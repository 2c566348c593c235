"""The ``run`` that a clause is given: it plays configurations, each once per implementation."""

import contextlib
import io
import logging
import tempfile
import warnings

import torch

from . import adapter, facts, launch, scenarios, subjects
from .observed import Mismatch, Observed

STEPS = dict(train="training_step", val="validation_step", test="test_step", predict="predict_step")


# The flags that a device takes; the trainer of a scenario is for one process on the CPU. Each of
# two processes gets the whole data, so that each is to do what one alone does.
DEVICES = {
    "cpu": {},
    "ddp": dict(devices=2, strategy="ddp", use_distributed_sampler=False),
    "cuda": dict(accelerator="gpu"),
}


class Stage(scenarios.Run):
    """Where one run plays: as a scenario's Run, and it keeps what clauses ask for."""

    def __init__(self, impl, folder, device="cpu", rank=0):
        super().__init__(impl, folder)
        self.device, self.rank = device, rank
        self.values, self.errors, self.notes, self.looks = {}, {}, {}, {}
        self.warnings, self.output, self.broken = [], io.StringIO(), None

    def call(self, name, function, *args, **kwargs):
        """Call an entry point; keep what it returned or raised."""
        def kept(*args, **kwargs):
            try:
                self.values[name] = function(*args, **kwargs)
            except BaseException as error:
                self.errors[name] = error
                raise
            return self.values[name]

        return super().call(name, kept, *args, **kwargs)

    def trainer(self, *callbacks, **flags):
        """Make a trainer for the device."""
        return super().trainer(*callbacks, **dict(DEVICES[self.device], **flags))

    def note(self, name, value):
        """Keep a value that a hook has seen."""
        self.notes.setdefault(name, []).append(value)

    def look(self, at):
        """Keep what each function of ``at``, {"M.hook": function(trainer, module)}, returns."""
        at = {word: (what, function) for what, function in at.items()
              for word in facts.spread(what)}

        def entered(who, hook):
            if who + "." + hook in at:
                what, function = at[who + "." + hook]
                seen = function(self.recorder.trainer, self.recorder.module)
                self.looks.setdefault(what, []).append(seen)

        self.recorder.entered = entered

    def Datamodule(self, **does):
        """Make the recorded data module."""
        batches = does.pop("batches", dict.fromkeys(STEPS, 2))
        made = subjects.datamodule_class(self.impl, self.recorder)(batches, **does)
        made.note = self.note
        return made


class NoDevice(Exception):
    """The device asked for is not there, or not for this implementation."""


def check(clause, impl, device):
    """Check a clause on a device; raises Mismatch, or NoDevice with a reason."""
    if device == "ddp":
        launch.check(clause, impl)
        return
    if device == "cuda" and not torch.cuda.is_available():
        raise NoDevice("there is no CUDA device")
    settle(clause, Run(impl, impl.runs.setdefault(device, {}), device))


def settle(clause, run):
    """Check a clause; an outcome that it allows as well is no mismatch."""
    try:
        clause.check(run)
    except Mismatch as mismatch:
        if mismatch.got not in clause.allow:
            raise


def ready(impl, device):
    """Raise NoDevice if the implementation refuses to make a trainer for the device."""
    try:
        Stage(impl, tempfile.gettempdir(), device).trainer()
    except Exception as error:
        raise NoDevice("no trainer for %s: %s" % (device, " ".join(str(error).split()))) from error


class Run:
    """What a clause plays. Runs are shared: one configuration is played once.

    Args:
        impl: the implementation.
        cache: {configuration: Stage} of what has been played on it.
        device: what its trainers are for.
        meeting: where the processes meet, if there are several (``ranks.Meeting``).
    """

    def __init__(self, impl, cache, device="cpu", meeting=None):
        self.impl, self.device = impl, device
        self._cache, self._meeting = cache, meeting

    @property
    def rank(self):
        """Return which of the processes this is."""
        return self._meeting.rank if self._meeting else 0

    @property
    def world(self):
        """Return how many processes there are."""
        return self._meeting.world if self._meeting else 1

    def ranks(self, value):
        """Return the plain values that the processes give here, by rank."""
        return self._meeting.exchange(value) if self._meeting else [value]

    def fit(self, fails=False, **config):
        """Fit, as configured (see ``usual``); with ``fails`` the call may raise."""
        return self._entry("fit", fails, config)

    def validate(self, fails=False, **config):
        """Validate, as configured."""
        return self._entry("validate", fails, config)

    def test(self, fails=False, **config):
        """Test, as configured."""
        return self._entry("test", fails, config)

    def predict(self, fails=False, **config):
        """Predict, as configured."""
        return self._entry("predict", fails, config)

    def play(self, story, fails=False, **config):
        """Play a function of a Stage (and of ``config``): several calls, any objects."""
        name = "%s(%s)" % (story.__name__, _written(config))
        return self._observe((story, _key(config)), name, fails, lambda stage: story(
            stage, **config))

    def scenario(self, name):
        """Play a scenario of ``scenarios.py``."""
        story = scenarios.SCENARIOS.get(name)
        if story is None:
            return self._observe(name, name, True, lambda stage: scenarios.fit(
                stage, **scenarios.FIT[name]))
        return self._observe(name, name, True, story)

    def _entry(self, entry, fails, config):
        name = "%s(%s)" % (entry, _written(config))
        return self._observe((entry, _key(config)), name, fails, lambda stage: usual(
            stage, entry, **config))

    def _observe(self, key, name, fails, story):
        if key not in self._cache:
            self._cache[key] = self._play(story)
            self.ranks(None)  # they are checked when all have ended: what they wrote is there
        stage = self._cache[key]
        for call, error in [] if fails else stage.errors.items():
            kind = type(error).__name__
            raise Mismatch("%s raises %s" % (call, kind), "%s raised %s: %s" % (
                call, kind, error), name) from error
        if isinstance(stage.broken, adapter.Lacking):
            raise stage.broken
        if stage.broken is not None:
            kind = type(stage.broken).__name__
            raise Mismatch("raises " + kind, "outside any call, %s: %s" % (
                kind, stage.broken), name) from stage.broken
        return Observed(stage, name)

    def _play(self, story):
        folder = self._meeting.folder() if self._meeting else tempfile.mkdtemp(dir=launch.folder())
        stage = Stage(self.impl, folder, self.device, self.rank)
        torch.manual_seed(1)
        try:
            with warnings.catch_warnings(record=True) as stage.warnings, \
                    contextlib.redirect_stdout(stage.output), \
                    contextlib.redirect_stderr(stage.output):
                warnings.simplefilter("always")
                logging.disable(logging.WARNING)
                story(stage)
        except (Exception, SystemExit) as error:  # not from a call: from the making of things
            stage.broken = error
        finally:
            logging.disable(logging.NOTSET)
            torch.set_grad_enabled(True)
        return stage

    def each(self, configurations, check):
        """Check each configuration, and fail once, with the failures grouped by what came."""
        groups, count = {}, 0
        for config in configurations:
            count += 1
            try:
                check(config)
            except Mismatch as mismatch:
                groups.setdefault(mismatch.got, []).append(mismatch)
        if not groups:
            return
        order = sorted(groups.values(), key=len, reverse=True)
        text = ["%d of %d configurations got: %s\nfor one, %s\n%s" % (
            len(same), count, same[0].got, _least(same).config, _least(same)) for same in order]
        raise Mismatch("; ".join(sorted(groups)), "\n\n".join(text), _least(order[0]).config)


def _least(mismatches):
    return min(mismatches, key=lambda each: (len(each.config), each.config))


def usual(stage, entry, module=(), c1=(), c2=(), data=None, callbacks=None, older=False,
          callback_params="", extra=(), without=(), params=None, loaders=(), call=(), before=None,
          look=(), train_batches=2, val_batches=2, test_batches=2, predict_batches=2, sanity=0,
          **flags):
    """Make module, callbacks and trainer, and call one entry point.

    Args:
        module, c1, c2: {hook: function} of the module and of the two callbacks.
        data: {hook: function} of a data module; None for none.
        callbacks: function of the stage that returns further callbacks.
        older: whether c1 and c2 have the hooks that only editions 1.1 and 1.5 have, too.
        callback_params: other parameters of callback hooks, ``"on_x a b | on_y a"``.
        extra, without: hooks that the module has in addition, or lacks.
        params: {module hook: its other parameters}.
        loaders: function that returns the loaders given to the entry point, by position.
        call: further keyword arguments of the entry point.
        before: function of stage and module, called before the trainer is made.
        look: {"who.hook": function of trainer and module}, kept for ``Observed.looked``.
        train_batches, ...: per loader; 0 lets the module lack loader and step (but train_batches=0
            is an empty loader: without="train_dataloader training_step".split() lets it lack).
        sanity: num_sanity_val_steps.
        flags: further flags of the Trainer, by their name of today.
    """
    batches = dict(zip(STEPS, (train_batches, val_batches, test_batches, predict_batches)))
    lacks = [hook for kind, count in batches.items() if not count and kind != "train"
             for hook in (kind + "_dataloader", STEPS[kind])]
    subject = stage.module(batches, extra, list(without) + lacks, params, **dict(module))
    subject.note = stage.note
    given = dict(call)
    if data is not None:
        given["datamodule"] = stage.Datamodule(batches=batches, **data)
    made = [_callback(stage, who, does, older, callback_params) for who, does in
            (("c1", c1), ("c2", c2))]
    stage.look(dict(look))
    if before:
        before(stage, subject)
    made += callbacks(stage) if callbacks else []
    trainer = stage.trainer(*made, num_sanity_val_steps=sanity, **flags)
    stage.call(entry, getattr(trainer, entry), subject, *(loaders() if loaders else ()), **given)


def _callback(stage, who, does, older, changed):
    table = "%s\n%s\n%s" % (subjects.OLDER_CALLBACK if older else "", changed, "")
    Callback = subjects.callback_class(stage.impl, stage.recorder, stage.callback_hooks(table))
    made = Callback(who, **dict(does))
    made.note = stage.note
    return made


def _key(value):
    """Return a hashable stand-in in which 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return frozenset((name, _key(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    return type(value), value if value.__hash__ else id(value)


def _written(config):
    return ", ".join("%s=%s" % (name, _value(config[name])) for name in config)


def _value(value):
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (name, _value(value[name])) for name in value)
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(_value, value))
    return getattr(value, "__name__", None) or repr(value)
