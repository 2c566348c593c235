"""Break the implementation on purpose, and see which clause notices.

    python -m spec_tests.selftest.mutants              the hand-written ones: each names its clause
    python -m spec_tests.selftest.mutants --generated  and those made of table rows and statements
    ... --part K/N --areas fit,val --minutes M         a part, by a part of the clauses, so long

Each mutant is a copy of the package in a throw-away folder, imported under a name of its own in a
process of its own, on which clauses run until one fails: those that execute a changed line, the
shortest first, as recorded once beforehand. A mutant that no clause kills is a missing clause,
or stands in ``EQUIVALENT`` with the reason why nothing can tell it from the original.
"""

import argparse
import ast
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

from .. import adapter, clause, runner
from .semantic import EQUIVALENT, SEMANTIC

SECONDS = 60  # for one clause: a mutant may loop for ever
PACKAGE = Path(__file__).resolve().parents[2] / "minilightning"


class Mutant:
    """One change of one file.

    Args:
        name: what is wrong, in a few words.
        file: of the package.
        text: the file's text after the change.
        must: id of the clause that must notice; None if any may.
        lines: numbers of the lines changed; empty if every clause may notice.
        hook: the hook whose row is changed.
    """

    def __init__(self, name, file, text, must=None, lines=(), hook=None):
        self.name, self.file, self.text, self.must = name, file, text, must
        self.lines, self.hook = set(lines), hook


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
    """Delete, double and swap statements of a file, negate conditions, add to numbers."""
    text = (PACKAGE / file).read_text()
    made = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.For, ast.If, ast.While, ast.With)):
            for block in (node.body, getattr(node, "orelse", [])):
                made += _block(file, text, node, block)
        if isinstance(node, ast.If):
            test = ast.get_source_segment(text, node.test)
            made.append(Mutant(_at(file, node, "negated: " + test), file,
                               _spliced(text, node.test, "(not (%s))" % test),
                               lines=_lines(node.test)))
        if isinstance(node, ast.Constant) and type(node.value) is int and node.col_offset > 4:
            made.append(Mutant(_at(file, node, "%d is %d" % (node.value, node.value + 1)), file,
                               _spliced(text, node, str(node.value + 1)), lines=_lines(node)))
    return [mutant for mutant in made if _compiles(mutant.text)]


def _block(file, text, owner, block):
    body = [each for each in block if not _is_docstring(each)]
    if not isinstance(owner, (ast.For, ast.If, ast.While, ast.With)) and owner.name == "__init__":
        return []
    made = []
    for i, each in enumerate(body):
        source = ast.get_source_segment(text, each)
        short = source.splitlines()[0]
        if isinstance(each, (ast.Expr, ast.Assign, ast.AugAssign)):
            made.append(Mutant(_at(file, each, "deleted: " + short), file,
                               _spliced(text, each, "pass"), lines=_lines(each)))
        if isinstance(each, ast.Expr):
            indent = " " * each.col_offset
            made.append(Mutant(_at(file, each, "doubled: " + short), file,
                               _spliced(text, each, source + "\n" + indent + source),
                               lines=_lines(each)))
        if i + 1 < len(body) and isinstance(each, ast.Expr) and isinstance(body[i + 1], ast.Expr):
            after = ast.get_source_segment(text, body[i + 1])
            swapped = _spliced(text, body[i + 1], source)
            made.append(Mutant(_at(file, each, "swapped: " + short), file,
                               _spliced(swapped, each, after),
                               lines=_lines(each) | _lines(body[i + 1])))
    return made


def _lines(node):
    return set(range(node.lineno, node.end_lineno + 1))


def _is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(getattr(node, "value", None), ast.Constant)


def _at(file, node, what):
    return "%s:%d %s" % (file, node.lineno, what)


def _spliced(text, node, new):
    """Return the text with one node replaced."""
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[:node.lineno - 1])) + len(
        lines[node.lineno - 1].encode()[:node.col_offset].decode())
    end = sum(map(len, lines[:node.end_lineno - 1])) + len(
        lines[node.end_lineno - 1].encode()[:node.end_col_offset].decode())
    return text[:start] + new + text[end:]


def _compiles(text):
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


# Running them.


def judge(mutant, clauses):
    """Return the id of the clause that fails on a mutant, "crash" or "hang", or None."""
    return _forked(lambda: _in_copy(mutant, lambda impl: first_failure(impl, clauses)))


def _forked(job):
    """Return what a function returns in a process of its own, since a mutant may do anything."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(job(), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if answer:
        return pickle.loads(answer)
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
    return "hang" if late else "crash"


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
            signal.alarm(SECONDS)
            impl = adapter.Implementation("mutated_package")
        except BaseException:
            return "crash"
        return job(impl)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def first_failure(impl, clauses):
    """Return the id of the first clause that does not hold, or None."""
    cache = {}
    for each in clauses:
        if _is_asked(impl, each):
            signal.alarm(SECONDS)
            try:
                runner.settle(each, runner.Run(impl, cache))
            except BaseException:
                return each.id
    return None


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
        self.began = time.time()
        self.before, self.seen = self.seen, set()
        return super().__contains__(key)

    def __setitem__(self, key, stage):
        self.executed[key] = self.seen, time.time() - self.began
        super().__setitem__(key, stage)

    def __getitem__(self, key):
        self.seen = self.before
        return super().__getitem__(key)


def record(clauses):
    """Return {clause: (seconds, lines of the package it executes)}, or the id of one that fails."""
    unchanged = Mutant("none", "seed.py", (PACKAGE / "seed.py").read_text())
    return _forked(lambda: _in_copy(unchanged, lambda impl: _record(impl, clauses)))


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
            signal.alarm(4 * SECONDS)
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
    return found


def meets(mutant, recorded, clauses):
    """Return the ids of the clauses that can notice a mutant, the likeliest and shortest first."""
    if mutant.must in recorded:
        return [mutant.must]
    changed = {(mutant.file, line) for line in mutant.lines}
    everywhere = not any(changed & lines for _, lines in recorded.values()) and (
        mutant.hook or mutant.file == "dispatch.py")  # what runs at the import
    about = "." + (mutant.hook or "?") + " "
    ids = [id for id, (_, lines) in recorded.items() if everywhere or changed & lines]
    return sorted(ids, key=lambda id: (not any(about in each for each in clauses[id].hooks),
                                       recorded[id][0]))


def run(mutants, recorded, clauses, until, say=print):
    """Judge mutants until a point in time; return [(mutant, outcome)] of those judged."""
    outcomes = []
    for mutant in mutants:
        if time.time() > until:
            break
        outcome = judge(mutant, [clauses[id] for id in meets(mutant, recorded, clauses)])
        outcomes.append((mutant, outcome))
        if outcome is None and mutant.name not in EQUIVALENT:
            say("survives  %s%s" % (mutant.name, "  (%s)" % mutant.must if mutant.must else ""),
                flush=True)
    return outcomes


def main(arguments=None):
    """Run the mutants and print what became of them; the exit code is 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--generated", action="store_true", help="also the generated ones")
    parser.add_argument("--part", default="1/1", help="K/N: every N-th of them, from the K-th")
    parser.add_argument("--areas", default=",".join(clause.AREAS), help="of clauses, for generated")
    parser.add_argument("--minutes", type=float, default=1e9, help="at most, for generated")
    options = parser.parse_args(arguments)
    clauses = clause.load()
    part, parts = map(int, options.part.split("/"))
    survivors = report("hand-written", semantic()[part - 1::parts], {m[0]: () for m in SEMANTIC},
                       clauses, float("inf"))
    if options.generated:
        asked = [each for each in clauses.values() if each.area in options.areas.split(",")]
        recorded = record(asked)
        if not isinstance(recorded, dict):
            raise SystemExit("the package itself fails %s: mend that first" % recorded)
        print("%d of %d clauses recorded" % (len(recorded), len(clauses)), flush=True)
        mutants = generated()[part - 1::parts]
        random.Random(0).shuffle(mutants)  # so that any beginning of them is spread evenly
        survivors += report("generated", mutants, recorded, clauses,
                            time.time() + 60 * options.minutes)
    return 1 if survivors else 0


def report(title, mutants, recorded, clauses, until):
    """Judge mutants, print what became of them, and return how many survive."""
    start = time.time()
    outcomes = run(mutants, recorded, clauses, until)
    alive = [mutant for mutant, outcome in outcomes if outcome is None]
    equivalent = [mutant for mutant in alive if mutant.name in EQUIVALENT]
    crashed = [outcome for _, outcome in outcomes if outcome in ("crash", "hang")]
    for mutant, outcome in outcomes if title == "hand-written" else []:
        print("%-12s %s" % (outcome or "SURVIVES", mutant.name))
    for mutant in equivalent:
        print("equivalent  %s: %s" % (mutant.name, EQUIVALENT[mutant.name]))
    print("%s: %d mutants, %d killed by a clause, %d by a crash or hang, %d equivalent, "
          "%d surviving, %d not run; %.0f s" % (
              title, len(mutants), len(outcomes) - len(alive) - len(crashed), len(crashed),
              len(equivalent), len(alive) - len(equivalent), len(mutants) - len(outcomes),
              time.time() - start), flush=True)
    return len(alive) - len(equivalent)


if __name__ == "__main__":
    sys.exit(main())
