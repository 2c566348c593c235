"""Break the implementation on purpose, and see which clause notices.

    python -m spec_tests.selftest.mutants              the hand-written ones: each names its clause
    python -m spec_tests.selftest.mutants --generated  and those made of table rows and statements
    ... --part K/N --areas fit,val --minutes M         a part, by a part of the clauses, so long
    ... --brief 10                                     by the shortest ten seconds of clauses alone
    ... --keep FILE                                    goes on where a run with this file ended

Each mutant is a copy of the package in a throw-away folder, imported under a name of its own in a
process of its own, on which clauses run until one fails: those that execute a changed line, the
shortest first, as recorded once beforehand. What survives them meets the clauses about several
processes in two processes. A mutant that no clause kills is a missing clause, or stands in
``semantic.EQUIVALENT`` with the reason why nothing can tell it from the original.
"""

import argparse
import ast
import collections
import functools
import importlib
import itertools
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

from .. import adapter, clause, launch, runner
from .semantic import EQUIVALENT, SEMANTIC

SECONDS = 60  # of the processor, for one clause: a mutant may loop for ever
PACKAGE = Path(__file__).resolve().parents[2] / "minilightning"


class Mutant:
    """One change of one file.

    Args:
        name: what is wrong, in a few words.
        file: of the package.
        text: the file's text after the change.
        must: id of the clause that must notice; None if any may.
        lines: numbers of the lines changed; empty if they run at the import: anyone may notice.
        hook: the hook whose row is changed.
        line: number of the line where it begins.
        where: the function that is changed.
    """

    def __init__(self, name, file, text, must=None, lines=(), hook=None, line=0, where=None):
        self.name, self.file, self.text, self.must = name, file, text, must
        self.lines, self.hook, self.line, self.where = set(lines), hook, line, where


UNCHANGED = Mutant("unchanged", "seed.py", (PACKAGE / "seed.py").read_text())


# Hand-written mutants.


def semantic():
    """Return the mutants of ``semantic.SEMANTIC``; each of their anchors matches exactly once."""
    made = []
    for must, name, file, old, new in SEMANTIC:
        text = (PACKAGE / file).read_text()
        if text.count(old) != 1:
            raise SystemExit("mutant %r: its anchor is %d times in %s, not once:\n%s" % (
                name, text.count(old), file, old))
        made.append(Mutant(name, file, text.replace(old, new), must))
    return made


# Generated mutants: rows of the table, statements of the loops.


def generated():
    """Return the mutants of dispatch.HOOKS' rows and of trainer.py's statements."""
    return rows() + statements("trainer.py") + statements("dispatch.py")


def rows():
    """Drop each row's receivers, double them, reverse them, and rotate its arguments."""
    text = (PACKAGE / "dispatch.py").read_text()
    tree = ast.parse(text)
    table = next(node for node in tree.body if isinstance(node, ast.Assign)
                 and getattr(node.targets[0], "id", "") == "HOOKS")
    made = []
    for row in table.value.elts:
        hook, arguments, who, extra = (cell.value for cell in row.elts)
        variants = {"receivers dropped": (hook, arguments, "", extra),
                    "receivers doubled": (hook, arguments, who + " " + who, extra)}
        if len(who.split()) > 1:
            variants["receivers reversed"] = (
                hook, arguments, " ".join(reversed(who.split())), extra)
        for what, cells in variants.items():
            made.append(Mutant("%s: %s" % (hook, what), "dispatch.py",
                               _spliced(text, row, repr(cells)), hook=hook))
        if len(arguments.split()) > 1:
            made.append(Mutant("%s: arguments rotated" % hook, "dispatch.py",
                               text + _ROTATE % hook, hook=hook))
    return made


# Appended to dispatch.py: each receiver of the hook gets its arguments one place on.
_ROTATE = """

_adapt = adapt


def adapt(trainer, function, hook, *rest):
    adapted = _adapt(trainer, function, hook, *rest)
    if hook != %r:
        return adapted
    return lambda *args, **kwargs: adapted(*args[1:], *args[:1], **kwargs)
"""


def statements(file):
    """Delete, double and swap statements of a file, negate conditions, add to numbers.

    A mutant is named after the function that it is in and its source, so that the name stays true
    when lines move; of several that are alike each has a number.
    """
    text = (PACKAGE / file).read_text()
    made = []
    for node, where, called in _places(ast.parse(text)):
        add = functools.partial(_add, made, file, text, where, called)
        if isinstance(node, (ast.FunctionDef, ast.For, ast.If, ast.While, ast.With)):
            for block in (node.body, getattr(node, "orelse", [])):
                _block(add, text, node, block)
        if isinstance(node, ast.If):
            test = _source(text, node.test)
            add(node.test, "negated: " + test, [(node.test, "(not (%s))" % test)])
        if isinstance(node, ast.Constant) and type(node.value) is int and node.col_offset > 4:
            line = text.splitlines()[node.lineno - 1].strip()
            add(node, "%d is %d: %s" % (node.value, node.value + 1, line),
                [(node, str(node.value + 1))])
    made.sort(key=lambda mutant: mutant.line)
    alike = collections.Counter()
    for mutant in made:
        alike[mutant.name] += 1
        if alike[mutant.name] > 1:
            mutant.name += " #%d" % alike[mutant.name]
    return made


def _places(tree, where="", called=False):
    """Yield each node below, the function or class that it is in, and whether a call runs it."""
    for node in ast.iter_child_nodes(tree):
        inner = where
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            inner = where + "." + node.name if where else node.name
        if isinstance(node, ast.FunctionDef):
            yield node, inner, True
            yield from _places(ast.Module(node.body, []), inner, True)
            node = ast.Module([node.args] + node.decorator_list, [])  # these run at the import
        else:
            yield node, where, called
        yield from _places(node, inner, called)


def _add(made, file, text, where, called, node, what, changes):
    for old, new in sorted(changes, key=lambda change: -change[0].lineno):
        text = _spliced(text, old, new)
    name = "%s %s: %s" % (file, where, what.splitlines()[0])
    lines = set().union(*(_lines(old) for old, _ in changes)) if called else ()
    made.append(Mutant(name, file, text, lines=lines, line=node.lineno, where=where))


def _block(add, text, owner, block):
    body = [each for each in block if not _is_docstring(each)]
    if getattr(owner, "name", "") == "__init__":
        return
    for i, each in enumerate(body):
        source = _source(text, each)
        if isinstance(each, (ast.Expr, ast.Assign, ast.AugAssign)) or getattr(
                each, "value", None) and isinstance(each, ast.AnnAssign):
            add(each, "deleted: " + source, [(each, "pass")])
        if isinstance(each, ast.Expr):
            indent = " " * each.col_offset
            add(each, "doubled: " + source, [(each, source + "\n" + indent + source)])
        if i + 1 < len(body) and isinstance(each, ast.Expr) and isinstance(body[i + 1], ast.Expr):
            after = _source(text, body[i + 1])
            add(each, "swapped: " + source, [(each, after), (body[i + 1], source)])


def _lines(node):
    return set(range(node.lineno, node.end_lineno + 1))


def _is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(getattr(node, "value", None), ast.Constant)


def _source(text, node):
    start, end = _span(text, node)
    return text[start:end]


def _spliced(text, node, new):
    """Return the text with one node replaced."""
    start, end = _span(text, node)
    return text[:start] + new + text[end:]


def _span(text, node):
    lines = text.splitlines(keepends=True)
    return tuple(sum(map(len, lines[:line - 1])) + len(lines[line - 1].encode()[:column].decode())
                 for line, column in ((node.lineno, node.col_offset),
                                      (node.end_lineno, node.end_col_offset)))


# Running them.


def judge(mutant, clauses, patience=()):
    """Return the id of the clause that fails on a mutant, "crash" or "hang", or None.

    Args:
        mutant: a ``Mutant``.
        clauses: those that are tried, in this order, until one fails; those for several processes
            alone come last, all at once.
        patience: {clause: the seconds that it may take}; ``SECONDS`` for others.
    """
    return _forked(lambda: _in_copy(mutant, lambda impl: first_failure(
        impl, clauses, dict(patience))))


def _forked(job):
    """Return what a function returns in a process of its own, since a mutant may do anything."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(job(), pipe)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if answer:
        return pickle.loads(answer)
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
    return "hang" if late else "crash"


def _patience(seconds):
    """End this process when it has computed for so long, or after ten times that on any clock."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)


def _in_copy(mutant, job):
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    warnings.simplefilter("ignore")
    folder = tempfile.mkdtemp(prefix="mutant_")
    try:
        package = Path(folder) / "mutated_package"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        (package / mutant.file).write_text(mutant.text)
        sys.path.insert(0, folder)
        try:
            _patience(SECONDS)
            impl = adapter.Implementation("mutated_package")
        except BaseException:
            return "crash"
        return job(impl)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def first_failure(impl, clauses, patience=()):
    """Return the id of the first clause that does not hold, or None."""
    cache, patience = {}, dict(patience)
    for each in clauses:
        if _is_asked(impl, each):
            _patience(patience.get(each.id, SECONDS))
            try:
                runner.settle(each, runner.Run(impl, cache))
            except BaseException:
                return each.id
    _patience(10 * SECONDS)
    together = [each.id for each in clauses if each.devices == ["ddp"]
                and set(each.needs) <= impl.capabilities]
    return _failure_of_two(impl, together) if together else None


def _failure_of_two(impl, ids):
    with tempfile.TemporaryDirectory() as meeting:
        ended = launch.start(meeting, "ranks", meeting, impl.name, *ids)
        return next((id for id in ids if launch._verdict(meeting, id, ended)[0]), None)


def _is_asked(impl, each):
    return set(each.needs) <= impl.capabilities and "cpu" in each.devices


# Which clauses a mutant meets.


class _Plays(dict):
    """Runs that were played, each with the lines it executed and its seconds; notes who asks."""

    def __init__(self):
        super().__init__()
        self.executed, self.seen, self.asked, self.began = {}, set(), set(), 0

    def __contains__(self, key):
        self.asked.add(key)
        self.began = time.process_time()
        self.before, self.seen = self.seen, set()
        return super().__contains__(key)

    def __setitem__(self, key, stage):
        self.executed[key] = self.seen, time.process_time() - self.began
        super().__setitem__(key, stage)

    def __getitem__(self, key):
        self.seen = self.before
        return super().__getitem__(key)


def record(clauses):
    """Return {clause: (seconds, lines of the package it executes)}, or the id of one that fails.

    What the clauses import on the way is imported here, too, so that no mutant has to wait for it.
    """
    found = _forked(lambda: _in_copy(UNCHANGED, lambda impl: _record(impl, clauses)))
    if not isinstance(found, tuple):
        return found
    recorded, modules = found
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception:  # it was made, not imported
            continue
    return recorded


def _record(impl, clauses):
    plays, found, mutable = _Plays(), {}, ("trainer.py", "dispatch.py")
    root = str(Path(impl.package.__file__).parent)

    def enter(frame, event, argument):
        path = frame.f_code.co_filename
        if not path.startswith(root) or not path.endswith(mutable):
            return None
        file, add = os.path.basename(path), plays

        def line(frame, event, argument):
            add.seen.add((file, frame.f_lineno))
            return line

        return line

    for each in clauses:
        if _is_asked(impl, each):
            _patience(4 * SECONDS)
            plays.seen, plays.asked = set(), set()
            sys.settrace(enter)
            try:
                runner.settle(each, runner.Run(impl, plays))
            except BaseException:
                return each.id
            finally:
                sys.settrace(None)
            runs = [plays.executed[key] for key in plays.asked]
            found[each.id] = (sum(seconds for _, seconds in runs),
                              plays.seen.union(*(lines for lines, _ in runs)))
    ours = __package__.partition(".")[0], impl.name
    return found, [name for name in sys.modules if name.partition(".")[0] not in ours]


def meets(mutant, recorded, clauses, killers=()):
    """Return the ids of the clauses that can notice a mutant, the likeliest and shortest first.

    Args:
        mutant: a ``Mutant``.
        recorded: what ``record`` returned.
        clauses: {id: clause}.
        killers: {clause: how many mutants of the same function it has killed}.
    """
    changed = {(mutant.file, line) for line in mutant.lines}
    about = "." + (mutant.hook or "?") + " "
    ids = [id for id, (_, lines) in recorded.items() if not changed or changed & lines]
    likely = {id: 1 + 10 * any(about in each for each in clauses[id].hooks)
              + 10 * dict(killers).get(id, 0) for id in ids}
    return sorted(ids, key=lambda id: recorded[id][0] / likely[id])


def run(mutants, recorded, clauses, known, until=float("inf"), brief=float("inf"), say=print):
    """Judge mutants until a point in time; return [(mutant, outcome)] of those judged.

    Args:
        mutants: the mutants.
        recorded: what ``record`` returned; None lets each meet its own clause alone.
        clauses: {id: clause}.
        known: {name: outcome} of those judged before; the others are added.
        until: the time at which no further one is begun.
        brief: how many seconds of clauses each meets at most.
        say: how a survivor is told at once.
    """
    together = [id for id, each in clauses.items() if each.devices == ["ddp"]]
    outcomes, killers = [], collections.defaultdict(collections.Counter)
    patience = {id: min(SECONDS, 5 + int(5 * seconds))
                for id, (seconds, _) in (recorded or {}).items()}
    for mutant in mutants:
        if mutant.name not in known:
            if time.time() > until:
                break
            ids = [mutant.must] if recorded is None else meets(
                mutant, recorded, clauses, killers[mutant.where])
            some = [id for id, total in zip(ids, itertools.accumulate(
                recorded[id][0] if recorded else 0 for id in ids)) if total <= brief]
            last = together if recorded is not None and some == ids else []
            outcome = judge(mutant, [clauses[id] for id in some + last], patience)
            if outcome or some == ids:
                known[mutant.name] = outcome
            if outcome is None and mutant.name not in EQUIVALENT:
                say("survives %d of %d: line %d of %s" % (
                    len(some), len(ids), mutant.line, mutant.name), flush=True)
        outcome = known.get(mutant.name)
        outcomes.append((mutant, outcome))
        if outcome in clauses:
            killers[mutant.where][outcome] += 1
    return outcomes


class Outcomes(dict):
    """{name: outcome} that are kept in a file, line by line; survivors are to be judged again."""

    def __init__(self, file=None):
        super().__init__()
        self.file = file
        for line in file.read_text().splitlines() if file and file.exists() else []:
            outcome, _, name = line.partition("\t")
            if outcome != "None" or name in EQUIVALENT:
                super().__setitem__(name, None if outcome == "None" else outcome)

    def __setitem__(self, name, outcome):
        super().__setitem__(name, outcome)
        if self.file:
            with self.file.open("a") as file:
                print(outcome, name, sep="\t", file=file)


def main(arguments=None):
    """Run the mutants and print what became of them; the exit code is 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--generated", action="store_true", help="also the generated ones")
    parser.add_argument("--part", default="1/1", help="K/N: every N-th of them, from the K-th")
    parser.add_argument("--areas", default=",".join(clause.AREAS), help="of clauses, for generated")
    parser.add_argument("--minutes", type=float, default=1e9, help="at most, for generated")
    parser.add_argument("--brief", type=float, default=1e9, help="seconds of clauses for each")
    parser.add_argument("--keep", type=Path, help="file of outcomes, believed and added to")
    options = parser.parse_args(arguments)
    clauses = clause.load()
    part, parts = map(int, options.part.split("/"))
    kept = Outcomes(options.keep)
    survivors = report("hand-written", semantic()[part - 1::parts], None, clauses, kept)
    if options.generated:
        asked = [each for each in clauses.values() if each.area in options.areas.split(",")]
        recorded = record(asked)
        if not isinstance(recorded, dict):
            raise SystemExit("the package itself fails %s: mend that first" % recorded)
        print("%d of %d clauses recorded" % (len(recorded), len(clauses)), flush=True)
        mutants = generated()[part - 1::parts]
        random.Random(0).shuffle(mutants)  # so that any beginning of them is spread evenly
        survivors += report("generated", mutants, recorded, {each.id: each for each in asked}, kept,
                            time.time() + 60 * options.minutes, options.brief)
    return 1 if survivors else 0


def report(title, mutants, *how):
    """Judge mutants, print what became of them, and return how many are not as they should be."""
    start = time.time()
    outcomes = run(mutants, *how)
    alive = [mutant for mutant, outcome in outcomes if outcome is None]
    equivalent = [mutant for mutant in alive if mutant.name in EQUIVALENT]
    crashed = [outcome for _, outcome in outcomes if outcome in ("crash", "hang")]
    for mutant, outcome in outcomes if title == "hand-written" else []:
        print("%-12s %s" % (outcome or "SURVIVES", mutant.name))
    mistaken = [mutant for mutant, outcome in outcomes if outcome and mutant.name in EQUIVALENT]
    for mutant in mistaken:
        print("not equivalent after all  %s" % mutant.name)
    for mutant in equivalent:
        print("equivalent  %s: %s" % (mutant.name, EQUIVALENT[mutant.name]))
    print("%s: %d mutants, %d killed by a clause, %d by a crash or hang, %d equivalent, "
          "%d surviving, %d not run; %.0f s" % (
              title, len(mutants), len(outcomes) - len(alive) - len(crashed), len(crashed),
              len(equivalent), len(alive) - len(equivalent), len(mutants) - len(outcomes),
              time.time() - start), flush=True)
    return len(alive) - len(equivalent) + len(mistaken)


if __name__ == "__main__":
    sys.exit(main())
