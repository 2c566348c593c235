"""Why a hook did not fire: what in this trainer, its module and its loaders kept it from firing.

Each function below looks for one kind of reason and returns a sentence, or "" if there is none.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from .dispatch import HOOK_NAMES, WHO
from .loading import has_loader
from .monitors import ModelCheckpoint
from .signatures import overrides

if TYPE_CHECKING:
    from .lifecycle import Event, Trace
    from .trainer import Trainer

ENTRIES = {  # words of hooks' names -> the entry points that they belong to, the first that fits
    "model_zero_grad": ("fit",),
    "validation val_dataloader": ("fit", "validate"),
    "test": ("test",),
    "predict": ("predict",),
    "sanity train optimizer backward zero_grad fit lr_scheduler clipping on_batch": ("fit",),
    "on_epoch": ("fit", "validate", "test"),
}
OTHER_WORDS = {"begin": "start", "finish": "end", "stop": "end", "eval": "validation"}
BACKWARD = ("on_before_backward", "backward", "on_after_backward")
AUTOMATIC = (  # what the trainer calls by itself in automatic optimization only
    "optimizer_step", "optimizer_zero_grad", "on_before_zero_grad", "lr_scheduler_step",
    "configure_gradient_clipping",
)
LETTERS = {  # of dispatch.HOOKS
    **dict.fromkeys("CKI", "callbacks"),
    **dict.fromkeys("MmO", "the module"),
    "D": "the data module",
    "P": "the module and the data module",
}


def why(trace: Trace, hook: str) -> str:
    """How often a hook fired and for whom; if never, what kept it from firing.

    Args:
        trace: in which it fired, or did not.
        hook: its name.
    """
    if hook not in HOOK_NAMES:
        return _no_hook(trace, hook)
    events = [event for event in trace.events if event.hook == hook]
    stages = {event.stage for event in events}
    if events and stages != {"sanity_check"}:
        return _fired(hook, events)
    told = _fired(hook, events) if events else f"`{hook}` did not fire."
    reasons = list(_reasons(trace, hook))
    if not reasons:
        reasons = ["Nothing that is known here kept it from firing."]
    return " ".join([told, *reasons])


def _fired(hook: str, events: list[Event]) -> str:
    calls = Counter(event.who.removeprefix("callback ") for event in events)
    stages = Counter(event.stage or "between runs" for event in events)
    times = f"{len(events)} times" if len(events) > 1 else "once"
    receivers = ", ".join(f"{who} {count}" for who, count in calls.items())
    return (f"`{hook}` fired {times}: {receivers} (stage "
            f"{', '.join(f'{stage} {count}' for stage, count in stages.items())}).")


def _no_hook(trace: Trace, name: str) -> str:
    likely = name
    for word, ours in OTHER_WORDS.items():
        likely = likely.replace(word, ours)
    near = sorted(WHO, key=lambda hook: -SequenceMatcher(None, likely, hook).ratio())[:3]
    owners = [type(each).__name__ for each in _receivers(trace.trainer) if hasattr(each, name)]
    told = f"`{owners[0]}.{name}` is never called: " if owners else ""
    return f"{told}`{name}` is no hook. Near are {', '.join(f'`{hook}`' for hook in near)}."


def _receivers(trainer: Trainer) -> list[Any]:
    each = (*trainer.callbacks, trainer.lightning_module, trainer.datamodule)
    return [receiver for receiver in each if receiver is not None]


def _reasons(trace: Trace, hook: str) -> Iterator[str]:
    trainer, runs = trace.trainer, trace.entries
    if hook.startswith("on_init_"):
        yield "It fires while a `Trainer(...)` is made, and that was before the trace began."
        return
    if not runs or trainer.lightning_module is None:
        yield "Nothing ran: call `trainer.fit(...)` or another entry point inside the `with`."
        return
    fitting = (entries for words, entries in ENTRIES.items() if _has(hook, words))
    belongs = next(fitting, tuple(runs))
    if not set(belongs) & set(runs):
        others = " and ".join(f"`{run}`" for run in runs)
        yield (f"It belongs to {' and '.join(f'`trainer.{each}`' for each in belongs)}; what ran "
               f"was {others}.")
        return
    checks = [check for words, check in CHECKS if _has(hook, words)]
    found = [reason for check in checks if (reason := check(trace, hook))]
    yield from found
    if not found and (error := _error(trace)):
        yield f"An exception came before it: {error}."


def _has(hook: str, words: str) -> bool:
    return any(word in hook for word in words.split())


def _not_overridden(trace: Trace, hook: str) -> str:
    trainer, letters = trace.trainer, WHO[hook].split()
    if set(letters) & set("mO"):
        return ""  # it is called without an override, too
    own = [each for each in _receivers(trainer) if overrides(each, hook)]
    if own and not trainer.on.receivers.get(hook):
        if hook == "prepare_data":
            return ("It runs in one process of a node, or of all: see `prepare_data_per_node`. "
                    f"This was process {trainer.global_rank}.")
        name = type(own[0]).__name__
        return f"`{name}.{hook}` was put there after the run had bound its hooks."
    if own:
        return ""
    who = " or ".join(dict.fromkeys(LETTERS[letter] for letter in letters))
    asked = ", ".join(type(each).__name__ for each in _receivers(trainer))
    return " ".join([f"Nobody overrides it: it is a hook of {who}, here {asked}.",
                     *_misspelt(trace, hook)])


def _misspelt(trace: Trace, hook: str) -> list[str]:
    """Of a method whose name is like the hook's, and is no hook's; empty if there is none."""
    for receiver in _receivers(trace.trainer):
        for name in dir(type(receiver)):
            if name in HOOK_NAMES or not name.startswith("on_"):
                continue
            if SequenceMatcher(None, name, hook).ratio() > 0.75:
                return [f"`{type(receiver).__name__}.{name}` is no hook: was `{hook}` meant?"]
    return []


def _no_validation(trace: Trace, hook: str) -> str:
    trainer = trace.trainer
    if trainer.state.fn is None or trainer.state.fn.value not in ("fit", "validate"):
        return ""
    module = type(trainer.lightning_module).__name__
    if not overrides(trainer.lightning_module, "validation_step"):
        return f"`{module}` has no `validation_step`."
    if not has_loader(trainer, "val"):
        return (f"There is no validation loader: none was passed, and `{module}` has no "
                "`val_dataloader`.")
    if trainer.limit_val_batches == 0:
        return "`limit_val_batches=0` leaves no validation batches."
    if trainer.num_val_batches and not any(trainer.num_val_batches):
        return "The validation loader has no batches."
    return ""


def _validation_not_due(trace: Trace, hook: str) -> str:
    trainer, every = trace.trainer, trace.trainer.check_val_every_n_epoch
    if _no_validation(trace, hook) or "fit" not in trace.entries:
        return ""
    trained = [event for event in trace.events if event.hook == "training_step"]
    if not trained:
        return _no_training(trace, "training_step")
    epochs = sorted({event.current_epoch for event in trained})
    if every is not None and not any((epoch + 1) % every == 0 for epoch in epochs):
        return (f"`check_val_every_n_epoch={every}`, and the epochs that were trained are "
                f"{', '.join(map(str, epochs))} (from 0).")
    if every is None and len(trained) < trainer.val_check_batch:
        return (f"`val_check_interval={trainer.val_check_interval}` counts batches over epochs,"
                f" and {len(trained)} were trained on.")
    return _cut_short(trace, hook)


def _cut_short(trace: Trace, hook: str) -> str:
    """Why no epoch came to its end, where validation is due."""
    trainer = trace.trainer
    skips = [event for event in trace.events if event.hook == "on_train_batch_start"
             and event.returned == "-1" and event.who == "module"]
    if skips:
        first = skips[0]
        return (f"The epoch was cut short: `on_train_batch_start` of the module returned -1 in "
                f"epoch {first.current_epoch}, and what follows in that epoch is left out.")
    if trainer.global_step >= trainer.max_steps != -1 and not trainer.is_last_batch:
        return (f"The epoch was cut short: `max_steps={trainer.max_steps}` was reached after "
                f"{sum(event.hook == 'training_step' for event in trace.events)} batches.")
    if trainer.should_stop and not trainer.is_last_batch:
        limit = f" (`max_time={trainer.max_time}`)" if trainer.max_time is not None else ""
        return f"The epoch was cut short: `trainer.should_stop` was set{limit}."
    return ""


def _no_sanity_check(trace: Trace, hook: str) -> str:
    trainer = trace.trainer
    if not trainer.num_sanity_val_steps:
        flag = "fast_dev_run" if trainer.fast_dev_run else "num_sanity_val_steps=0"
        return f"`{flag}` switches the sanity check off."
    if trainer.ckpt_path is not None:
        return "The run went on inside an epoch of its checkpoint, which needs no sanity check."
    return ""


def _no_training(trace: Trace, hook: str) -> str:
    trainer = trace.trainer
    if trainer.limit_train_batches == 0:
        return "`limit_train_batches=0`: nothing is trained."
    if trainer.num_training_batches == 0:
        return "The training loader has no batches."
    if trainer.max_epochs == 0 or trainer.max_steps == 0:
        return f"`max_{'epochs' if trainer.max_epochs == 0 else 'steps'}=0`: nothing is trained."
    trained = any(event.hook == "training_step" for event in trace.events)
    if not trained and trainer.ckpt_path is not None and not _error(trace):
        return "The checkpoint is one of a run that was over: nothing was left to train."
    if hook in ("on_train_batch_end", "on_batch_end", "training_step", "optimizer_step"):
        return _cut_short(trace, hook)
    return ""


def _not_automatic(trace: Trace, hook: str) -> str:
    trainer, module = trace.trainer, trace.trainer.lightning_module
    if module and not module.automatic_optimization and hook in (*AUTOMATIC, *BACKWARD):
        return ("`automatic_optimization` is False: `training_step` does itself what calls it "
                "(`self.manual_backward(loss)`, `self.optimizers().step()`).")
    returned = [event.returned for event in trace.events if event.hook == "training_step"]
    if hook in BACKWARD and returned and not any(returned):
        return "`training_step` always returned None, which skips the backward pass."
    if hook == "lr_scheduler_step" and not trainer.lr_scheduler_configs:
        return "`configure_optimizers` returned no scheduler."
    if hook == "lr_scheduler_step":
        due = " and ".join(f"every {config.frequency} {config.interval}(s)"
                           for config in trainer.lr_scheduler_configs)
        return (f"The schedulers step {due}, and that was not reached, or the metric that one "
                "monitors was not logged.")
    return ""


def _no_checkpoint(trace: Trace, hook: str) -> str:
    trainer = trace.trainer
    if hook == "on_load_checkpoint":
        return "" if trainer.ckpt_path else "No `ckpt_path` was given: nothing was loaded."
    if not any(isinstance(each, ModelCheckpoint) for each in trainer.callbacks):
        return "No checkpoint was saved: there is no `ModelCheckpoint` among the callbacks."
    off = " (`fast_dev_run` saves nothing)" if trainer.fast_dev_run else ""
    return f"No checkpoint was saved: none was due in this run{off}."


def _given_loader(trace: Trace, hook: str) -> str:
    trainer, kind = trace.trainer, hook.removesuffix("_dataloader")
    if trainer._given_loaders.get(kind) is not None:
        return "A loader was passed to the entry point: it is taken, and the hook is not asked."
    return ""


def _nothing_raised(trace: Trace, hook: str) -> str:
    if hook == "on_exception":
        return "" if _error(trace) else "Nothing raised."
    return "" if "KeyboardInterrupt" in _error(trace) else "Nobody pressed Ctrl-C."


def _error(trace: Trace) -> str:
    """What ended a run early: the innermost call that raised, or what left the `with`."""
    raised = [event for event in trace.events if event.error]
    if raised:
        event = raised[-1] if len({each.error for each in raised}) == 1 else raised[0]
        return (f"`{event.error}` in `{event.hook}` of {event.who} (epoch {event.current_epoch}, "
                f"step {event.global_step})")
    if trace.error:
        return f"`{trace.error}` outside the hooks"
    return "one outside the hooks" if trace.trainer.interrupted else ""


CHECKS: list[tuple[str, Callable[[Trace, str], str]]] = [  # words in hooks' names; _: all
    ("_", _not_overridden),
    ("validation val_dataloader sanity", _no_validation),
    ("sanity", _no_sanity_check),
    ("_dataloader", _given_loader),
    ("on_train training optimizer_step backward zero_grad clipping on_batch lr_scheduler "
     "train_dataloader transfer", _no_training),
    ("validation", _validation_not_due),
    ("optimizer backward zero_grad clipping lr_scheduler", _not_automatic),
    ("_checkpoint", _no_checkpoint),
    ("on_exception on_keyboard_interrupt", _nothing_raised),
]
