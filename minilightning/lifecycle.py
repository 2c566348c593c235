"""Watch a run: which hook fired when, for whom, with what, and how long it took.

    with trace(trainer) as t:
        trainer.fit(model)
    t.print(first_batch=True)

Without a trace nothing is wrapped, so watching costs nothing while nobody watches.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from torch import Tensor

from .errors import MisconfigurationException

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["Event", "HookTime", "Trace", "trace"]

BATCH_STARTS = (
    "on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer",
    "on_batch_start", "on_train_batch_start",
)
BATCH_ENDS = ("on_train_batch_end", "on_batch_end")
Function = Callable[..., Any]
LONGEST_FOLD = 300  # lines of a block that may be folded
BRACKETS: dict[type, str] = {list: "[{}]", tuple: "({})", dict: "{{{}}}"}
COLOURS = {"callback": "36", "module": "33", "datamodule": "35"}  # ANSI: cyan, yellow, magenta


@dataclass(slots=True)
class Event:
    """One call of one hook, recorded when it was entered.

    Args:
        who: "callback ClassName", "module" or "datamodule".
        hook: its name.
        args: what it was given besides the trainer and the module, each as a short text, like
            "Tensor[8, 32]": a trace keeps no batch alive.
        depth: how many hooks were running around it.
        global_step: the trainer's, in optimizer steps.
        current_epoch: the trainer's.
        stage: "train", "sanity_check", "validate", "test", "predict", or "" between runs.
        seconds: time inside, hooks called within included. Work queued on a GPU is not waited for.
        own: the same without the hooks called within.
        place: of the receiver among all that were bound; it rises within one call of a hook.
        error: class of the exception that left it, or "".
    """

    who: str
    hook: str
    args: tuple[str, ...]
    depth: int
    global_step: int
    current_epoch: int
    stage: str
    place: int = 0
    seconds: float = 0.0
    own: float = 0.0
    error: str = ""


class HookTime(NamedTuple):
    """What one hook cost in a trace, in seconds; `share` is that of `own` in the time traced."""

    hook: str
    calls: int
    total: float
    mean: float
    own: float
    share: float


class Trace:
    """The events of the runs that a trainer makes inside `with trace(trainer) as t:`.

    `events` has them in the order in which they were entered, `seconds` the time traced so far.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.events: list[Event] = []
        self.seconds = 0.0
        self._trainer = trainer
        self._running: list[Event] = []
        self._bound = 0

    def __enter__(self) -> Trace:
        if self._trainer._observe is not None:
            raise MisconfigurationException(
                "This trainer is being traced already. Leave the `with trace(trainer)` around it,"
                " or use that one's events."
            )
        self._trainer._observe = self._observe
        self._start = perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds += perf_counter() - self._start
        self._trainer._observe = None

    def _observe(self, who: str, hook: str, function: Function) -> Function:
        """What the dispatcher calls once per receiver and hook, when it binds."""
        self._bound += 1
        place = self._bound

        @wraps(function)
        def observed(*args: Any, **named: Any) -> Any:
            called = perf_counter()
            event = self._enter(who, hook, place)
            event.args = tuple(map(describe, (*args, *named.values())))
            start = perf_counter()
            try:
                return function(*args, **named)
            except BaseException as error:
                event.error = type(error).__name__
                raise
            finally:
                self._leave(event, called, start)

        return observed

    def _enter(self, who: str, hook: str, place: int) -> Event:
        trainer, depth = self._trainer, len(self._running)
        step, epoch = trainer.global_step, trainer.current_epoch
        stage = trainer.state.stage
        event = Event(who, hook, (), depth, step, epoch, stage.value if stage else "", place)
        self.events.append(event)
        self._running.append(event)
        return event

    def _leave(self, event: Event, called: float, start: float) -> None:
        now = perf_counter()
        self._running.pop()
        event.seconds = now - start
        event.own += event.seconds
        if self._running:  # what watching costs is nobody's own time
            around = self._running[-1]
            around.own -= now - called

    def print(
        self, file: TextIO | None = None, first_batch: bool = False, verbose: bool = False
    ) -> None:
        """Print the tree of what fired, in colours if `file` is a terminal.

        A line is a hook and its receivers in order; what fired inside it stands below, indented.
        "... × 3, the same" stands for three more batches (or epochs) with the same lines.

        Args:
            file: where to; standard output if None.
            first_batch: only the first training batch.
            verbose: with the arguments. Batches that differ only in these are folded as well.
        """
        file = file or sys.stdout
        coloured = file.isatty() and "NO_COLOR" not in os.environ
        events = first_training_batch(self.events) if first_batch else self.events
        for line in fold(_lines(events, verbose)):
            print(line.text(coloured), file=file)

    def times(self) -> list[HookTime]:
        """What each hook cost, the one with the largest share first."""
        by_hook: dict[str, list[Event]] = {}
        for event in self.events:
            by_hook.setdefault(event.hook, []).append(event)
        rows = []
        for hook, events in by_hook.items():
            calls = len(events)
            total = sum(event.seconds for event in events)
            own = sum(event.own for event in events)
            share = own / self.seconds if self.seconds else 0.0
            rows.append(HookTime(hook, calls, total, total / calls, own, share))
        return sorted(rows, key=lambda row: -row.own)

    def print_times(self, file: TextIO | None = None) -> None:
        """Print `times` as a table, in milliseconds; the rest is the trainer, loaders included."""
        rows = self.times()
        width = max((len(row.hook) for row in rows), default=4)
        print(f"{'hook':<{width}}   calls   total ms    mean ms     own ms   share", file=file)
        for hook, calls, *seconds, share in rows:
            columns = "".join(f"{1e3 * value:11.3f}" for value in seconds)
            print(f"{hook:<{width}}{calls:>8}{columns}{share:8.1%}", file=file)
        rest = 1 - sum(row.share for row in rows)
        print(f"{'(no hook)':<{width + 41}}{rest:8.1%}", file=file)


def trace(trainer: Trainer) -> Trace:
    """Watch the runs of `trainer`: `with trace(trainer) as t: trainer.fit(model)`.

    Hooks are watched from the next run on: a trace that begins inside a run sees nothing of it.
    """
    return Trace(trainer)


def describe(value: Any, depth: int = 2) -> str:
    """A short text for `value`: "Tensor[8, 32]", a number, a few items, or its class's name."""
    kind = type(value)
    if isinstance(value, Tensor):
        return f"{kind.__name__}{list(value.shape)}"
    if kind in (bool, int, float, type(None)):
        return repr(value)
    if kind is str:
        return repr(value if len(value) <= 30 else value[:27] + "...")
    if kind not in BRACKETS or not depth:
        return kind.__name__
    items = []
    for item in list(value)[:3]:
        text = describe(item, depth - 1)
        if kind is dict:
            text += ": " + describe(value[item], depth - 1)
        items.append(text)
    if len(value) > 3:
        items.append(f"... {len(value)} in all")
    return BRACKETS[kind].format(", ".join(items))


def first_training_batch(events: Sequence[Event]) -> list[Event]:
    """The events from the first transfer of a training batch to the end of that batch."""
    batch: list[Event] = []
    inside = ended = False
    for event in events:
        starts = event.hook in BATCH_STARTS
        ends = event.hook in BATCH_ENDS
        if event.stage != "train" or not (batch or starts):
            continue
        over = ended and not ends and event.depth == 0
        if over or (inside and starts):
            break
        inside = inside or not starts
        ended = ended or ends
        batch.append(event)
    return batch


@dataclass
class Line:
    """A line of the tree: a hook with its receivers, or a mark that stands for repeated lines."""

    depth: int
    hook: str
    receivers: list[str]
    args: str = ""
    place: int = 0  # of the last receiver

    def is_same_call(self, other: Line) -> bool:
        """Whether `other` is the next receiver: they are called in the order of binding."""
        same_hook = (self.depth, self.hook) == (other.depth, other.hook)
        return same_hook and self.args == other.args and self.place < other.place

    def text(self, coloured: bool = False) -> str:
        """The line as it is printed."""
        names = [who.removeprefix("callback ") for who in self.receivers]
        if coloured:
            codes = [COLOURS[who.split()[0]] for who in self.receivers]
            names = list(map("\033[{}m{}\033[0m".format, codes, names))
        indent = "  " * self.depth
        words = [indent + self.hook, ", ".join(names), self.args]
        return "   ".join(filter(None, words))


def _lines(events: Sequence[Event], verbose: bool) -> list[Line]:
    lines: list[Line] = []
    for event in events:
        notes = []
        if verbose:
            notes.append(f"({', '.join(event.args)})")
        if event.error:
            notes.append(f"raised {event.error}")
        line = Line(event.depth, event.hook, [event.who], "   ".join(notes), event.place)
        # Whatever fired inside the last receiver has lines of its own in between.
        if lines and lines[-1].is_same_call(line):
            lines[-1].receivers += line.receivers
            lines[-1].place = line.place
        else:
            lines.append(line)
    return lines


def fold(lines: list[Line]) -> list[Line]:
    """Replace blocks of lines that repeat right behind themselves by a mark: batches, epochs."""
    for _ in range(2):
        lines = _fold_once(lines)
    return lines


def _fold_once(lines: list[Line]) -> list[Line]:
    keys = [(line.depth, line.hook, *line.receivers) for line in lines]
    folded, at = [], 0
    while at < len(lines):
        size, more = _repeats(keys, at)
        folded += lines[at : at + size]
        if more:
            mark = f"... × {more}, the same"
            folded.append(Line(lines[at].depth, mark, []))
        at += size * (more + 1)
    return folded


def _repeats(keys: list[Any], at: int) -> tuple[int, int]:
    """Size of the shortest block at `at` that follows itself, and how often; (1, 0) if none."""
    first, depth = keys[at], keys[at][0]
    longest = min(LONGEST_FOLD, (len(keys) - at) // 2)
    for size in range(1, longest + 1):
        again = at + size
        if keys[again][0] < depth:
            break  # the block would end outside the hook that it began in
        # First and last lines are compared first: nearly all candidates fail there.
        if keys[again] != first or keys[again - 1] != keys[again + size - 1]:
            continue
        block, more = keys[at:again], 0
        while keys[again : again + size] == block:
            more += 1
            again += size
        if size * more > 1:
            return size, more
    return 1, 0
