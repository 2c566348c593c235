"""SIGTERM, as schedulers and spot machines send it: the batch is finished, and the run is saved."""
from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Iterator

from .errors import SIGTERMException, info
from .state import TrainerFn

if TYPE_CHECKING:
    from .trainer import Trainer

FILE = "last-sigterm.ckpt"  # ckpt_path="last" finds it


@contextmanager
def noticing_sigterm(trainer: Trainer) -> Iterator[None]:
    """Let the run that goes on here notice a SIGTERM, and leave the handler as it was found.

    The first one is noted, and the loop ends behind the batch that runs. A second one does what
    SIGTERM did before: usually it ends the process at once. Other threads get no signals.
    """
    trainer.received_sigterm = trainer._ends = False
    before, process = signal.getsignal(signal.SIGTERM), os.getpid()
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return

    def notice(number: int, frame: FrameType | None) -> None:
        if trainer.received_sigterm or os.getpid() != process:  # a forked process is not meant
            signal.signal(number, before)
            os.kill(os.getpid(), number)
            return
        trainer.received_sigterm = True
        trainer._ends = not trainer._several  # several processes agree on it first
        info("SIGTERM received: the run ends behind this batch. Another one ends it at once.")
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGTERM, notice)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is notice:
            signal.signal(signal.SIGTERM, before)


def end(trainer: Trainer) -> None:
    """Save what is trained, and end the run.

    Raises:
        SIGTERMException: always, as Lightning 2.x does; the process ends with status 143.
    """
    trains = trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking
    if trains and not trainer.fast_dev_run:
        folder = trainer.default_root_dir
        if trainer.checkpoint_callback is not None:
            folder = trainer.checkpoint_callback.dirpath or folder
        path = os.path.join(folder, FILE)
        trainer.save_checkpoint(path)
        info(f"SIGTERM: saved to {path}. Go on with `trainer.fit(..., ckpt_path={path!r})`.")
    raise SIGTERMException(128 + signal.SIGTERM)
