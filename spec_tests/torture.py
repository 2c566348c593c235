"""Kill a training run at random moments, let it go on, and see whether anything was lost.

    python spec_tests/torture.py [--kills 200] [--fills 20] [--ranks 1] [--impl minilightning]

The run is that of ``exact.py``: it saves often. A child process plays it and is killed with
``kill -9``; the next one goes on from the newest file that is there, until one comes to the end.
What it ends with has to be what the run that was never stopped ends with, bit for bit. Counted are

    unequal    finished runs that ended otherwise
    torn       files under a checkpoint's name that cannot be read
    lost       kills after which the newest file was older than the last save that had returned
    debris     files left behind by a process that was not killed
    hung       processes that did not end after another one had

With ``--ranks 2`` two processes play the run together, and one of them is killed, or both. Of the
other one it is expected that it ends: it gets the SIGTERM that torch's launcher would send it.

A fill is a disk that has no room left after a random number of bytes: the run ends with an error,
room is made, and it goes on. That needs the right to mount a small file system.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings

if __package__ in (None, ""):
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch

from spec_tests import exact, launch

KILLED = ["shuffle", "own generator", "stream", "dict of two", "stateful", "2 workers"]


class Counts:
    """What has happened so far."""

    def __init__(self):
        self.kills = self.fills = self.finished = 0
        self.unequal = self.torn = self.lost = self.debris = self.hung = 0
        self.told = []

    def is_clean(self):
        wrong = self.unequal or self.torn or self.lost or self.debris or self.hung
        return not (wrong or self.told)

    def __str__(self):
        return ("%d kills, %d full disks, %d runs finished: %d unequal, %d torn files, %d lost "
                "checkpoints, %d files of debris, %d hung" % (
                    self.kills, self.fills, self.finished, self.unequal, self.torn, self.lost,
                    self.debris, self.hung))


def checkpoints(folder):
    """Return the checkpoints in a folder, the newest last."""
    found = []
    for name in ("best", "steps"):
        below = os.path.join(folder, name)
        for file in os.listdir(below) if os.path.isdir(below) else ():
            if file.endswith(".ckpt"):
                found.append(os.path.join(below, file))
    return sorted(found, key=os.path.getmtime)


def newest(folder, counts):
    """Return path and step of the newest readable checkpoint; count those that are not."""
    read = []
    for path in checkpoints(folder):
        try:
            read.append((path, torch.load(path)["global_step"]))
        except Exception as error:  # noqa: BLE001
            counts.torn += 1
            counts.told.append("torn: %s: %s" % (path, error))
    return read[-1] if read else (None, -1)


def children(ranks, *arguments):
    """Play the run in processes of their own; returns their ids.

    Every save that has returned is written to ``saved``, and what the run ends with to ``end.0``,
    ``end.1``.
    """
    port = launch._free_port() if ranks > 1 else 0
    return [child(rank, ranks, port, *arguments) for rank in range(ranks)]


def child(rank, ranks, port, impl, folder, loader, flags, seed, path, files):
    process = os.fork()
    if process:
        return process
    if ranks > 1:  # as torch's launcher says it
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                          MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 2)
        warnings.simplefilter("ignore")
        end = exact.play(impl, files, loader, exact.FLAGS[flags], seed, Reporter(folder), "files",
                         path)
        exact.together()
        new = os.path.join(folder, "new.%d" % rank)
        torch.save(end, new)
        os.rename(new, os.path.join(folder, "end.%d" % rank))
        os._exit(0)
    except OSError as error:
        os._exit(28 if error.errno == 28 else 1)
    except BaseException:  # noqa: BLE001
        import traceback

        with open(os.path.join(folder, "error"), "a") as file:
            file.write(traceback.format_exc())
        os._exit(1)


class Reporter:
    """Writes down each save that has returned."""

    def __init__(self, folder):
        self.folder = folder

    def watch(self, trainer):
        self.trainer, self.save, trainer.save_checkpoint = trainer, trainer.save_checkpoint, self

    def __call__(self, path, *args):
        self.save(path, *args)
        if exact.rank() == 0:
            with open(os.path.join(self.folder, "saved"), "a") as file:
                file.write("%d\n" % self.trainer.global_step)


def last_saved(folder):
    """Return the step of the last save that had returned."""
    path = os.path.join(folder, "saved")
    if not os.path.exists(path):
        return -1
    with open(path) as file:
        return int((file.read().split() or [-1])[-1])


def until_the_end(impl, loader, flags, counts, chance, limit, files=None, stop=None, ranks=1):
    """Play one run until it comes to its end, killed or out of room on the way.

    Args:
        chance: a ``random.Random``.
        limit: a function that says whether there have been enough interruptions.
        files: where the checkpoints go, if not into the folder of the run.
        stop: a function that interrupts children in its own way, instead of a kill.
        ranks: how many processes play it together.
    """
    folder = tempfile.mkdtemp()
    kept, files = files, files or folder
    seed, path = 5, None
    took = []
    whole = played(impl, files, loader, flags, took, ranks)
    while ends(folder, ranks) is None:
        processes = children(ranks, impl, folder, loader, flags, seed, path, files)
        if limit():
            code = max(codes(processes, counts))
        else:
            code = (stop or kill)(processes, counts, chance, took[0])
        path, step = newest(files, counts)
        if path:  # a copy: the file that a run goes on from is never deleted by that run
            path = shutil.copy(path, os.path.join(folder, "from.ckpt"))
        if code == "killed" and step < last_saved(folder):
            counts.lost += 1
        if code not in (0, 28, "killed"):
            counts.told.append("%s, %s: %s" % (loader, flags, said(folder, code)))
            break
        if code != "killed":
            counts.debris += len(debris(files))
        seed = seed + 1 if path else 5  # from a file, the seed must not matter
    else:
        counts.finished += 1
        different = [name for rank, end in enumerate(ends(folder, ranks))
                     for name in compare(whole[rank], end)]
        counts.unequal += bool(different)
        if different:
            counts.told.append("unequal: %s, %s: %s" % (loader, flags, different))
    shutil.rmtree(folder, ignore_errors=True)
    if kept:
        empty(kept)


def played(impl, files, loader, flags, took, ranks):
    """Return what the run ends with that nobody stops; its files are gone after that."""
    started = time.time()
    if ranks == 1:
        whole = [exact.play(impl, files, loader, exact.FLAGS[flags], 5)]
    else:
        with tempfile.TemporaryDirectory() as folder:
            processes = children(ranks, impl, folder, loader, flags, 5, None, files)
            codes(processes, Counts())
            whole = ends(folder, ranks)
            assert whole, said(folder, 1)
    took.append(time.time() - started)
    empty(files)
    return whole


def ends(folder, ranks):
    """Return what each process ended with, or None if one of them did not come to the end."""
    paths = [os.path.join(folder, "end.%d" % rank) for rank in range(ranks)]
    return [torch.load(path) for path in paths] if all(map(os.path.exists, paths)) else None


def empty(folder):
    for name in ("best", "steps"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def kill(processes, counts, chance, took):
    """Kill one process or all after a while; returns "killed", or an exit code if all were faster.
    """
    time.sleep(chance.uniform(0, took))
    killed = [chance.choice(processes)] if chance.random() < 0.5 else processes
    for process in killed:
        os.kill(process, signal.SIGKILL)
    found = codes(processes, counts)
    if KILLED_BY not in found:
        return max(found)
    counts.kills += 1
    return "killed"


KILLED_BY = -signal.SIGKILL
PATIENCE = 30  # seconds for a process to end when it is told to; torch's launcher grants as many


def codes(processes, counts):
    """Wait for processes, and return how each has ended: an exit code, or a signal below zero.

    When one has failed, the others are told to end, as by torch's launcher.
    """
    found, told = {}, None
    while len(found) < len(processes):
        for process in set(processes) - set(found):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                found[process] = -(status & 127) or status >> 8
        left = set(processes) - set(found)
        if any(found.values()) and told is None:
            told = time.monotonic()
            for process in left:
                os.kill(process, signal.SIGTERM)
        if left and told is not None and time.monotonic() - told > PATIENCE:
            counts.hung += 1
            os.kill(left.pop(), signal.SIGKILL)
        time.sleep(0.005)
    return [found[process] for process in processes]


def debris(folder):
    """Return the files that are no checkpoints."""
    return [file for name in ("best", "steps") if os.path.isdir(os.path.join(folder, name))
            for file in os.listdir(os.path.join(folder, name)) if not file.endswith(".ckpt")]


def said(folder, code):
    path = os.path.join(folder, "error")
    if not os.path.exists(path):
        return "exit code %s" % code
    with open(path) as file:
        return file.read()


def compare(whole, end):
    """Return what differs; of batches and log the part that the last piece has played."""
    whole = dict(whole)
    left = len(end["batches and draws"])
    whole["batches and draws"] = whole["batches and draws"][-left:] if left else []
    left = len(end["logged"])
    whole["logged"] = whole["logged"][-left:] if left else []
    return [name for name in whole if repr(whole[name]) != repr(end[name])]


def filling(folder):
    """Return a way to stop a run: there is room for a random number of bytes only."""
    def fill(processes, counts, chance, took):
        time.sleep(chance.uniform(0, took))
        filler = os.path.join(folder, "filler")
        room = os.statvfs(folder)
        free = room.f_bavail * room.f_frsize
        try:
            with open(filler, "wb") as file:
                file.write(bytes(max(0, free - chance.randrange(60000))))
        except OSError:  # the run was quicker, and has taken that room
            pass
        code = max(codes(processes, counts))
        os.unlink(filler)
        counts.fills += code == 28
        return code
    return fill


def torture(impl, kills, fills, chance, say=lambda text: None, ranks=1):
    """Interrupt runs so often, and return what came of it."""
    counts = Counts()
    loaders = list(KILLED)
    while counts.kills < kills and not counts.told:
        chance.shuffle(loaders)
        flags = chance.choice(sorted(exact.FLAGS))
        until_the_end(impl, loaders[0], flags, counts, chance, lambda: counts.kills >= kills,
                      ranks=ranks)
        say(str(counts))
    if fills:
        small = tempfile.mkdtemp()
        if mount(small):
            try:
                while counts.fills < fills and not counts.told:
                    until_the_end(impl, "shuffle", "plain", counts, chance,
                                  lambda: counts.fills >= fills, small, filling(small))
                    say(str(counts))
            finally:
                subprocess.call(["umount", small])
        else:
            say("no full disks: a small file system cannot be mounted here")
    return counts


def mount(folder):
    """Mount a file system of 600 KiB, if that is allowed here."""
    return shutil.which("mount") and not subprocess.call(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", folder], stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--impl", default="minilightning")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--fills", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    exact.quiet(given.impl)
    counts = torture(given.impl, given.kills, given.fills, random.Random(given.seed), print,
                     given.ranks)
    print("\n".join(counts.told))
    print(counts)
    sys.exit(not counts.is_clean())


if __name__ == "__main__":
    main()
