"""Let pytest collect the clauses: an item for each clause and implementation, named by the id."""

import os

import pytest

from . import clause
from .observed import Mismatch

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clauses")


def pytest_collect_file(file_path, parent):
    """Collect a file of clauses."""
    if os.path.dirname(str(file_path)) == FOLDER and file_path.stem in clause.AREAS:
        return ClauseFile.from_parent(parent, path=file_path)


class ClauseFile(pytest.File):
    """The clauses of an area."""

    def collect(self):
        """Yield an item for each implementation and clause that is asked of it."""
        chosen = set(self.config.getoption("--edition") or clause.EDITIONS)
        for implementation in self.config.implementations:
            editions = chosen & set(implementation.editions)
            for each in clause.load().values():
                if each.area == self.path.stem and editions & set(each.editions):
                    name = "%s[%s]" % (each.id, implementation.name)
                    yield ClauseItem.from_parent(self, name=name, clause=each,
                                                 impl=implementation)


class ClauseItem(pytest.Item):
    """One clause, checked on one implementation."""

    def __init__(self, *, clause, impl, **more):
        super().__init__(**more)
        self.clause, self.impl, self.run = clause, impl, None

    def runtest(self):
        """Check it."""
        from .runner import Run

        lacking = [need for need in self.clause.needs if need not in self.impl.capabilities]
        if lacking:
            pytest.skip("needs " + ", ".join(lacking))
        self.run = Run(self.impl, self.impl.__dict__.setdefault("runs", {}))
        try:
            self.clause.check(self.run)
        except Mismatch as mismatch:
            if mismatch.got not in self.clause.allow:
                raise

    def repr_failure(self, excinfo):
        """Write the sentence, the configuration, the source, and both sides of the difference."""
        if not isinstance(excinfo.value, Mismatch):
            return super().repr_failure(excinfo)
        return "\n".join([
            "%s  %s" % (self.clause.id, self.clause.sentence),
            "editions       %s   (%s %s)" % (" ".join(self.clause.editions), self.impl.name,
                                             self.impl.version),
            "configuration  " + "; ".join(self.run.played),
            "source         " + self.clause.source,
            "got            " + excinfo.value.got, str(excinfo.value)])

    def reportinfo(self):
        """Say where it stands."""
        return self.path, self.clause.check.__code__.co_firstlineno, self.name
