"""Print lines and tokens per line of every module against its budget; exit 1 if one is over.

A token is a name, a number, an operator or a string; an f-string counts as one, on every Python.
Tokens per line is the mean over the lines that hold code: blank lines, comments and docstrings
count as lines, but neither dilute nor crowd the mean.

    python spec_tests/size.py [FOLDER]
"""

import ast
import sys
import token
import tokenize
from pathlib import Path

# Lines per group of modules, docstrings included, in which every argument has an entry. A module
# that stands in no row is over budget until it has one. Behind each that is over what the design
# aimed at: what takes the room.
BUDGETS = [
    (("hooks",), 420),  # the manual: fifty hooks, half of it docstrings
    (("callback", "callbacks"), 570),  # the manual: forty-eight hooks, three quarters docstrings
    (("monitors",), 700),  # ModelCheckpoint's files: names, versions, the k best, the last
    (("progress",), 460),  # five stages, three editions' names of what a bar may ask
    (("learning_rate", "gpu_stats", "timer"), 600),
    (("module",), 640),  # every public method with arguments, returns and errors
    (("trainer",), 885),  # a third is flags, state and the four entry points with their docstrings
    (("dispatch",), 270),  # a hundred lines of it are the table
    (("signatures", "names"), 310),
    (("accelerators", "processes"), 330),
    (("strategies", "samplers"), 630),  # what a strategy is asked, with and without processes
    (("fsdp",), 150),
    (("precision",), 210),  # six types, and a scaler that takes no closure
    # files whole and safe; exact resume from any hook: what each had still to do
    (("checkpoint", "rng", "resume", "restore", "preempt", "signals", "storage", "interchange"),
     1530),
    (("metrics", "reporting"), 560),
    (("loggers",), 460),  # two loggers; a CSV header that grows
    (("lifecycle_tree", "lifecycle_manual"), 420),  # groups and folding; docstrings and clauses
    (("lifecycle_page", "lifecycle_picture"), 220),
    (("lifecycle_why",), 290),  # thirty reasons, a sentence each
    (("lifecycle_demo",), 300),  # eighteen options
    (("lifecycle", "plot", "__main__"), 630),  # pictures of a run, and of a sweep
    (("data", "loading", "batches"), 660),  # loaders that know their place, also past an epoch
    (("optimizers",), 350),
    (("flags", "startup"), 510),
    (("readings",), 250),
    (("tuning",), 410),  # a sweep, its result, and what it leaves untouched
    (("state",), 150),
    (("hparams",), 120),
    (("summary",), 180),
    (("errors",), 150),
    (("seed", "utilities"), 140),
    (("__init__",), 80),
]
MAX_TOKENS_PER_LINE = 8.5  # the package's mean
MAX_TOKENS_PER_FILE = 11  # a file of data or of small functions may be denser, not crammed
MAX_COLUMNS = 100
MAX_FUNCTION = 60

WORDS = (token.NAME, token.NUMBER, token.OP, token.STRING)
FSTRING_START = getattr(token, "FSTRING_START", None)  # Python 3.12 splits f-strings; rejoin them
FSTRING_END = getattr(token, "FSTRING_END", None)


def code_tokens(path):
    """Yield the tokens of one file that count, docstrings left out."""
    depth, starts_statement = 0, True
    with open(path, "rb") as file:
        for tok in tokenize.tokenize(file.readline):
            if tok.type == FSTRING_START:
                depth += 1
                if depth == 1:
                    yield tok
            elif tok.type == FSTRING_END:
                depth -= 1
            elif depth == 0 and tok.type in WORDS:
                if not (tok.type == token.STRING and starts_statement):
                    yield tok
            if tok.type not in (token.COMMENT, token.NL):
                starts_statement = tok.type in (
                    token.ENCODING, token.NEWLINE, token.INDENT, token.DEDENT
                )


def function_lengths(path):
    """Yield (lines of the body without its docstring, name) of every function in one file."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            begin = first.lineno
            if ast.get_docstring(node) is not None:
                begin = first.end_lineno + 1
            yield node.end_lineno - begin + 1, node.name


def measure(path):
    """Return a dict with the size of one file and what is wrong with it."""
    lines = path.read_text("utf-8").splitlines()
    tokens = list(code_tokens(path))
    rows = {row for tok in tokens for row in range(tok.start[0], tok.end[0] + 1)}
    longest, name = max(function_lengths(path), default=(0, "-"))
    mean = len(tokens) / max(1, len(rows))
    wrong = [
        "%s:%d is %d columns wide, %d at most" % (path.name, number, len(line), MAX_COLUMNS)
        for number, line in enumerate(lines, 1)
        if len(line) > MAX_COLUMNS
    ]
    if mean > MAX_TOKENS_PER_FILE:
        wrong.append("%s: %.2f tokens per line, %.1f at most"
                     % (path.name, mean, MAX_TOKENS_PER_FILE))
    if longest > MAX_FUNCTION:
        wrong.append("%s: %s() has %d lines, %d at most" % (path.name, name, longest, MAX_FUNCTION))
    return {"lines": len(lines), "tokens": len(tokens), "rows": len(rows), "mean": mean,
            "longest": longest, "wrong": wrong}


def main(folder):
    """Print the table for the package in `folder` and return the exit status: 0 or 1."""
    paths = {path.stem: path for path in sorted(folder.glob("*.py"))}
    wrong = []
    total = tokens = rows = 0
    print("module          lines  budget  tokens/line  longest function")
    for names, budget in BUDGETS:
        used = 0
        for name in [name for name in names if name in paths]:
            size = measure(paths.pop(name))
            used += size["lines"]
            tokens += size["tokens"]
            rows += size["rows"]
            wrong += size["wrong"]
            # A group shares one budget, which stands in the row of its first module.
            shown = budget if used == size["lines"] else ""
            print("%-14s %6d %7s %12.2f %17d"
                  % (name, size["lines"], shown, size["mean"], size["longest"]))
        total += used
        if used > budget:
            wrong.append("%s: %d lines, %d at most" % (" + ".join(names), used, budget))
    wrong += ["%s.py has no budget: give it a row in BUDGETS" % name for name in paths]
    if tokens > rows * MAX_TOKENS_PER_LINE:
        wrong.append("mean: %.2f tokens per line, %.1f at most"
                     % (tokens / rows, MAX_TOKENS_PER_LINE))
    print("%-14s %6d %7d %12.2f"
          % ("total", total, sum(budget for _, budget in BUDGETS), tokens / max(1, rows)))
    for line in wrong:
        print("over budget:", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "minilightning"
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else default))
