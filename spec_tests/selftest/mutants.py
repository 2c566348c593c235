"""Break the implementation on purpose, and see which clause notices.

    python -m spec_tests.selftest.mutants              the hand-written mutants: each names its clause
    python -m spec_tests.selftest.mutants --generated  and those made from table rows and statements

Each mutant is a copy of the package in a throw-away folder, imported under a name of its own in a
process of its own, on which the clauses run until one fails. A mutant that no clause kills is a
missing clause, or stands in ``EQUIVALENT`` with the reason why nothing can tell it from the original.
"""

import argparse
import ast
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

from .. import adapter, clause, runner
from .semantic import EQUIVALENT, SEMANTIC

SECONDS = 40  # a mutant may loop for ever
PACKAGE = Path(__file__).resolve().parents[2] / "minilightning"


class Mutant:
    """One change of one file.

    Args:
        name: what is wrong, in a few words.
        file: of the package.
        text: the file's text after the change.
        must: id of the clause that must notice; None if any may.
    """

    def __init__(self, name, file, text, must=None):
        self.name, self.file, self.text, self.must = name, file, text, must


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
                               _spliced(text, row, repr(cells))))
        if len(arguments.split()) > 1:
            made.append(Mutant("%s: arguments rotated" % hook, "dispatch.py",
                               text + _ROTATE % hook))
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
    """Delete, double and swap the statements of a file, negate its conditions, add to its numbers."""
    text = (PACKAGE / file).read_text()
    made = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.For, ast.If, ast.While, ast.With)):
            for block in (node.body, getattr(node, "orelse", [])):
                made += _block(file, text, node, block)
        if isinstance(node, ast.If):
            test = ast.get_source_segment(text, node.test)
            made.append(Mutant(_at(file, node, "negated: " + test), file,
                               _spliced(text, node.test, "(not (%s))" % test)))
        if isinstance(node, ast.Constant) and type(node.value) is int and node.col_offset > 4:
            made.append(Mutant(_at(file, node, "%d is %d" % (node.value, node.value + 1)), file,
                               _spliced(text, node, str(node.value + 1))))
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
                               _spliced(text, each, "pass")))
        if isinstance(each, ast.Expr):
            indent = " " * each.col_offset
            made.append(Mutant(_at(file, each, "doubled: " + short), file,
                               _spliced(text, each, source + "\n" + indent + source)))
        if i + 1 < len(body) and isinstance(each, ast.Expr) and isinstance(body[i + 1], ast.Expr):
            after = ast.get_source_segment(text, body[i + 1])
            swapped = _spliced(text, body[i + 1], source)
            made.append(Mutant(_at(file, each, "swapped: " + short), file,
                               _spliced(swapped, each, after)))
    return made


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
    """Return the id of the clause that fails on a mutant, "crash" or "hang", or None.

    The mutant runs in a forked process, since it may do anything.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(SECONDS)
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(_in_child(mutant, clauses), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(answer) if answer else ("hang" if os.WIFSIGNALED(status) else "crash")


def _in_child(mutant, clauses):
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
            impl = adapter.Implementation("mutated_package")
        except BaseException:
            return "crash"
        return first_failure(impl, clauses)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def first_failure(impl, clauses):
    """Return the id of the first clause that does not hold, or None."""
    cache = {}
    for each in clauses:
        if not set(each.needs) <= impl.capabilities or "cpu" not in each.devices:
            continue
        try:
            runner.settle(each, runner.Run(impl, cache))
        except BaseException:
            return each.id
    return None


def run(mutants, clauses, say=print):
    """Judge mutants; return [(mutant, outcome)].

    A clause that has killed a mutant is asked first about the next: it is likely to kill again.
    """
    outcomes, order = [], list(clauses)
    for mutant in mutants:
        asked = [mutant.must] if mutant.must in clauses else order
        outcome = judge(mutant, [clauses[id] for id in asked])
        outcomes.append((mutant, outcome))
        if outcome in clauses:
            order.remove(outcome)
            order.insert(0, outcome)
        if outcome is None and mutant.name not in EQUIVALENT:
            say("survives  %s%s" % (mutant.name, "  (%s)" % mutant.must if mutant.must else ""))
    return outcomes


def main(arguments=None):
    """Run the mutants and print what became of them; the exit code is 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--generated", action="store_true", help="also the generated ones")
    parser.add_argument("--part", default="1/1", help="K/N: every N-th of them, from the K-th")
    options = parser.parse_args(arguments)
    clauses = clause.load()
    baseline = judge(Mutant("none", "seed.py", (PACKAGE / "seed.py").read_text()),
                     list(clauses.values()))
    if baseline is not None or not clauses:
        raise SystemExit("the package itself fails %s: mend that first" % baseline)
    part, parts = map(int, options.part.split("/"))
    survivors = 0
    for title, mutants in (("hand-written", semantic()),
                           ("generated", generated() if options.generated else [])):
        mutants, start = mutants[part - 1::parts], time.time()
        outcomes = run(mutants, clauses)
        alive = [mutant for mutant, outcome in outcomes if outcome is None]
        equivalent = [mutant for mutant in alive if mutant.name in EQUIVALENT]
        crashed = [outcome for _, outcome in outcomes if outcome in ("crash", "hang")]
        survivors += len(alive) - len(equivalent)
        for mutant, outcome in outcomes if title == "hand-written" else []:
            print("%-10s %s" % (outcome or "SURVIVES", mutant.name))
        print("%s: %d mutants, %d killed by a clause, %d by a crash, %d equivalent, %d surviving; "
              "%d s" % (title, len(mutants), len(mutants) - len(alive) - len(crashed), len(crashed),
                        len(equivalent), len(alive) - len(equivalent), time.time() - start))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
