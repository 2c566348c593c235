"""Run the tutorials and compare what they print with what their pages say that they print.

    python tutorials/run.py                               all of them
    python tutorials/run.py tutorials/03_callbacks.md     some

The ```python blocks of a page run in one namespace and in a temporary folder. A ```text block is
what the block before it prints; a block without one prints nothing. An error shows the page's line.
"""

import contextlib
import difflib
import io
import logging
import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Mismatch(Exception):
    """A block prints something else than its page says."""


def run(page):
    """Run the blocks of one page in the working directory; raise `Mismatch` or what they raise."""
    text, namespace = page.read_text("utf-8"), {"__name__": "__main__"}
    blocks = [(match[1], match[2], text.count("\n", 0, match.start(2)))
              for match in BLOCK.finditer(text)]
    for (kind, code, line), (after, expected, _) in zip(blocks, [*blocks[1:], ("", "", 0)]):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * line + code, str(page), "exec"), namespace)
            compare(expected if after == "text" else "", printed.getvalue(), page, line)
        elif after == "text":
            raise Mismatch("%s: the text after line %d follows no python" % (page.name, line))


def compare(expected, printed, page, line):
    """Raise `Mismatch` with the difference, if there is one."""
    if expected != printed:
        lines = difflib.ndiff(expected.splitlines(), printed.splitlines())
        raise Mismatch("%s:%d prints something else (- the page, + what it printed)\n%s" % (
            page.name, line + 1, "\n".join("    " + each for each in lines)))


@contextlib.contextmanager
def temporary_folder():
    """Work in a folder that is gone afterwards."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def main(arguments):
    """Run pages, print the time of each and of all, and return the exit status."""
    pages = [Path(each).resolve() for each in arguments] or sorted(HERE.glob("[0-9]*.md"))
    sys.path.insert(0, str(HERE.parent))  # the package beside this folder, here and in processes
    folders = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    start = time.time()
    import torch

    import minilightning  # noqa: F401

    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # the first takes seconds: no page's
    logging.getLogger("minilightning").setLevel(logging.WARNING)
    print("%5.1f s  import torch and minilightning" % (time.time() - start))
    failed = 0
    for page in pages:
        began, complaint = time.time(), ""
        try:
            with temporary_folder():
                run(page)
        except Mismatch as mismatch:
            complaint = str(mismatch)
        except (Exception, SystemExit) as error:
            its_own = error.__traceback__.tb_next.tb_next or error.__traceback__.tb_next
            complaint = "".join(traceback.format_exception(type(error), error, its_own))
        failed += bool(complaint)
        print("%5.1f s  %s%s" % (time.time() - began, page.name, "  FAILS" if complaint else ""))
        print(complaint, end="\n" if complaint else "", flush=True)
    print("%5.1f s  in all, %d of %d pages fail" % (time.time() - start, failed, len(pages)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
