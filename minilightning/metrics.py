"""What `self.log` keeps, reduces and hands out."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import torch
from torch import Tensor

from .data import batch_size_of
from .errors import MisconfigurationException, listed

# Which hooks may log, and how by default (edition 2.2, trace log_in_each_hook_allowed):
#   step: as it comes, or reduced over the epoch; by default as it comes
#   both: either; by default reduced over the epoch
#   epoch: reduced over the epoch only
LOGGING = {
    **dict.fromkeys((
        "on_batch_start", "on_train_batch_start", "training_step", "on_before_zero_grad",
        "optimizer_zero_grad", "on_before_backward", "backward", "on_after_backward",
        "on_before_optimizer_step", "configure_gradient_clipping", "optimizer_step",
        "on_train_batch_end", "on_batch_end"), "step"),
    **dict.fromkeys((
        "on_validation_batch_start", "validation_step", "on_validation_batch_end",
        "on_test_batch_start", "test_step", "on_test_batch_end"), "both"),
    **dict.fromkeys((
        "on_train_start", "on_train_epoch_start", "training_epoch_end", "on_train_epoch_end",
        "on_epoch_start", "on_epoch_end",
        "on_validation_start", "on_validation_epoch_start", "validation_epoch_end",
        "on_validation_epoch_end",
        "on_test_start", "on_test_epoch_start", "test_epoch_end", "on_test_epoch_end"), "epoch"),
}
REDUCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": torch.add, "sum": torch.add, "min": torch.minimum, "max": torch.maximum,
}
SAME_AS = {  # functions that Lightning knows by their names
    torch.mean: "mean", "avg": "mean", torch.sum: "sum", sum: "sum", torch.min: "min", min: "min",
    torch.max: "max", max: "max",
}


@dataclass(slots=True)
class Entry:
    """One logged name: its settings, its last value, and what the epoch has made of it so far."""

    name: str
    of_loader: str  # what follows the name: "/dataloader_idx_N" or nothing
    settings: tuple[Any, ...]
    prog_bar: bool
    logger: bool
    on_step: bool
    on_epoch: bool
    reduce_fx: Any
    dataloader_idx: int | None
    last: Any = None
    total: Any = None
    weight: float = 0

    def add(self, value: Any, batch_size: float) -> None:
        self.last = value
        if not self.on_epoch or hasattr(value, "compute"):
            return
        if callable(self.reduce_fx):
            self.total = [*(self.total or ()), value]
            return
        if self.reduce_fx == "mean":
            value = value * batch_size
            self.weight += batch_size
        reduce = REDUCTIONS[self.reduce_fx]
        self.total = value if self.total is None else reduce(self.total, value)

    def step_value(self) -> Any:
        return self.last._forward_cache if hasattr(self.last, "compute") else self.last

    def epoch_value(self) -> Any:
        if hasattr(self.last, "compute"):
            return self.last.compute()
        if callable(self.reduce_fx):
            return self.reduce_fx(torch.stack(self.total))
        return self.total / self.weight if self.reduce_fx == "mean" else self.total


class Metrics:
    """All that is logged in a run.

    `callback`, `logged` and `progress_bar` are what callbacks, loggers and bars see; they are
    brought up to date by `collect`. Training and evaluation keep their entries apart, so that a
    validation inside a training epoch leaves the epoch's sums alone.
    """

    def __init__(self) -> None:
        self.callback: dict[str, Tensor] = {}
        self.logged: dict[str, Tensor] = {}
        self.progress_bar: dict[str, float] = {}
        self.open: dict[Any, Entry] | None = None  # entries of the running loop
        self.training = False
        self.in_batch = False  # between the first batch and the end of the epoch's batches
        self.batch: Any = None  # the batch that runs
        self.dataloader_idx: int | None = None

    def clear(self) -> None:
        """Forget everything, as at the start of a run and after the sanity check."""
        self.callback, self.logged, self.progress_bar = {}, {}, {}
        self.open, self.in_batch, self.batch, self.dataloader_idx = None, False, None, None

    def begin(self, training: bool) -> tuple[Any, ...]:
        """Start the entries of a loop; returns those of the loop around it, for `end`."""
        around = (self.open, self.training, self.in_batch, self.batch, self.dataloader_idx)
        self.open, self.training, self.in_batch = {}, training, False
        self.batch, self.dataloader_idx = None, None
        return around

    def end(self, around: tuple[Any, ...]) -> None:
        """Go back to the loop around this one."""
        self.open, self.training, self.in_batch, self.batch, self.dataloader_idx = around

    def begin_batches(self, dataloader_idx: int | None = None) -> None:
        """Start the batches of a loader; `batch` is set at each of them."""
        self.dataloader_idx, self.in_batch = dataloader_idx, True

    def end_batches(self) -> None:
        """Keep the last step values; from here on, epoch values are what is seen."""
        self.collect()
        self.in_batch, self.batch = False, None

    def log(
        self, hook: str, name: str, value: Any, prog_bar: bool, logger: bool,
        on_step: bool | None, on_epoch: bool | None, reduce_fx: Any,
        add_dataloader_idx: bool, batch_size: int | None,
    ) -> None:
        """Keep one value. See `LightningModule.log` for the arguments.

        Raises:
            MisconfigurationException: the hook may not log, or not like this; the batch size
                cannot be told; the name was logged in this hook with other settings.
        """
        settings = (prog_bar, logger, on_step, on_epoch, reduce_fx)
        key = (hook, name, self.dataloader_idx if add_dataloader_idx else None)
        entry = self.open.get(key) if self.open is not None else None
        if entry is None:
            entry = self._new_entry(key, settings, add_dataloader_idx)
        elif entry.settings != settings or entry.dataloader_idx != self.dataloader_idx:
            raise MisconfigurationException(
                f"`self.log({name!r}, ...)` was called in `{hook}` with other settings than "
                "before. Use another name, or the same settings; with several dataloaders leave "
                "`add_dataloader_idx=True`."
            )
        weight = batch_size or 1
        if batch_size is None and entry.on_epoch and entry.reduce_fx == "mean":
            weight = self._batch_size(name)
        entry.add(value, weight)

    def _new_entry(self, key: Any, settings: tuple[Any, ...], add_dataloader_idx: bool) -> Entry:
        hook, name, _ = key
        prog_bar, logger, on_step, on_epoch, reduce_fx = settings
        reduce_fx = SAME_AS.get(reduce_fx, reduce_fx)
        if self.open is None or hook not in LOGGING:
            raise MisconfigurationException(
                f"`self.log({name!r}, ...)` was called in `{hook}`, which cannot log. Hooks that "
                f"can: {listed(LOGGING)}. Elsewhere, write to `self.logger.experiment` itself."
            )
        kind = LOGGING[hook]
        if on_step and kind == "epoch":
            raise MisconfigurationException(
                f"`self.log({name!r}, on_step=True)` was called in `{hook}`, which runs once an "
                "epoch and has no step. Leave `on_step` out."
            )
        if not callable(reduce_fx) and reduce_fx not in REDUCTIONS:
            raise MisconfigurationException(
                f"`self.log({name!r}, reduce_fx={reduce_fx!r})`: accepted are "
                f"{listed(REDUCTIONS)}, or a function of the epoch's values."
            )
        on_step = kind == "step" if on_step is None else on_step
        on_epoch = kind != "step" if on_epoch is None else on_epoch
        if not on_step and not on_epoch:
            raise MisconfigurationException(
                f"`self.log({name!r}, on_step=False, on_epoch=False)` would log nothing. Set one."
            )
        several = add_dataloader_idx and self.dataloader_idx is not None
        of_loader = f"/dataloader_idx_{self.dataloader_idx}" if several else ""
        entry = Entry(name, of_loader, settings, prog_bar, logger, on_step, on_epoch, reduce_fx,
                      self.dataloader_idx)
        self.open[key] = entry
        return entry

    def _batch_size(self, name: str) -> float:
        if self.batch is None:
            return 1
        size = batch_size_of(self.batch)
        if size is None:
            raise MisconfigurationException(
                f"`self.log({name!r}, ...)` weighs by batch size, and the size of a "
                f"{type(self.batch).__name__} cannot be told. Pass `batch_size=` to it."
            )
        return size

    def collect(self) -> dict[str, Tensor]:
        """Bring what is seen up to date; returns what the loggers get."""
        to_log = {}
        for entry, name, shown, value in self._values():
            if self.training or (entry.on_epoch and not self.in_batch):
                self.callback[name] = self.callback[shown] = value
            if entry.logger:
                to_log[shown] = self.logged[shown] = value
            if entry.prog_bar:
                self.progress_bar[shown] = value.item()
        return to_log

    def _values(self) -> Iterator[tuple[Entry, str, str, Tensor]]:
        """Each entry that has a value now, its name, its name with suffix, and the value."""
        for entry in (self.open or {}).values():
            if entry.dataloader_idx != self.dataloader_idx:
                continue
            if not (entry.on_step if self.in_batch else entry.on_epoch):
                continue
            value = entry.step_value() if self.in_batch else entry.epoch_value()
            if value is None:
                continue
            both = entry.on_step and entry.on_epoch
            suffix = ("_step" if self.in_batch else "_epoch") if both else ""
            value = value if isinstance(value, Tensor) else torch.tensor(float(value))
            yield (entry, entry.name + entry.of_loader, entry.name + suffix + entry.of_loader,
                   value)

    def reset_objects(self) -> None:
        """Reset the metric objects that were logged in this epoch."""
        for entry in (self.open or {}).values():
            if hasattr(entry.last, "compute"):
                entry.last.reset()


def as_value(name: str, value: Any) -> Any:
    """A logged value as it is kept: a detached one-element tensor, or a metric object.

    Raises:
        ValueError: a tensor of several elements, a string, or something else that is no number,
            as Lightning 2.2 does.
    """
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(
                f"`self.log({name!r}, ...)` got a tensor of shape {tuple(value.shape)}. It logs "
                "one number: reduce it first, for example with `.mean()`."
            )
        value = value.detach()
        if not value.is_floating_point():
            value = value.to(torch.get_default_dtype())
        return value if value.ndim == 0 else value.squeeze()
    if isinstance(value, (int, float)):
        return torch.tensor(float(value))
    if hasattr(value, "compute") and hasattr(value, "reset"):
        return value
    hint = " Log the items one by one, or with `self.log_dict`." * isinstance(value, Mapping)
    raise ValueError(
        f"`self.log({name!r}, {value!r})`: a {type(value).__name__} cannot be logged. Pass a "
        f"number, a one-element tensor or a metric object.{hint}"
    )
