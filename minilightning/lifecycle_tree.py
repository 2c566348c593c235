"""The events of a trace as a tree: runs, epochs, batches, hooks, and what fired inside a hook."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .dispatch import HOOKS

if TYPE_CHECKING:
    from .lifecycle import Event

NAMES = [hook for hook, _, _, _ in HOOKS]
ARGUMENTS = {hook: arguments.split() for hook, arguments, _, _ in HOOKS}
FIRST_IN_BATCH = "on_before_batch_transfer"  # called for every batch of every loop
IN_BATCH = {
    *NAMES[NAMES.index(FIRST_IN_BATCH):NAMES.index("on_batch_end") + 1],
    *(form.format(kind) for kind in ("validation", "test", "predict")
      for form in ("on_{}_batch_start", "{}_step", "on_{}_batch_end")),
}
IN_EPOCH = {
    *IN_BATCH, "on_epoch_start", "on_train_epoch_start",
    "training_epoch_end", "on_train_epoch_end", "on_epoch_end",
}
LONGEST_FOLD = 100  # siblings of a block that may be folded
COLOURS = {"callback": "36", "module": "33", "datamodule": "35"}  # ANSI: cyan, yellow, magenta

Path = tuple[tuple[str, int], ...]  # (("run", 0), ("epoch", 3)): kinds and numbers of groups


@dataclass
class Node:
    """A hook with the calls of its receivers, or a group of what belongs together.

    Args:
        title: the hook's name, or the group's: "fit", "epoch 0", "batch 1 of loader 0".
        kind: of a group: "run", "sanity check", "epoch", "validation" or "batch"; "" for a hook.
        events: the calls of the hook, in order.
        children: what fired inside.
        same: equal for nodes that differ in numbers and arguments only.
    """

    title: str
    kind: str = ""
    events: list[Event] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)
    same: int = 0

    def takes(self, event: Event) -> bool:
        """Whether `event` is the next receiver's: they are called in the order of binding.

        Args:
            event: the next one in the trace.
        """
        if not self.events or self.children:
            return False
        last = self.events[-1]
        return (last.hook, last.args) == (event.hook, event.args) and last.place < event.place


def paths(events: Iterable[Event]) -> Iterator[Path]:
    """The groups that each event stands in, from the outermost. Only what fired decides.

    Args:
        events: in the order in which they were entered.
    """
    path: Path = ()
    run = epoch = validation = batch = -1
    in_batch = False
    for event in events:
        if event.depth == 0:
            hook, stage = event.hook, event.stage
            epoch = epoch if event.run == run else -1
            run = event.run
            around: Path = (("run", run),)
            if stage == "sanity_check":
                around += (("sanity check", run),)
            elif stage == "train" and hook in IN_EPOCH:
                epoch = event.current_epoch
                around += (("epoch", epoch),)
            elif stage == "validate" and epoch >= 0:
                validation += path[2:3] != (("validation", validation),)
                around += (("epoch", epoch), ("validation", validation))
            if hook == FIRST_IN_BATCH:
                batch += 1
                in_batch = True
            in_batch = in_batch and hook in IN_BATCH
            path = (*around, ("batch", batch)) if in_batch else around
        yield path


def grow(events: Sequence[Event], runs: Sequence[str]) -> list[Node]:
    """The tree of a trace's events; a node for each run.

    Args:
        events: in the order in which they were entered, from one at depth 0 on.
        runs: the entry point of each run.
    """
    root = Node("")
    groups: dict[Path, Node] = {(): root}
    stack = [root]
    for event, path in zip(events, paths(events)):
        if event.depth == 0:
            stack = [_group(groups, path, runs)]
        del stack[event.depth + 1:]
        siblings = stack[-1].children
        if siblings and siblings[-1].takes(event):
            siblings[-1].events.append(event)
        else:
            siblings.append(Node(event.hook, events=[event]))
        stack.append(siblings[-1])
    _name_batches(groups)
    _compare(root, {})
    return root.children


def _group(groups: dict[Path, Node], path: Path, runs: Sequence[str]) -> Node:
    if path not in groups:
        kind, number = path[-1]
        title = f"epoch {number}" if kind == "epoch" else kind
        groups[path] = Node(runs[number] if kind == "run" else title, kind)
        _group(groups, path[:-1], runs).children.append(groups[path])
    return groups[path]


def _name_batches(groups: dict[Path, Node]) -> None:
    """By what their hooks were given: a resumed epoch does not begin with batch 0."""
    for path, node in groups.items():
        if path and path[-1][0] == "batch":
            given: dict[str, str] = {}
            for child in _below(node):
                given.update(arguments(child.events[0]))
            loader = f" of loader {given['dataloader_idx']}" if _several(node) else ""
            node.title = f"batch {given.get('batch_idx', '?')}{loader}"


def _below(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield child
        yield from _below(child)


def _several(batch: Node) -> bool:
    """Whether a batch is that of one of several loaders: only then the step is told which."""
    steps = [child.events[0] for child in batch.children if child.title.endswith("_step")]
    return any(len(step.args) > len(ARGUMENTS[step.hook]) for step in steps)


def arguments(event: Event) -> list[tuple[str, str]]:
    """What a call was given, as pairs of a name and a text.

    Args:
        event: the call.
    """
    names = [*ARGUMENTS[event.hook], "optimizer_idx" if event.hook == "training_step" else
             "dataloader_idx"]
    return list(zip(names, event.args))


def _compare(node: Node, seen: dict[Any, int]) -> int:
    """Give equal numbers to nodes that differ in numbers and arguments only."""
    receivers = tuple((event.who, event.error) for event in node.events)
    inside = tuple(_compare(child, seen) for child in node.children)
    node.same = seen.setdefault((node.kind or node.title, receivers, inside), len(seen))
    return node.same


def first_training_batch(nodes: Sequence[Node]) -> list[Node]:
    """The first batch of the first epoch, alone in a list; empty if there is none.

    Args:
        nodes: of a whole trace, a node for each run.
    """
    for run in nodes:
        for epoch in run.children:
            for batch in epoch.children:
                if (epoch.kind, batch.kind) == ("epoch", "batch"):
                    return [batch]
    return []


@dataclass
class Row:
    """A line of the tree: a node, or None with the mark that stands for `more` repetitions.

    Args:
        depth: how far it is indented.
        node: what is shown; None: the mark is.
        mark: how often which nodes come again.
    """

    depth: int
    node: Node | None
    mark: str = ""

    @property
    def words(self) -> str:
        """The title or the mark, indented."""
        return "  " * self.depth + (self.node.title if self.node else self.mark)


def fold(nodes: Sequence[Node], depth: int = 0) -> Iterator[Row]:
    """The rows of a tree, a mark in place of nodes that repeat right behind themselves.

    Args:
        nodes: next to each other.
        depth: how far they are indented.
    """
    keys = [node.same for node in nodes]
    at = 0
    while at < len(nodes):
        size, more = _repeats(keys, at)
        if more == size == 1 and not nodes[at].children:  # a mark would take as many rows
            size, more = 2, 0
        for node in nodes[at:at + size]:
            yield Row(depth, node)
            yield from fold(node.children, depth + 1)
        if more:
            which = "the same" if size == 1 else f"the same {size}"
            yield Row(depth, None, f"... × {more}, {which}")
        at += size * (more + 1)


def _repeats(keys: Sequence[int], at: int) -> tuple[int, int]:
    """Size of the shortest block at `at` that follows itself, and how often; (1, 0) if none."""
    for size in range(1, min(LONGEST_FOLD, (len(keys) - at) // 2) + 1):
        block, more = keys[at:at + size], 0
        again = at + size
        while keys[again:again + size] == block:
            more += 1
            again += size
        if more:
            return size, more
    return 1, 0


def text(nodes: Sequence[Node], verbose: bool = False, coloured: bool = False) -> list[str]:
    """The lines of a tree as they are printed; names of receivers stand below each other.

    Args:
        nodes: next to each other.
        verbose: with the arguments of each call.
        coloured: with the codes of a terminal for colours.
    """
    rows = list(fold(nodes))
    hooks = [len(row.words) for row in rows if row.node and row.node.events]
    width = max(hooks, default=0)
    return [_line(row, width, verbose, coloured) for row in rows]


def _line(row: Row, width: int, verbose: bool, coloured: bool) -> str:
    node, words = row.node, row.words
    if node is None:
        return f"\033[2m{words}\033[0m" if coloured else words
    if not node.events:
        return f"\033[1m{words}\033[0m" if coloured else words
    names = [_name(event, coloured) for event in node.events]
    parts = [words.ljust(width), ", ".join(names)]
    if verbose and node.events[0].args:
        parts.append(f"({', '.join(node.events[0].args)})")
    parts += [f"raised {event.error}" for event in node.events if event.error]
    return "  ".join(parts)


def _name(event: Event, coloured: bool) -> str:
    kind, _, name = event.who.partition(" ")
    return f"\033[{COLOURS[kind]}m{name or kind}\033[0m" if coloured else name or kind
