"""Who is called for each hook, in which order, with which arguments.

`HOOKS` is the whole order of a run, in one table. `bind` reads it once per run: it collects the
overrides, decides how each is called, and leaves one plain function per hook on `trainer.on`, so
that a call site reads `on.on_train_start()` and a hook that nobody overrides costs an empty call.
"""
from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterable

from .callback import Callback
from .errors import MisconfigurationException, warn

if TYPE_CHECKING:
    from .trainer import Trainer

# Who, in the order in which they are called:
#   D data module   C callbacks, in list order   M module   (those that override the hook)
#   K callbacks that monitor a metric; in a row that names them, C are all the others
#   I callbacks, before a module is there: they get the trainer alone
#   m the module, always: its own implementation does the work
#   O one owner: the data module if it overrides the hook, else the module
# Extras: what only older editions pass, after the arguments.
#
# hook                                  arguments                    who      extras
HOOKS = [
    ("on_init_start",                      "",                          "I",     ""),
    ("on_init_end",                        "",                          "I",     ""),
    ("configure_callbacks",                "",                          "m",     ""),
    ("prepare_data",                       "",                          "D M",   ""),
    ("on_before_accelerator_backend_setup", "",                         "C",     ""),
    ("setup",                              "stage",                     "D C M", ""),
    ("on_configure_sharded_model",         "",                          "C",     ""),
    ("configure_sharded_model",            "",                          "M",     ""),
    ("configure_model",                    "",                          "M",     ""),
    ("configure_optimizers",               "",                          "m",     ""),
    ("on_fit_start",                       "",                          "C M",   ""),
    ("on_pretrain_routine_start",          "",                          "C",     ""),
    ("on_pretrain_routine_end",            "",                          "C",     ""),
    ("on_sanity_check_start",              "",                          "C",     ""),
    ("on_sanity_check_end",                "",                          "C",     ""),
    ("train_dataloader",                   "",                          "O",     ""),
    ("val_dataloader",                     "",                          "O",     ""),
    ("test_dataloader",                    "",                          "O",     ""),
    ("predict_dataloader",                 "",                          "O",     ""),
    ("on_train_start",                     "",                          "C M",   ""),
    ("on_epoch_start",                     "",                          "C",     ""),
    ("on_train_epoch_start",               "",                          "C M",   ""),
    ("on_before_batch_transfer",           "batch dataloader_idx",      "O",     ""),
    ("transfer_batch_to_device",           "batch device dataloader_idx", "O",   ""),
    ("on_after_batch_transfer",            "batch dataloader_idx",      "O",     ""),
    ("on_batch_start",                     "",                          "C",     ""),
    ("on_train_batch_start",               "batch batch_idx",           "C M",   "unused"),
    ("optimizer_step", "epoch batch_idx optimizer optimizer_closure",   "m",     ""),
    ("training_step",                      "batch batch_idx",           "m",     "optimizer_idx"),
    ("on_before_zero_grad",                "optimizer",                 "C M",   ""),
    ("optimizer_zero_grad",                "epoch batch_idx optimizer", "m",     ""),
    ("on_before_backward",                 "loss",                      "C M",   ""),
    ("backward",                           "loss",                      "m",     ""),
    ("on_after_backward",                  "",                          "C M",   ""),
    ("on_before_optimizer_step",           "optimizer",                 "C M",   "opt_idx"),
    ("configure_gradient_clipping",
     "optimizer gradient_clip_val gradient_clip_algorithm",             "m",     ""),
    ("lr_scheduler_step",                  "scheduler metric",          "m",     ""),
    ("on_train_batch_end",                 "outputs batch batch_idx",   "C M",   "unused"),
    ("on_batch_end",                       "",                          "C",     ""),
    ("on_validation_model_zero_grad",      "",                          "m",     ""),
    ("on_validation_model_eval",           "",                          "m",     ""),
    ("on_validation_start",                "",                          "C M",   ""),
    ("on_validation_epoch_start",          "",                          "C M",   ""),
    ("on_validation_batch_start",          "batch batch_idx",           "C M",   "dataloader_idx"),
    ("validation_step",                    "batch batch_idx",           "m",     "dataloader_idx"),
    ("on_validation_batch_end",            "outputs batch batch_idx",   "C M",   "dataloader_idx"),
    ("validation_epoch_end",               "outputs",                   "M",     ""),
    ("on_validation_epoch_end",            "",                          "C M",   ""),
    ("on_validation_end",                  "",                          "C M",   ""),
    ("on_validation_model_train",          "",                          "M",     ""),
    ("training_epoch_end",                 "outputs",                   "M",     ""),
    ("on_train_epoch_end",                 "",                          "C M K", "outputs"),
    ("on_epoch_end",                       "",                          "C",     ""),
    ("on_train_end",                       "",                          "C M",   ""),
    ("on_fit_end",                         "",                          "C M",   ""),
    ("on_test_model_eval",                 "",                          "m",     ""),
    ("on_test_start",                      "",                          "C M",   ""),
    ("on_test_epoch_start",                "",                          "C M",   ""),
    ("on_test_batch_start",                "batch batch_idx",           "C M",   "dataloader_idx"),
    ("test_step",                          "batch batch_idx",           "m",     "dataloader_idx"),
    ("on_test_batch_end",                  "outputs batch batch_idx",   "C M",   "dataloader_idx"),
    ("test_epoch_end",                     "outputs",                   "M",     ""),
    ("on_test_epoch_end",                  "",                          "C M",   ""),
    ("on_test_end",                        "",                          "C M",   ""),
    ("on_test_model_train",                "",                          "M",     ""),
    ("on_predict_model_eval",              "",                          "m",     ""),
    ("on_predict_start",                   "",                          "C M",   ""),
    ("on_predict_epoch_start",             "",                          "C M",   ""),
    ("on_predict_batch_start",             "batch batch_idx",           "C M",   "dataloader_idx"),
    ("predict_step",                       "batch batch_idx",           "m",     "dataloader_idx"),
    ("on_predict_batch_end",               "outputs batch batch_idx",   "C M",   "dataloader_idx"),
    ("on_predict_epoch_end",               "",                          "C M",   "outputs"),
    ("on_predict_end",                     "",                          "C M",   ""),
    ("teardown",                           "stage",                     "D C M", ""),
    ("on_keyboard_interrupt",              "",                          "C",     ""),
    ("on_exception",                       "exception",                 "C D",   ""),
    ("on_save_checkpoint",                 "checkpoint",                "C M D", ""),
    ("on_load_checkpoint",                 "checkpoint",                "M D C", ""),
]

HOOK_NAMES = frozenset(hook for hook, _, _, _ in HOOKS)
LEADING = {"C": ["trainer", "pl_module"], "K": ["trainer", "pl_module"], "I": ["trainer"]}
EXTRAS = {  # what only older editions pass: its names, and where its value comes from
    "unused": (("dataloader_idx", "unused"), lambda trainer, args, n: 0),
    "dataloader_idx": (("dataloader_idx",), lambda trainer, args, n: (*args[n:], 0)[0]),
    "optimizer_idx": (("optimizer_idx",), lambda trainer, args, n: (*args[n:], 0)[0]),
    "opt_idx": (("opt_idx",), lambda trainer, args, n: trainer.optimizers.index(args[0])),
    "outputs": (("outputs",), lambda trainer, args, n: trainer._epoch_outputs),
    "": ((), None),
}
COMES_ALONG = ("dataloader_idx", "optimizer_idx")  # call sites pass these when there are several


class Bound:
    """One function per hook, and under `validation` and `test` the same without their prefix.

    `receivers[hook]` lists who is called for a hook and the function; empty when nobody is.
    """

    validation: Bound
    test: Bound

    def __init__(self) -> None:
        self.receivers: dict[str, list[tuple[Any, Callable[..., Any]]]] = {}

    def asks_outputs(self, hook: str) -> bool:
        """Whether a receiver of the hook takes the epoch's outputs, which are kept only then."""
        return any(getattr(function, "takes_extra", False) for _, function in self.receivers[hook])

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"`{name}` is no hook; the hooks are the rows of dispatch.HOOKS")


def bind(trainer: Trainer, on: Bound) -> None:
    """Collect the overrides of every hook and leave one function per hook on `on`.

    Args:
        trainer: its callbacks, module and data module are the receivers; module and data module
            may be missing, as they are inside `Trainer()`.
        on: filled in place, so that a callback added during a run is called from then on.

    Raises:
        MisconfigurationException: an override cannot be called with the arguments of any edition,
            or a method is named almost like a hook.
    """
    on.validation, on.test = Bound(), Bound()
    for receiver in (*trainer.callbacks, trainer.lightning_module, trainer.datamodule):
        _check_names(receiver)
    for hook, arguments, who, extra in HOOKS:
        receivers = _receivers(trainer, hook, arguments.split(), who.split(), extra)
        function = _fan_out(trainer, hook, receivers)
        on.receivers[hook] = receivers
        setattr(on, hook, function)
        kind, _, event = hook.removeprefix("on_").partition("_")
        if kind in ("validation", "test"):  # on.validation.start is on.on_validation_start
            event = "outputs" if hook == f"{kind}_epoch_end" else event
            setattr(getattr(on, kind), event, function)


def _receivers(
    trainer: Trainer, hook: str, arguments: list[str], who: list[str], extra: str
) -> list[tuple[Any, Callable[..., Any]]]:
    """Who a row calls, in order, each with the function to call."""
    module, datamodule = trainer.lightning_module, trainer.datamodule
    watching = [c for c in trainer.callbacks if getattr(c, "_monitors_metric", False)]
    others = [c for c in trainer.callbacks if "K" not in who or c not in watching]
    owner = datamodule if overrides(datamodule, hook) else module
    candidates = {"I": others, "C": others, "K": watching, "M": [module], "D": [datamodule],
                  "m": [module], "O": [owner]}
    found = []
    for letter in who:
        for receiver in candidates[letter]:
            overridden = overrides(receiver, hook)
            if receiver is None or not (overridden or letter in "mO"):
                continue
            function = getattr(receiver, hook)
            if overridden:
                function = _adapt(trainer, function, hook, arguments, letter, extra, receiver)
            if trainer._observe is not None:
                function = trainer._observe(_label(trainer, receiver), hook, function)
            found.append((receiver, function))
    return found


def _fan_out(
    trainer: Trainer, hook: str, receivers: list[tuple[Any, Callable[..., Any]]]
) -> Callable[..., Any]:
    """One function that calls all receivers; only the module's or data module's value counts."""
    if not receivers:
        return _nobody
    functions = [function for _, function in receivers]
    last, function = receivers[-1]
    if len(functions) == 1 and not overrides(last, hook) and trainer._observe is None:
        return function  # a default of our own never logs: no need to note the hook
    answers = not isinstance(last, Callback)

    def fire(*args: Any, **kwargs: Any) -> Any:
        outer, trainer._current_fx_name = trainer._current_fx_name, hook  # self.log asks for it
        for function in functions:
            answer = function(*args, **kwargs)
        trainer._current_fx_name = outer
        return answer if answers else None

    return fire


def _nobody(*args: Any) -> None:
    """What a hook without overrides costs."""


def overrides(receiver: object, hook: str) -> bool:
    """Whether a hook is overridden: looked for on the instance first, then on its class.

    An override set to None counts as none. What the base classes of this package implement is no
    override.
    """
    if receiver is None:
        return False
    own = getattr(receiver, "__dict__", {}).get(hook)
    if own is not None:
        return True
    if hook in getattr(receiver, "__dict__", {}):
        return False  # set to None on the instance
    method = getattr(type(receiver), hook, None)
    return method is not None and getattr(method, "__module__", None) not in _OWN_MODULES


_OWN_MODULES = (  # what these implement is a default
    *(f"{__package__}.{name}" for name in ("callback", "hooks", "module")),
    "torch.nn.modules.module",
)


def _adapt(
    trainer: Trainer, function: Callable[..., Any], hook: str, arguments: list[str],
    letter: str, extra: str, receiver: object,
) -> Callable[..., Any]:
    """`function` as a function of the hook's canonical arguments, whatever its edition."""
    leading = {"trainer": trainer, "pl_module": trainer.lightning_module}
    lead = [leading[name] for name in LEADING.get(letter, [])]
    names = LEADING.get(letter, []) + arguments
    if hook == "on_load_checkpoint" and letter == "C" and takes_state_alone(function):
        lead, names = [], ["callback_state"]
    extra_names, extra_value = EXTRAS[extra]
    try:
        positions, keywords = plan_call(function, names, extra_names)
    except ValueError as reason:
        accepted = ", ".join(["self", *names, *(f"{name}=0" for name in extra_names[:1])])
        raise MisconfigurationException(
            f"`{type(receiver).__name__}.{hook}{inspect.signature(function)}` cannot be called: "
            f"{reason}. Write `def {hook}({accepted})`."
        ) from None
    if hook.endswith("_step") and _has_default(function, extra_names):
        return function  # a step gets it with several loaders only
    if not keywords and positions == list(range(len(names))):
        if extra not in COMES_ALONG or _takes_any_number(function):
            return partial(function, *lead) if lead else function
        return lambda *args: function(*lead, *args[: len(arguments)])

    def call(*args: Any) -> Any:
        given = [*lead, *args[: len(arguments)]]
        if extra_value is not None:
            given.append(extra_value(trainer, args, len(arguments)))
        by_name = {name: given[place] for name, place in keywords.items()}
        return function(*[given[place] for place in positions], **by_name)

    call.takes_extra = len(names) in (*positions, *keywords.values())  # type: ignore[attr-defined]
    return call


def plan_call(
    function: Callable[..., Any], names: list[str], extra_names: tuple[str, ...] = ()
) -> tuple[list[int], dict[str, int]]:
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
    takes: list[str], required: list[str], names: list[str], place: dict[str, int],
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


def _takes_any_number(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _has_default(function: Callable[..., Any], names: tuple[str, ...]) -> bool:
    parameters = inspect.signature(function).parameters
    return any(name in parameters and parameters[name].default is not inspect.Parameter.empty
               for name in names)


def takes_state_alone(function: Callable[..., Any]) -> bool:
    """Whether a callback's `on_load_checkpoint` is that of 1.1: one parameter, the state."""
    parameters = inspect.signature(function).parameters.values()
    return [p.kind for p in parameters] == [inspect.Parameter.POSITIONAL_OR_KEYWORD]


def takes_whole_checkpoint(callback: Callback) -> bool:
    """Whether a callback's `on_load_checkpoint` takes the whole checkpoint, as in 2.x.

    With one parameter (1.1) or three (1.5) it takes the callback's own state, unless the third is
    named `checkpoint`. This is the one hook whose edition the count of parameters cannot tell.
    """
    parameters = list(inspect.signature(callback.on_load_checkpoint).parameters.values())
    return any(p.kind is p.VAR_POSITIONAL for p in parameters) or (
        [p.name for p in parameters[2:3]] == ["checkpoint"]
    )


def _label(trainer: Trainer, receiver: object) -> str:
    """How a receiver is called where events are shown."""
    if receiver is trainer.lightning_module:
        return "module"
    return "datamodule" if receiver is trainer.datamodule else f"callback {type(receiver).__name__}"


def _check_names(receiver: object) -> None:
    """Refuse a method `on_...` that is almost, but not quite, the name of a hook."""
    if receiver is None:
        return
    letters = "CKI" if isinstance(receiver, Callback) else "MmDO"
    for name in {*dir(type(receiver)), *getattr(receiver, "__dict__", ())}:
        if not name.startswith("on_") or not callable(getattr(receiver, name, None)):
            continue
        if name not in HOOK_NAMES:
            near = [hook for hook in HOOK_NAMES if edits(name, hook) <= 2]
            if near:
                raise MisconfigurationException(
                    f"`{type(receiver).__name__}.{name}` is no hook and would never be called. "
                    f"Did you mean `{near[0]}`? A helper needs a name that does not begin "
                    "with `on_`."
                )
        elif overrides(receiver, name) and not _ROWS[name] & set(letters):
            warn(
                f"`{type(receiver).__name__}.{name}` is never called: `{name}` is a hook of "
                f"{'the module' if letters == 'CKI' else 'callbacks'} only."
            )


_ROWS = {hook: set(who) for hook, _, who, _ in HOOKS}


def edits(one: str, other: str) -> int:
    """Insertions, deletions and replacements that make one word the other; 3 stands for more."""
    if abs(len(one) - len(other)) > 2:
        return 3
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        previous, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (a != b)))
    return min(row[-1], 3)


class CallbackList(list[Callback]):
    """A trainer's callbacks. It says when it changes, so that a callback is never ignored."""

    def __init__(self, callbacks: Iterable[Callback], changed: Callable[[], None]) -> None:
        super().__init__(callbacks)
        self.changed = changed


def _telling(name: str) -> Callable[..., Any]:
    def method(self: CallbackList, *args: Any, **kwargs: Any) -> Any:
        answer = getattr(list, name)(self, *args, **kwargs)
        self.changed()
        return answer

    return method


for _name in ("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse",
              "__setitem__", "__delitem__", "__iadd__"):
    setattr(CallbackList, _name, _telling(_name))
