"""How far a run is, as Lightning 2.x writes it into `checkpoint["loops"]`, and read from there."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trainer import Trainer

Counts = dict[str, int]
STAGES = ("ready", "started", "processed", "completed")  # what Lightning counts, in this order


def loops_of(trainer: Trainer) -> dict[str, Any]:
    """The loops of Lightning 2.2, so that a run of Lightning's goes on from our checkpoint.

    Source: files of Lightning 2.2.5 and 2.6.6, saved in the same hooks.
    """
    progress, pending = trainer._progress, trainer._progress.pending
    in_epoch = progress.batches > 0 or pending in ("epoch_start", "batch")
    ended = pending == "epoch_end"
    epochs = _counts(progress.epochs, ahead=in_epoch, behind=ended)
    batches = progress.batches
    if not in_epoch and progress.epochs and trainer.num_training_batches != math.inf:
        batches = int(trainer.num_training_batches)  # those of the epoch that is over
    hooks_left = pending == "batch_end"
    open_batch = pending in ("batch_end", "validation", "validation_end", "plateau")
    step = {"total": _pair(trainer.global_step), "current": _pair(batches)}
    nothing = {"total": _pair(0), "current": _pair(0)}
    automatic = trainer.lightning_module.automatic_optimization
    loop = {
        "state_dict": {},
        "epoch_loop.state_dict": {
            "_batches_that_stepped": progress.stepping_batches
            - (open_batch and trainer._stepped)
        },
        "epoch_loop.batch_progress": {
            "total": _counts(progress.total_batches, behind=hooks_left),
            "current": _counts(batches, behind=hooks_left),
            "is_last_batch": trainer.is_last_batch,
        },
        "epoch_loop.scheduler_progress": nothing,
        "epoch_loop.automatic_optimization.state_dict": {},
        "epoch_loop.automatic_optimization.optim_progress": {
            "optimizer": {
                "step": step if automatic else nothing,
                "zero_grad": {"total": _three(trainer.global_step), "current": _three(batches)},
            }
        },
        "epoch_loop.manual_optimization.state_dict": {},
        "epoch_loop.manual_optimization.optim_step_progress": nothing if automatic else step,
        "epoch_loop.val_loop.state_dict": {},
        "epoch_loop.val_loop.batch_progress": _evaluation(),
        "epoch_progress": {"total": epochs, "current": dict(epochs)},
    }
    loops: dict[str, Any] = {"fit_loop": loop}
    for name in ("validate_loop", "test_loop", "predict_loop"):
        loops[name] = {"state_dict": {}, "batch_progress": _evaluation()}
    return loops


def _counts(number: int, ahead: bool = False, behind: bool = False) -> Counts:
    counts = dict.fromkeys(STAGES, number)
    counts["ready"] += ahead
    counts["started"] += ahead
    counts["completed"] -= behind
    return counts


def _pair(number: int) -> Counts:
    return {"ready": number, "completed": number}


def _three(number: int) -> Counts:
    return {"ready": number, "started": number, "completed": number}


def _evaluation() -> dict[str, Any]:
    return {"total": _counts(0), "current": _counts(0), "is_last_batch": False}


def progress_in(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """How far the run was that Lightning saved, as `Progress` counts it.

    A checkpoint of an unfinished epoch leads to its next batch; random numbers are not in there.

    Args:
        checkpoint: the whole of it.
    """
    loop = checkpoint.get("loops", {}).get("fit_loop")
    if not loop:
        return {"epochs": checkpoint["epoch"]}
    epochs = loop["epoch_progress"]["current"]
    batches = loop["epoch_loop.batch_progress"]
    done = batches["current"]
    kept = {
        "epochs": epochs["processed"],
        "total_batches": batches["total"]["processed"],
        "stepping_batches": loop["epoch_loop.state_dict"].get("_batches_that_stepped", 0),
        "is_last_batch": batches.get("is_last_batch", True),
    }
    if epochs["ready"] > epochs["processed"] and done["processed"] > 0:
        kept["batches"] = done["processed"]
        kept["pending"] = "validation"  # even if it is done: its metrics are not in there
        kept["stepping_batches"] += 1  # it is counted behind the validation there
    return kept
