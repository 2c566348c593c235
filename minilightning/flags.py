"""The flags of `Trainer(...)`: which values are accepted, decided before anything is done."""
from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Callable

from .errors import MisconfigurationException, closest, info, warn
from .timer import Timer

if TYPE_CHECKING:
    from .trainer import Trainer

Check = Callable[[Any], bool]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_share_or_count(value: Any) -> bool:
    return (_is_int(value) and value >= 0) or (isinstance(value, float) and 0 <= value <= 1)


def _at_least(least: int) -> Check:
    return lambda value: _is_int(value) and value >= least


def _one_of(*accepted: Any) -> Check:
    return lambda value: any(value is each or value == each for each in accepted)


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


SHARE = ("a float from 0.0 to 1.0 (a share) or an int of at least 0 (a count)", _is_share_or_count)
SWITCH = ("True, False or None", _one_of(True, False, None))
FLAGS: dict[str, tuple[str, Check]] = {
    "fast_dev_run": ("True, False or an int of at least 0",
                     lambda v: isinstance(v, bool) or _at_least(0)(v)),
    "max_epochs": ("an int of at least -1 (-1: no limit) or None", _optional(_at_least(-1))),
    "min_epochs": ("an int of at least 0 or None", _optional(_at_least(0))),
    "max_steps": ("an int of at least -1 (-1: no limit)", _at_least(-1)),
    "min_steps": ("an int of at least 0 or None", _optional(_at_least(0))),
    "limit_train_batches": SHARE,
    "limit_val_batches": SHARE,
    "limit_test_batches": SHARE,
    "limit_predict_batches": SHARE,
    "overfit_batches": SHARE,
    "val_check_interval": (
        "a float above 0.0, up to 1.0 (a share of the epoch), or an int of at least 1 (batches)",
        lambda v: _is_share_or_count(v) and v > 0),
    "check_val_every_n_epoch": ("an int of at least 1, or None", _optional(_at_least(1))),
    "num_sanity_val_steps": ("an int of at least -1 (-1: all batches)", _at_least(-1)),
    "log_every_n_steps": ("an int of at least 0 (0: never)", _at_least(0)),
    "accumulate_grad_batches": ("an int of at least 1", _at_least(1)),
    "gradient_clip_algorithm": ("'norm', 'value' or None", _one_of("norm", "value", None)),
    "reload_dataloaders_every_n_epochs": ("an int of at least 0", _at_least(0)),
    "deterministic": ("True, False, None or 'warn'", _one_of(True, False, None, "warn")),
    "enable_checkpointing": SWITCH,
    "enable_progress_bar": SWITCH,
    "enable_model_summary": SWITCH,
    "inference_mode": SWITCH,
    "use_distributed_sampler": SWITCH,
    "detect_anomaly": SWITCH,
    "auto_lr_find": ("True, False or the name of an attribute",
                     lambda v: isinstance(v, (bool, str))),
}
RENAMED = {  # flags of 1.x, and those of 2.x that are not here: what to write instead
    "gpus": "`accelerator='gpu', devices=N`",
    "num_processes": "`accelerator='cpu', devices=N`",
    "auto_select_gpus": "`devices='auto'`",
    "tpu_cores": "`accelerator='tpu', devices=N`",
    "distributed_backend": "`strategy=...`",
    "progress_bar_refresh_rate": "`callbacks=[ProgressBar(refresh_rate=N)]` or "
                                 "`enable_progress_bar=False`",
    "process_position": "`callbacks=[ProgressBar(process_position=N)]`",
    "weights_summary": "`enable_model_summary=...`",
    "checkpoint_callback": "`enable_checkpointing=...`",
    "resume_from_checkpoint": "`trainer.fit(..., ckpt_path=...)`",
    "weights_save_path": "`default_root_dir=...` or `ModelCheckpoint(dirpath=...)`",
    "flush_logs_every_n_steps": "`CSVLogger(flush_logs_every_n_steps=N)`",
    "reload_dataloaders_every_epoch": "`reload_dataloaders_every_n_epochs=1`",
    "replace_sampler_ddp": "`use_distributed_sampler=...`",
    "stochastic_weight_avg": "a callback of your own",
    "terminate_on_nan": "`detect_anomaly=True`",
    "truncated_bptt_steps": "manual optimization",
    "prepare_data_per_node": "`self.prepare_data_per_node = ...` in the module or data module",
    "track_grad_norm": "`on_before_optimizer_step` of the module or a callback",
    "benchmark": "`torch.backends.cudnn.benchmark = True`",
    "sync_batchnorm": "`torch.nn.SyncBatchNorm.convert_sync_batchnorm(...)` in `configure_model`",
    "profiler": "`torch.profiler.profile()` around `trainer.fit(...)`",
    "plugins": "`strategy=...` and `precision=...`",
    "barebones": "`logger=False, enable_checkpointing=False, enable_progress_bar=False, "
                 "enable_model_summary=False, num_sanity_val_steps=0`",
}


DEFAULTS = {  # what None stands for
    "limit_train_batches": 1.0, "limit_val_batches": 1.0, "limit_test_batches": 1.0,
    "limit_predict_batches": 1.0, "val_check_interval": 1.0, "num_sanity_val_steps": 2,
    "log_every_n_steps": 50, "precision": "32-true",
}
KEPT_OTHERWISE = ("logger", "callbacks", "strategy")  # as loggers, callbacks and a strategy


def resolve_flags(given: dict[str, Any]) -> dict[str, Any]:
    """The trainer's flags, checked, with the defaults that depend on others filled in.

    Args:
        given: all arguments of `Trainer(...)`, with those that do not exist under "unknown".

    Raises:
        MisconfigurationException, TypeError: a flag that does not exist or is not accepted.
    """
    flags = dict(given)
    refuse_unknown(flags.pop("unknown"), list(flags))
    for name, default in DEFAULTS.items():
        flags[name] = default if flags[name] is None else flags[name]
    flags["default_root_dir"] = os.fspath(flags["default_root_dir"] or os.getcwd())
    check_flags(flags)
    if share := flags["overfit_batches"]:
        flags.update(limit_train_batches=share, limit_val_batches=share)
    if batches := int(flags["fast_dev_run"]):
        limits = [f"limit_{kind}_batches" for kind in ("train", "val", "test", "predict")]
        flags.update(dict.fromkeys(limits, batches), max_epochs=1, max_steps=batches,
                     num_sanity_val_steps=0, val_check_interval=1.0, check_val_every_n_epoch=1)
        info(f"`fast_dev_run`: {batches} batches of each loop, without logging or saving.")
    if flags["num_sanity_val_steps"] == -1:
        flags["num_sanity_val_steps"] = math.inf
    return {name: value for name, value in flags.items() if name not in KEPT_OTHERWISE}


def set_default_limits(trainer: Trainer) -> None:
    """At the start of a fit: how long it lasts when no flag says so (edition 2.2)."""
    if trainer.max_epochs is None:
        timed = any(isinstance(callback, Timer) for callback in trainer.callbacks)
        limited = timed or trainer.max_steps != -1
        trainer.max_epochs = -1 if limited else 1000
        if not limited:
            warn("`max_epochs` was not set: training stops after 1000 epochs. Set "
                 "`Trainer(max_epochs=-1)` to train without a limit.")
    if trainer.min_epochs is None:
        trainer.min_epochs = 0 if trainer.min_steps is None else 1


def check_flags(flags: dict[str, Any]) -> None:
    """Refuse values out of range.

    Args:
        flags: name -> value, as given to `Trainer(...)`.

    Raises:
        MisconfigurationException: names the flag, what it got and what is accepted.
        TypeError: `gradient_clip_val` is no number, as in Lightning 2.2.
    """
    for name, (accepted, check) in FLAGS.items():
        if not check(flags[name]):
            raise MisconfigurationException(
                f"`Trainer({name}={flags[name]!r})`: accepted is {accepted}."
            )
    clip = flags["gradient_clip_val"]
    if clip is not None and (isinstance(clip, bool) or not isinstance(clip, (int, float))):
        raise TypeError(
            f"`Trainer(gradient_clip_val={clip!r})`: accepted is an int, a float or None."
        )
    by_batches = isinstance(flags["val_check_interval"], int)
    if flags["check_val_every_n_epoch"] is None and not by_batches:
        raise MisconfigurationException(
            "`Trainer(check_val_every_n_epoch=None)` validates by counting training batches over "
            f"epochs, and `val_check_interval={flags['val_check_interval']!r}` is no count. Give "
            "an int."
        )


def refuse_unknown(unknown: dict[str, Any], known: list[str]) -> None:
    """Refuse flags that do not exist, with what to write instead.

    Args:
        unknown: name -> value.
        known: the names of all flags.

    Raises:
        TypeError: as Python does for an unexpected argument.
    """
    for name, value in unknown.items():
        instead = f" Write {RENAMED[name]}." if name in RENAMED else closest(name, known)
        raise TypeError(
            f"`Trainer({name}={value!r})`: there is no such flag.{instead} Flags are "
            f"{', '.join(known)}."
        )
