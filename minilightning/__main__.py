"""The command line: `python -m minilightning lifecycle` and `... plot RUN_DIR [-o FILE.svg]`."""
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import lifecycle_demo
from .plot import plot


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        """Leave with status 2 and one line, without the usage of all flags.

        Args:
            message: what was wrong.
        """
        self.exit(2, f"{self.prog}: {message} (--help shows what can be given)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: those of the command line; by default those of this process.

    Returns:
        0, or 1 after a line that says what was wrong. Wrong arguments end the process with 2.
    """
    parser = Parser(prog=f"python -m {__package__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    lifecycle_demo.add_command(commands)
    command = commands.add_parser("plot", help="draw the metrics of a CSV run as curves")
    command.add_argument("run", metavar="RUN_DIR", help="folder of the run, with its metrics.csv")
    command.add_argument("-o", "--output", metavar="FILE", help="picture, .svg or .png "
                         "(by default metrics.svg in RUN_DIR)")
    command.set_defaults(run_command=lambda given: print(plot(given.run, given.output)))
    given = parser.parse_args(arguments)
    try:
        given.run_command(given)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
