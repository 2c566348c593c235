"""`save_hyperparameters`: the arguments of `__init__`, kept and written into checkpoints."""
from __future__ import annotations

import copy
import inspect
import sys
from types import FrameType
from typing import Any, Iterable

from .errors import closest, listed


class AttributeDict(dict[str, Any]):
    """A dict whose keys are attributes too: `hparams.lr` is `hparams["lr"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"No hyperparameter `{name}`; there are {listed(self)}.{closest(name, self)}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        width = max(map(len, self), default=0) + len('"":')
        lines = [f'"{name}":'.ljust(width) + f" {self[name]}" for name in sorted(self)]
        return "\n".join(lines)


class HasHyperparameters:
    """What LightningModule and LightningDataModule share: `hparams` (edition 2.2)."""

    _hparams: AttributeDict
    _hparams_initial: AttributeDict
    _hparams_name: str | None = None
    _log_hyperparams = False

    def save_hyperparameters(
        self, *args: Any, ignore: str | Iterable[str] = (), frame: FrameType | None = None,
        logger: bool = True,
    ) -> None:
        """Keep the arguments of `__init__` as `self.hparams`; a checkpoint then holds them.

        Args:
            args: names of the arguments to keep (all by default), or one dict or namespace that
                holds them.
            ignore: names to leave out.
            frame: the frame of the `__init__`; by default the caller's.
            logger: whether the loggers are told when a run starts.

        Raises:
            KeyError: `__init__` has no argument of that name, as in Lightning 2.2.

        Source: edition 2.2.
        """
        given = _init_arguments(frame or sys._getframe(1), self)
        name: str | None = "kwargs"
        if len(args) == 1 and not isinstance(args[0], str):
            name = next((key for key, value in given.items() if value is args[0]), None)
            given = args[0] if isinstance(args[0], dict) else vars(args[0])
        elif unknown := [each for each in args if each not in given]:
            raise KeyError(
                f"`save_hyperparameters({unknown[0]!r})`: `{type(self).__name__}.__init__` has no "
                f"such argument; it has {listed(given)}."
            )
        elif args:
            given = {each: given[each] for each in args}
        left_out = {ignore} if isinstance(ignore, str) else set(ignore)
        kept = {key: value for key, value in given.items() if key not in left_out}
        self._hparams_name, self._log_hyperparams = name, logger
        self.hparams.update(kept)
        self._hparams_initial = copy.deepcopy(self.hparams)

    @property
    def hparams(self) -> AttributeDict:
        """The hyperparameters; what you change here is not seen by `__init__` again."""
        if "_hparams" not in vars(self):
            self._hparams = AttributeDict()
        return self._hparams

    @property
    def hparams_initial(self) -> AttributeDict:
        """The hyperparameters as they were when `save_hyperparameters` was called."""
        initial: AttributeDict = vars(self).get("_hparams_initial", AttributeDict())
        return copy.deepcopy(initial)


def _init_arguments(frame: FrameType | None, owner: object) -> dict[str, Any]:
    """The arguments of the owner's `__init__`, and of those of its classes that lead up to it."""
    found: dict[str, Any] = {}
    while frame is not None and frame.f_code.co_name == "__init__":
        code, values = frame.f_code, frame.f_locals
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if not names or values.get(names[0]) is not owner:
            break
        found.update({name: values[name] for name in names[1:]})
        if code.co_flags & inspect.CO_VARKEYWORDS:
            places = code.co_argcount + code.co_kwonlyargcount
            places += bool(code.co_flags & inspect.CO_VARARGS)
            found.update(values[code.co_varnames[places]])
        frame = frame.f_back
    return found
