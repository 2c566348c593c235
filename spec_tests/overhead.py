"""What a Trainer costs beyond the loop one would write by hand: calls, time, memory, import.

    python spec_tests/overhead.py --calls               exact counts, in seconds: the gate
    python spec_tests/overhead.py                       all rows, in a few minutes
    python spec_tests/overhead.py --lightning PYTHON    and Lightning 2.x, which PYTHON can import

Each implementation runs in a process of its own. They take turns, row by row and round by round,
so that what else the machine does meets all alike. *Calls* are the Python and C function calls of
one step, the same number on every run. Times are those of the fastest tenth of a run; what is shown
is the median of the rounds, and the median of the rounds' ratios.
Exit status 1: a count is over its goal.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HAND, THEIRS = "hand", "lightning.pytorch"

# What is measured, in which unit, and over how many steps (repetitions, epochs).
UNITS = {
    "calls": ("calls per step", 48), "step_time": ("µs per step", 1000),
    "shared_time": ("µs per step", 400), "epoch_time": ("µs per epoch", 1000),
    "run_time": ("ms", 20), "save_time": ("ms", 20), "load_time": ("ms", 20),
    "growth": ("MB", 20000), "peak": ("MB", 1), "import_time": ("ms", 1),
    "import_memory": ("MB", 1),
}


class Row:
    """One line of the table: what is measured of which setting, and the goal.

    goal: at most so many calls, ms, MB; for the time of a step or an epoch, a factor.
    by_hand: the calls of the hand-written loop when the goal was set. On another version of torch
        the goal moves with the loop.
    beyond: the row that is subtracted.
    """

    def __init__(self, label, measure, goal=None, by_hand=None, beyond=None, steps=None, **setting):
        self.label, self.measure, self.goal, self.by_hand = label, measure, goal, by_hand
        self.beyond, self.setting = beyond, setting
        self.unit, usual = UNITS[measure]
        self.steps = steps or usual
        self.is_factor = self.unit.startswith("µs")

    def request(self):
        """Return what a process of loops is asked for."""
        return json.dumps(dict(self.setting, measure=self.measure, steps=self.steps))

    def bound(self, values):
        """Return the largest value that is within the goal."""
        if self.is_factor:
            return self.goal * values[HAND]
        return self.goal + (values[HAND] - self.by_hand if self.by_hand else 0)


TRAIN = "train"
CALLS = [
    Row(TRAIN, "calls", 245, 194),
    Row("5 callbacks on on_train_batch_end", "calls", 255, 199, callbacks=5),
    Row("one self.log per step", "calls", 285, 195, logs=1),
    Row("log_dict of 5 metrics", "calls", logs=5),
    Row("accumulation 4", "calls", 165, 115.25, window=4),
    Row("gradient clipping", "calls", 375, 315, clip=1.0),
    Row("validation batch", "calls", 90, 57, loop="validate"),
    Row("predict batch", "calls", 90, 54, loop="predict"),
    Row("one more callback, overriding nothing", "calls", 0, beyond=TRAIN, idle=1),
    Row("one more callback, one batch hook", "calls", 3, beyond=TRAIN, callbacks=1),
]
TIMES = [
    Row(TRAIN, "step_time", 1.12),
    Row("5 callbacks on on_train_batch_end", "step_time", callbacks=5),
    Row("one self.log per step", "step_time", logs=1),
    Row("log_dict of 5 metrics", "step_time", logs=5),
    Row("accumulation 4", "step_time", window=4),
    Row("gradient clipping", "step_time", clip=1.0),
    Row("validation batch", "step_time", loop="validate"),
    Row("predict batch", "step_time", loop="predict"),
    Row("small MLP, Adam, batch 128", "step_time", 1.02, big=True, steps=300),
    Row("1,000 epochs of one batch", "epoch_time", 1.5),
    Row("one-batch fit, warm", "run_time", 20),
    Row("checkpoint: save", "save_time"),
    Row("checkpoint: load", "load_time"),
]
SHARED = [  # 0.97 of the throughput
    Row("two processes, small MLP", "shared_time", 1.03, big=True),
]
IMPORTS = [
    Row("import beyond torch: time", "import_time", 60),
    Row("import beyond torch: memory", "import_memory"),
]
MEMORY = [  # in a process that has done nothing else
    Row("memory gained over 20,000 steps", "growth", 1, logs=1),
    Row("memory at the most", "peak"),
]
IMPORT = """
import json, resource, time, torch
before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
import {}
took, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{"import_time": 1e3 * took, "import_memory": (after - before) / 1024}}))
"""


class Worker:
    """A process of loops, by hand or of one implementation, that answers requests."""

    def __init__(self, name, python):
        self.process = subprocess.Popen(
            [python, "-m", "spec_tests.overhead_loops", name], cwd=str(ROOT), env=environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        self.versions = None  # of what it runs; known once it greets

    def greet(self):
        """Wait until it is ready."""
        self.versions = self._answer()

    def ask(self, row):
        """Return the measured number."""
        self.process.stdin.write(row.request() + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("%s ended: see above" % " ".join(self.process.args))
        return json.loads(line)

    def close(self):
        """Let the process end."""
        self.process.stdin.close()
        self.process.wait()


def environment():
    """Return the environment of the processes: one thread, the package found at the root.

    Freed memory is kept, or the cost of asking for it again would depend on what ran before;
    bytecode is kept, or each import would compile.
    """
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return dict(os.environ, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="", OMP_NUM_THREADS="1",
                MKL_NUM_THREADS="1", MALLOC_TRIM_THRESHOLD_=str(2**30),
                MALLOC_MMAP_THRESHOLD_=str(2**30))


def in_turns(rows, pythons, rounds):
    """Measure each row so many times, the implementations taking turns.

    Returns the versions, and a list of (row, name -> its numbers).
    """
    workers = {name: Worker(name, python) for name, python in pythons.items()}
    for worker in workers.values():
        worker.greet()
    results = []
    for row in rows:
        numbers = {name: [] for name in workers}
        for _ in range(rounds):
            for name, worker in workers.items():
                numbers[name].append(worker.ask(row))
        results.append((row, numbers))
    for worker in workers.values():
        worker.close()
    return {name: worker.versions for name, worker in workers.items()}, results


def together(pythons, rounds):
    """Measure what two processes do together; torchrun starts them each time anew."""
    results = [(row, {name: [] for name in pythons}) for row in SHARED]
    for row, numbers in results:
        for _ in range(rounds):
            for name, python in pythons.items():
                numbers[name].append(json.loads(subprocess.check_output(
                    [python, "-W", "ignore", "-m", "torch.distributed.run", "--standalone",
                     "--nproc_per_node=2", "-m", "spec_tests.overhead_loops", name, row.request()],
                    cwd=str(ROOT), env=environment())))
    return results


def once(pythons, rounds):
    """Measure what needs a fresh process each time."""
    imports = {row.measure: {HAND: [0]} for row in IMPORTS}
    for turn in range(rounds + 1):
        for name in [name for name in pythons if name != HAND]:
            answer = json.loads(subprocess.check_output(
                [pythons[name], "-W", "ignore", "-c", IMPORT.format(name)], cwd=str(ROOT),
                env=environment()))
            for measure, value in answer.items():
                if turn:  # the first may have compiled
                    imports[measure].setdefault(name, []).append(value)
    return [(row, imports[row.measure]) for row in IMPORTS] + in_turns(MEMORY, pythons, 1)[1]


def summary(results, ours):
    """Return one dict per row: medians, ratios to the loop by hand, and the goal of ``ours``."""
    rows, medians = [], {}
    for row, numbers in results:
        values = {name: statistics.median(each) for name, each in numbers.items()}
        medians[row.measure, row.label] = values
        if row.beyond:
            less = medians[row.measure, row.beyond]
            values = {name: value - less[name] for name, value in values.items()}
        ratios = {name: statistics.median(a / b for a, b in zip(each, numbers[HAND]))
                  for name, each in numbers.items()
                  if name != HAND and not row.beyond and values[HAND] > 0}
        entry = {"row": row.label, "unit": row.unit, "values": values, "ratios": ratios}
        if row.goal is not None:
            measured = ratios[ours] * values[HAND] if row.is_factor else values[ours]
            entry.update(goal=row.goal, holds=measured <= row.bound(values))
        rows.append(entry)
    return rows


def show(versions, rows):
    """Print the table."""
    names = list(versions)
    for name, version in versions.items():
        print("%s %s (torch %s, Python %s)" % (
            name, version["version"] if name != HAND else "-", version["torch"], version["python"]))
    unit = None
    for row in rows:
        if row["unit"] != unit:
            unit = row["unit"]
            print("\n%-38s" % unit + "".join("%24s" % name for name in names) + "    goal")
        cells = ""
        for name in names:
            ratio = row["ratios"].get(name)
            cells += "%15.4g %8s" % (row["values"][name], "× %.2f" % ratio if ratio else "")
        goal = ""
        if "goal" in row:
            factor = "× " * unit.startswith("µs")
            goal = "≤ %s%g%s" % (factor, row["goal"], "" if row["holds"] else "  missed")
        print("%-38s%s    %s" % (row["row"], cells, goal))


def main(arguments=None):
    """Measure, print, write; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", action="store_true", help="count calls only, and gate on them")
    parser.add_argument("--impl", metavar="MODULE", default="minilightning",
                        help="the implementation that the goals are for (default minilightning)")
    parser.add_argument("--lightning", metavar="PYTHON", help="a Python that has Lightning 2.x")
    parser.add_argument("--rounds", type=int, default=5, help="of measuring times (default 5)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers to FILE")
    options = parser.parse_args(arguments)
    pythons = {HAND: sys.executable, options.impl: sys.executable}
    if options.lightning:
        pythons[THEIRS] = options.lightning
    versions, results = in_turns(CALLS, pythons, 1)
    if not options.calls:
        results += in_turns(TIMES, pythons, options.rounds)[1]
        results += together(pythons, options.rounds)
        results += once(pythons, max(3, options.rounds // 2))
    rows = summary(results, options.impl)
    show(versions, rows)
    if options.json:
        Path(options.json).parent.mkdir(parents=True, exist_ok=True)
        report = {"versions": versions, "rows": rows}
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return 0 if all(row.get("holds", True) for row in rows[:len(CALLS)]) else 1


if __name__ == "__main__":
    sys.exit(main())
