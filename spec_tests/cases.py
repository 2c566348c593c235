"""Turn what pytest reports into outcomes: known divergences, the tally, the report, the floor."""

import re
from pathlib import Path

import pytest
import torch

from . import adapter, clause, divergences, report
from .observed import Mismatch

HEAD = re.compile(r"\s*$|\w+ \(edition .*\)$|rule: ")  # what a failure says before it comes to it
TOO_FEW = 13  # exit code: fewer clauses ran than the floor asks for


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Judge a case against the known divergences of its implementation; note its outcome."""
    made = (yield).get_result()
    implementation = _implementation(item)
    if implementation is None or call.when != "call" and made.outcome == "passed":
        return
    if made.outcome == "skipped" and "is not claimed" in str(made.longrepr):
        return
    case = _case(item, implementation)
    case["outcome"] = dict(skipped="unsupported").get(made.outcome, made.outcome)
    if made.outcome == "failed":
        case["got"] = got(call.excinfo.value)
    recorded = implementation.divergences.get(case["key"])
    if recorded and case["outcome"] in ("passed", "failed"):
        _judge(made, case, *recorded)
    made.user_properties.append(("case", case))


def _judge(made, case, expected, reason):
    if case["outcome"] == "failed" and case["got"] == expected:
        case.update(outcome="diverges", reason=reason)
        made.outcome, made.wasxfail = "skipped", reason
    elif case["outcome"] == "failed":
        case["reason"] = "recorded as a divergence with another failure"
        made.sections.append(("known divergence", "recorded   got: %s\nthis time  got: %s" % (
            expected, case["got"])))
    else:
        case.update(outcome="failed", got="passes")
        made.outcome = "failed"
        made.longrepr = ("%s passes, but is recorded as a divergence (got: %s): remove the line"
                         % (case["key"], expected))


def got(error):
    """Return what came instead, in one line that is the same each time."""
    if isinstance(error, Mismatch):
        return error.got
    lines = [line.strip() for line in str(error).splitlines() if not HEAD.match(line)] or [""]
    marked = [line for line in lines if line.startswith(">>>")]
    kind = "" if type(error).__name__ == "Failed" else type(error).__name__ + ": "
    return " ".join((kind + (marked or lines)[0]).split())


def _implementation(item):
    """Return the implementation that the item is a case of; the suite's own tests are none."""
    if "selftest" in item.path.parts:
        return None
    callspec = getattr(item, "callspec", None)
    found = getattr(item, "impl", None) or callspec and callspec.params.get("impl")
    return found if isinstance(found, adapter.Implementation) else None


def _case(item, implementation):
    case = dict(implementation=implementation.name, version=implementation.version, device="cpu",
                kind="fact", got="", reason="", sentence="")
    own = getattr(item, "clause", None)
    fact = None if own else item.callspec.params.get("fact")
    if own:
        case.update(kind="clause", id=own.id, topic=own.area, device=item.device,
                    editions=own.editions, sentence=own.sentence)
    elif fact:
        case.update(id="%s-%s" % (fact.edition, fact.name), topic="scenarios",
                    editions=[fact.edition])
    else:
        name = re.sub(r"\[%s-?" % re.escape(implementation.name), "[", item.name)
        topic = item.path.stem.replace("test_", "").replace("_", " ")
        case.update(id=name.replace("[]", ""), topic=topic, editions=[])
    case["key"] = case["id"] + ("" if case["device"] == "cpu" else "@" + case["device"])
    return case


def known(implementation, facts):
    """Return a function that says whether a clause, fact or test of an id is asked of it.

    Args:
        facts: those that are asked of it.
    """
    ids = {"%s-%s" % (fact.edition, fact.name) for fact in facts}
    ids |= {each.id for each in clause.load().values() if set(each.needs) <=
            implementation.capabilities and set(each.editions) & set(implementation.editions)}
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))

    def is_known(key):
        id, _, device = key.partition("@")
        if device and device not in clause.DEVICES:
            return False
        return id in ids or id.startswith("test_") and "def %s(" % id.split("[")[0] in tests

    return is_known


class Tally:
    """Counts the cases of a whole run, in the process that the user started."""

    def __init__(self, config):
        self.config = config
        self.outcomes = []

    def pytest_runtest_logreport(self, report):
        """Keep the outcome of a case."""
        self.outcomes += [case for name, case in report.user_properties if name == "case"]
        report.user_properties = [each for each in report.user_properties if each[0] != "case"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        """Write the report and the drafts, and hold the floor."""
        self.made = report.structure(self.outcomes, {"torch": torch.__version__})
        if self.config.getoption("--report"):
            report.write(self.config.getoption("--report"), self.made)
        if self.config.getoption("--write-divergences"):
            self._draft()
        floor = self.config.getoption("--floor")
        if session.exitstatus == 0 and self.made["ran"] < floor:
            session.exitstatus = TOO_FEW

    def _draft(self):
        for each in self.config.implementations:
            own = {case["key"]: case["got"] if case["outcome"] != "passed" else None
                   for case in self.outcomes if case["implementation"] == each.name
                   and case["outcome"] != "unsupported"}
            if not each.is_ours:
                divergences.draft(each, each.divergences, own)

    def pytest_terminal_summary(self, terminalreporter):
        """Print the counts per implementation, and failures grouped by what came instead."""
        for each in self.config.implementations:
            own = [case for case in self.outcomes if case["implementation"] == each.name]
            for kind in ("clause", "fact"):
                text = report.counts([case for case in own if case["kind"] == kind])
                if text:
                    terminalreporter.write_line("%s %s, %ss: %s" % (
                        each.name, each.version, kind, text))
        groups = {}
        for case in self.outcomes:
            if case["outcome"] == "failed":
                groups.setdefault(case["got"], []).append(case["id"])
        for text, ids in sorted(groups.items(), key=lambda pair: -len(pair[1])):
            if len(ids) > 1:
                terminalreporter.write_line("%d times got: %s (%s)" % (
                    len(ids), text, " ".join(ids[:8]) + (" ..." if ids[8:] else "")))

    def pytest_unconfigure(self):
        """Print the last line."""
        if not self.outcomes:
            return
        line = "%d of %d clauses ran" % (self.made["ran"], self.made["clauses"])
        floor = self.config.getoption("--floor")
        if self.made["ran"] < floor:
            line += ", but the floor is %d" % floor
        print(line)
