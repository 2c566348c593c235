"""One of several processes: check clauses beside the others, and leave a verdict for each.

    python -m spec_tests.ranks FOLDER IMPLEMENTATION ID ...

The ranks meet in files, not in a process group: what the implementation does with that is what is
checked, and a rank that has failed must not keep the other one waiting.
"""

import json
import logging
import os
import sys
import time

from . import adapter, clause, runner
from .observed import Mismatch

PATIENCE = 30  # seconds that a rank waits for the other


class Meeting:
    """Where the ranks meet while they check one clause after another."""

    def __init__(self, folder, rank, world):
        self.root, self.rank, self.world = folder, rank, world
        self.at, self._exchanges, self._folders = None, 0, 0

    def open(self, at):
        """Begin with a clause."""
        self.at, self._exchanges = at, 0

    def exchange(self, value):
        """Return what each rank has given, by rank."""
        self._exchanges += 1
        name = "%s.exchange%d" % (self.at, self._exchanges)
        self.leave(name, value)
        return [self._wait(name, rank) for rank in range(self.world)]

    def folder(self):
        """Return a new folder, the same on every rank."""
        self._folders += 1
        made = os.path.join(self.root, "run%d" % self._folders)
        os.makedirs(made, exist_ok=True)
        return made

    def leave(self, name, value):
        """Leave a value for others to read."""
        file = os.path.join(self.root, "%s.%d" % (name, self.rank))
        with open(file + ".new", "w", encoding="utf-8") as opened:
            json.dump(value, opened)
        os.replace(file + ".new", file)

    def close(self, verdict):
        """Leave the verdict on the clause, and wait for the other rank's."""
        self.leave(self.at, verdict)
        for rank in range(self.world):
            self._wait(self.at, rank)

    def _wait(self, name, rank):
        file = os.path.join(self.root, "%s.%d" % (name, rank))
        end = os.path.join(self.root, "%s.%d" % (self.at, rank))
        since = time.monotonic()
        while not os.path.exists(file):
            if os.path.exists(end) and not os.path.exists(file):
                raise Mismatch("rank %d has failed before" % rank)
            if time.monotonic() - since > PATIENCE:
                raise Mismatch("rank %d does not come" % rank)
            time.sleep(0.01)
        with open(file, encoding="utf-8") as opened:
            return json.load(opened)


def main(folder, name, *ids):
    """Check the clauses."""
    logging.getLogger().setLevel(logging.ERROR)
    impl, cache, known = adapter.Implementation(name), {}, clause.load()
    meeting = Meeting(folder, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    try:
        runner.ready(impl, "ddp")
        refused = None
    except runner.NoDevice as error:
        refused = {"no device": str(error)}
    for id in ids:
        meeting.open(id)
        meeting.close(refused or _verdict(known[id], runner.Run(impl, cache, "ddp", meeting)))


def _verdict(one, run):
    try:
        runner.settle(one, run)
    except Mismatch as mismatch:
        return dict(got=mismatch.got, text="on rank %d: %s" % (run.rank, mismatch),
                    config=mismatch.config)
    except Exception as error:
        text = "%s: %s" % (type(error).__name__, error)
        return dict(got=text, text="on rank %d, in the check: %s" % (run.rank, text))
    return {}


if __name__ == "__main__":
    main(*sys.argv[1:])
