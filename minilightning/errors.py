"""What a user is told when something is wrong: one exception class, warnings and messages."""
from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Callable, Iterable

# What clears the terminal for a message and draws it again; a progress bar puts it here.
aside: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext


class _Console(logging.StreamHandler):  # type: ignore[type-arg]  # no [] in 3.10
    def emit(self, record: logging.LogRecord) -> None:
        with aside():
            super().emit(record)


log = logging.getLogger(__package__)
log.setLevel(logging.INFO)
if not logging.getLogger().handlers and not log.handlers:  # nobody set up logging: be heard
    log.addHandler(_Console())
    log.propagate = False


class MisconfigurationException(Exception):
    """A Trainer, module, data module or callback that cannot work as it is configured.

    Source: Lightning's name for it, in every edition. The message says what was wrong, where, and
    what to write instead.
    """


class SIGTERMException(SystemExit):
    """The run was told to end by SIGTERM. Source: Lightning's name for it, in edition 2.2."""


def on_rank_zero() -> bool:
    """Whether this process is the one that speaks (the launcher sets RANK for each process)."""
    return int(os.environ.get("RANK", "0")) == 0


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn from one process only, at the line of the user's code that led here.

    Args:
        message: what was wrong, where, and what to write instead.
        category: of the warning.
    """
    if not on_rank_zero():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    with aside():
        warnings.warn(message, category, stacklevel=level)


def note(error: BaseException, text: str) -> None:
    """Add a line to an error, where this Python shows one.

    Args:
        error: any exception.
        text: the line.
    """
    if hasattr(error, "add_note"):  # from 3.11 on
        error.add_note(text)


def info(message: str) -> None:
    """Log at INFO, from one process only.

    Args:
        message: a line.
    """
    if on_rank_zero():
        log.info(message)


def listed(names: Iterable[object]) -> str:
    """The names as they are shown in messages: `a`, `b`, `c`; or "none" when there are none.

    Args:
        names: what is shown, each as its `str`.
    """
    return ", ".join(f"`{name}`" for name in names) or "none"


def check_writable(folder: str | Path, who: str, instead: str) -> None:
    """Refuse a folder that cannot be written to, nor be made.

    Args:
        folder: that is meant.
        who: would write there, for the message.
        instead: what to write instead, for the message.

    Raises:
        MisconfigurationException: it, or the nearest folder above it, is none or is read-only.
    """
    existing = Path(folder).absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise MisconfigurationException(
            f"{who} cannot write to {str(folder)!r}: {str(existing)!r} is no folder, or one without"
            f" permission to write. {instead}"
        )


def closest(name: str, names: Iterable[str]) -> str:
    """" Did you mean `x`?", or nothing when no name is close.

    Args:
        name: what was written.
        names: what could have been meant.

    Returns:
        A sentence, with a space in front, to be put behind a message.
    """
    from difflib import get_close_matches  # only on the way to an error

    near = get_close_matches(name, list(names), n=1)
    return f" Did you mean `{near[0]}`?" if near else ""


def release_frames(error: BaseException) -> None:
    """Let go of what this package's calls held, above all of loaders and their worker processes.

    Who keeps the error, as a notebook does, keeps its traceback, and with it the locals of every
    call in it. Those of the user's own code stay, for a debugger to look at.

    Args:
        error: what has ended a run.
    """
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__package__") == __package__:
            with contextlib.suppress(RuntimeError):  # it still runs
                trace.tb_frame.clear()
        trace = trace.tb_next
