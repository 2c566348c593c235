"""The batches of a training epoch: one loader or several, from the start or from where it stood."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from inspect import GEN_CREATED, getgeneratorstate, isgenerator
from typing import Any

from .data import UNEVEN, knows_its_end, leaves, length_of, rebuilt
from .errors import warn
from .rng import rng_state, set_rng_state, set_states, states_of
from .samplers import Share

_NOTHING = object()


def is_stateful(loader: Any) -> bool:
    """Whether a loader knows by itself where it stands, as torchdata's StatefulDataLoader does.

    Args:
        loader: any iterable.
    """
    for sampler in ("sampler", "batch_sampler"):
        if isinstance(getattr(loader, sampler, None), Share):
            return False  # what the first process draws for all, it does not know
    names = ("state_dict", "load_state_dict")
    return all(callable(getattr(loader, name, None)) for name in names)


class TrainBatches:
    """The batches of one training epoch, each with whether it is the last.

    Several loaders are cycled to the longest, and each batch has the shape of their nesting. The
    end of a stream is found by looking one batch ahead, so that its last batch is known as such.

    Args:
        tree: a loader, or a nesting of loaders.
        limit: how many batches the epoch has at most.
        done: how many of them an earlier run has trained on. They are drawn again and dropped,
            but from loaders that know where they stand.
        kept: what `state` returned in that run.
        all_have: with several processes, whether each of them has a batch, which a stream cannot
            know: the shortest ends the epoch for all.
    """

    def __init__(
        self,
        tree: Any,
        limit: float,
        done: int = 0,
        kept: dict[str, Any] | None = None,
        all_have: Callable[[bool], bool] | None = None,
    ) -> None:
        self.tree = tree
        self.limit = limit
        self.done = done
        self.all_have = all_have
        self.loaders = leaves(tree)  # one, or several side by side
        self.sure = limit != math.inf and all(map(knows_its_end, self.loaders))
        self.is_drawn = False  # whether what was done has been drawn again
        self.ahead: list[Any] = []  # the batch that is drawn but not yet trained on
        self.complete = False  # whether the epoch has ended, and was not cut short
        kept = kept or {}
        if not done:  # what is kept is the end of another epoch
            kept = {
                "loaders": kept.get("loaders", ()),
                "complete": kept.get("complete", False),
                "ended": [False] * len(self.loaders),
            }
        self.asked = [False] * len(self.loaders)  # for their place, instead of drawn from again
        for i, state in enumerate(kept.get("loaders", ())):
            if state is not None and is_stateful(self.loaders[i]):
                self.loaders[i].load_state_dict(state)
                self.asked[i] = True
                if not done:
                    self._pass_end(i, kept["complete"])
        self.iterators = [iter(loader) for loader in self.loaders] if limit else []
        self.ended = [False] * len(self.loaders)
        self.again: dict[int, Any] = dict(kept.get("again", ()))  # see `_next`
        self._draw_again(kept)

    def state(self) -> dict[str, Any]:
        """Where the epoch stands, for a checkpoint."""
        loaders = [each.state_dict() if is_stateful(each) else None for each in self.loaders]
        return {
            "loaders": loaders,
            "ended": list(self.ended),
            "ahead": self.ahead,
            "again": list(self.again.items()),
            "complete": self.complete,
        }

    def close(self, complete: bool) -> None:
        """Let go of the loaders' iterators, and with them of worker processes.

        Args:
            complete: whether the epoch was not cut short.
        """
        self.complete = complete
        for i, iterator in enumerate(self.iterators):
            if complete:
                self._find_end(i, iterator)
        self.iterators = []
        self.ahead = []

    def _pass_end(self, i: int, complete: bool) -> None:
        """A loader has been given its place at the end of another epoch: from there it would have
        nothing to give. Let it go there, without any random numbers of this run."""
        own = [self.loaders[i]]
        numbers, states = rng_state(), states_of(own)
        there = iter(self.loaders[i])
        if complete:
            self._find_end(i, there)
        set_rng_state(numbers)
        set_states(own, states)

    def _find_end(self, i: int, iterator: Iterator[Any]) -> None:
        """All batches are drawn. A generator that was begun at the last of them has not run yet,
        and its loader would still take the next epoch for the one whose place it was given."""
        length = length_of(self.loaders[i])
        has_all = self.limit == length
        if length < math.inf:
            has_all = self.limit % length == 0
        waits = isgenerator(iterator) and getgeneratorstate(iterator) == GEN_CREATED
        if has_all and waits:
            next(iterator, _NOTHING)

    def _draw_again(self, kept: dict[str, Any]) -> None:
        ahead = kept.get("ahead", [])
        drawn = self.done + (1 if ahead is None else len(ahead))  # None: it could not be saved
        values = [_NOTHING] * len(self.loaders)
        numbers = range(len(self.loaders))
        for _ in range(drawn):
            for i in numbers:
                if not self.asked[i]:
                    values[i] = self._next(i)
        for i in numbers:
            if self.asked[i]:
                self.ended[i] = kept["ended"][i]
                if ahead is None:
                    values[i] = self._next(i)
        if ahead is None:
            ahead = [self._shaped(values)]
        self.ahead = ahead
        self.is_drawn = True
        at_end = not ahead and "ahead" in kept and not self.sure
        self.is_over = self.done >= self.limit or (self.done > 0 and at_end)

    def __iter__(self) -> Iterator[tuple[Any, bool]]:
        if self.is_over:
            return
        batches = self._cycled() if self._is_nested() else self.iterators[0]
        if not self.sure:
            if self.all_have is not None:
                batches = _together(batches, self.all_have)
            yield from self._looking_ahead(batches)
            return
        last = self.limit - 1
        for i, batch in enumerate(batches, self.done):
            yield batch, i == last
            if i == last:
                return

    def _is_nested(self) -> bool:
        return isinstance(self.tree, (Mapping, list, tuple))

    def _shaped(self, values: list[Any]) -> Any:
        return rebuilt(self.tree, iter(values))

    def _looking_ahead(self, batches: Iterator[Any]) -> Iterator[tuple[Any, bool]]:
        done = self.done + 1
        batch = self.ahead[0] if self.ahead else next(batches, _NOTHING)
        while batch is not _NOTHING:
            ahead = _NOTHING
            if done < self.limit:
                ahead = next(batches, _NOTHING)
            self.ahead = [] if ahead is _NOTHING else [ahead]
            yield batch, ahead is _NOTHING
            batch = ahead
            done += 1

    def _cycled(self) -> Iterator[Any]:
        """Batches of the nesting's shape until the longest loader ends."""
        while True:
            values = []
            for i in range(len(self.loaders)):
                values.append(self._next(i))
                if values[-1] is _NOTHING:  # all have ended, or this one is empty
                    return
            yield self._shaped(values)

    def _next(self, i: int) -> Any:
        """The next batch of a loader; it starts again unless all have ended by now.

        The random numbers with which one started again last are kept: later ones depend on what
        training has drawn in the meantime.
        """
        value = next(self.iterators[i], _NOTHING)
        if value is _NOTHING:
            self.ended[i] = True
            if not all(self.ended):
                self._start_again(i)
                value = next(self.iterators[i], _NOTHING)
        return value

    def _start_again(self, i: int) -> None:
        own = [self.loaders[i]]
        if self.is_drawn:
            self.again[i] = [rng_state(), states_of(own)]
        elif i in self.again:
            numbers, states = self.again[i]
            set_rng_state(numbers)
            set_states(own, states)
        self.iterators[i] = iter(self.loaders[i])


def _together(batches: Iterator[Any], all_have: Callable[[bool], bool]) -> Iterator[Any]:
    """The batches, until one of the processes has no more."""
    batch = next(batches, _NOTHING)
    while all_have(batch is not _NOTHING):
        yield batch
        batch = next(batches, _NOTHING)
    if batch is not _NOTHING:
        warn(UNEVEN)
