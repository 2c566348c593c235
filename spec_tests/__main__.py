"""Pages of the suite; nothing is run.

    python -m spec_tests clauses             prints the clauses
    python -m spec_tests hooks               prints those about hooks, for a viewer
    python -m spec_tests results FILE ...    prints one page for reports written with --report
"""

import sys

from . import listing, report


def main(arguments):
    """Print what is asked for, or how to ask."""
    if arguments == ["clauses"]:
        sys.stdout.write(listing.page())
    elif arguments == ["hooks"]:
        sys.stdout.write(listing.by_hook())
    elif arguments[:1] == ["results"] and arguments[1:]:
        sys.stdout.write(report.markdown(report.read(arguments[1:])))
    else:
        sys.stderr.write("usage: python -m spec_tests clauses | hooks | results FILE.json ...\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
