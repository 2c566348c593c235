"""What modules and callbacks import from `utilities`, under the names of 2.x."""
from __future__ import annotations

import functools
import os
from typing import Any, Callable

import torch
from torch import Tensor, nn

from .data import move_data_to_device
from .errors import MisconfigurationException, info as rank_zero_info, warn as rank_zero_warn
from .hparams import AttributeDict

__all__ = [
    "AttributeDict", "MisconfigurationException", "STEP_OUTPUT", "grad_norm",
    "move_data_to_device", "rank_zero_info", "rank_zero_only", "rank_zero_warn",
]

STEP_OUTPUT = Any  # a tensor, a mapping or None: what a step returns


def rank_zero_only(function: Callable[..., Any], default: Any = None) -> Callable[..., Any]:
    """Let a function do its work in the first process only.

    Args:
        function: what is decorated.
        default: what it returns in the other processes.

    `rank_zero_only.rank` is the number of this process, as torchrun gives it.

    Returns:
        The function, with its name and text.

    Source: edition 2.2.
    """

    @functools.wraps(function)
    def in_the_first(*args: Any, **kwargs: Any) -> Any:
        if rank_zero_only.rank != 0:  # type: ignore[attr-defined]
            return default
        return function(*args, **kwargs)

    return in_the_first


# Lightning's name for it. For mypy a function has no attributes of its own.
rank_zero_only.rank = int(os.environ.get("RANK", 0))  # type: ignore[attr-defined]


def grad_norm(
    module: nn.Module, norm_type: float | int | str, group_separator: str = "/"
) -> dict[str, Tensor]:
    """The norm of each parameter's gradient, and of all; for `on_before_optimizer_step`.

    Args:
        module: whose parameters.
        norm_type: above 0, or "inf".
        group_separator: between `grad_2.0_norm` and the parameter's name.

    Returns:
        `grad_2.0_norm/NAME` -> a scalar for each parameter that has a gradient, and
        `grad_2.0_norm_total`.

    Raises:
        ValueError: a norm that is not above 0.

    Source: edition 2.2.
    """
    order = float(norm_type)
    if order <= 0:
        raise ValueError(f"`grad_norm(norm_type={norm_type!r})`: accepted is a number above 0, "
                         "or 'inf'.")
    prefix = f"grad_{order}_norm"
    norms = {
        f"{prefix}{group_separator}{name}": parameter.grad.norm(order)
        for name, parameter in module.named_parameters() if parameter.grad is not None
    }
    if norms:
        norms[f"{prefix}_total"] = torch.stack(list(norms.values())).norm(order)
    return norms
