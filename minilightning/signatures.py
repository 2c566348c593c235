"""How an override is called, whatever the edition it was written for.

Position wherever some edition would have accepted the call, names only where every edition would
have refused it. Decided once, when hooks are bound for a run, never per call.
"""
from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Callable
from weakref import WeakKeyDictionary

from .errors import MisconfigurationException

if TYPE_CHECKING:
    from .callback import Callback
    from .trainer import Trainer

Function = Callable[..., Any]
Plan = tuple[list[int], dict[str, int]]  # places to pass by position; name -> place, by name

LEADING = {"C": ["trainer", "pl_module"], "K": ["trainer", "pl_module"], "I": ["trainer"]}
# What only older editions pass: its names, and where its value comes from.
EXTRAS: dict[str, Any] = {
    "unused": (("dataloader_idx", "unused"), lambda trainer, args, n: 0),
    "dataloader_idx": (("dataloader_idx",), lambda trainer, args, n: (*args[n:], 0)[0]),
    "optimizer_idx": (("optimizer_idx",), lambda trainer, args, n: (*args[n:], 0)[0]),
    "opt_idx": (("opt_idx",), lambda trainer, args, n: trainer.optimizers.index(args[0])),
    "outputs": (("outputs",), lambda trainer, args, n: trainer._epoch_outputs),
    "": ((), None),
}
COMES_ALONG = ("dataloader_idx", "optimizer_idx")  # call sites pass these when there are several


def overrides(receiver: object, hook: str) -> bool:
    """Whether a hook is overridden: looked for on the instance first, then on its class.

    An override set to None counts as none. What the base classes of this package implement is no
    override.

    Args:
        receiver: a callback, module or data module; None overrides nothing.
        hook: its name.
    """
    if receiver is None:
        return False
    own = getattr(receiver, "__dict__", {}).get(hook)
    if own is not None:
        return True
    if hook in getattr(receiver, "__dict__", {}):
        return False  # set to None on the instance
    method = getattr(type(receiver), hook, None)
    if method is None:
        return callable(getattr(receiver, hook, None))  # made on demand, as by a Mock
    return getattr(method, "__module__", None) not in _OWN_MODULES


_OWN_MODULES = (  # what these implement is a default
    *(f"{__package__}.{name}" for name in ("callback", "hooks", "module")),
    "torch.nn.modules.module",
)


def adapt(
    trainer: Trainer,
    function: Function,
    hook: str,
    arguments: list[str],
    letter: str,
    extra: str,
    receiver: object,
) -> Function:
    """`function` as a function of the hook's canonical arguments, whatever its edition.

    Args:
        function: the override, bound.
        hook: its name.
        arguments: names of the canonical ones.
        letter: the kind of receiver, as in `dispatch.HOOKS`.
        extra: what older editions pass besides, one of `EXTRAS`.
        receiver: whose override it is, for the message.

    Returns:
        A function, or the override itself where nothing has to be done.

    Raises:
        MisconfigurationException: it fits no edition; the message says what to write.
    """
    leading = {"trainer": trainer, "pl_module": trainer.lightning_module}
    lead = [leading[name] for name in LEADING.get(letter, [])]
    names = LEADING.get(letter, []) + arguments
    if hook == "on_load_checkpoint" and letter == "C" and takes_state_alone(function):
        lead, names = [], ["callback_state"]
    extra_names, extra_value = EXTRAS[extra]
    try:
        positions, keywords = _plan_once(function, names, extra_names)
    except ValueError as reason:
        accepted = ", ".join(["self", *names, *(f"{name}=0" for name in extra_names[:1])])
        raise MisconfigurationException(
            f"`{type(receiver).__name__}.{hook}{inspect.signature(function)}` cannot be called: "
            f"{reason}. Write `def {hook}({accepted})`."
        ) from None
    is_step = letter == "m" and hook.endswith("_step")
    if is_step and _has_default(function, extra_names):
        return function  # a step gets it with several loaders only
    if not keywords and positions == list(range(len(names))):
        if extra not in COMES_ALONG or is_step or _takes_any_number(function):
            return partial(function, *lead) if lead else function
        return lambda *args: function(*lead, *args[: len(arguments)])

    def call(*args: Any) -> Any:
        given = [*lead, *args[: len(arguments)]]
        if extra_value is not None:
            given.append(extra_value(trainer, args, len(arguments)))
        by_name = {name: given[place] for name, place in keywords.items()}
        return function(*[given[place] for place in positions], **by_name)

    places = (*positions, *keywords.values())
    call.takes_extra = len(names) in places  # type: ignore[attr-defined]  # a function's own
    return call


_PLANS: WeakKeyDictionary[Any, dict[tuple[str, ...], Plan]] = WeakKeyDictionary()


def _plan_once(
    function: Function, names: list[str], extra_names: tuple[str, ...]
) -> Plan:
    """`plan_call`, decided once for a method: a run binds several times."""
    if not inspect.ismethod(function):
        return plan_call(function, names, extra_names)
    plans = _PLANS.setdefault(function.__func__, {})
    key = (*names, "", *extra_names)
    if key not in plans:
        plans[key] = plan_call(function, names, extra_names)
    return plans[key]


def plan_call(
    function: Function, names: list[str], extra_names: tuple[str, ...] = ()
) -> Plan:
    """Decide how an override is called: by position wherever some edition would have accepted it.

    Args:
        function: the bound override.
        names: the canonical arguments.
        extra_names: the names under which older editions pass one argument more.

    Returns:
        The places of the arguments to pass by position, and name -> place of those to pass by
        name. The place after the last canonical argument is the older extra.

    Raises:
        ValueError: it cannot be called; the text says why.
    """
    parameters = inspect.signature(function).parameters.values()
    kinds = {p.kind for p in parameters}
    takes = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in parameters if p.default is p.empty]
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name in required]
    place = {name: i for i, name in enumerate(names)}
    place.update({name: len(names) for name in extra_names})
    if unknown := [name for name in by_name if name not in place]:
        raise ValueError(f"nothing is known to pass as {unknown[0]!r}")
    keywords = {name: place[name] for name in by_name}  # rule 5
    names = [name for name in names if name not in keywords]
    if inspect.Parameter.VAR_POSITIONAL in kinds and len(takes) <= len(names):  # rule 1
        return [place[name] for name in names], keywords
    if len(takes) >= len(names):
        return _canonical(takes, required, names, place, extra_names), keywords
    if all(name in place for name in takes if name in required):  # rule 3: fewer, by name
        passed = names if inspect.Parameter.VAR_KEYWORD in kinds else takes
        keywords.update({name: place[name] for name in passed if name in place})
        return [], keywords
    return _prefix(takes, names, place), keywords


def _canonical(
    takes: list[str],
    required: list[str],
    names: list[str],
    place: dict[str, int],
    extra_names: tuple[str, ...],
) -> list[int]:
    """Rule 2: the canonical arguments by position, whatever their names, then the older extra."""
    beyond = takes[len(names):]
    unfilled = [name for name in beyond if name in required][len(extra_names[:1]):]
    if unfilled:
        raise ValueError(f"nothing is known to pass as {unfilled[0]!r}")
    positions = [place[name] for name in names]
    if beyond and (beyond[0] in required or beyond[0] in extra_names):
        positions.append(place[extra_names[0]])
    return positions


def _prefix(takes: list[str], names: list[str], place: dict[str, int]) -> list[int]:
    """Rule 4: fewer, under names of its own, unless a known name stands in another's place."""
    for taken, name in zip(takes, names):
        if taken in place and taken != name:
            raise ValueError(f"{taken!r} stands where {name!r} is passed")
    return [place[name] for name in names[: len(takes)]]


def _takes_any_number(function: Function) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _has_default(function: Function, names: tuple[str, ...]) -> bool:
    parameters = inspect.signature(function).parameters
    return any(name in parameters and parameters[name].default is not inspect.Parameter.empty
               for name in names)


def takes_state_alone(function: Function) -> bool:
    """Whether a callback's `on_load_checkpoint` is that of 1.1: one parameter, the state.

    Args:
        function: the override, bound.
    """
    parameters = inspect.signature(function).parameters.values()
    return [p.kind for p in parameters] == [inspect.Parameter.POSITIONAL_OR_KEYWORD]


def takes_whole_checkpoint(callback: Callback) -> bool:
    """Whether a callback's `on_load_checkpoint` takes the whole checkpoint, as in 2.x.

    With one parameter (1.1) or three (1.5) it takes the callback's own state, unless the third is
    named `checkpoint`. This is the one hook whose edition the count of parameters cannot tell.

    Args:
        callback: that may override it.
    """
    parameters = list(inspect.signature(callback.on_load_checkpoint).parameters.values())
    return any(p.kind is p.VAR_POSITIONAL for p in parameters) or (
        [p.name for p in parameters[2:3]] == ["checkpoint"]
    )
