"""One of two processes that play cells of the matrix together; see ``exact_matrix.py``.

    torchrun --nproc_per_node=2 -m spec_tests.exact_ranks FOLDER IMPLEMENTATION

What to play stands in the file ``cells`` of that folder; what this process finds goes beside it.
"""

import json
import os
import shutil
import sys
import warnings

from . import exact


def main(meeting, impl):
    """Play the cells, one after another; an error ends both processes."""
    warnings.simplefilter("ignore")
    exact.quiet(impl)
    with open(os.path.join(meeting, "cells")) as file:
        cells = json.load(file)
    for number, (place, loader, flags) in enumerate(cells):
        folder = os.path.join(meeting, "cell%d" % number)
        os.makedirs(folder, exist_ok=True)
        try:
            found = exact.differences(impl, folder, place, loader, exact.FLAGS[flags])
            exact.together()
        except Exception as error:
            leave(meeting, number, ["%s: %s" % (type(error).__name__, error)])
            raise
        if exact.rank() == 0:
            shutil.rmtree(folder, ignore_errors=True)
        leave(meeting, number, found)


def leave(meeting, number, found):
    """Leave what was found for the process that has started this one."""
    name = os.path.join(meeting, "%d.%d" % (number, exact.rank()))
    with open(name + ".new", "w") as file:
        json.dump(found, file)
    os.rename(name + ".new", name)


if __name__ == "__main__":
    main(*sys.argv[1:])
