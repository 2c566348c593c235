"""Checkpoints: collected in the order of the traces, written atomically, read safely, resumed.

A checkpoint is a dict with Lightning's keys: `epoch`, `global_step`, `state_dict`, `loops`, and
unless it holds weights only, `callbacks`, `optimizer_states`, `lr_schedulers`.
"""
from __future__ import annotations

import copy
import inspect
import json
import os
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import resume
from .callback import Callback
from .signatures import overrides, takes_whole_checkpoint
from .errors import MisconfigurationException, info, listed, warn
from .hparams import AttributeDict
from .interchange import loops_of, progress_in
from .state import Progress
from .storage import read, write

if TYPE_CHECKING:
    from .trainer import Trainer

LAYOUT = "2.2.5"  # the version of Lightning whose keys and meanings a file has


def collect(trainer: Trainer, weights_only: bool = False) -> dict[str, Any]:
    """The checkpoint of a trainer as it stands.

    Args:
        weights_only: leave out what only training needs.

    Source: trace save_checkpoint_with_datamodule: the module's weights, the callbacks' states, the
    data module's state; then every callback, and last the module, sees the whole.
    """
    module = trainer.lightning_module
    checkpoint: dict[str, Any] = {
        "epoch": trainer.current_epoch,
        "global_step": trainer.global_step,
        "pytorch-lightning_version": LAYOUT,
        "state_dict": trainer.strategy.module_state(module),
        "loops": {**loops_of(trainer), "minilightning": asdict(trainer._progress)},
    }
    if not weights_only:
        checkpoint["loops"]["minilightning"] = resume.place_of_all(trainer)
        states = {c.state_key: c.state_dict() for c in trainer.callbacks}
        checkpoint["callbacks"] = {key: state for key, state in states.items() if state}
        checkpoint["optimizer_states"] = list(
            map(trainer.strategy.optimizer_state, trainer.optimizers))
        checkpoint["lr_schedulers"] = [
            config.scheduler.state_dict() for config in trainer.lr_scheduler_configs
        ]
        if precision := trainer.precision_plugin.state_dict():
            checkpoint["MixedPrecision"] = precision
        checkpoint.update(_not_yet_restored(trainer))
    for owner, prefix in ((module, ""), (trainer.datamodule, "datamodule_")):
        if owner is not None and owner.hparams:
            checkpoint[f"{prefix}hparams_name"] = owner._hparams_name
            checkpoint[f"{prefix}hyper_parameters"] = dict(owner.hparams)
    if trainer.datamodule is not None and (own := trainer.datamodule.state_dict()):
        checkpoint[type(trainer.datamodule).__qualname__] = own
    for receiver, save_state in trainer.on.receivers["on_save_checkpoint"]:
        if isinstance(receiver, Callback):
            state = None if weights_only else _noted(trainer, "on_save_checkpoint", save_state,
                                                     checkpoint)
            if state:  # in 1.1 and 1.5 what it returns is the state
                checkpoint["callbacks"][receiver.state_key] = state
        else:
            _noted(trainer, "on_save_checkpoint", save_state, checkpoint)
    return checkpoint


def _not_yet_restored(trainer: Trainer) -> dict[str, Any]:
    """What a resumed run has not taken from its checkpoint yet."""
    names = ("epoch", "global_step", "optimizer_states", "lr_schedulers")
    return {name: trainer._checkpoint[name] for name in names if name in trainer._checkpoint}


def _noted(trainer: Trainer, hook: str, function: Any, argument: Any) -> Any:
    """Call one receiver of a hook; `self.log` in it is refused under the hook's name."""
    outer, trainer._current_fx_name = trainer._current_fx_name, hook
    answer = function(argument)
    trainer._current_fx_name = outer
    return answer


def save(trainer: Trainer, path: str | Path, weights_only: bool = False) -> None:
    """Collect a checkpoint and write it. Every process collects, one writes; all learn of failure.

    Args:
        path: the file.
        weights_only: leave out what only training needs.

    Raises:
        OSError and what else the writing raises; RuntimeError in the processes that do not write.
    """
    checkpoint, error = collect(trainer, weights_only), None
    if trainer.is_global_zero:
        try:
            write(checkpoint, path)
        except Exception as failure:
            error = failure
    said = trainer.strategy.broadcast(error and f"{type(error).__name__}: {error}")
    if said:
        raise error or RuntimeError(f"The first process could not save {path}: {said}")
    if not weights_only and resume.is_inside(trainer):
        trainer._unfinished.append(path)


# Resuming, in three steps: weights and states before the module is on its device, optimizers once
# they exist, and the place in the loops.


def restore(trainer: Trainer, to_fit: bool) -> None:
    """Read the checkpoint that a run starts from; to evaluate it takes the weights alone.

    Args:
        to_fit: whether the run trains.
    """
    path = str(trainer.ckpt_path)
    info(f"Restoring states from the checkpoint at {path}")
    checkpoint = read(path, trainer._weights_only)
    if to_fit:
        trainer._checkpoint = checkpoint
        trainer._resuming = resume.place_in(trainer, checkpoint)
    restore_weights(trainer, checkpoint, to_fit)


def restore_weights(trainer: Trainer, checkpoint: dict[str, Any], with_callbacks: bool) -> None:
    """Give module, data module and callbacks back what is theirs.

    Args:
        checkpoint: the whole of it.
        with_callbacks: also to data module and callbacks, as in a fit.

    Source: trace save_checkpoint_with_datamodule; the callbacks come after the module here, the
    opposite of everything else.
    """
    module, datamodule = trainer.lightning_module, trainer.datamodule
    loaders = trainer.on.receivers["on_load_checkpoint"]
    for receiver, load in loaders:
        if receiver is module:
            _noted(trainer, "on_load_checkpoint", load, checkpoint)
    load_weights(module, checkpoint["state_dict"], module.strict_loading,
                 trainer.strategy.load_module)
    if not with_callbacks:
        return
    for receiver, load in loaders:
        if receiver is datamodule:
            _noted(trainer, "on_load_checkpoint", load, checkpoint)
    if datamodule is not None and (key := type(datamodule).__qualname__) in checkpoint:
        datamodule.load_state_dict(checkpoint[key])
    states = checkpoint.get("callbacks") or {}
    unclaimed = set(states) - {callback.state_key for callback in trainer.callbacks}
    if unclaimed:
        warn(f"The checkpoint holds the state of callbacks that this trainer lacks: "
             f"{listed(sorted(map(str, unclaimed)))}. Add them to `Trainer(callbacks=...)`.")
    for receiver, load in loaders:
        if not isinstance(receiver, Callback):
            continue
        if takes_whole_checkpoint(receiver):
            _noted(trainer, "on_load_checkpoint", load, checkpoint)
        elif receiver.state_key in states:
            state = copy.deepcopy(states[receiver.state_key])
            _noted(trainer, "on_load_checkpoint", load, state)
    for callback in trainer.callbacks:
        if callback.state_key in states and overrides(callback, "load_state_dict"):
            callback.load_state_dict(copy.deepcopy(states[callback.state_key]))


def load_weights(
    module: torch.nn.Module, weights: dict[str, Any], strict: bool, load: Any = None
) -> Any:
    """Load weights into a module, with the function of a strategy that has shared it out.

    Args:
        module: that takes them.
        weights: tensors by name.
        strict: refuse names that are missing or too many.
        load: `load_module` of a strategy; None: the module's own `load_state_dict`.

    Returns:
        What `load_state_dict` does: the names that were missing, and those that were too many.

    Raises:
        RuntimeError: keys or shapes differ; torch's list of all of them, and for each key that the
            module lacks the one it has under the nearest name.
    """
    try:
        if load is not None:
            return load(module, weights, strict)
        return module.load_state_dict(weights, strict=strict)
    except RuntimeError as error:
        own = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
        lines = []
        for name in sorted(set(weights) - own):
            near = get_close_matches(name, sorted(own - set(weights)), n=1, cutoff=0.4)
            lines += [f"\n\t`{name}` in the checkpoint may be `{near[0]}` here."] if near else []
        raise RuntimeError(f"{error}{''.join(lines)}") from None


def restore_training(trainer: Trainer, checkpoint: dict[str, Any]) -> None:
    """Restore optimizers, schedulers and loop counters.

    Args:
        checkpoint: the whole of it.

    Raises:
        KeyError: the file holds weights only.
        MisconfigurationException: another number of optimizers or schedulers than was saved.
    """
    kept = checkpoint.get("loops", {}).get("minilightning") or progress_in(checkpoint)
    names = Progress.__dataclass_fields__
    trainer._progress = Progress(**{name: kept[name] for name in names if name in kept})
    trainer.is_last_batch = kept.get("is_last_batch", True)
    trainer._stepped = kept.get("stepped", trainer._steps(trainer._progress.batches - 1))
    trainer.global_step, trainer.current_epoch = checkpoint["global_step"], checkpoint["epoch"]
    if "optimizer_states" not in checkpoint:
        raise KeyError(
            "The checkpoint holds weights only, without optimizer states, so that training cannot "
            "be resumed from it. Use `load_from_checkpoint` and fit afresh."
        )
    if "MixedPrecision" in checkpoint:
        trainer.precision_plugin.load_state_dict(checkpoint["MixedPrecision"])
    pairs = (
        ("optimizers", trainer.optimizers, checkpoint["optimizer_states"],
         trainer.strategy.load_optimizer),
        ("schedulers", [config.scheduler for config in trainer.lr_scheduler_configs],
         checkpoint["lr_schedulers"], lambda scheduler, state: scheduler.load_state_dict(state)),
    )
    for name, owners, states, load in pairs:
        if len(owners) != len(states):
            raise MisconfigurationException(
                f"The checkpoint holds the states of {len(states)} {name}, and "
                f"`configure_optimizers` returned {len(owners)}."
            )
        for owner, state in zip(owners, states):
            load(owner, state)


def load_object(
    cls: type[Any],
    path: str | Path,
    map_location: Any,
    hparams_file: str | Path | None,
    strict: bool | None,
    weights_only: bool | None,
    given: dict[str, Any],
) -> Any:
    """`load_from_checkpoint` of a module or data module.

    Args:
        cls: the class of what is made.
        path: the file.
        map_location: device of the tensors in it, as for `torch.load`.
        hparams_file: a JSON file with hyperparameters, instead of those in the checkpoint.
        strict: of a module: refuse weights whose names are missing or too many; None: as it says
            itself.
        weights_only: False trusts the file and lets it run code.
        given: arguments of `__init__`, instead of those in the file.

    Returns:
        The object, with its weights or state.
    """
    checkpoint = read(path, weights_only, map_location)
    is_module = issubclass(cls, torch.nn.Module)
    prefix = "" if is_module else "datamodule_"
    saved = checkpoint.get(f"{prefix}hyper_parameters", {})
    if hparams_file is not None:
        saved = json.loads(Path(hparams_file).read_text())
    parameters = inspect.signature(cls.__init__).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    arguments = {**saved, **given}
    name = checkpoint.get(f"{prefix}hparams_name")
    if name in parameters and parameters[name].kind is not inspect.Parameter.VAR_KEYWORD:
        arguments = {name: AttributeDict(arguments), **given}  # they came in one argument
    loaded = cls(**{k: v for k, v in arguments.items() if takes_all or k in parameters})
    if is_module:
        loaded.configure_model()
    loaded.on_load_checkpoint(checkpoint)
    if not is_module:
        loaded.load_state_dict(checkpoint.get(cls.__qualname__, {}))
        return loaded
    strict = loaded.strict_loading if strict is None else strict
    keys = load_weights(loaded, checkpoint["state_dict"], strict)
    for what, names in zip(("missing in", "unexpected in"), keys or ()):
        if names:
            warn(f"Keys {what} the checkpoint: {listed(names)}.")
    device = next((t.device for t in checkpoint["state_dict"].values()), torch.device("cpu"))
    return loaded.to(device)


def resolve(trainer: Trainer, ckpt_path: Any, model_given: bool) -> str | None:
    """The path that `ckpt_path` means: itself, "best", "last", or by default the best so far.

    Args:
        ckpt_path: what the entry point was given.
        model_given: whether it was given a module, too.

    Source: edition 2.2, trace test_after_fit_ckpt_best.
    """
    fn = trainer.state.fn.value if trainer.state.fn else "fit"
    callback = trainer.checkpoint_callback
    if ckpt_path is None and (model_given or fn == "fit"):
        return None
    if ckpt_path is None:
        warn(f"`.{fn}()` was called without a module: the best checkpoint of the last fit is used. "
             f"Say so with `ckpt_path='best'`.")
        ckpt_path = "best"
    if ckpt_path not in ("best", "last"):
        return str(ckpt_path)
    if callback is None:
        raise ValueError(
            f"`.{fn}(ckpt_path={ckpt_path!r})`: the trainer has no `ModelCheckpoint`. Add one, or "
            "give the path of a file."
        )
    if ckpt_path == "last":
        last = {path for each in trainer.checkpoint_callbacks
                for path in each._find_last_checkpoints(trainer)}
        if not last:
            warn(f"`.{fn}(ckpt_path='last')`: there is no last checkpoint, so none is loaded. Set "
                 "`ModelCheckpoint(save_last=True)`.")
            return None
        return max(last, key=os.path.getmtime)
    if not callback.best_model_path:
        if trainer.fast_dev_run:
            raise ValueError(f"`.{fn}(ckpt_path='best')`: `fast_dev_run` saves no checkpoints.")
        raise ValueError(
            f"`.{fn}(ckpt_path='best')`: no best checkpoint was saved yet. Fit first, or give the "
            "path of a file."
        )
    return str(callback.best_model_path)


def check_state_keys(callbacks: list[Any]) -> None:
    """Refuse two callbacks that would keep their states under one key.

    Args:
        callbacks: those of the trainer.

    Raises:
        RuntimeError: as Lightning 2.2 does; it names the key.
    """
    seen: dict[str, Any] = {}
    for callback in filter(_has_state, callbacks):
        other = seen.setdefault(callback.state_key, callback)
        if other is not callback:
            name = type(callback).__name__
            raise RuntimeError(
                f"Two callbacks keep their state under one `state_key`, {callback.state_key!r}: "
                f"`{type(other).__name__}` and `{name}`. One state would be lost. Give each its "
                f"own: `state_key = property(lambda self: f\"{name}-{{self.some_setting}}\")`."
            )


def _has_state(callback: Callback) -> bool:
    return overrides(callback, "state_dict") or overrides(callback, "on_save_checkpoint")
