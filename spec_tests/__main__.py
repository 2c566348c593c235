"""``python -m spec_tests clauses`` prints the clauses; nothing is run."""

import sys

from . import listing


def main(arguments):
    """Print what is asked for, or how to ask."""
    if arguments == ["clauses"]:
        sys.stdout.write(listing.page())
        return 0
    sys.stderr.write("usage: python -m spec_tests clauses | python -m pytest spec_tests --impl "
                     "MODULE --edition EDITION --device DEVICE --report FILE\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
