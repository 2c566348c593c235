"""Record what an implementation calls, keep the events asked for, and show where two runs part.

An event is recorded on *entry*, so that what happens inside a call stands below it, one step
deeper. Arguments are compared as bound to the hook's parameters: a value passed by keyword and
the same value passed by position are one event, and so are a default and its explicit value.
"""

import contextlib
import difflib
import enum
from collections import namedtuple

import torch

# What is compared, in short words: "c1.on_train_batch_end(dict(loss), Tensor, 0)", 1/0 TG training.
Event = namedtuple("Event", "who hook args depth step epoch mode grad stage parts")

STAGES = ("sanity_checking", "validating", "testing", "predicting", "training")

# A checkpoint is told by these; what else an implementation keeps in it is its own affair.
CHECKPOINT_KEYS = {"epoch", "global_step", "state_dict"}
FULL_CHECKPOINT_KEYS = {"callbacks", "optimizer_states", "lr_schedulers"}
NOTED_KEYS = ("mine", "RecordedDataModule")


class Recorder:
    """Collects events; ``names`` maps the id of an object to the word that stands for it."""

    def __init__(self, Trainer=()):
        self.events = []
        self.names = {}
        self.trainer = None  # None while one is being made
        self.module = None
        self.watch = ()  # names of submodules whose own modes are noted
        self.entered = lambda who, hook: None  # called inside each event
        self._Trainer = Trainer
        self._depth = 0
        self._kept = []

    def name(self, value, word):
        """Let ``word`` stand for this very object."""
        self.names[id(value)] = word
        self._kept.append(value)

    @contextlib.contextmanager
    def event(self, who, hook, params, args, kwargs):
        """Note one call and everything recorded until it returns as nested in it."""
        self.events.append(Event(who, hook, self.bound(who, params, args, kwargs), self._depth,
                                 *self._state()))
        self._depth += 1
        try:
            self.entered(who, hook)
            yield
        finally:
            self._depth -= 1

    def bound(self, who, params, args, kwargs):
        """Write the arguments as one string, in the order of ``params``, defaults left out."""
        params = [param.partition("=") for param in params.split()]
        words = [self.word(value) for value in args]
        kwargs = dict(kwargs)
        for name, _, default in params[len(words):]:
            if name not in kwargs and not default:
                break
            words.append(self.word(kwargs.pop(name)) if name in kwargs else default)
        words += ["%s=%s" % (name, self.word(kwargs[name])) for name in sorted(kwargs)]
        if who.startswith("c") and words[:2] == ["trainer", "module"]:
            words, params = words[2:], params[2:]
        while words and len(words) <= len(params) and words[-1] == params[len(words) - 1][2]:
            words.pop()
        return ", ".join(words)

    def word(self, value):
        """Return the word that stands for a value: its kind, not its content."""
        if id(value) in self.names:
            return self.names[id(value)]
        if self.trainer is None and isinstance(value, self._Trainer):
            return "trainer"
        value = value.value if isinstance(value, enum.Enum) else value
        if value is None or isinstance(value, (bool, int, float, str)):
            return str(value)
        inner = getattr(value, "optimizer", None)
        if isinstance(inner, torch.optim.Optimizer):
            return "wrapped(%s)" % self.word(inner)
        for kind, write in WORDS:
            if isinstance(value, kind):
                return write(self, value)
        return "closure" if callable(value) else "<%s>" % type(value).__name__

    def _state(self):
        trainer = self.trainer
        parts = "".join(
            " %s=%s" % (name, "T" if part.training else "E")
            for name in self.watch
            for part in [getattr(self.module, name)]
        )
        return (
            getattr(trainer, "global_step", None),
            getattr(trainer, "current_epoch", None),
            "T" if self.module is None or self.module.training else "E",
            grad_mode(),
            next((stage for stage in STAGES if getattr(trainer, stage, False)), "no_stage"),
            parts.strip(),
        )


def grad_mode():
    """Return "G" with gradients, "g" without, "i" in inference mode."""
    if getattr(torch, "is_inference_mode_enabled", bool)():
        return "i"
    return "G" if torch.is_grad_enabled() else "g"


def _mapping(recorder, value):
    if CHECKPOINT_KEYS <= set(value):
        kind = "checkpoint" if FULL_CHECKPOINT_KEYS <= set(value) else "weights"
        noted = [key for key in NOTED_KEYS if key in value]
        return "%s(%s)" % (kind, ",".join(noted)) if noted else kind
    return "dict(%s)" % ",".join(sorted(map(str, value)))


WORDS = [
    (torch.Tensor, lambda recorder, value: "Tensor"),
    (torch.device, lambda recorder, value: value.type),
    (BaseException, lambda recorder, value: type(value).__name__),
    (dict, _mapping),
    ((list, tuple), lambda recorder, value: "[%s]" % ",".join(map(recorder.word, value))),
]


def project(events, keep):
    """Return the events for which ``keep(event)`` holds, nested in the kept ones only."""
    kept, open_depths = [], []
    for event in events:
        while open_depths and open_depths[-1] >= event.depth:
            open_depths.pop()
        if keep(event):
            kept.append(event._replace(depth=len(open_depths)))
            open_depths.append(event.depth)
    return kept


def line(event):
    """Write one event as one line: steps/epoch, modes, stage, and the call."""
    state = "%s/%s %s%s %s %s" % (event.step, event.epoch, event.mode, event.grad, event.stage,
                                  event.parts)
    return "%-22s %s" % (state.strip(), call(event))


def call(event):
    """Write the call alone, indented by its depth."""
    return "%s%s.%s(%s)" % ("  " * event.depth, event.who, event.hook, event.args)


def difference(expected, actual, before=4, after=6):
    """Return both lists of lines side by side around the first difference, or ``None``."""
    if expected == actual:
        return None
    first = next((at for at, pair in enumerate(zip(expected, actual)) if pair[0] != pair[1]),
                 min(len(expected), len(actual)))
    start = max(0, first - before)
    left, right = expected[start:first + after], actual[start:first + after]
    rows = list(_aligned(left, right))
    width = max([len(row[0]) for row in rows] + [len("expected")])
    shown = ["%3s %-*s   %s" % ("", width, "expected", "actual")]
    shown += ["%3s %-*s | %s" % ("" if a == b else ">>>", width, a, b) for a, b in rows]
    return "first difference at line %d of %d expected, %d actual\n%s" % (
        first + 1, len(expected), len(actual), "\n".join(shown))


def _aligned(left, right):
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for _, a, b, c, d in matcher.get_opcodes():
        for at in range(max(b - a, d - c)):
            yield (left[a + at] if a + at < b else "", right[c + at] if c + at < d else "")
