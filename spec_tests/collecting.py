"""Let pytest collect the clauses: an item for each clause and implementation, named by the id."""

import os
import traceback

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
        """Yield an item for each implementation, clause and device that is asked for."""
        editions = set(self.config.getoption("--edition") or clause.EDITIONS)
        devices = self.config.getoption("--device") or clause.DEVICES
        for impl in self.config.implementations:
            for each in clause.load([self.path.stem]).values():
                if not editions & set(impl.editions) & set(each.editions):
                    continue
                for device in each.devices:
                    if device in devices:
                        yield ClauseItem.from_parent(
                            self, name=_name(each, impl, device), clause=each, impl=impl,
                            device=device)


def _last_lines(error):
    return traceback.format_tb(error.__traceback__)[-2:] if error else []


def _name(each, impl, device):
    return "%s[%s%s]" % (each.id, impl.name, "" if device == "cpu" else "-" + device)


class ClauseItem(pytest.Item):
    """One clause, checked on one implementation and device."""

    def __init__(self, *, clause, impl, device, **more):
        super().__init__(**more)
        self.clause, self.impl, self.device = clause, impl, device

    def runtest(self):
        """Check it."""
        from . import adapter, runner

        lacking = [need for need in self.clause.needs if need not in self.impl.capabilities]
        if lacking:
            pytest.skip("needs " + ", ".join(lacking))
        try:
            runner.check(self.clause, self.impl, self.device)
        except adapter.Lacking as error:
            pytest.skip("needs " + str(error))
        except runner.NoDevice as error:
            pytest.skip(str(error))

    def repr_failure(self, excinfo):
        """Write the sentence, the configuration, the source, and both sides of the difference."""
        if not isinstance(excinfo.value, Mismatch):
            return super().repr_failure(excinfo)
        return "\n".join([
            "%s  %s" % (self.clause.id, self.clause.sentence),
            "editions       %s   (%s %s, %s)" % (" ".join(self.clause.editions), self.impl.name,
                                                 self.impl.version, self.device),
            "configuration  " + (excinfo.value.config or "none was played"),
            "source         " + self.clause.source,
            "got            " + excinfo.value.got, str(excinfo.value)]
            + _last_lines(excinfo.value.__cause__))

    def reportinfo(self):
        """Say where it stands."""
        return self.path, self.clause.check.__code__.co_firstlineno, self.name
