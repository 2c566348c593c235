"""In which floating-point types a run computes: `Trainer(precision=...)`."""
from __future__ import annotations

from contextlib import AbstractContextManager, ContextDecorator, nullcontext
from typing import Any, Callable

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, Optimizer

from .data import map_nested
from .errors import MisconfigurationException

ALIASES = {
    "32": "32-true",
    "64": "64-true",
    "bf16": "bf16-mixed",
    "16": "16-mixed",
}
TYPES = {
    "32-true": torch.float32,
    "64-true": torch.float64,
    "bf16-true": torch.bfloat16,
    "16-true": torch.float16,
    "bf16-mixed": torch.bfloat16,
    "16-mixed": torch.float16,
}
STEPS = ("training_step", "validation_step", "test_step", "predict_step")


class Precision:
    """What `Trainer(precision=...)` means.

    "...-true" computes in that type: the module, its inputs, and what is made in its hooks.
    "...-mixed" keeps the weights in 32 bit and lets torch choose per operation; with 16 bits the
    loss is scaled, so that small gradients do not vanish.

    Args:
        name: one of `TYPES` or `ALIASES`, as str or int.
        device: of the run.

    Attributes:
        skipped: whether the last step of an optimizer was left out, because a scaled gradient
            was infinite.

    Raises:
        ValueError: a name that is not known, as in Lightning 2.2.

    Source: edition 2.2, `Trainer(precision=...)`; torch's own autocast and GradScaler.
    """

    def __init__(self, name: Any, device: torch.device) -> None:
        given, name = name, ALIASES.get(str(name), str(name))
        if name not in TYPES or isinstance(given, bool):
            raise ValueError(
                f"`Trainer(precision={given!r})` is not known; accepted are "
                f"{', '.join(map(repr, (*TYPES, *ALIASES)))}."
            )
        self.name, self.device, self.dtype = name, device, TYPES[name]
        self.is_mixed = name.endswith("-mixed")
        self.converts = not self.is_mixed and name != "32-true"
        self.skipped = False
        self.scaler: Any = None
        if name == "16-mixed":
            self.scaler = torch.amp.GradScaler(device.type)

    def creating(self) -> AbstractContextManager[Any]:
        """The context in which modules are made: tensors get the type of the run."""
        return _DefaultType(self.dtype) if self.converts else nullcontext()

    def convert_module(self, module: nn.Module) -> None:
        """Give the module the type of the run, unless it is mixed.

        Args:
            module: the one of the run.
        """
        if self.converts:
            module.to(self.dtype)

    def convert_input(self, batch: Any) -> Any:
        """A batch whose floating-point tensors have the type of the run; asked if it `converts`.

        Args:
            batch: a tensor, or a nesting of them.
        """
        return _converted(batch, self.dtype)

    def around_steps(self, on: Any) -> None:
        """Let the four steps compute in the type of the run, whoever calls them on `on`.

        Args:
            on: the trainer's hooks, see `dispatch.Bound`.
        """
        if not self.is_mixed and not self.converts:
            return
        for step in STEPS:
            around: Any = _DefaultType(self.dtype)
            if self.is_mixed:
                around = torch.autocast(self.device.type, self.dtype)
            setattr(on, step, around(getattr(on, step)))
        on.validation.step, on.test.step = on.validation_step, on.test_step

    def check(self, optimizers: list[Optimizer]) -> None:
        """Refuse an optimizer that computes the loss several times in a step, each time scaled.

        Args:
            optimizers: those of the run.

        Raises:
            MisconfigurationException: as Lightning 2.2 does.
        """
        if self.scaler is not None and any(isinstance(each, LBFGS) for each in optimizers):
            raise MisconfigurationException(
                f"`Trainer(precision={self.name!r})` scales the loss, which `LBFGS` cannot do "
                "with. Use precision='bf16-mixed', or another optimizer."
            )

    def scale(self, loss: Tensor) -> Tensor:
        """The loss as it is passed to `on_before_backward`.

        Args:
            loss: a scalar.
        """
        return loss if self.scaler is None else self.scaler.scale(loss)

    def unscale(self, optimizer: Optimizer) -> None:
        """Let the hooks before a step see gradients as they are.

        Args:
            optimizer: whose gradients.
        """
        if _has_gradients(optimizer):
            self.scaler.unscale_(optimizer)

    def step(
        self, optimizer: Optimizer, closure: Callable[[], Any], automatic: bool,
        kwargs: dict[str, Any],
    ) -> Any:
        """Step an optimizer whose gradients were scaled; torch's scaler takes no closure.

        Args:
            optimizer: what is stepped.
            closure: computes the gradients and unscales them.
            automatic: whether a closure that returns None has no gradients to step with.
            kwargs: for the optimizer's `step`.

        Returns:
            What the closure returned.
        """
        loss, self.skipped = closure(), False
        if not _has_gradients(optimizer) or (automatic and loss is None):
            return loss
        scale = self.scaler.get_scale()
        self.scaler.step(optimizer, **kwargs)
        self.scaler.update()
        self.skipped = self.scaler.get_scale() < scale
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The scaler's state; empty without one."""
        return {} if self.scaler is None else self.scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the scaler's state back, if this run has one.

        Args:
            state: what `state_dict` gave.
        """
        if self.scaler is not None and state:
            self.scaler.load_state_dict(state)


def _has_gradients(optimizer: Optimizer) -> bool:
    for group in optimizer.param_groups:
        if any(parameter.grad is not None for parameter in group["params"]):
            return True
    return False


class _DefaultType(ContextDecorator):
    """While it is open, torch makes floating-point tensors of this type."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.outer: list[torch.dtype] = []

    def __enter__(self) -> None:
        self.outer.append(torch.get_default_dtype())
        torch.set_default_dtype(self.dtype)

    def __exit__(self, *error: Any) -> None:
        torch.set_default_dtype(self.outer.pop())


def _converted(tree: Any, dtype: torch.dtype) -> Any:
    if isinstance(tree, Tensor):
        return tree.to(dtype) if tree.is_floating_point() else tree
    return map_nested(_converted, tree, dtype)
