"""Who is called for each hook, in which order, with which arguments.

`HOOKS` is the whole order of a run, in one table. `bind` reads it once per run: it collects the
overrides, decides how each is called, and leaves one plain function per hook on `trainer.on`, so
that a call site reads `on.on_train_start()` and a hook that nobody overrides costs an empty call.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable

from .callback import Callback
from .names import check_names
from .signatures import adapt, overrides

if TYPE_CHECKING:
    from .trainer import Trainer

# Who, in the order in which they are called:
#   D data module   C callbacks, in list order   M module   (those that override the hook)
#   K callbacks that monitor a metric; in a row that names them, C are all the others
#   I callbacks, before a module is there: they get the trainer alone
#   m the module, always: its own implementation does the work
#   O one owner: the data module if it overrides the hook, else the module
#   P data module and module, each in the processes that its `prepare_data_per_node` says
# Extras: what only older editions pass, after the arguments.
#
# hook                                  arguments                    who      extras
HOOKS = [
    ("on_init_start",                      "",                          "I",     ""),
    ("on_init_end",                        "",                          "I",     ""),
    ("configure_callbacks",                "",                          "m",     ""),
    ("prepare_data",                       "",                          "P",     ""),
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


WHO = {hook: who for hook, _, who, _ in HOOKS}


class Bound:
    """One function per hook, and under `validation` and `test` the same without their prefix.

    `receivers[hook]` lists who is called for a hook and the function; empty when nobody is.
    """

    validation: Bound
    test: Bound

    def __init__(self) -> None:
        self.receivers: dict[str, list[tuple[Any, Callable[..., Any]]]] = {}

    def asks_outputs(self, hook: str) -> bool:
        """Whether a receiver of the hook takes the epoch's outputs, which are kept only then.

        Args:
            hook: its name.
        """
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
    for kind in ("validation", "test"):
        on.__dict__.setdefault(kind, Bound())
    for receiver in (*trainer.callbacks, trainer.lightning_module, trainer.datamodule):
        check_names(receiver, WHO)
    for hook, arguments, who, extra in HOOKS:
        receivers = _receivers(trainer, hook, arguments.split(), who.split(), extra)
        function = fan_out(trainer, hook, receivers)
        on.receivers[hook] = receivers
        setattr(on, hook, function)
        kind, _, event = hook.removeprefix("on_").partition("_")
        if kind in ("validation", "test"):  # on.validation.start is on.on_validation_start
            event = "outputs" if hook == f"{kind}_epoch_end" else event
            setattr(getattr(on, kind), event, function)
    trainer.precision_plugin.around_steps(on)


def _receivers(
    trainer: Trainer, hook: str, arguments: list[str], who: list[str], extra: str
) -> list[tuple[Any, Callable[..., Any]]]:
    """Who a row calls, in order, each with the function to call."""
    module, datamodule = trainer.lightning_module, trainer.datamodule
    watching = [c for c in trainer.callbacks if getattr(c, "_monitors_metric", False)]
    others = [c for c in trainer.callbacks if "K" not in who or c not in watching]
    owner = datamodule if overrides(datamodule, hook) else module
    candidates: dict[str, list[Any]]
    candidates = {"I": others, "C": others, "K": watching, "M": [module], "D": [datamodule],
                  "m": [module], "O": [owner], "P": [each for each in (datamodule, module)
                      if each is not None
                      and trainer.strategy.prepares_data(each.prepare_data_per_node)]}
    found = []
    for letter in who:
        for receiver in candidates[letter]:
            overridden = overrides(receiver, hook)
            if receiver is None or not (overridden or letter in "mO"):
                continue
            function = getattr(receiver, hook)
            if overridden:
                function = adapt(trainer, function, hook, arguments, letter, extra, receiver)
            if trainer._observe is not None:
                function = trainer._observe(_label(trainer, receiver), hook, function)
            found.append((receiver, function))
    return found


def fan_out(
    trainer: Trainer, hook: str, receivers: list[tuple[Any, Callable[..., Any]]]
) -> Callable[..., Any]:
    """One function that calls all receivers; only the module's or data module's value counts.

    Args:
        hook: its name.
        receivers: who is called, in order, each with the function to call.
    """
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


def _label(trainer: Trainer, receiver: object) -> str:
    """How a receiver is called where events are shown."""
    if receiver is trainer.lightning_module:
        return "module"
    return "datamodule" if receiver is trainer.datamodule else f"callback {type(receiver).__name__}"


class CallbackList(list[Callback]):
    """A trainer's callbacks. It says when it changes, so that a callback is never ignored.

    Args:
        callbacks: what it holds.
        changed: called after each change.
    """

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
