"""Import path of the callbacks, as in `from minilightning.callbacks import EarlyStopping`.

`Callback` documents every hook. `LambdaCallback` is for a hook or two that need no class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from .callback import Callback
from .errors import MisconfigurationException
from .gpu_stats import GPUStatsMonitor
from .learning_rate import GradientAccumulationScheduler, LearningRateMonitor
from .monitors import EarlyStopping, ModelCheckpoint
from .progress import ProgressBar, ProgressBarBase
from .summary import ModelSummary
from .timer import Timer

__all__ = [
    "Callback",
    "EarlyStopping",
    "GPUStatsMonitor",
    "GradientAccumulationScheduler",
    "LambdaCallback",
    "LearningRateMonitor",
    "ModelCheckpoint",
    "ModelSummary",
    "ProgressBar",
    "ProgressBarBase",
    "TQDMProgressBar",
    "Timer",
]

TQDMProgressBar = ProgressBar  # its name in 2.x

_HOOKS = tuple(
    name for name in vars(Callback) if name.startswith("on_") or name in ("setup", "teardown")
)


class LambdaCallback(Callback):
    """A callback made of functions: `LambdaCallback(on_train_end=lambda trainer, model: ...)`.

    Args:
        functions: one keyword per hook of `Callback`, older editions' hooks included. A function
            takes what the hook takes, without `self`, in the signature of any edition. None is
            the same as leaving the keyword out.

    Raises:
        MisconfigurationException: for a keyword that is no hook, or a value that is no function.

    Edition 2.2 (`LambdaCallback` of 2.2.5, plus the hooks that only 1.1 and 1.5 have).
    """

    def __init__(self, **functions: Callable[..., Any] | None) -> None:
        for name, function in functions.items():
            if name not in _HOOKS:
                raise MisconfigurationException(_no_such_hook(name))
            if function is None:
                continue
            if not callable(function):
                raise MisconfigurationException(_no_function(name, function))
            setattr(self, name, function)


def _no_such_hook(name: str) -> str:
    near = get_close_matches(name, _HOOKS, n=1)
    advice = f"Did you mean `{near[0]}`?" if near else f"The hooks are: {', '.join(_HOOKS)}."
    return f"LambdaCallback got `{name}=`, which is no hook of a callback. {advice}"


def _no_function(name: str, value: object) -> str:
    arguments = ", ".join(inspect.signature(getattr(Callback, name)).parameters)
    return (
        f"LambdaCallback got `{name}={value!r}`, of type {type(value).__name__}. Pass a function"
        f" that takes ({arguments.removeprefix('self, ')})."
    )


# help() and editors show the hooks by name, as if 48 keywords were written out. For mypy a function
# has no attributes of its own.
LambdaCallback.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    + [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in _HOOKS
    ]
)
