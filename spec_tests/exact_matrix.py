"""Print where a run can be interrupted: is the one that goes on the same, bit for bit?

    python spec_tests/exact_matrix.py [--ranks 1 2] [--flags "window of 2" 16-mixed]
        [--loaders shuffle "2 workers" ...] [--every N] [--impl minilightning]

A table for each number of processes and each set of flags, by which the precision is one: its rows
are the places where ``exact.py`` saves a checkpoint, its columns are loaders. A cell is

    identical  weights, optimizer, schedulers, scaler, batches, draws, metrics, states and files
    -          the run has no such place
    UNEQUAL    with what differs, below the table
    .          left out by ``--every N``, which takes each N-th diagonal

Two processes are started once for a table, and both compare.
"""

import argparse
import functools
import itertools
import json
import os
import shutil
import sys
import tempfile
import warnings

if __package__ in (None, ""):
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    __package__ = "spec_tests"

from spec_tests import exact, launch

PLACES = exact.PLACES + exact.FILES
WHO = {"c": "callback", "m": "module"}


def played(impl, cells):
    """Yield what differs in each of these cells: a list, or None where there is no such place."""
    for place, loader, flags in cells:
        folder = tempfile.mkdtemp()
        try:
            yield exact.differences(impl, folder, place, loader, exact.FLAGS[flags])
        except Exception as error:  # noqa: BLE001
            yield ["%s: %s" % (type(error).__name__, error)]
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def played_by_two(impl, cells):
    """The same by two processes; one in which they end is told, and the rest is started anew."""
    cells, found = list(cells), []
    while len(found) < len(cells):
        with tempfile.TemporaryDirectory() as meeting:
            with open(os.path.join(meeting, "cells"), "w") as file:
                json.dump(cells[len(found):], file)
            ended = launch.start(meeting, "exact_ranks", meeting, impl)
            first, second = [left(meeting, rank) for rank in (0, 1)]
        for one, other in itertools.zip_longest(first, second, fillvalue=[ended["text"]]):
            found.append(None if one is None else ["rank 0: " + each for each in one]
                         + ["rank 1: " + each for each in other or ()])
        if not first and not second:
            found.append([ended["text"]])
    return found


def left(meeting, rank):
    """Return what a process has found, cell after cell, as far as it came."""
    found = []
    while os.path.exists(os.path.join(meeting, "%d.%d" % (len(found), rank))):
        with open(os.path.join(meeting, "%d.%d" % (len(found), rank))) as file:
            found.append(json.load(file))
    return found


def table(impl, ranks, flags, loaders, every):
    """Print one table; return how many cells are not identical."""
    chosen = [(row, column) for row in range(len(PLACES)) for column in range(len(loaders))
              if (row + column) % every == 0]
    play = played if ranks == 1 else played_by_two
    found = dict(zip(chosen, play(impl, [(PLACES[row], loaders[column], flags)
                                         for row, column in chosen])))
    say = functools.partial(print, flush=True)
    wide = [max(9, len(each)) for each in loaders]
    say("\n%s, %d process%s\n%-36s %s" % (flags, ranks, "es" * (ranks > 1), "saved in", "  ".join(
        each.ljust(width) for each, width in zip(loaders, wide))))
    for row, place in enumerate(PLACES):
        cells = [text(found.get((row, column), ".")).ljust(wide[column])
                 for column in range(len(loaders))]
        say("%-36s %s" % (named(place), "  ".join(cells)))
    wrong = {cell: each for cell, each in found.items() if each}
    for (row, column), each in sorted(wrong.items()):
        say("UNEQUAL: %s, %s: %s" % (named(PLACES[row]), loaders[column], "; ".join(each)))
    counts = [text(each) for each in found.values()]
    say("%d identical, %d without such a place, %d unequal" % (
        counts.count("identical"), counts.count("-"), len(wrong)))
    return len(wrong)


def text(found):
    return found if found == "." else "-" if found is None else "UNEQUAL" if found else "identical"


def named(place):
    return place if isinstance(place, str) else "%s %s #%d" % (WHO[place[1]], place[0], place[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--impl", default="minilightning")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2], choices=[1, 2])
    parser.add_argument("--flags", nargs="*", default=["window of 2", "16-mixed"],
                        choices=sorted(exact.FLAGS))
    parser.add_argument("--loaders", nargs="*", default=list(exact.LOADERS))
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["PYTHONWARNINGS"] = "ignore"  # of workers, too
    exact.quiet(given.impl)
    sys.exit(bool(sum([table(given.impl, ranks, flags, given.loaders, given.every)
                       for ranks in given.ranks for flags in given.flags])))


if __name__ == "__main__":
    main()
