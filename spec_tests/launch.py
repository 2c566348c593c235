"""Start two processes, once for all clauses about several processes, and collect their verdicts.

The processes are started by torch's own launcher and run ``ranks.py``. They leave a file for each
clause and rank. A process that ends or hangs costs the clause at which it does; the rest is
started anew.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from . import clause as clauses
from .observed import Mismatch

PATIENCE = 60  # seconds without any new verdict, after which the processes hang


def check(clause, impl):
    """Check one clause; the first time, all of them are."""
    from .runner import NoDevice

    if impl.verdicts is None:
        impl.verdicts = _shared(impl)
    verdict = impl.verdicts[clause.id]
    if "no device" in verdict:
        raise NoDevice(verdict["no device"])
    if verdict:
        raise Mismatch(**verdict)


def folder():
    """Return the folder of this whole test run, in which every temporary file is; None for none."""
    return os.environ.get("SPEC_TESTS_FOLDER")


def _shared(impl):
    """Return all verdicts; of the workers of one test run, the first one finds them for all."""
    if folder() is None:
        return _all(impl)
    file = os.path.join(folder(), "verdicts_" + impl.name)
    try:
        os.close(os.open(file + ".lock", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        while not os.path.exists(file):
            time.sleep(0.1)
        with open(file, encoding="utf-8") as opened:
            return json.load(opened)
    verdicts = _all(impl)
    with open(file + ".new", "w", encoding="utf-8") as opened:
        json.dump(verdicts, opened)
    os.replace(file + ".new", file)
    return verdicts


def _all(impl):
    left = [each.id for each in clauses.load().values() if "ddp" in each.devices
            and set(each.needs) <= impl.capabilities
            and set(each.editions) & set(impl.editions)]
    verdicts = {}
    while left:
        with tempfile.TemporaryDirectory(dir=folder()) as meeting:
            ended = start(meeting, "ranks", meeting, impl.name, *left)
            for id in list(left):
                verdict, both = _verdict(meeting, id, ended)
                verdicts[id] = verdict
                left.remove(id)
                if not both:
                    break
    return verdicts


def _verdict(meeting, id, ended):
    """Return what is wrong ({} for nothing), and whether both ranks came to an end."""
    found = {}
    for rank in (0, 1):
        file = os.path.join(meeting, "%s.%d" % (id, rank))
        if os.path.exists(file):
            with open(file, encoding="utf-8") as opened:
                found[rank] = json.load(opened)
    for rank in sorted(found):
        if found[rank]:
            return found[rank], len(found) == 2
    return ({} if len(found) == 2 else ended), len(found) == 2


def start(meeting, module, *arguments):
    """Run a module of this package as two processes to their end; return the verdict on what got
    none.

    Args:
        meeting: folder of what they leave behind; a new file in there is a sign of life.
        module: its name.
        arguments: strings for it.
    """
    command = [sys.executable, "-m"] + _launcher() + [
        "--nproc_per_node=2", "--master_addr=127.0.0.1", "--master_port=%d" % _free_port(),
        "-m", "%s.%s" % (__package__, module)] + list(arguments)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [root] + [each for each in sys.path if each]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), GROUP_RANK="0",
                       OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", TMPDIR=meeting)
    with open(os.path.join(meeting, "log"), "w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=root, env=environment, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        hangs = _hangs(process, meeting)
        log.seek(0)
        said = [line for line in log.read().splitlines() if line.strip()][-12:]
    got = "the processes hang" if hangs else "a process ended"
    return dict(got=got, text="%s; their last words:\n%s" % (got, "\n".join(said)))


def _launcher():
    try:
        import torch.distributed.run  # noqa: F401
    except ImportError:
        return ["torch.distributed.launch", "--use_env"]
    return ["torch.distributed.run"]


def _hangs(process, meeting):
    """Wait for the process, and end it when nothing happens any more."""
    files, since = 0, time.monotonic()
    while process.poll() is None:
        now = len(os.listdir(meeting))
        if now != files:
            files, since = now, time.monotonic()
        if time.monotonic() - since > PATIENCE:
            process.terminate()  # the launcher then ends those that it has started
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            return True
        time.sleep(0.05)
    return False


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
