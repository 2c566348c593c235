"""What is passed to the loggers, and at which step."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from .errors import check_writable
from .loggers import FolderLogger
from .state import TrainerFn

if TYPE_CHECKING:
    from .trainer import Trainer


def is_due(trainer: Trainer, step: int) -> bool:
    """Whether something is logged at a step, counted from 1: at every `log_every_n_steps`, and
    once training is asked to stop (edition 2.2).

    Args:
        step: number of the step, counted from 1.
    """
    every = trainer.log_every_n_steps
    return bool(every) and (step % every == 0 or trainer.should_stop)


def log_train_step(trainer: Trainer) -> None:
    """Pass on the step metrics of training, when it is due.

    Source: trace log_every_n_steps; the step is the number of steps before this one.
    """
    step = trainer._progress.stepping_batches
    if is_due(trainer, step):
        log_metrics(trainer, trainer._metrics.collect(), step - 1)


def log_eval_step(trainer: Trainer, dataloader_idx: int) -> None:
    """Pass on the step metrics of validation or test, which have a step count of their own.

    Args:
        dataloader_idx: place of the loader, which has a count of its own.
    """
    key = (f"{trainer.state.fn}", dataloader_idx)
    step = trainer._evaluated_batches[key] = trainer._evaluated_batches.get(key, -1) + 1
    log_metrics(trainer, trainer._metrics.collect(), step, with_epoch=False)


def evaluation_results(
    trainer: Trainer, results: list[dict[str, Tensor]]
) -> list[dict[str, float]]:
    """What each loader logged, with what the end of the epoch logged; passed on together.

    Args:
        results: what each loader logged, by name.
    """
    if trainer.sanity_checking:
        return []
    at_end = trainer._metrics.collect()
    together = {name: value for each in (*results, at_end) for name, value in each.items()}
    in_fit = trainer.state.fn is TrainerFn.FITTING
    step = trainer._progress.stepping_batches - (in_fit and trainer._stepped)
    log_metrics(trainer, together, step)
    if in_fit:  # nobody asks, and a value on a GPU would have to be waited for
        return []
    return [{k: v.item() for k, v in {**each, **at_end}.items()} for each in results]


def log_metrics(
    trainer: Trainer, metrics: dict[str, Tensor], step: int, with_epoch: bool = True
) -> None:
    """Pass metrics to every logger.

    Args:
        metrics: scalars by name.
        step: the optimizer steps before these.
        with_epoch: add the number of the epoch, as "epoch".
    """
    if not trainer.loggers or not metrics:
        return
    values = {name: value.item() for name, value in metrics.items()}
    if "step" in values:  # a metric of this name is the step, and says more than the epoch
        step = int(values.pop("step"))
    elif with_epoch:
        values.setdefault("epoch", trainer.current_epoch)
    for logger in trainer.loggers:
        logger.log_metrics(values, step)
        logger.save()


def introduce(trainer: Trainer) -> None:
    """Tell every logger the hyperparameters and the module, at the start of a run.

    Raises:
        MisconfigurationException: a logger's folder cannot be written to.
    """
    hparams: dict[str, Any] = {}
    for owner in (trainer.datamodule, trainer.lightning_module):
        if owner is not None and owner._log_hyperparams:
            hparams.update(owner.hparams)
    for logger in trainer.loggers:
        writes = hparams or trainer.state.fn is not TrainerFn.PREDICTING
        if writes and isinstance(logger, FolderLogger):
            check_writable(logger.log_dir, type(logger).__name__, "Give another `save_dir` or "
                           "`Trainer(default_root_dir=...)`, or use `Trainer(logger=False)`.")
        if hparams:
            logger.log_hyperparams(hparams)
        logger.log_graph(trainer.lightning_module)
        logger.save()
