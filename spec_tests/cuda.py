"""Everything that needs a GPU, with one line in the end: what ran where, and for how long.

    python -m spec_tests.cuda [IMPLEMENTATION]

These are the clauses that are asked on a GPU, and ``test_cuda.py``, which writes down the
tolerances. Without a GPU it says so, and that is no error.
"""

import sys
import time
from pathlib import Path

import pytest
import torch


class Count:
    """Counts outcomes."""

    def __init__(self):
        self.outcomes = dict(passed=0, failed=0, skipped=0)

    def pytest_runtest_logreport(self, report):
        """Take one; an error before or after a test is a failure."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1


def main(name="minilightning"):
    """Run it, and return the exit code."""
    if not torch.cuda.is_available():
        print("spec-cuda: skipped, as torch %s finds no CUDA device" % torch.__version__)
        return 0
    since, count = time.monotonic(), Count()
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-rfE", "--device", "cuda", "--impl", name,
                        str(Path(__file__).resolve().parent)], plugins=[count])
    said = ", ".join("%d %s" % (number, outcome) for outcome, number in count.outcomes.items())
    print("spec-cuda: %s on %s, torch %s with CUDA %s, in %d s" % (
        said, torch.cuda.get_device_name(0), torch.__version__, torch.version.cuda,
        time.monotonic() - since))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
