"""Which of how many processes this is, and how to become several."""
from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from .errors import MisconfigurationException, info, log

SAID_BY_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Processes:
    """This process among all of a job. Until they are started, it stands for all of them.

    Args:
        global_rank: number among all.
        local_rank: number among those of this node.
        node_rank: number of the node.
        world_size: how many there are, on all nodes.
        are_started: whether the others are there.
    """

    global_rank: int = 0
    local_rank: int = 0
    node_rank: int = 0
    world_size: int = 1
    are_started: bool = True


def under_torchrun() -> bool:
    """Whether torchrun, or who speaks like it, has started this process."""
    return all(name in os.environ for name in SAID_BY_TORCHRUN)


def processes_per_node() -> int:
    """How many processes torchrun has started on this node."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))


def find_processes(per_node: int, num_nodes: int) -> Processes:
    """The processes that the flags ask for.

    Args:
        per_node: processes on each node, one for each device.
        num_nodes: nodes.

    Raises:
        MisconfigurationException: torchrun has started another number of processes, or several
            nodes are asked for without torchrun.
    """
    wanted = per_node * num_nodes
    if under_torchrun():
        there = int(os.environ["WORLD_SIZE"])
        if there != wanted:
            raise MisconfigurationException(
                f"torchrun has started {there} processes, {processes_per_node()} on this node, and "
                f"`Trainer(devices={per_node}, num_nodes={num_nodes})` asks for {wanted}. Leave "
                f"`devices` out, and set `num_nodes={there // processes_per_node()}`."
            )
        rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
        return Processes(rank, local, int(os.environ.get("GROUP_RANK", rank // per_node)), there)
    if num_nodes > 1:
        raise MisconfigurationException(
            f"`Trainer(num_nodes={num_nodes})`: several nodes are started by torchrun. On each "
            f"node run `torchrun --nnodes={num_nodes} --nproc_per_node={per_node} "
            "--node_rank=N --master_addr=ADDRESS --master_port=PORT script.py`."
        )
    return Processes(world_size=wanted, are_started=wanted == 1)


def start_all(processes: Processes, entry: str) -> None:
    """Run this script again under torchrun, in place of this process.

    Nothing is done where the processes are there. What the script did until here is done by each
    of them; this process becomes their launcher, so that its exit code is that of the job.

    Args:
        processes: those that the flags ask for.
        entry: the entry point, for the message.

    Raises:
        MisconfigurationException: there is no script to run again.
    """
    if processes.are_started:
        return
    command = ["-m", "torch.distributed.run", "--standalone",
               f"--nproc_per_node={processes.world_size}"]
    if reason := _why_not_again():
        raise MisconfigurationException(
            f"`Trainer.{entry}()` needs {processes.world_size} processes, and {reason}, so that "
            "they cannot be started by running it again. Put the code into a script and run it "
            f"with `python script.py`, or `torchrun --nproc_per_node={processes.world_size} "
            "script.py`."
        )
    info(f"Starting {processes.world_size} processes: python {' '.join(command)} ...")
    sys.stdout.flush()
    sys.stderr.flush()
    options, script = _split(sys.orig_argv[1:])
    os.execv(sys.executable, [sys.executable, *options, *command, *script])


def _why_not_again() -> str:
    main = sys.modules["__main__"]
    if hasattr(sys, "ps1") or "get_ipython" in vars(main):
        return "this is an interactive session"
    if "PYTEST_CURRENT_TEST" in os.environ or "_pytest" in sys.modules:
        return "this is a test runner"
    if main.__name__ != "__main__":
        return "this process was itself started by another one"
    script = getattr(main, "__file__", None)
    if script is None or not os.path.exists(script):
        return "there is no script"
    return ""


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The options of Python, and the script or `-m module` with its arguments."""
    for i, argument in enumerate(arguments):
        if argument == "-m":
            return arguments[:i], ["--module", *arguments[i + 1:]]
        if not argument.startswith("-") and (i == 0 or arguments[i - 1] not in ("-W", "-X")):
            return arguments[:i], arguments[i:]
    return arguments, []


def name_rank(error: BaseException, of: Processes) -> None:
    """Let an error say which process it comes from.

    Args:
        error: gets a note, or before Python 3.11 the log a line.
        of: this process among all.
    """
    where = f"This was on rank {of.global_rank} of {of.world_size}."
    if hasattr(error, "add_note"):
        error.add_note(where)
    else:  # before Python 3.11
        log.error(where)
