"""A child of this process, which need not import torch and all the rest again: that takes seconds.

It has its own modules, signals and standard output; what it does to them nobody else sees.
"""

import os
import sys
import traceback


def start(function):
    """Call a function in a child; return the child's id, and its output as an open file."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, os.fdopen(read)
    os.close(read)
    code = 1
    with os.fdopen(write, "w", 1) as sys.stdout:
        sys.stderr = sys.stdout
        try:
            function()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
    os._exit(code)


def run(function):
    """Call a function in a child; return its exit status and what it has written."""
    child, output = start(function)
    with output:
        said = output.read()
    return os.waitpid(child, 0)[1], said
