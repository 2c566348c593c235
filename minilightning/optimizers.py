"""What `configure_optimizers` may return, in every form, as two plain lists."""
from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Callable, Iterator

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from .errors import MisconfigurationException, closest, listed, warn

if TYPE_CHECKING:
    from .module import LightningModule
    from .trainer import Trainer

FORMS = (
    "an optimizer; a list of them; (optimizers, schedulers); a dict with `optimizer` and perhaps "
    "`lr_scheduler`; a list of such dicts; None"
)


@dataclass
class LRSchedulerConfig:
    """A scheduler and when to step it (edition 2.2).

    Args:
        scheduler: what is stepped.
        name: under which it is logged.
        interval: "epoch" steps at the end of a training epoch's batches, "step" after a batch
            whose optimizer stepped.
        frequency: step at every so many epochs, or batches of an epoch.
        reduce_on_plateau: steps with a metric, once the epoch's metrics exist.
        monitor: the metric to step with.
        strict: whether a missing metric is an error or a warning.
    """

    scheduler: Any
    name: str | None = None
    interval: str = "epoch"
    frequency: int = 1
    reduce_on_plateau: bool = False
    monitor: str | None = None
    strict: bool = True


class LightningOptimizer:
    """An optimizer whose `step` fires the hooks and counts; what `self.optimizers()` returns.

    `optimizer` is the optimizer itself; all else is its own.

    Args:
        optimizer: the torch optimizer.
        trainer: whose hooks are fired.

    Source: edition 2.2, trace fit_manual_optimization.
    """

    def __init__(self, optimizer: Optimizer, trainer: Trainer) -> None:
        self.optimizer, self._trainer = optimizer, trainer

    @property  # type: ignore[misc]  # isinstance(wrapped, torch.optim.SGD) holds, as in 2.2
    def __class__(self) -> Any:
        return type(self.optimizer)

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Run the closure, fire `on_before_optimizer_step`, clip, step, and count the step.

        Args:
            closure: computes the loss, and its gradients; None: they are there.
            kwargs: passed on to the optimizer's own `step`.

        Returns:
            What the optimizer's own `step` returns: usually the loss.
        """
        return self._trainer._step_optimizer(self.optimizer, closure or _nothing, kwargs)

    @contextmanager
    def toggle_model(self, sync_grad: bool = True) -> Iterator[None]:
        """Freeze the parameters of all other optimizers inside the block.

        Args:
            sync_grad: accepted as in 2.2; each `manual_backward` averages, whatever it says.
        """
        module = self._trainer.lightning_module
        module.toggle_optimizer(self)
        yield
        module.untoggle_optimizer(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["optimizer"], name)

    def __repr__(self) -> str:
        return f"LightningOptimizer({self.optimizer!r})"


def _nothing() -> None:
    """The closure of a `step()` without one."""


class NoOptimizer(Optimizer):
    """Stands in when `configure_optimizers` returns None: hooks fire and steps count, as in 2.2."""

    def __init__(self) -> None:
        super().__init__([torch.zeros(1)], {})
        self.param_groups.clear()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run the closure, and change nothing.

        Args:
            closure: computes the loss; None: there is none.

        Returns:
            What the closure returned.
        """
        return closure() if closure else None


def configure_optimizers(
    module: LightningModule, answer: Any
) -> tuple[list[Optimizer], list[LRSchedulerConfig]]:
    """Sort out what a module's `configure_optimizers` returned.

    Args:
        module: for its `automatic_optimization` and overrides.
        answer: any form that Lightning 2.2 documents.

    Returns:
        All optimizers, and all schedulers with their settings.

    Raises:
        MisconfigurationException: a form, key or value that is not understood.
    """
    if answer is None:
        warn("`configure_optimizers` returned None: this fit runs without an optimizer.")
        return [NoOptimizer()], []
    optimizers, schedulers = _sorted_out(answer)
    for optimizer in optimizers:
        if not isinstance(optimizer, Optimizer):
            raise MisconfigurationException(
                f"`{type(module).__name__}.configure_optimizers` returned {answer!r}, in which "
                f"{optimizer!r} is no optimizer. Accepted: {FORMS}."
            )
    return optimizers, [_scheduler_config(module, each, optimizers) for each in schedulers]


def _sorted_out(answer: Any) -> tuple[list[Any], list[Any]]:
    if isinstance(answer, Mapping):
        answer = [answer]
    if not isinstance(answer, (list, tuple)):
        return [answer], []
    if len(answer) == 2 and isinstance(answer[0], (list, tuple)):
        optimizers, schedulers = answer
        return list(optimizers), list(schedulers) if isinstance(schedulers, (list, tuple)) else [
            schedulers
        ]
    if not answer or not all(isinstance(each, Mapping) for each in answer):
        if not answer:
            raise MisconfigurationException(
                f"`configure_optimizers` returned {answer!r}. Accepted: {FORMS}."
            )
        return list(answer), []
    schedulers = [_with_monitor(each) for each in answer if each.get("lr_scheduler") is not None]
    return [_only_optimizer(each) for each in answer], schedulers


def _only_optimizer(given: Mapping[str, Any]) -> Any:
    known = ("optimizer", "lr_scheduler", "monitor")
    if "optimizer" not in given:
        raise MisconfigurationException(
            f"`configure_optimizers` returned a dict without the key `optimizer`: it has "
            f"{listed(given)}; accepted are {listed(known)}."
        )
    for key in given:
        if key not in known:
            warn(f"`configure_optimizers` returned a dict with the unknown key {key!r}, which is "
                 f"ignored; accepted are {listed(known)}.{closest(str(key), known)}")
    return given["optimizer"]


def _with_monitor(given: Mapping[str, Any]) -> Any:
    """The scheduler of an optimizer's dict; the metric to monitor may stand beside it."""
    scheduler = given["lr_scheduler"]
    if "monitor" not in given:
        return scheduler
    settings = dict(scheduler) if isinstance(scheduler, Mapping) else {"scheduler": scheduler}
    return {"monitor": given["monitor"], **settings}


def _scheduler_config(
    module: LightningModule, given: Any, optimizers: list[Optimizer]
) -> LRSchedulerConfig:
    settings = dict(given) if isinstance(given, Mapping) else {"scheduler": given}
    known = [field.name for field in fields(LRSchedulerConfig)]
    if "scheduler" not in settings:
        raise MisconfigurationException(
            f"A dict of a scheduler needs the key `scheduler`; it has {listed(settings)}."
        )
    for key in [key for key in settings if key not in known]:
        warn(f"A dict of a scheduler has the unknown key {key!r}, which is ignored; accepted are "
             f"{listed(known)}.{closest(str(key), known)}")
        del settings[key]
    plateau = isinstance(settings["scheduler"], ReduceLROnPlateau)
    config = LRSchedulerConfig(**{"reduce_on_plateau": plateau, **settings})
    _check_scheduler(module, config, optimizers)
    return config


def _check_scheduler(
    module: LightningModule, config: LRSchedulerConfig, optimizers: list[Optimizer]
) -> None:
    scheduler = config.scheduler
    if config.interval not in ("step", "epoch"):
        raise MisconfigurationException(
            f"The interval of a scheduler is 'step' or 'epoch', not {config.interval!r}."
        )
    if not isinstance(config.frequency, int) or config.frequency < 1:
        raise MisconfigurationException(
            f"The frequency of a scheduler is an int of at least 1, not {config.frequency!r}."
        )
    if config.reduce_on_plateau and config.monitor is None:
        raise MisconfigurationException(
            "A `ReduceLROnPlateau` scheduler needs the metric to watch. Return "
            "{'scheduler': ..., 'monitor': 'the_logged_name'}."
        )
    usual = isinstance(scheduler, (LRScheduler, ReduceLROnPlateau))
    if not usual and not module._overrides("lr_scheduler_step"):
        raise MisconfigurationException(
            f"{scheduler!r} is no torch scheduler, and nothing says how to step it. Override "
            "`lr_scheduler_step(scheduler, metric)`."
        )
    if usual and getattr(scheduler, "optimizer", None) not in optimizers:
        raise MisconfigurationException(
            f"{type(scheduler).__name__} schedules an optimizer that `configure_optimizers` did "
            "not return. Return that optimizer, too."
        )


def monitored(config: LRSchedulerConfig, metrics: Mapping[str, Tensor]) -> Tensor | None:
    """The metric that a `ReduceLROnPlateau` steps with; None to skip the step.

    Args:
        config: of the scheduler.
        metrics: what was logged so far.

    Raises:
        MisconfigurationException: it was not logged, and the scheduler's settings are strict.
    """
    if config.monitor is not None and config.monitor in metrics:
        return metrics[config.monitor]
    message = (f"A `ReduceLROnPlateau` scheduler monitors {config.monitor!r}, which was not "
               f"logged. Logged so far: {listed(metrics)}.")
    if config.strict:
        raise MisconfigurationException(f"{message} With `'strict': False` the step is skipped.")
    warn(message)
    return None


def loss_and_extras(answer: Any) -> tuple[Tensor | None, dict[str, Any]]:
    """What `training_step` returned, as the loss and the rest.

    Args:
        answer: what it returned.

    Raises:
        MisconfigurationException: there is no loss in it.
    """
    if isinstance(answer, Tensor):
        return answer, {}
    if answer is None:
        return None, {}
    if isinstance(answer, Mapping) and isinstance(answer.get("loss"), Tensor):
        return answer["loss"], {name: value for name, value in answer.items() if name != "loss"}
    got = f"a dict with {listed(answer)}" if isinstance(answer, Mapping) else repr(answer)
    raise MisconfigurationException(
        f"`training_step` returned {got}. In automatic optimization it returns the loss, a "
        "tensor, a dict whose key `loss` holds it, or None to skip the batch."
    )


def closure_left_out() -> MisconfigurationException:
    """The error for a step whose closure was not called, as in Lightning 2.2."""
    return MisconfigurationException(
        "`optimizer_step` did not run the closure, so this batch was not trained on. Call "
        "`optimizer.step(closure=optimizer_closure)`, or `optimizer_closure()` to leave out the "
        "step. An optimizer of your own calls the closure in its `step`."
    )


def of_each_optimizer(outputs: list[Any]) -> list[Any]:
    """The outputs of an epoch's batches, without those of skipped ones; a list for each optimizer
    when there are several (edition 1.5).

    Args:
        outputs: by batch; each a dict, or a list of dicts.
    """
    if any(isinstance(each, list) for each in outputs):
        return [[each for each in column if each] for column in zip(*outputs)]
    return [each for each in outputs if each]


def manual_outputs(answer: Any) -> dict[str, Any]:
    """What `on_train_batch_end` gets in manual optimization.

    Args:
        answer: what `training_step` returned.
    """
    if answer is None:
        return {}
    if isinstance(answer, Tensor):
        return {"loss": answer.detach()}
    if isinstance(answer, Mapping):
        return {k: v.detach() if k == "loss" and isinstance(v, Tensor) else v
                for k, v in answer.items()}
    raise MisconfigurationException(
        f"`training_step` returned {answer!r}. In manual optimization it returns a tensor, a dict "
        "or None."
    )


def returns_nothing(hook: str, value: object) -> None:
    """Refuse what a hook returned whose value would go nowhere.

    Args:
        hook: its name.
        value: what it returned.

    Raises:
        MisconfigurationException: it is not None, as in edition 1.5.
    """
    if value is not None:
        raise MisconfigurationException(
            f"`{hook}` returned {type(value).__name__!r}, which would be lost: leave out the "
            "`return`, and `self.log` what is to be kept."
        )
