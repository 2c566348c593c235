"""Sharing data between processes: which samples each of them sees.

Training pads, so that all processes take as many steps; evaluation sees each sample once (edition
`beyond`: Lightning pads there, too).
"""
from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from torch.utils.data import (
    BatchSampler, DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler,
)

from .data import copy_loader

if TYPE_CHECKING:
    from .strategies import SingleDeviceStrategy


def shared(loader: Any, strategy: SingleDeviceStrategy, training: bool, shuffles: bool) -> Any:
    """The loader of this process's share.

    Left as they are: what is no DataLoader, a stream, and a loader whose sampler is distributed
    already. A batch sampler of the user's own is shared batch by batch.

    Args:
        loader: the whole of the data.
        strategy: says which process this is, of how many.
        training: whether all need the same number of samples.
        shuffles: whether a new order is drawn in each epoch, in training.

    Source: edition 2.2, `use_distributed_sampler`.
    """
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return loader
    batches, sampler = loader.batch_sampler, loader.sampler
    for each in (sampler, batches, getattr(batches, "sampler", None)):
        if hasattr(each, "num_replicas"):  # distributed already
            return loader
    if type(batches) not in (BatchSampler, type(None)):
        share = Share(batches, strategy, pads=training)
        return copy_loader(loader, batch_sampler=share)
    if type(sampler) not in (RandomSampler, SequentialSampler):
        return copy_loader(loader, Share(sampler, strategy, pads=training))
    if not training:
        dataset: Any = loader.dataset  # with a length, as its sampler needs one
        in_order = SequentialSampler(dataset)
        return copy_loader(loader, Share(in_order, strategy, pads=False))
    return copy_loader(loader, DistributedSampler(
        loader.dataset,
        num_replicas=strategy.world_size,
        rank=strategy.global_rank,
        shuffle=shuffles,  # also where the loader itself does not shuffle, as edition 2.2 does
        seed=int(os.environ.get("PL_GLOBAL_SEED", 0)),
    ))


class Share:
    """What one process gets of a sampler's indices, or of a batch sampler's batches of them.

    Args:
        whole: the sampler. What it draws in the first process holds for all.
        strategy: says which process this is, of how many.
        pads: give all processes as many, by beginning again; or else each index once.
    """

    def __init__(self, whole: Any, strategy: SingleDeviceStrategy, pads: bool) -> None:
        self.whole, self.pads, self._broadcast = whole, pads, strategy.broadcast
        self.rank, self.num_replicas = strategy.global_rank, strategy.world_size

    def __iter__(self) -> Iterator[Any]:
        indices: Any = self.whole
        if not isinstance(self.whole, SequentialSampler):
            indices = self._broadcast(list(self.whole))
        if self.pads:
            indices = [*indices, *islice(cycle(indices), -len(self.whole) % self.num_replicas)]
        return islice(indices, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        rest = self.num_replicas - 1 if self.pads else self.num_replicas - 1 - self.rank
        return (len(self.whole) + rest) // self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to a sampler that asks for it.

        Args:
            epoch: its number, counted from 0.
        """
        if hasattr(self.whole, "set_epoch"):
            self.whole.set_epoch(epoch)
