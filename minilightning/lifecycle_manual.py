"""What there is to know of a hook: what it is for, its arguments, its editions, its clauses.

Texts are the docstrings of the base classes; the clauses stand in `clauses.txt`, as the suite
prints them.
"""
from __future__ import annotations

import inspect
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from .callback import Callback
from .dispatch import WHO
from .module import LightningDataModule, LightningModule

RECEIVERS: dict[str, type] = {
    "callback": Callback,
    "module": LightningModule,
    "datamodule": LightningDataModule,
}
LETTERS = {"callback": "CKI", "module": "MmOP", "datamodule": "DOP"}  # of dispatch.HOOKS
EDITIONS = ("1.1", "1.5", "2.2")
LANES = ("data", "forward / backward", "optimizer", "callbacks", "module", "checkpoint")
OPTIMIZER = (
    "configure_optimizers",
    "optimizer_step",
    "optimizer_zero_grad",
    "configure_gradient_clipping",
    "lr_scheduler_step",
)
STEPS = (
    "training_step",
    "validation_step",
    "test_step",
    "predict_step",
    "backward",
)


class Entry(NamedTuple):
    """What the manual says of a hook of one kind of receiver.

    Args:
        text: the docstring of the hook.
        signature: its name and arguments, as they are written.
        editions: which have it.
        clauses: their ids.
    """

    text: str
    signature: str
    editions: list[str]
    clauses: list[str]


def receivers(hook: str) -> list[str]:
    """The kinds of receivers that have a hook: "callback", "module", "datamodule".

    Args:
        hook: its name.
    """
    return [kind for kind, letters in LETTERS.items() if set(WHO[hook].split()) & set(letters)]


def entry(hook: str, receiver: str) -> Entry:
    """What the base class of a kind of receiver says of a hook.

    Args:
        hook: its name.
        receiver: "callback", "module" or "datamodule".
    """
    method = getattr(RECEIVERS[receiver], hook)
    text = inspect.getdoc(method) or ""
    signature = inspect.signature(method)
    bare = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
    ]
    shown = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    about = [
        id for id, events in _events_of_clauses().items()
        if (hook, receiver) in events
    ]
    return Entry(text, f"{hook}{shown}", editions(text), about)


def editions(text: str) -> list[str]:
    """The editions that a docstring names: "All editions", "Editions 1.5 and 2.2", "1.5 and 2.2"
    in its first paragraph; the newest, if it names none.

    Args:
        text: the docstring.
    """
    if re.search(r"\ball editions\b", text, re.IGNORECASE):
        return list(EDITIONS)
    said = re.search(r"\beditions? ([^;]*)", text, re.IGNORECASE)
    where = said[1] if said else text.partition("\n\n")[0]
    return [each for each in EDITIONS if each in where] or ["2.2"]


def lane(hook: str, who: str) -> str:
    """The lane of the timeline that a call belongs to: one of LANES.

    Args:
        hook: its name.
        who: whom it fired for: "module", "datamodule", or "callback" and a name.
    """
    if hook.endswith("_checkpoint"):
        return "checkpoint"
    if who.startswith("callback"):
        return "callbacks"
    if hook in OPTIMIZER:
        return "optimizer"
    if hook in STEPS:
        return "forward / backward"
    of_data = hook == "prepare_data" or hook.endswith(("_dataloader", "_transfer", "_to_device"))
    return "data" if of_data or who == "datamodule" else "module"


@cache
def clauses() -> dict[str, tuple[str, str]]:
    """The clauses about hooks: id -> its hooks, as "CM.on_fit_start", and its sentence."""
    text = files(__package__).joinpath("clauses.txt").read_text("utf-8")
    rows = [line.split(" | ", 3) for line in text.splitlines()]
    return {id: (events, sentence) for id, _, events, sentence in rows}


@cache
def _events_of_clauses() -> dict[str, set[tuple[str, str]]]:
    kinds = {"C": "callback", "M": "module", "D": "datamodule"}
    found: dict[str, set[tuple[str, str]]] = {}
    for id, (events, _) in clauses().items():
        for event in events.split():
            letters, _, hook = event.partition(".")
            found.setdefault(id, set()).update((hook, kinds[letter]) for letter in letters)
    return found
