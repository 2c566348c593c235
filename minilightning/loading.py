"""Asking for loaders, and how many of their batches are used."""
from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from . import data, samplers
from .signatures import overrides
from .errors import MisconfigurationException, warn
from .state import RunningStage

if TYPE_CHECKING:
    from .trainer import Trainer


def has_loader(trainer: Trainer, kind: str) -> bool:
    """Whether there are loaders of a kind to ask for.

    Args:
        kind: "train", "val", "test" or "predict".
    """
    hook = f"{kind}_dataloader"
    return trainer._given_loaders.get(kind) is not None or any(
        overrides(owner, hook) for owner in (trainer.datamodule, trainer.lightning_module)
    )


def request(trainer: Trainer, kind: str) -> Any:
    """The loaders of a kind: those given to the entry point, else those of the hook's owner.

    Args:
        kind: "train", "val", "test" or "predict".
    """
    # Those of a sanity check are asked for again, if its epoch does not validate.
    keeps = not trainer.sanity_checking or trainer._epoch_validates()
    trainer._loaded_in[kind] = trainer.current_epoch if keeps else -math.inf
    hook, training = f"{kind}_dataloader", kind == "train"
    tree = trainer._given_loaders.get(kind)
    if tree is not None:
        origin = f"passed to `Trainer.{trainer.state.entry_point}()`"
    else:
        tree, origin = getattr(trainer.on, hook)(), f"returned by `{hook}`"
    data.check_loaders(tree, origin, training)
    if trainer._several and trainer.use_distributed_sampler:
        shuffles = not trainer.overfit_batches
        tree = data.rebuilt(tree, (samplers.shared(each, trainer.strategy, training, shuffles)
                                   for each in data.leaves(tree)))
    return tree


def is_due_again(trainer: Trainer, kind: str) -> bool:
    """Whether `reload_dataloaders_every_n_epochs` asks for the loaders anew.

    Args:
        kind: "train" or "val".
    """
    every = trainer.reload_dataloaders_every_n_epochs
    return bool(every) and trainer.current_epoch - trainer._loaded_in[kind] >= every


def load_train_data(trainer: Trainer) -> None:
    """Ask for the training loaders, and count their batches.

    Raises:
        MisconfigurationException, TypeError, ValueError: loaders, limits and intervals that do not
            fit together; types as in Lightning 2.2.
    """
    if trainer.train_dataloader is not None and not is_due_again(trainer, "train"):
        return
    tree = request(trainer, "train")
    if trainer.overfit_batches:
        tree = data.rebuilt(tree, map(data.without_shuffling, data.leaves(tree)))
    trainer.train_dataloader = tree
    length = max(data.length_of(loader) for loader in data.leaves(tree))
    batches = data.limited(length, trainer.limit_train_batches, "limit_train_batches")
    if trainer._several:
        batches = _shortest(trainer, batches)
    trainer.num_training_batches = batches
    if batches == 0:
        warn("The training loader has no batches: nothing is trained.")
        return
    trainer.val_check_batch = _val_check_batch(trainer, batches)
    if trainer.loggers and batches < trainer.log_every_n_steps:
        warn(f"The {batches} training batches of an epoch are fewer than "
             f"`Trainer(log_every_n_steps={trainer.log_every_n_steps})`: set it lower to see step "
             "metrics in every epoch.")
    if batches < trainer.accumulate_grad_batches:
        warn(f"The {batches} training batches of an epoch are fewer than "
             f"`Trainer(accumulate_grad_batches={trainer.accumulate_grad_batches})`: there is one "
             "step an epoch, and its loss is divided by the full window.")


def _shortest(trainer: Trainer, batches: float) -> float:
    """The training batches that every process has.

    Raises:
        MisconfigurationException: a process has none, and no hook owner says that it may.
    """
    of_all = trainer.strategy.gather_objects(batches)
    owners = (trainer.lightning_module, trainer.datamodule)
    may = any(getattr(owner, "allow_zero_length_dataloader_with_multiple_devices", False)
              for owner in owners)
    if 0 in of_all and not may and trainer.limit_train_batches != 0:
        raise MisconfigurationException(
            f"Of {len(of_all)} processes, rank {of_all.index(0)} has no training batches. Give "
            "it data, or set `allow_zero_length_dataloader_with_multiple_devices = True` in the "
            "module or data module to train none."
        )
    if len(set(of_all)) > 1:
        warn(data.UNEVEN)
    return min(of_all)


def shortest(trainer: Trainer, loader: Any, limit: int) -> int:
    """The evaluation batches that every process has for sure, where they have different numbers;
    of a stream that is none.

    Args:
        loader: that of this process.
        limit: its batches in this process.
    """
    of_all = trainer.strategy.gather_objects(limit if data.knows_its_end(loader) else 0)
    return int(min(of_all))


def _val_check_batch(trainer: Trainer, batches: float) -> float:
    interval = trainer.val_check_interval
    if isinstance(interval, int):
        if interval > batches and trainer.check_val_every_n_epoch is not None:
            raise ValueError(
                f"`Trainer(val_check_interval={interval})` is more than the {batches} training "
                "batches of an epoch. Set it lower, or set `check_val_every_n_epoch=None` to count "
                "batches over epochs."
            )
        return interval
    if batches == math.inf:
        if interval == 1.0:
            return math.inf
        raise MisconfigurationException(
            f"`Trainer(val_check_interval={interval})` is a share of the batches, and the training "
            "loader does not say how many it has. Use an int, or 1.0."
        )
    return max(1, int(batches * interval))


def may_load_val_data(trainer: Trainer) -> None:
    """Ask for the validation loaders before training, if this epoch validates."""
    if trainer.val_dataloaders is None and trainer._epoch_validates():
        trainer.state.stage = RunningStage.VALIDATING
        load_eval_data(trainer, "val")
        trainer.state.stage = RunningStage.TRAINING


def load_eval_data(trainer: Trainer, kind: str) -> tuple[list[Any], list[int]]:
    """The loaders of a kind of evaluation, one after another, and how many batches of each run.

    Args:
        kind: "val", "test" or "predict".
    """
    limit = getattr(trainer, f"limit_{kind}_batches")
    if limit == 0:
        return [], []
    loaded = getattr(trainer, f"{kind}_dataloaders")
    if loaded is None or (kind == "val" and is_due_again(trainer, kind)):
        loaded = request(trainer, kind)
        setattr(trainer, f"{kind}_dataloaders", loaded)
        counts = [data.limited(data.length_of(loader), limit, f"limit_{kind}_batches")
                  for loader in data.leaves(loaded)]
        setattr(trainer, f"num_{kind}_batches", counts)
    limits = getattr(trainer, f"num_{kind}_batches")
    if trainer.sanity_checking:
        limits = trainer.num_sanity_val_batches
    return data.leaves(loaded), [int(min(count, sys.maxsize)) for count in limits]
