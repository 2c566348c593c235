"""Where a run stands, so that another one can go on from there and end bit for bit the same.

`place` says it for a checkpoint, `enter` and `train_batches` go back to it. What is kept, beside
weights and states: how far the loops are, and which receivers of the hook that runs were called;
random numbers, now and as they were when the epoch began; the gradients of an unfinished
accumulation window; what `self.log` has gathered, metric objects included; the loaders' own states.
Not kept, since nobody but they know them: random numbers of workers that stay for several epochs.
"""
from __future__ import annotations

import sys
import uuid
from collections import OrderedDict
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Any, Iterator

import torch
from torch import nn

from . import data, dispatch, reporting
from .batches import TrainBatches
from .errors import warn
from .interchange import progress_in
from .metrics import Entry
from .rng import rng_state, set_rng_state, set_states, states_of
from .state import RunningStage, TrainerFn

if TYPE_CHECKING:
    from .trainer import Trainer

# What may still be to do after a checkpoint (`Progress.pending`), and the hooks that belong to it.
# Of the hook that runs while a checkpoint is saved, the receivers behind the one that saves are
# called by the run that goes on; hooks before it have been called, hooks after it will be.
REST = {
    "epoch_start": ("on_epoch_start", "on_train_epoch_start"),
    "batch_end": ("on_train_batch_end", "on_batch_end"),
    "validation_end": ("on_validation_end",),
    "epoch_end": (
        "training_epoch_end",
        "on_train_epoch_end",
        "on_epoch_end",
    ),
}


def place(trainer: Trainer) -> dict[str, Any]:
    """Where a run stands, in tensors and plain containers."""
    if trainer._resuming:  # not yet back where it was: it still stands there
        return trainer._resuming
    progress = trainer._progress
    running = _running(trainer)
    loaders = _loaders(trainer)
    kept: dict[str, Any] = {
        **asdict(progress),
        "is_last_batch": trainer.is_last_batch,
        "stepped": trainer._stepped,
        "should_stop": trainer.should_stop,
        "run": trainer._lineage,
        "running": running and running[:2],
        "rng": _validation_rng(trainer) or rng_state(),
        "epoch_rng": trainer._epoch_rng,
        "generators": [states_of(each) for each in loaders],
        "workers": [list(map(_has_workers, each)) for each in loaders],
        "evaluated_batches": [[*key, n] for key, n in trainer._evaluated_batches.items()],
        "loaded_in": dict(trainer._loaded_in),
    }
    if trainer.state.fn == TrainerFn.FITTING:
        kept.update(_logged(trainer))
        kept["gradients"] = _gradients(trainer)
    if trainer._batches is not None:
        kept["batches_state"] = _batches_state(trainer._batches)
    elif "batches_state" in trainer._rest:  # the next epoch will begin after that
        kept["batches_state"] = trainer._rest["batches_state"]
    if is_plain(trainer._epoch_outputs):
        kept["outputs"] = trainer._epoch_outputs
    if progress.pending == "batch_end" and _is_called_later(trainer, running):
        arguments = list(running[2] if running else trainer._finished_batch)
        kept["arguments"] = arguments if is_plain(arguments) else None
    return kept


def place_of_all(trainer: Trainer) -> dict[str, Any]:
    """Where a run stands; with several processes, where each of them does."""
    kept = place(trainer)
    if trainer._several:
        own = {name: value for name, value in kept.items() if name != "ranks"}
        if not trainer._resuming:
            own["buffers"] = _own_buffers(trainer)
        kept = {**own, "ranks": trainer.strategy.gather_objects(own)}
    return kept


def _own_buffers(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Buffers of this process, such as running means, that are not as those of the first one, which
    are in the checkpoint: until the next batch, each process evaluates with its own."""
    own = dict(trainer.lightning_module.named_buffers())
    first = nn.Module()  # with copies: a backward pass may still need them as they are
    for number, buffer in enumerate(own.values()):
        first.register_buffer(str(number), buffer.detach().clone())
    trainer.strategy.synchronize_buffers(first)
    pairs = zip(own.items(), first.buffers())
    return {name: buffer for (name, buffer), other in pairs if not torch.equal(buffer, other)}


def _set_buffers(trainer: Trainer, values: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, buffer in trainer.lightning_module.named_buffers():
            if name in values:
                buffer.copy_(values[name])


def place_in(trainer: Trainer, checkpoint: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint says of the place of this process.

    Args:
        checkpoint: the whole of it.
    """
    kept = checkpoint.get("loops", {}).get("minilightning") or progress_in(checkpoint)
    ranks: list[dict[str, Any]] = kept.get("ranks", [kept])
    if len(ranks) == trainer.world_size:
        return ranks[trainer.global_rank]
    rows = " Inside this epoch, some rows come again and others not at all."
    warn(f"The checkpoint was saved with processes: {len(ranks)}, and there are now: "
         f"{trainer.world_size}. Their random numbers, gradients of an unfinished window and "
         f"partial means are those of rank 0.{rows * (kept.get('batches', 0) > 0)}")
    return kept


def _running(trainer: Trainer) -> tuple[str, int, tuple[Any, ...]] | None:
    """The outermost hook that runs, how many of its receivers were called, and its arguments.

    Read off the call stack, so that no hook pays for it.
    """
    frame: FrameType | None = sys._getframe()
    found: dict[str, Any] = {}
    while frame is not None:
        fires = frame.f_code.co_name == "fire" and frame.f_globals is vars(dispatch)
        if fires and frame.f_locals["trainer"] is trainer:
            found = frame.f_locals
        frame = frame.f_back
    if not found:
        return None
    hook = found["hook"]
    receivers = trainer.on.receivers[hook]
    called = [function for _, function in receivers].index(found["function"])
    if not getattr(receivers[called][0], "_owes_last", False):  # else it is called once more
        called += 1
    return hook, called, found["args"]


def _is_called_later(trainer: Trainer, running: Any) -> bool:
    """Whether `on_train_batch_end` has receivers that were not called yet."""
    hook, called = ("on_train_batch_end", 0)
    if running:
        hook, called = running[:2]
    return hook == "on_train_batch_end" and len(trainer.on.receivers[hook]) > called


def is_leftover(trainer: Trainer, path: str) -> bool:
    """Whether a file was written by the run that is resumed, behind the checkpoint from which it
    is: this run writes it again.

    Args:
        path: the file.
    """
    run = trainer._lineage
    claimed: set[str] = set()
    for each in trainer.checkpoint_callbacks:
        claimed.update(each.best_k_models)
        claimed.update((each.best_model_path, each.last_model_path))
    if run["part"] == 0 or path in claimed:
        return False
    try:
        checkpoint = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        other = checkpoint["loops"]["minilightning"]["run"]
    except Exception:  # noqa: BLE001  not a file of ours
        return False
    earlier = other["id"] == run["id"] and other["part"] < run["part"]
    return bool(earlier and checkpoint["global_step"] >= run["step"])


def is_inside(trainer: Trainer) -> bool:
    """Whether a run stands where no other can go on: within a batch or an evaluation.

    What is saved there is saved once more, by `save_again`, when that is over.
    """
    if trainer._resuming or trainer.state.fn != TrainerFn.FITTING:
        return False
    pending = trainer._progress.pending
    running = _running(trainer)
    if pending == "batch" or trainer.sanity_checking:
        return True
    if pending == "validation":
        return trainer.validating
    hooks = REST.get(pending, ())
    at_a_hook = pending in REST or pending == "plateau"
    return at_a_hook and running is not None and running[0] not in hooks


def save_again(trainer: Trainer, *finished: Any) -> None:
    """Bring up to date what was saved within a batch or an evaluation that is over now.

    Args:
        finished: outputs, batch and index of the batch whose `on_train_batch_end` comes next.
    """
    saved, trainer._unfinished = trainer._unfinished, []
    trainer._finished_batch = finished
    for path in saved:
        trainer.save_checkpoint(path)
    trainer._finished_batch = ()


def forget(trainer: Trainer) -> None:
    """At the start of a run nothing is to be resumed yet."""
    trainer._resuming = {}
    trainer._rest = {}
    trainer._unfinished = []
    trainer._finished_batch = ()
    trainer._batches = None
    trainer._lineage = {"id": uuid.uuid4().hex, "part": 0, "step": 0}
    trainer._epoch_rng = None
    trainer._validation_rng = None


def _validation_rng(trainer: Trainer) -> dict[str, Any] | None:
    """A validation that was not finished is run again, from the random numbers that it had."""
    inside = trainer.validating and trainer._progress.pending == "validation"
    return trainer._validation_rng if inside else None


def _loaders(trainer: Trainer) -> list[list[Any]]:
    given = trainer._given_loaders  # they may have generators before they are asked for
    loaded = {"train": trainer.train_dataloader, "val": trainer.val_dataloaders}
    trees = [given.get(kind) if tree is None else tree for kind, tree in loaded.items()]
    return [[] if tree is None else data.leaves(tree) for tree in trees]


def _has_workers(loader: Any) -> bool:
    """Whether a loader has started workers that stay from epoch to epoch."""
    return getattr(loader, "persistent_workers", False) and loader._iterator is not None


def _batches_state(batches: TrainBatches) -> dict[str, Any]:
    state = batches.state()
    if not is_plain(state["ahead"]):
        state["ahead"] = None
        if any(each is not None for each in state["loaders"]):
            warn("A loader with a `state_dict` was asked for one more batch to see whether it is "
                 "the last, and that batch is no tensor or plain container. It is not in the "
                 "checkpoint, and a run that goes on from it misses it. Give the loader a "
                 "`__len__`, or let it yield tensors.")
    return state


def _gradients(trainer: Trainer) -> dict[str, Any]:
    """Gradients that the next batch may add to."""
    module = trainer.lightning_module
    if trainer._stepped and module.automatic_optimization:
        return {}
    gradient = trainer.strategy.gradient
    return {name: gradient(each) for name, each in module.named_parameters()
            if each.grad is not None}


PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    torch.Tensor,
    nn.Parameter,
    torch.Size,
    torch.dtype,
    torch.device,
)


def is_plain(tree: Any) -> bool:
    """Whether `torch.load(weights_only=True)` gives a value back.

    Args:
        tree: anything.
    """
    if type(tree) in (list, tuple, set):
        return all(map(is_plain, tree))
    if type(tree) in (dict, OrderedDict):
        return all(is_plain(key) and is_plain(child) for key, child in tree.items())
    return type(tree) in PLAIN


# Metrics

_SEEN = (
    "callback",
    "logged",
    "progress_bar",
)


def _logged(trainer: Trainer) -> dict[str, Any]:
    """What `self.log` has gathered in this epoch, and what is seen of it."""
    metrics = trainer._metrics
    objects = _metric_objects(trainer)
    names = {id(each): name for name, each in objects.items()}
    return {
        "logged": {name: dict(getattr(metrics, name)) for name in _SEEN},
        "metric_objects": {name: _object_state(each) for name, each in objects.items()},
        "entries": [
            _entry_state(key, entry, names) for key, entry in metrics.of_training.items()
        ],
    }


def _metric_objects(trainer: Trainer) -> dict[str, Any]:
    """The metric objects in a module, by name, but for those of an evaluation that is to be run
    again or to be reset."""
    metrics = trainer._metrics
    evaluated = set()
    if metrics.open is not metrics.of_training:
        evaluated = {id(entry.last) for entry in (metrics.open or {}).values()}
    found = {}
    for prefix, module in trainer.lightning_module.named_modules():
        below = {**vars(module), **module._modules}
        for name, each in below.items():
            if not name.startswith("_") and _is_metric(each) and id(each) not in evaluated:
                found[f"{prefix}.{name}".lstrip(".")] = each
    return found


def _is_metric(value: Any) -> bool:
    if isinstance(value, type):
        return False
    return callable(getattr(value, "compute", None)) and callable(getattr(value, "reset", None))


_OF_ANY_MODULE = set(vars(nn.Module())) - {"_buffers"}


def _object_state(metric: Any) -> dict[str, Any]:
    return {
        name: value for name, value in vars(metric).items()
        if name not in _OF_ANY_MODULE and is_plain(value)
    }


def _set_object(metric: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        if name == "_buffers":
            metric._buffers.update(value)
        else:
            vars(metric)[name] = value


_KEPT = (
    "name",
    "of_loader",
    "prog_bar",
    "logger",
    "on_step",
    "on_epoch",
    "dataloader_idx",
    "sync_dist",
    "weight",
)


def _entry_state(key: Any, entry: Entry, names: dict[int, str]) -> dict[str, Any]:
    reduce_fx, last, name, reduced = entry.reduce_fx, entry.last, None, entry.reduced
    if callable(reduce_fx):  # no file holds a function; if it logs again, the run has it
        reduce_fx, reduced = Entry.UNKNOWN, torch.as_tensor(entry.epoch_value())
    if reduce_fx is None:  # the value is a metric object, which is kept by itself
        last, name = None, names.get(id(entry.last))
    return {
        **{each: getattr(entry, each) for each in _KEPT},
        "key": list(key),
        "reduce_fx": reduce_fx,
        "total": entry.total,
        "last": last,
        "reduced": reduced,
        "object": name,
        "on_cpu": isinstance(last, torch.Tensor) and last.is_cpu,
    }


def _entry(state: dict[str, Any], objects: dict[str, Any], device: torch.device) -> Entry:
    state.pop("key")
    name = state.pop("object")
    on_cpu = state.pop("on_cpu")
    if not on_cpu:
        state = data.move_data_to_device(state, device)
    if name is not None:
        state["last"] = objects.get(name)
    return Entry(**state, settings=None)


def _restore_metrics(trainer: Trainer, kept: dict[str, Any]) -> None:
    metrics = trainer._metrics
    objects = _metric_objects(trainer)
    device = trainer.strategy.root_device
    for name, state in kept["metric_objects"].items():
        if name in objects:
            _set_object(objects[name], data.move_data_to_device(state, device))
    metrics.of_training.clear()
    for state in kept["entries"]:
        entry = _entry(dict(state), objects, device)
        is_lost = entry.reduce_fx is None and entry.last is None
        if not is_lost:
            metrics.of_training[tuple(state["key"])] = entry
    for name in _SEEN:
        getattr(metrics, name).clear()
        getattr(metrics, name).update(kept["logged"][name])


# Going on


def is_over(trainer: Trainer) -> bool:
    """Whether a run has nothing to do. What no hook sees of a last epoch's end is done here."""
    if not trainer._is_done():
        return False
    kept = trainer._resuming
    progress = trainer._progress
    if progress.batches or progress.pending == "fit_start":
        return not progress.batches
    if progress.pending == "epoch_end" and _has_rest(trainer, kept["running"]):
        return False
    if "running" not in kept:
        return True
    trainer._metrics.begin(training=True)
    enter(trainer)
    return True


def _has_rest(trainer: Trainer, running: list[Any] | None) -> bool:
    receivers = trainer.on.receivers
    later = REST["epoch_end"]
    if running is not None and running[0] in later:
        hook, called = running
        if len(receivers[hook]) > called:
            return True
        later = later[later.index(hook) + 1:]
    return any(receivers[name] for name in later)


def enter(trainer: Trainer) -> None:
    """Go back to where a checkpoint was saved, once training has started again."""
    kept = trainer._resuming
    progress = trainer._progress
    trainer._rest = kept
    trainer._resuming = {}
    if "running" not in kept or progress.pending == "fit_start":
        return
    had_workers = kept["workers"]
    if progress.batches:  # the epoch begins again, with those that were there when it began
        had_workers = [kept["epoch_rng"]["workers"], *had_workers[1:]]
    _start_workers(trainer, had_workers)
    if progress.pending == "batch":
        warn("The checkpoint was saved within a batch that was never finished: this batch is "
             "trained on again, with other random numbers. Save in `on_train_batch_end` instead.")
        progress.pending = ""
    _restore_metrics(trainer, kept)
    _set_buffers(trainer, kept.get("buffers", {}))
    trainer.should_stop = kept["should_stop"] and progress.pending != ""
    trainer._evaluated_batches = {tuple(key): n for *key, n in kept["evaluated_batches"]}
    trainer._loaded_in.update(kept["loaded_in"])
    trainer._epoch_outputs = kept.get("outputs", [])
    run = kept["run"]
    trainer._lineage = {**run, "part": run["part"] + 1, "step": trainer.global_step}
    if progress.pending in REST:
        _leave_out_called(trainer, REST[progress.pending], kept)
    if progress.pending == "epoch_end":
        draw_as_saved(trainer)
        trainer.current_epoch = progress.epochs - 1
        trainer._end_epoch(progress.complete)


def _start_workers(trainer: Trainer, had_workers: list[list[bool]]) -> None:
    """Start the workers that stay, where they had been started: that draws a random number."""
    for loaders, had in zip(_loaders(trainer), had_workers):
        for loader, had_any in zip(loaders, had):
            if had_any and loader.persistent_workers:
                iter(loader)


def _leave_out_called(trainer: Trainer, hooks: tuple[str, ...], kept: dict[str, Any]) -> None:
    """Let each of these hooks call, once, only those that it had not called yet."""
    hook, called = kept["running"] or ("", 0)
    if hook not in hooks:
        return
    for name in hooks[:hooks.index(hook) + 1]:
        if name == "on_train_batch_end" and kept.get("arguments") is None:
            continue  # it will not be called
        receivers = trainer.on.receivers[name]
        left = receivers[called:] if name == hook else []
        _once(trainer.on, name, dispatch.fan_out(trainer, name, left))


def _once(on: dispatch.Bound, hook: str, function: Any) -> None:
    whole = getattr(on, hook)

    def rest(*args: Any) -> Any:
        setattr(on, hook, whole)
        return function(*args)

    setattr(on, hook, rest)


def train_batches(trainer: Trainer) -> Iterator[tuple[Any, bool]]:
    """The batches of an epoch with whether each is the last; an epoch that goes on does so with
    the next batch, drawn from generators as they were when it began."""
    done = trainer._progress.batches
    tree = trainer.train_dataloader
    kept = trainer._rest
    loaders = data.leaves(tree)
    for loader in loaders if done else ():
        data.set_epoch(loader, trainer.current_epoch)  # it is not begun again
    if done and kept.get("epoch_rng"):
        set_rng_state(kept["epoch_rng"]["global"])
        set_states(loaders, kept["epoch_rng"]["generators"])
    trainer._epoch_rng = {
        "global": rng_state(),
        "generators": states_of(loaders),
        "workers": list(map(_has_workers, loaders)),
    }
    all_have = trainer.strategy.reduce_boolean_decision if trainer._several else None
    trainer._batches = TrainBatches(
        tree, trainer.num_training_batches, done, kept.get("batches_state"), all_have
    )
    if done:
        draw_as_saved(trainer)
        gradients = kept.get("gradients", {})
        for name, parameter in trainer.lightning_module.named_parameters():
            if name in gradients:
                trainer.strategy.set_gradient(parameter, gradients[name])
    trainer._rest = {}
    if trainer._progress.pending == "batch_end":
        _end_batch(trainer, kept)
    return iter(trainer._batches)


def draw_as_saved(trainer: Trainer) -> None:
    """Go on with the random numbers of the run that is resumed."""
    if "rng" in trainer._rest:
        set_rng_state(trainer._rest.pop("rng"))
        for loaders, states in zip(_loaders(trainer), trainer._rest.get("generators", ())):
            set_states(loaders, states)


def _end_batch(trainer: Trainer, kept: dict[str, Any]) -> None:
    """What follows a batch, for those that had not been called."""
    on, arguments = trainer.on, kept.get("arguments")
    if arguments is not None:
        arguments = data.move_data_to_device(arguments, trainer.strategy.root_device)
        trainer._metrics.batch = arguments[1]
        on.on_train_batch_end(*arguments)
    on.on_batch_end()
    if trainer._stepped and trainer.loggers:
        reporting.log_train_step(trainer)
    trainer._progress.pending = "validation"


def validated(trainer: Trainer) -> None:
    """A validation inside training is over, but for its `on_validation_end`."""
    if trainer._progress.pending == "validation" and trainer.state.fn == TrainerFn.FITTING:
        trainer._progress.pending = "validation_end"
        if trainer._unfinished:
            save_again(trainer)


def end_validation(trainer: Trainer) -> None:
    """`on_validation_end` of a validation before the checkpoint, for those not called yet."""
    modes = [(module, module.training) for module in trainer.lightning_module.modules()]
    for module, _ in modes:
        module.training = False
    trainer.state.stage = RunningStage.VALIDATING
    with torch.no_grad():
        trainer.on.on_validation_end()
        trainer._restore_modes("validation", modes)
    trainer.state.stage = RunningStage.TRAINING
