"""Watch a run: which hook fired when, for whom, with what, how long it took, and why not.

    with trace(trainer) as t:
        trainer.fit(model)
    t.print()
    t.html("run.html")
    print(t.why("on_validation_start"))

Without a trace nothing is wrapped, so watching costs nothing while nobody watches.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from torch import Tensor

from . import lifecycle_page, lifecycle_picture, lifecycle_tree, lifecycle_why
from .errors import MisconfigurationException

if TYPE_CHECKING:
    from .state import TrainerState
    from .trainer import Trainer

__all__ = ["Event", "HookTime", "Trace", "trace"]

Function = Callable[..., Any]
MAKING = "Trainer()"  # what stands in `Trace.runs` for the making of a trainer
BRACKETS: dict[type, str] = {list: "[{}]", tuple: "({})", dict: "{{{}}}"}


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
        run: which run of the trace, from 0.
        place: of the receiver among all that were bound; it rises within one call of a hook.
        start: when it was entered, in seconds since the trace began.
        seconds: time inside, hooks called within included. Work queued on a GPU is not waited for.
        own: the same without the hooks called within.
        returned: a short text, as in `args`; "" for None.
        error: class of the exception that left it, or "".
    """

    who: str
    hook: str
    args: tuple[str, ...]
    depth: int
    global_step: int
    current_epoch: int
    stage: str
    run: int = 0
    place: int = 0
    start: float = 0.0
    seconds: float = 0.0
    own: float = 0.0
    returned: str = ""
    error: str = ""


class HookTime(NamedTuple):
    """What one hook cost in a trace, in seconds.

    Args:
        hook: its name.
        calls: how often it was called.
        total: time inside of it, hooks called within included.
        mean: the same for one call.
        own: time inside of it alone, in all.
        share: of `own` in the time traced.
    """

    hook: str
    calls: int
    total: float
    mean: float
    own: float
    share: float


class Trace:
    """The events of the runs that a trainer makes inside `with trace(trainer) as t:`.

    `events` has them in the order in which they were entered, `runs` the entry point of each run
    ("fit", ...), `seconds` the time traced so far, `error` what left the `with`, as a text.

    Args:
        trainer: that is watched.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.events: list[Event] = []
        self.runs: list[str] = []
        self.seconds = 0.0
        self.error = ""
        self.trainer = trainer
        self._state: TrainerState | None = None  # each run has one of its own
        self._running: list[Event] = []
        self._bound = 0

    @property
    def entries(self) -> list[str]:
        """The entry points that ran, each once."""
        return [entry for entry in dict.fromkeys(self.runs) if entry != MAKING]

    def __enter__(self) -> Trace:
        if self.trainer._observe is not None:
            raise MisconfigurationException(
                "This trainer is being traced already. Leave the `with trace(trainer)` around it,"
                " or use that one's events."
            )
        self.trainer._observe = self._observe
        self._start = perf_counter() - self.seconds
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        self.seconds = perf_counter() - self._start
        self.trainer._observe = None
        if error is not None:
            self.error = " ".join(f"{type(error).__name__}: {error}".split())

    def _observe(self, who: str, hook: str, function: Function) -> Function:
        """What the dispatcher calls once per receiver and hook, when it binds."""
        if self.trainer.state is not self._state:
            self._state = self.trainer.state
            self.runs.append(self._state.fn.value if self._state.fn else MAKING)
        self._bound += 1
        place = self._bound

        @wraps(function)
        def observed(*args: Any, **named: Any) -> Any:
            called = perf_counter()
            event = self._enter(who, hook, place)
            event.args = tuple(map(describe, (*args, *named.values())))
            event.start = perf_counter() - self._start
            start = perf_counter()
            try:
                answer = function(*args, **named)
                event.seconds = perf_counter() - start
                event.returned = "" if answer is None else describe(answer)
                return answer
            except BaseException as error:
                event.seconds = perf_counter() - start
                event.error = type(error).__name__
                raise
            finally:
                self._leave(event, called)

        return observed

    def _enter(self, who: str, hook: str, place: int) -> Event:
        trainer, depth, run = self.trainer, len(self._running), len(self.runs) - 1
        step, epoch = trainer.global_step, trainer.current_epoch
        stage = trainer.state.stage
        named = stage.value if stage else ""
        event = Event(who, hook, (), depth, step, epoch, named, run, place)
        self.events.append(event)
        self._running.append(event)
        return event

    def _leave(self, event: Event, called: float) -> None:
        self._running.pop()
        event.own += event.seconds
        if self._running:  # what watching costs is nobody's own time
            around = self._running[-1]
            around.own -= perf_counter() - called

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
        nodes = lifecycle_tree.grow(self.events, self.runs)
        if first_batch:
            nodes = lifecycle_tree.first_training_batch(nodes)
        for line in lifecycle_tree.text(nodes, verbose, coloured):
            print(line, file=file)

    def html(self, path: str | Path) -> Path:
        """Write the runs as one page that needs nothing else: a timeline, the tree, the manual.

        Args:
            path: of the file.

        Returns:
            The path.
        """
        path = Path(path)
        path.write_text(lifecycle_page.page(self), "utf-8")
        return path

    def svg(self, path: str | Path) -> Path:
        """Write the tree, folded, as a picture for light and dark backgrounds.

        Args:
            path: of the file.

        Returns:
            The path.
        """
        path = Path(path)
        path.write_text(lifecycle_picture.picture(self), "utf-8")
        return path

    def why(self, hook: str) -> str:
        """How often a hook fired and for whom; if never, what kept it from firing.

        Args:
            hook: its name.

        Returns:
            A few sentences. They look at the trainer as it is now: ask before its next run.
        """
        return lifecycle_why.why(self, hook)

    def times(self) -> list[HookTime]:
        """What each hook cost, the one with the largest share first.

        Returns:
            A row for each hook that fired: name, calls, and seconds in all, on the average, and
            without what fired inside of it; and its share of the runs.
        """
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
        """Print `times` as a table, in milliseconds; the rest is the trainer, loaders included.

        Args:
            file: where it goes; None: to standard output.
        """
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

    Args:
        trainer: before or between its runs.

    Returns:
        The trace, which is filled as the trainer runs.
    """
    return Trace(trainer)


def describe(value: Any, depth: int = 2) -> str:
    """A short text for `value`: "Tensor[8, 32]", a number, a few items, or its class's name.

    Args:
        value: anything.
        depth: how many containers deep its items are shown.
    """
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
