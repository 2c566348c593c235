"""Batches: from nestings of loaders to one batch at a time, on its device."""
from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, Callable

import torch
from torch.utils.data import (
    BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler,
)

from .errors import MisconfigurationException, info

PLAIN = (list, tuple, dict)  # of these it is known that they have no `.to`
UNEVEN = ("The processes have different numbers of training batches: the epoch ends for all where "
          "the shortest ends.")


def move_data_to_device(batch: Any, device: torch.device) -> Any:
    """Move every tensor of a batch, and whatever else has a `.to`, to a device.

    Args:
        batch: tensors in any nesting of lists, tuples, namedtuples, mappings and dataclasses.
        device: where to.

    Returns:
        The same nesting, of the same types and order, with its leaves moved. Leaves that cannot
        move are passed on as they are; the batch that came in is not altered.

    Source: edition 2.2, `transfer_batch_to_device`; dataclasses and mappings as users reported.
    """
    if isinstance(batch, torch.Tensor):
        there = batch.device == device
        return batch if there else batch.to(device, non_blocking=batch.is_cpu)
    if type(batch) not in PLAIN and callable(getattr(batch, "to", None)):
        moved = batch.to(device)
        return batch if moved is None else moved  # some move themselves and return nothing
    return map_nested(move_data_to_device, batch, device)


def map_nested(function: Callable[[Any, Any], Any], tree: Any, argument: Any) -> Any:
    """Apply `function(child, argument)` to the children of a container, which keeps its type.

    Args:
        function: of a child and `argument`.
        tree: a container; anything else comes back as it is.
        argument: passed on to each call.

    Returns:
        A new container; the old one is not altered.
    """
    if isinstance(tree, list):
        return type(tree)(map(function, tree, repeat(argument)))
    if isinstance(tree, tuple):
        children = map(function, tree, repeat(argument))
        return type(tree)(*children) if hasattr(tree, "_fields") else type(tree)(children)
    if isinstance(tree, Mapping):
        moved: Any = copy.copy(tree)
        for key, child in tree.items():
            moved[key] = function(child, argument)
        return moved
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        moved = copy.copy(tree)
        for field in dataclasses.fields(tree):
            child = function(getattr(tree, field.name), argument)
            object.__setattr__(moved, field.name, child)
        return moved
    return tree


def leaves(tree: Any) -> list[Any]:
    """The loaders in a nesting of dicts, lists and tuples, in order.

    Args:
        tree: a loader, or a nesting of loaders.
    """
    if isinstance(tree, Mapping):
        return [leaf for child in tree.values() for leaf in leaves(child)]
    if isinstance(tree, (list, tuple)):
        return [leaf for child in tree for leaf in leaves(child)]
    return [tree]


def rebuilt(tree: Any, values: Iterator[Any]) -> Any:
    """The nesting again, with each loader replaced by the next value.

    Args:
        tree: a loader, or a nesting of loaders.
        values: one for each of its `leaves`.
    """
    if isinstance(tree, (Mapping, list, tuple)):
        return map_nested(rebuilt, tree, values)
    return next(values)


def length_of(loader: Any) -> float:
    """How many batches a loader has; infinity when it does not say.

    Args:
        loader: any iterable.
    """
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return math.inf


def knows_its_end(loader: Any) -> bool:
    """Whether a loader's length is beyond doubt: a stream may declare a length and end earlier.

    Args:
        loader: any iterable.
    """
    return isinstance(loader, DataLoader) and not isinstance(loader.dataset, IterableDataset)


def limited(length: float, limit: int | float, flag: str) -> int | float:
    """How many of `length` batches remain under a limit: an int counts them, a float is a share.

    Args:
        length: batches that there are; infinity if that is not known.
        limit: value of the flag.
        flag: its name, for the message.

    Raises:
        MisconfigurationException: a share of an unknown length, or one so small that no batch is
            left (0 itself disables the loop and is fine).

    Source: edition 2.2, `limit_train_batches` and its siblings.
    """
    if limit == 0 or length == 0:
        return 0
    if isinstance(limit, int):
        return min(length, limit)
    if length == math.inf:
        if limit == 1.0:
            return length
        raise MisconfigurationException(
            f"`Trainer({flag}={limit})` is a share of the batches, and the loader does not say how "
            f"many it has. Use an int, `{flag}=1.0` for all, or give the dataset a `__len__`."
        )
    batches = int(length * limit)
    if batches == 0:
        raise MisconfigurationException(
            f"`Trainer({flag}={limit})` of {length} batches is not one whole batch. Use at least "
            f"`{flag}={1 / length}`, an int, or 0 to run none."
        )
    return batches


def check_loaders(tree: Any, origin: str, needed: bool) -> Any:
    """Refuse what cannot be iterated over; pass on the rest.

    Args:
        tree: a loader, or a nesting of loaders.
        origin: where it came from, as the message shows it.
        needed: whether an empty list of loaders is refused, too.

    Returns:
        The same loaders.

    Raises:
        TypeError: as Lightning 2.2 does.
    """
    for loader in leaves(tree) or [tree] * needed:
        iterates = hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")
        if not iterates or isinstance(loader, (type, str, list, tuple, Mapping)):
            raise TypeError(
                f"An invalid dataloader was {origin}: {loader!r}. Give an iterable over batches, "
                "such as a `DataLoader`, or a dict or list of them."
            )
    return tree


def without_shuffling(loader: Any) -> Any:
    """The loader over the same data in a fixed order, for `overfit_batches`.

    Args:
        loader: any iterable; only a DataLoader that shuffles is changed.
    """
    if not isinstance(loader, DataLoader) or not isinstance(loader.sampler, RandomSampler):
        return loader
    info(f"`overfit_batches` is on: shuffling of {type(loader).__name__} is switched off.")
    dataset: Any = loader.dataset  # with a length, or there were no RandomSampler
    return copy_loader(loader, SequentialSampler(dataset))


def copy_loader(loader: DataLoader[Any], sampler: Any = None, batch_sampler: Any = None) -> Any:
    """The same loader, of the same class, with another sampler or batch sampler.

    Args:
        loader: of which the copy is made; it stays as it is.
        sampler: of indices; None: that of the loader.
        batch_sampler: of lists of indices; None: torch's own around `sampler`, if the loader has
            one.
    """
    if batch_sampler is None and loader.batch_sampler is not None:
        size: Any = loader.batch_size  # not None beside torch's own batch sampler
        batch_sampler = BatchSampler(sampler, size, loader.drop_last)
    copied = copy.copy(loader)
    changes = {"sampler": sampler or loader.sampler, "batch_sampler": batch_sampler}
    for name, value in {**changes, "_iterator": None}.items():
        object.__setattr__(copied, name, value)  # the class itself lets nobody set a sampler
    return copied


def set_epoch(loader: Any, epoch: int) -> None:
    """Tell a loader's samplers the epoch, so that distributed shuffling differs between epochs.

    Args:
        loader: any iterable.
        epoch: its number, counted from 0.
    """
    for owner in (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)):
        for sampler in (owner, getattr(owner, "sampler", None)):
            tell = getattr(sampler, "set_epoch", None)
            if callable(tell):
                tell(epoch)


def batch_sizes(batch: Any, of_text: bool = False) -> Iterator[int]:
    """The first dimension of each tensor in a batch; or the length of each list of strings.

    Args:
        batch: a tensor, or a nesting.
        of_text: look at lists of strings, instead of tensors.
    """
    if isinstance(batch, torch.Tensor):
        if not of_text:
            yield batch.size(0) if batch.ndim else 1
        return
    children: Iterable[Any] = ()
    if isinstance(batch, Mapping):
        children = batch.values()
    elif isinstance(batch, (list, tuple)):
        if of_text and batch and all(isinstance(child, str) for child in batch):
            yield len(batch)
        else:
            children = batch
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        children = [getattr(batch, field.name) for field in dataclasses.fields(batch)]
    for child in children:
        yield from batch_sizes(child, of_text)


def batch_size_of(batch: Any) -> int | None:
    """The first dimension of a batch's first tensor; without one, the number of its strings.

    Args:
        batch: a tensor, or a nesting.
    """
    size = next(batch_sizes(batch), None)
    return next(batch_sizes(batch, of_text=True), None) if size is None else size
