"""The page of a trace: its data, put into the template `lifecycle.html`.

The page needs no network. What it draws, and how it answers to keys, stands in the template.
"""
from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from . import lifecycle_manual as manual
from . import lifecycle_tree as tree
from .dispatch import HOOK_NAMES, WHO

if TYPE_CHECKING:
    from .lifecycle import Event, Trace

MOST_EVENTS = 20_000  # of a page; a longer trace is cut off


def page(trace: Trace) -> str:
    """The page as HTML.

    Args:
        trace: whose events are shown.
    """
    template = files(__package__).joinpath("lifecycle.html").read_text("utf-8")
    events = trace.events[:MOST_EVENTS]
    places = {id(event): i for i, event in enumerate(events)}
    nodes = tree.grow(events, trace.runs)
    fired = {event.hook for event in trace.events}
    data = {
        "left_out": len(trace.events) - len(events),
        "seconds": trace.seconds,
        "lanes": manual.LANES,
        "events": [_event(event) for event in events],
        "nodes": list(_nodes(nodes, places)),
        "hooks": {hook: _manual(hook) for hook in WHO},
        "clauses": {id: sentence for id, (_, sentence) in manual.clauses().items()},
        "silent": {hook: trace.why(hook) for hook in WHO if hook in HOOK_NAMES - fired},
    }
    # In a script element only "<" could end it.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "TITLE": "Lifecycle of " + (", ".join(trace.entries) or "nothing"),
        "TREE": html.escape("\n".join(tree.text(nodes))),
        "DATA": text,
    }
    for name, part in parts.items():
        template = template.replace(f"{{{{{name}}}}}", part)
    return template


def _event(event: Event) -> dict[str, Any]:
    row = {
        "hook": event.hook,
        "who": event.who,
        "depth": event.depth,
        "step": event.global_step,
        "epoch": event.current_epoch,
        "stage": event.stage,
        "start": round(event.start, 7),
        "seconds": round(event.seconds, 7),
        "own": round(event.own, 7),
        "lane": manual.LANES.index(manual.lane(event.hook, event.who)),
        "args": tree.arguments(event),
        "returned": event.returned,
        "error": event.error,
    }
    return {name: value for name, value in row.items() if value not in ("", [])}


def _nodes(
    nodes: Sequence[tree.Node], place: dict[int, int], depth: int = 0
) -> Iterator[list[Any]]:
    """The nodes from top to bottom: depth, title, kind, places of the events, sameness."""
    for node in nodes:
        events = [place[id(event)] for event in node.events]
        yield [depth, node.title, node.kind, events, node.same]
        yield from _nodes(node.children, place, depth + 1)


def _manual(hook: str) -> dict[str, Any]:
    return {
        kind: manual.entry(hook, kind)._asdict()
        for kind in manual.receivers(hook)
    }
