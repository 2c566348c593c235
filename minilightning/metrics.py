"""What `self.log` keeps, reduces and hands out."""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from numbers import Real
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Iterator

import torch
from torch import Tensor, nn

from .data import batch_size_of, batch_sizes
from .errors import MisconfigurationException, listed, warn

if TYPE_CHECKING:
    from .strategies import SingleDeviceStrategy

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
EXACT = (torch.float32, torch.float64)  # in which sums over an epoch are kept


@dataclass(slots=True)
class Entry:
    """One logged name: its settings, its last value, and what the epoch has made of it so far.

    A metric object reduces its values itself: its `reduce_fx` is None here.

    Args:
        name: under which it is logged.
        of_loader: what follows the name: "/dataloader_idx_N" or nothing.
        settings: what has to stay as it is; None: of a resumed run, until it logs again.
        prog_bar, logger: who sees it.
        on_step, on_epoch: when it is seen.
        reduce_fx: one of `REDUCTIONS`, a function of the epoch's values, or None.
        dataloader_idx: place of the loader that runs; None: there is one.
        sync_dist: reduced over the processes.
        last: the last value, or the metric object.
        total: what the reduction has made of the values so far.
        weight: the sum of the batch sizes in `total`.
        reduced: what an unknown `reduce_fx` had made of the values before the run was resumed.
    """

    UNKNOWN: ClassVar[str] = "unknown"  # the `reduce_fx` of a resumed run until it logs again

    name: str
    of_loader: str
    settings: tuple[Any, ...] | None
    prog_bar: bool
    logger: bool
    on_step: bool
    on_epoch: bool
    reduce_fx: Any
    dataloader_idx: int | None
    sync_dist: bool = False
    last: Any = None
    total: Any = None
    weight: float = 0
    reduced: Any = None

    def add(self, value: Any, batch_size: float, step_value: Any = None) -> None:
        """Take in one value.

        Args:
            value: a scalar tensor, or a metric object.
            batch_size: weight of the value in a mean.
            step_value: what is seen of this step, if that is another value.
        """
        self.last = value if step_value is None else step_value
        if not self.on_epoch or self.reduce_fx is None:
            return
        if callable(self.reduce_fx):
            self.total = [*(self.total or ()), value]
            return
        if self.reduce_fx == "mean":
            value = value * batch_size
            self.weight += batch_size
        combine = REDUCTIONS[self.reduce_fx]
        self.total = value if self.total is None else combine(self.total, value)

    def portable(self) -> Entry:
        """What other processes need to know: on the CPU, and without functions."""
        total = self.total.cpu() if isinstance(self.total, Tensor) else self.total
        by_name = isinstance(self.reduce_fx, str)
        return replace(self, settings=(), last=None, total=total,
                       reduce_fx=self.reduce_fx if by_name else None)

    def merge(self, others: list[Entry]) -> None:
        """Take in what all processes have, this one among them, in the same order everywhere.

        Args:
            others: by rank.
        """
        device = self.total.device if isinstance(self.total, Tensor) else None
        totals = [other.total for other in others]
        if callable(self.reduce_fx):
            self.total = [value for total in totals for value in total]
        else:
            self.total = reduce(REDUCTIONS[self.reduce_fx], totals).to(device)
        self.weight = sum(other.weight for other in others)

    def step_value(self) -> Any:
        """What is seen of the last step; None: nothing."""
        if self.reduce_fx is None:  # what calling the object returned; None if it was not called
            return getattr(self.last, "_forward_cache", None)
        return self.last

    def epoch_value(self) -> Any:
        """What the epoch has made of the values so far; None: that cannot be told."""
        if self.reduce_fx is None:
            return self.last.compute()
        if self.reduce_fx == self.UNKNOWN:
            return self.reduced
        if callable(self.reduce_fx):
            return self.reduce_fx(torch.stack(self.total))
        return self.total / self.weight if self.reduce_fx == "mean" else self.total


class Metrics:
    """All that is logged in a run.

    `callback`, `logged` and `progress_bar` are what callbacks, loggers and bars see; they are
    brought up to date by `collect`. Training and evaluation keep their entries apart, so that a
    validation inside a training epoch leaves the epoch's sums alone.

    Args:
        strategy: reduces over the processes.
    """

    def __init__(self, strategy: SingleDeviceStrategy) -> None:
        self.strategy, self.several = strategy, strategy.world_size > 1
        self.alike = True  # whether every process has the batch that runs
        self.callback: dict[str, Tensor] = {}
        self.logged: dict[str, Tensor] = {}
        self.progress_bar: dict[str, float] = {}
        self.open: dict[Any, Entry] | None = None  # entries of the running loop
        self.of_training: dict[Any, Entry] = {}  # those of the training loop
        self.training = False
        self.in_batch = False  # between the first batch and the end of the epoch's batches
        self.batch: Any = None  # the batch that runs
        self.dataloader_idx: int | None = None

    def clear(self) -> None:
        """Forget everything, as at the start of a run and after the sanity check."""
        self.callback, self.logged, self.progress_bar = {}, {}, {}
        self.open, self.in_batch, self.batch, self.dataloader_idx = None, False, None, None

    def begin(self, training: bool) -> tuple[Any, ...]:
        """Start the entries of a loop.

        Args:
            training: whether it is that of training.

        Returns:
            The entries of the loop around it, for `end`.
        """
        around = (self.open, self.training, self.in_batch, self.batch, self.dataloader_idx)
        self.open, self.training, self.in_batch = {}, training, False
        if training:
            self.of_training = self.open
        self.batch, self.dataloader_idx = None, None
        return around

    def end(self, around: tuple[Any, ...]) -> None:
        """Go back to the loop around this one.

        Args:
            around: what `begin` gave.
        """
        self.open, self.training, self.in_batch, self.batch, self.dataloader_idx = around

    def begin_batches(self, dataloader_idx: int | None = None) -> None:
        """Start the batches of a loader; `batch` is set at each of them.

        Args:
            dataloader_idx: place of the loader; None: it is the only one.
        """
        self.dataloader_idx, self.in_batch = dataloader_idx, True

    def end_batches(self) -> None:
        """Keep the last step values; from here on, epoch values are what is seen."""
        self.collect()
        self.in_batch, self.batch, self.alike = False, None, True
        if self.several:
            self._merge_epochs()

    def _merge_epochs(self) -> None:
        """Give every process what the batches of all of them have logged with `sync_dist`. One may
        have had no batch, so that it does not know the names."""
        entries = {} if self.open is None else self.open
        mine = {}
        for key, entry in entries.items():
            of_this_loader = entry.dataloader_idx == self.dataloader_idx
            is_object = entry.reduce_fx is None
            if entry.sync_dist and entry.on_epoch and of_this_loader and not is_object:
                mine[key] = entry
        gathered = self.strategy.gather_objects({k: e.portable() for k, e in mine.items()})
        for key in dict.fromkeys(key for each in gathered for key in each):
            others = [each[key] for each in gathered if key in each]
            if key not in mine and others[0].reduce_fx is not None:
                mine[key] = entries[key] = replace(others[0])
            if key in mine:
                mine[key].merge(others)

    def log(
        self, hook: str | None, name: str, value: Any, prog_bar: bool, logger: bool,
        on_step: bool | None, on_epoch: bool | None, reduce_fx: Any,
        add_dataloader_idx: bool, batch_size: float | None, others: tuple[Any, ...] = (),
        module: nn.Module | None = None, sync_dist: bool = False, group: Any = None,
    ) -> None:
        """Keep one value. See `LightningModule.log` for the arguments.

        Args:
            others: settings that change nothing but must stay as they are, too.
            module: in which a metric object has to be found; None: anywhere.
            sync_dist: reduce over all processes: a step value now, an epoch's at its end.
            group: the processes of a step value; None: all.
            hook: that runs; None: none does.

        Raises:
            MisconfigurationException: the hook may not log, or not like this; the batch size
                cannot be told; the name was logged in this hook with other settings; a metric
                object is not in the module.
        """
        settings = (prog_bar, logger, on_step, on_epoch, reduce_fx, others)
        key = (hook, name, self.dataloader_idx if add_dataloader_idx else None)
        entry = self.open.get(key) if self.open is not None else None
        is_new = entry is None
        if entry is None:
            entry = self._new_entry(key, settings, add_dataloader_idx, value,
                                    sync_dist and self.in_batch)
            _check_metric_object(name, value, module)
        elif entry.settings is None:  # of a run that is resumed: the settings are what they were
            entry.settings = settings
            if entry.reduce_fx == Entry.UNKNOWN:
                entry.reduce_fx = _reduction(reduce_fx)
        elif (
            entry.settings != settings and not _same(entry.settings, settings)
            or entry.dataloader_idx != self.dataloader_idx
        ):
            raise MisconfigurationException(
                f"`self.log({name!r}, ...)` was called in `{hook}` with other settings than "
                "before. Use another name, or the same settings; with several dataloaders leave "
                "`add_dataloader_idx=True`."
            )
        if batch_size is None:
            weighs = entry.on_epoch and entry.reduce_fx == "mean"
            batch_size = self._batch_size(name, is_new) if weighs else 1
        if self.several and sync_dist and isinstance(entry.reduce_fx, str):
            reduced = None
            if not self.in_batch or (entry.on_step and self.alike):
                reduced = self.strategy.reduce(value, group, entry.reduce_fx)
            entry.add(value if self.in_batch else reduced, batch_size, reduced)
            return
        entry.add(value, batch_size)

    def _new_entry(
        self, key: Any, settings: tuple[Any, ...], add_dataloader_idx: bool, value: Any,
        sync_dist: bool,
    ) -> Entry:
        hook, name, _ = key
        entries = self.open
        prog_bar, logger, on_step, on_epoch, reduce_fx, _ = settings
        reduce_fx = _reduction(reduce_fx)
        if entries is None or hook not in LOGGING:
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
        if add_dataloader_idx and "/dataloader_idx_" in name:
            raise MisconfigurationException(
                f"`self.log({name!r}, ...)`: `/dataloader_idx_N` is added to the name by itself. "
                "Leave it out, or set `add_dataloader_idx=False`."
            )
        reduce_fx = reduce_fx if isinstance(value, Tensor) else None
        several = add_dataloader_idx and self.dataloader_idx is not None
        of_loader = f"/dataloader_idx_{self.dataloader_idx}" if several else ""
        entry = Entry(name, of_loader, settings, prog_bar, logger, on_step, on_epoch, reduce_fx,
                      self.dataloader_idx, sync_dist)
        if self.several and on_epoch and not (sync_dist or settings[-1][-1]) and reduce_fx:
            warn(f"`self.log({name!r}, ...)` reduces over an epoch and not over the processes: "
                 "each keeps its own value. Set `sync_dist=True`, or `rank_zero_only=True`.")
        entries[key] = entry
        return entry

    def _batch_size(self, name: str, is_new: bool) -> float:
        if self.batch is None:
            return 1
        size = batch_size_of(self.batch)
        if size is None:
            raise MisconfigurationException(
                f"`self.log({name!r}, ...)` weighs by batch size, and that of a batch of type "
                f"`{type(self.batch).__name__}` cannot be told. Pass `batch_size=` to it."
            )
        if is_new and any(other != size for other in batch_sizes(self.batch)):
            warn(f"`self.log({name!r}, ...)` weighs by batch size, and the tensors of a batch "
                 f"differ in it. The first one's is taken, here {size}. Pass `batch_size=` to it.")
        return size

    def collect(self) -> dict[str, Tensor]:
        """Bring what is seen up to date.

        Returns:
            What the loggers get: value by name.
        """
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
            yield (entry, entry.name + entry.of_loader, entry.name + suffix + entry.of_loader,
                   as_value(entry.name, value))

    def reset_objects(self) -> None:
        """Reset the metric objects that were logged in this epoch."""
        for entry in (self.open or {}).values():
            if entry.reduce_fx is None:
                entry.last.reset()


def _reduction(reduce_fx: Any) -> Any:
    reduce_fx = reduce_fx.lower() if isinstance(reduce_fx, str) else reduce_fx
    return SAME_AS.get(reduce_fx, reduce_fx)


def _same(settings: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Whether settings are equal, where a function is what it was if its code is, as that of a
    lambda within the call is."""
    def code(value: Any) -> Any:
        return getattr(value, "__code__", value)

    return list(map(code, settings)) == list(map(code, others))


def _check_metric_object(name: str, value: Any, module: nn.Module | None) -> None:
    """Refuse a metric object that is a module of its own, outside the module that logs it."""
    if module is None or not isinstance(value, nn.Module):
        return
    if all(each is not value for each in module.modules()):
        raise MisconfigurationException(
            f"`self.log({name!r}, ...)` got a `{type(value).__name__}` that is no attribute of "
            f"`{type(module).__name__}`, so that it is neither moved nor saved with it. Set it as "
            "an attribute in `__init__`, or say where it is with `metric_attribute=`."
        )


def as_value(name: str, value: Any) -> Any:
    """A logged value as it is kept: a detached one-element tensor, or a metric object.

    Args:
        name: under which it is logged, for the message.
        value: what `self.log` was given.

    Raises:
        ValueError: a tensor of several elements, a string, a collection of metric objects, or
            something else that is no number, as Lightning 2.2 does.
    """
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(
                f"`self.log({name!r}, ...)` got a tensor of shape {tuple(value.shape)}. It logs "
                "one number: reduce it first, for example with `.mean()`."
            )
        value = value.detach()
        if value.dtype not in EXACT:
            value = value.to(_default_type())
        return value if value.ndim == 0 else value.squeeze()
    if isinstance(value, (int, float)) or isinstance(value, Real):
        return torch.tensor(float(value), dtype=_default_type())
    has_items = hasattr(value, "items")
    if hasattr(value, "compute") and hasattr(value, "reset") and not has_items:
        return value
    hint = " Log the items one by one, or with `self.log_dict`." * has_items
    raise ValueError(
        f"`self.log({name!r}, {value!r})`: a {type(value).__name__} cannot be logged. Pass a "
        f"number, a one-element tensor or a metric object.{hint}"
    )


def _default_type() -> torch.dtype:
    """Of numbers and of tensors whose own type is too coarse."""
    default = torch.get_default_dtype()
    return default if default in EXACT else torch.float32
