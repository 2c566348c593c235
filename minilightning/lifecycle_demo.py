"""The command `lifecycle`: a toy model in the real Trainer, and what fired, printed or drawn."""
from __future__ import annotations

import argparse
import ast
import contextlib
import logging
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from .callback import Callback
from .dispatch import HOOKS, WHO
from .errors import MisconfigurationException, closest, log
from .lifecycle import Trace, trace
from .lifecycle_manual import entry, receivers
from .module import LightningDataModule, LightningModule
from .trainer import Trainer

ENTRIES = ("fit", "validate", "test", "predict")
NOT_BY_DEFAULT = (  # overriding these changes what a run does
    "configure_sharded_model", "on_validation_model_train", "on_test_model_train",
)
NAMES = ("First", "Second", "Third", "Fourth", "Fifth")
EPILOG = """\
examples:
  %(prog)s fit --epochs 1 --train-batches 4 --accumulate 2
  %(prog)s fit --legacy --checkpoint --html lifecycle.html
  %(prog)s test -v
  %(prog)s fit --set val_check_interval=0.5 --raise-in validation_step
"""


class Raised(Exception):
    """What `--raise-in` raises."""


class Toy(LightningModule):
    """One layer; `make_toy` adds an override of every hook."""

    scheduler = ""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.layer(batch).mean()

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        return self.layer(batch).mean()

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        return self.layer(batch).mean()

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        return self.layer(batch)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        if not self.scheduler:
            return optimizer
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return [optimizer], [{"scheduler": scheduler, "interval": self.scheduler}]


class ToyData(LightningDataModule):
    """Owns the transfer of its batches."""

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch


def _nothing(self: Any, *args: Any) -> None:
    """What an added override does."""


def _hooks(receiver: str, older: bool) -> list[str]:
    """The hooks that a kind of receiver may override: those of today, or those of old alone."""
    return [
        hook for hook, _, who, _ in HOOKS
        if receiver in receivers(hook)
        and hook not in NOT_BY_DEFAULT
        and not set(who) & set("mO")  # the module's own implementation does the work
        and ("2.2" not in entry(hook, receiver).editions) == older
    ]


def _subclass(name: str, base: type, hooks: Iterable[str], **more: Any) -> Any:
    return type(name, (base,), {**dict.fromkeys(hooks, _nothing), **more})


def make_toy(given: argparse.Namespace) -> dict[str, Any]:
    """What the entry point is called with: the module, and a data module if one is asked for.

    Args:
        given: the flags.
    """
    hooks = _hooks("module", False) + (_hooks("module", True) if given.legacy else [])
    loaders = {
        "train_dataloader": _loader(given.train_batches),
        "val_dataloader": _loader(given.val_batches),
        "test_dataloader": _loader(given.test_batches),
        "predict_dataloader": _loader(given.predict_batches),
    }
    if not given.datamodule:
        return {"model": _subclass("Toy", Toy, hooks, scheduler=given.scheduler, **loaders)()}
    Model = _subclass("Toy", Toy, hooks, scheduler=given.scheduler)
    Data = _subclass("ToyData", ToyData, _hooks("datamodule", False), **loaders)
    return {"model": Model(), "datamodule": Data()}


def _loader(batches: int) -> Callable[[Any], Any]:
    rows: Any = torch.ones(max(batches, 1), 4)  # a tensor is a data set of its rows
    return lambda self: DataLoader(rows)


def make_callbacks(given: argparse.Namespace) -> list[Callback]:
    """`--callbacks` of them, and with `--legacy` one that has the hooks of old alone.

    Args:
        given: the flags.

    Returns:
        The callbacks, in the order in which they are called.
    """
    hooks = _hooks("callback", False)
    made = [_subclass(name, Callback, hooks)() for name in NAMES[:given.callbacks]]
    if given.legacy:
        made.append(_subclass("Older", Callback, _hooks("callback", True))())
    return made


def run(given: argparse.Namespace) -> Trace:
    """Run the entry point with the flags given.

    Args:
        given: the flags.

    Returns:
        The trace of it.

    Raises:
        ValueError: the Trainer refuses a flag.
    """
    arguments, callbacks = make_toy(given), make_callbacks(given)
    torch.optim.SGD(arguments["model"].parameters(), lr=0.1)  # the first one takes torch seconds
    if given.raise_in:
        _plant_error(given.raise_in, [*reversed(arguments.values()), *callbacks])
    trainer = Trainer.__new__(Trainer)  # so that what fires in its making is seen as well
    with tempfile.TemporaryDirectory() as folder, _quietly(), trace(trainer) as watched:
        flags = {
            "accelerator": "cpu",
            "callbacks": callbacks,
            "max_epochs": given.epochs,
            "accumulate_grad_batches": given.accumulate,
            "num_sanity_val_steps": given.sanity,
            "limit_train_batches": given.train_batches,
            "limit_val_batches": given.val_batches,
            "limit_test_batches": given.test_batches,
            "limit_predict_batches": given.predict_batches,
            "enable_checkpointing": given.checkpoint,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "logger": False,
            "default_root_dir": folder,
            **dict(given.set),
        }
        try:
            Trainer.__init__(trainer, **flags)
            getattr(trainer, given.entry)(**arguments)
        except Raised:
            pass
        except (MisconfigurationException, TypeError, RuntimeError) as error:
            raise ValueError(str(error)) from error
    return watched


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """What a trainer tells of its run is not part of what is shown."""
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(level)


def _plant_error(hook: str, receivers_of_all: list[Any]) -> None:
    """Let the first receiver that has the hook raise in it."""
    def raising(*args: Any) -> None:
        raise Raised(hook)

    kinds = {Toy: "module", ToyData: "datamodule", Callback: "callback"}
    for receiver in receivers_of_all:  # the data module first: it owns the loaders
        kind = next(kinds[base] for base in kinds if isinstance(receiver, base))
        if kind in receivers(hook):
            setattr(receiver, hook, raising)
            return


def _count(least: int, most: float = math.inf) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            limit = f"from {least} to {most}" if most < math.inf else f"of at least {least}"
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number {limit}")
        return int(text)

    return parse


def _flag(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _hook(text: str) -> str:
    if text not in WHO:
        raise argparse.ArgumentTypeError(f"{text!r} is no hook.{closest(text, WHO)}")
    return text


def add_command(commands: Any) -> None:
    """Add the command to those of `python -m`.

    Args:
        commands: what `add_subparsers` gave.
    """
    command = commands.add_parser(
        "lifecycle", help="run a toy model and show which hooks fire", epilog=EPILOG,
        description="Run the real Trainer on a toy model that overrides every hook, and print the "
        "tree of what fired, or write it to a file.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("entry", nargs="?", choices=ENTRIES, default="fit",
                         help="entry point (%(default)s)")
    for name, default, least, text in (
        ("epochs", 2, 0, "epochs of a fit"),
        ("train-batches", 4, 0, "training batches of an epoch"),
        ("val-batches", 2, 0, "batches of a validation; 0: none"),
        ("test-batches", 2, 0, "batches of a test"),
        ("predict-batches", 2, 0, "batches of a prediction"),
        ("accumulate", 1, 1, "batches for an optimizer step"),
        ("sanity", 2, 0, "batches of the sanity check"),
    ):
        command.add_argument(f"--{name}", type=_count(least), default=default, metavar="N",
                             help=f"{text} (%(default)s)")
    command.add_argument("--callbacks", type=_count(0, len(NAMES)), default=2, metavar="N",
                         help=f"callbacks, at most {len(NAMES)} (%(default)s)")
    command.add_argument("--legacy", action="store_true",
                         help="with the hooks of 1.1 and 1.5, too")
    command.add_argument("--datamodule", action="store_true", help="with a data module")
    command.add_argument("--checkpoint", action="store_true", help="save checkpoints")
    command.add_argument("--scheduler", choices=("epoch", "step"), default="",
                         help="with a learning rate scheduler, stepped that often")
    command.add_argument("--raise-in", type=_hook, metavar="HOOK", help="let a hook raise")
    command.add_argument("--set", type=_flag, action="append", default=[], metavar="NAME=VALUE",
                         help="any other flag of the Trainer, such as max_steps=3 (repeatable)")
    command.add_argument("-v", "--verbose", action="store_true", help="print arguments as well")
    command.add_argument("--html", metavar="FILE", help="write a page with a timeline instead")
    command.add_argument("--svg", metavar="FILE", help="write a picture instead")
    command.set_defaults(run_command=show)


def show(given: argparse.Namespace) -> None:
    """Run, and print the tree or write the files that are asked for.

    Args:
        given: the flags.
    """
    watched = run(given)
    if not (given.html or given.svg):
        watched.print(verbose=given.verbose)
    if given.html:
        print(watched.html(given.html))
    if given.svg:
        print(watched.svg(given.svg))
