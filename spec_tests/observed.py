"""What one recorded run shows, and the comparisons that clauses make with it.

The notation of ``only`` is that of ``facts.py``, and looser: arguments count where they are
written, nesting counts if braces are written, and of the state counts what brackets have set.

    C.on_train_start M.on_train_start            who and hook alone; C is c1 and c2
    M.setup(fit)                                 with these arguments
    M.optimizer_step { M.training_step }         inside it
    [step=0 T G training] M.on_train_start       in this state: global_step, epoch, mode, gradients
"""

import re

from . import facts, trace

FIELDS = ("step", "epoch", "mode", "grad", "stage")


class Mismatch(Exception):
    """Something else came than the clause says; ``got`` is what, in one line."""

    def __init__(self, got, text="", config=""):
        super().__init__(text or got)
        self.got, self.config = " ".join(got.split()), config


class Observed:
    """One run, or a part of one."""

    def __init__(self, stage, config, calls=None, events=None):
        self.stage, self.config = stage, config
        self.calls = stage.calls if calls is None else calls
        self._events = events

    # The run as it was.

    @property
    def events(self):
        """Return the recorded events (``trace.Event``), in order of entry."""
        if self._events is not None:
            return self._events
        return [event for *_, events in self.calls for event in events]

    @property
    def trainer(self):
        """Return the trainer, as it is after the whole run."""
        return self.stage.recorder.trainer

    @property
    def module(self):
        """Return the module, as it is after the whole run."""
        return self.stage.recorder.module

    @property
    def value(self):
        """Return what the last call returned."""
        return self.stage.values.get(self.calls[-1][0])

    @property
    def error(self):
        """Return what the last call raised, or None."""
        return self.stage.errors.get(self.calls[-1][0])

    @property
    def after(self):
        """Return what the trainer said of itself after the last call: {name: value}."""
        return self.calls[-1][2]

    @property
    def notes(self):
        """Return {name: [values]} that hooks noted by ``self.note(name, value)``."""
        return self.stage.notes

    @property
    def warnings(self):
        """Return the text of every warning."""
        return [str(each.message) for each in self.stage.warnings]

    @property
    def output(self):
        """Return what was printed."""
        return self.stage.output.getvalue()

    @property
    def folder(self):
        """Return the run's own folder (default_root_dir)."""
        return self.stage.folder

    # Parts of the run.

    def call(self, name):
        """Return the part of the run inside the call of this name."""
        return Observed(self.stage, self.config, [each for each in self.calls if each[0] == name])

    def where(self, **fields):
        """Return the part in which events have these fields, as ``where(epoch=1, stage=...)``."""
        kept = [event for event in self.events
                if all(getattr(event, name) == value for name, value in fields.items())]
        return Observed(self.stage, self.config, self.calls, kept)

    def inside(self, what):
        """Return what happened inside the calls of ``what``, as ``inside("M.optimizer_step")``."""
        words, depth, kept = facts.spread(what), None, []
        for event in self.events:
            if depth is not None and event.depth <= depth:
                depth = None
            if depth is not None:
                kept.append(event)
            elif _named(event, words):
                depth = event.depth
        return Observed(self.stage, self.config, self.calls, kept)

    def select(self, what):
        """Return the events of ``what``, as ``"C.on_train_start M.setup"`` or ``"setup"``."""
        words = facts.spread(what)
        return [event for event in self.events if _named(event, words)]

    # Comparisons. Each raises Mismatch, and shows what was expected beside what came.

    def only(self, text, absent=""):
        """The events named in ``text`` MUST come exactly so; those of ``absent`` not at all."""
        wanted, nested = _pattern(text)
        words = {event["who"] + "." + event["hook"] for event in wanted} | facts.spread(absent)
        got = trace.project(self.events, lambda event: _named(event, words))
        if self.stage.rank:  # prepare_data runs in one process of a node
            wanted = [event for event in wanted if event["hook"] != "prepare_data"]
        left = [_wanted_line(event, nested) for event in wanted]
        right = [_line(event, wanted[min(at, len(wanted) - 1)] if wanted else {}, nested)
                 for at, event in enumerate(got)]
        self._compare(left, right)

    def none(self, what):
        """The events of ``what`` MUST NOT come; assert with it that the others did."""
        self._compare([], [trace.call(event).strip() for event in self.select(what)])

    def args(self, what, *expected):
        """Compare the arguments of each call of ``what``, in order; return them if none given."""
        got = [event.args for event in self.select(what)]
        return self._or_compare(what + "(%s)", got, expected)

    def state(self, what, *expected):
        """Compare the state at each call of ``what``, as ``"0/0 TG training"``.

        That is global_step/current_epoch, module in train or eval mode (T, E), gradients on, off
        or inference mode (G, g, i), and the stage. Return them if none given.
        """
        got = [trace.line(event)[:22].strip() for event in self.select(what)]
        return self._or_compare("%s " + what, got, expected)

    def count(self, what, *expected):
        """Compare how often ``what`` was called; return it if not given."""
        got = len(self.select(what))
        return self.equal(what + " calls", got, *expected) if expected else got

    def looked(self, what, *expected):
        """Compare what ``look=`` saw at each call of ``what``; return it if none given."""
        got = self.stage.looks.get(what, [])
        return self.equal("seen at " + what, got, list(expected)) if expected else got

    def noted(self, name, *expected):
        """Compare what hooks noted under a name; return it if none given."""
        got = self.notes.get(name, [])
        return self.equal("noted " + name, got, list(expected)) if expected else got

    def equal(self, what, got, expected):
        """Compare any value."""
        if not _same(got, expected):
            self._fail("%s = %s" % (what, _short(got)), "%s\n  expected  %r\n  actual    %r" % (
                what, expected, got))
        return got

    def true(self, what, holds):
        """Require that ``what``, written as what holds, does hold."""
        if not holds:
            self._fail("not: " + what, "does not hold: " + what)

    def raises(self, kind, *words):
        """The last call MUST raise an error of this class name, whose message has the words."""
        got = self.error
        name = "nothing raised" if got is None else "raises " + type(got).__name__
        if got is None or kind not in [each.__name__ for each in type(got).__mro__]:
            self._fail(name, "expected  raises %s\nactual    %s: %s" % (kind, name, got))
        for word in words:
            if word.lower() not in str(got).lower():
                self._fail("%s, message without %r" % (name, word),
                           "the message lacks %r:\n%s" % (word, got))
        return got

    def warned(self, *words):
        """A warning MUST have been given that has all the words, by one of several processes."""
        if self.stage.rank:
            return
        if not any(all(word.lower() in each.lower() for word in words) for each in self.warnings):
            self._fail("no warning with " + ", ".join(words),
                       "no warning has %s, only:\n%s" % (words, "\n".join(self.warnings)))

    def _or_compare(self, form, got, expected):
        if expected:
            self._compare([form % each for each in expected], [form % each for each in got])
        return got

    def _compare(self, left, right):
        text = trace.difference(left, right)
        if text:
            at = next((i for i, pair in enumerate(zip(left, right)) if pair[0] != pair[1]),
                      min(len(left), len(right)))
            got = right[at] if at < len(right) else "nothing more"
            want = left[at] if at < len(left) else "the end"
            self._fail("%s, not %s" % (got.strip(), want.strip()), text)

    def _fail(self, got, text):
        raise Mismatch(got, text, self.config)


def _named(event, words):
    return event.hook in words or event.who + "." + event.hook in words


def _same(got, expected):
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return abs(got - expected) <= 1e-5 * max(1.0, abs(expected))
    if isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)):
        return len(got) == len(expected) and all(map(_same, got, expected))
    if isinstance(expected, dict) and isinstance(got, dict):
        return got.keys() == expected.keys() and all(_same(got[k], expected[k]) for k in expected)
    return type(got) is type(expected) and got == expected


def _short(value):
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def _pattern(text):
    """Return the events of a text as dicts of what counts, and whether nesting counts."""
    state, wanted, depth, at, text = {}, [], 0, 0, " ".join(text.split())
    while at < len(text):
        found = facts.TOKEN.match(text, at)
        if not found or found.group(3):
            raise ValueError("not events: %s" % text[at:at + 60])
        at = found.end()
        change, brace, _, _, who, hook, args = found.groups()
        if change:
            for word in change[1:-1].split():
                _change(state, word)
        elif brace:
            depth += 1 if brace == "{" else -1
        else:
            for one in facts.WHO.findall(who.replace("C", "c1c2")):
                wanted.append(dict(state, who=one, hook=hook, args=args, depth=depth))
    return wanted, "{" in text


def _change(state, word):
    name, sign, value = re.match(r"(\w+)([=+]?)(.*)", word).groups()
    if sign:
        state[name] = int(value) + (state[name] if sign == "+" else 0)
    else:
        known = {"T": "mode", "E": "mode", "G": "grad", "g": "grad", "i": "grad"}
        state[known.get(word, "stage")] = word


def _wanted_line(event, nested):
    state = " ".join("%s=%s" % (name, event[name]) for name in FIELDS if name in event)
    return (state + "  " * (event["depth"] if nested else 0) + " " * bool(state)
            + event["who"] + "." + event["hook"] + (event["args"] or ""))


def _line(event, beside, nested):
    same = (event.who, event.hook) == (beside.get("who"), beside.get("hook"))
    args = "(%s)" % event.args if beside.get("args") and same else None
    shown = {name: getattr(event, name) for name in FIELDS if name in beside}
    return _wanted_line(dict(shown, who=event.who, hook=event.hook, args=args,
                             depth=event.depth), nested)
