"""Options of the suite: which implementation, which editions, which devices, where to report."""

import json
import logging
from collections import Counter

import pytest

from . import adapter, collecting, facts, scenarios

BROKEN_IMPLEMENTATION = 10  # exit code: it cannot be imported, has no Trainer, or one fit fails
DEVICES = ("cpu", "ddp", "cuda")
FILES = ("lightning-2.2.5", "pytorch_lightning-1.5.10", "rules")


def pytest_addoption(parser):
    """Add the suite's own options."""
    group = parser.getgroup("conformance")
    group.addoption("--impl", action="append", metavar="MODULE",
                    help="dotted name of an implementation (repeatable; default minilightning)")
    group.addoption("--edition", action="append", choices=sorted(adapter.EDITIONS),
                    help="edition to check (repeatable; default all that it claims)")
    group.addoption("--device", action="append", choices=DEVICES,
                    help="device to check on (repeatable; default cpu)")
    group.addoption("--report", metavar="FILE", help="write the counts to FILE (.json or .md)")


def pytest_configure(config):
    """Load the implementations, or end with one line and a code of its own."""
    logging.getLogger().setLevel(logging.ERROR)
    config.pluginmanager.register(collecting)
    config.implementations = []
    for name in config.getoption("--impl") or ["minilightning"]:
        try:
            config.implementations.append(adapter.Implementation(name))
            config.implementations[-1].editions = claims(config.implementations[-1])
        except adapter.BrokenImplementation as error:
            pytest.exit(str(error), returncode=BROKEN_IMPLEMENTATION)


def pytest_report_header(config):
    """Say what is tested."""
    return ["implementation: %s %s, claims edition %s" % (
        each.name, each.version, ", ".join(claims(each)) or "none") for each in
        config.implementations]


def claims(implementation):
    """Return the editions whose abilities the implementation has."""
    return [edition for edition, needs in adapter.EDITIONS.items()
            if needs <= implementation.capabilities]


def applicable(implementation):
    """Return the facts to ask of an implementation.

    Of each scenario and edition its recording; a rule replaces the recordings of its name for
    those who have what it needs.
    """
    chosen, blocks = {}, {}
    for file in FILES:
        for fact in facts.load(file, blocks).values():
            if fact.edition in claims(implementation) and fact.needs <= implementation.capabilities:
                if fact.rule:
                    chosen = {key: other for key, other in chosen.items() if key[0] != fact.name}
                chosen[fact.name, fact.edition] = fact
    return chosen.values()


def pytest_generate_tests(metafunc):
    """Give ``impl`` each implementation in turn, and ``fact`` each fact to ask of it."""
    config, names = metafunc.config, metafunc.fixturenames
    if "impl" in names and "fact" in names:
        editions = config.getoption("--edition") or list(adapter.EDITIONS)
        cases = [(each, fact) for each in config.implementations for fact in applicable(each)
                 if fact.edition in editions]
        ids = ["%s-%s-%s" % (each.name, fact.edition, fact.name) for each, fact in cases]
        metafunc.parametrize("impl, fact", cases, ids=ids)
    elif "impl" in names:
        metafunc.parametrize("impl", config.implementations, ids=lambda each: each.name)


def pytest_collection_modifyitems(config, items):
    """Run what is asked for on the devices asked for; all there is so far is for the CPU."""
    if "cpu" not in (config.getoption("--device") or DEVICES):
        config.hook.pytest_deselected(items=items[:])
        items[:] = []


@pytest.fixture(autouse=True)
def smoke(request):
    """Stop with one line if one plain fit does not run at all."""
    callspec = getattr(request.node, "callspec", None)
    implementation = callspec and callspec.params.get("impl")
    if not implementation or implementation.works:
        return
    try:
        _, result, _, events = scenarios.play(implementation, "fit_no_sanity").calls[0]
    except Exception as error:  # the suite's own objects do not fit the implementation
        result, events = "raises %r" % error, []
    if result.startswith("raises") or not events:
        pytest.exit("adapter or implementation broken: a plain fit of %s %s" % (
            implementation.name, result if events else "calls no hook; " + result),
            returncode=BROKEN_IMPLEMENTATION)
    implementation.works = True


def pytest_terminal_summary(terminalreporter, config):
    """Print how many facts hold, per implementation and edition, and write the report."""
    counts = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            _, bracket, case = report.nodeid.rstrip("]").partition("test_scenario[")
            if bracket:
                counts[tuple(case.split("-")[:2]) + (outcome,)] += 1
    rows = [dict(implementation=name, edition=edition, hold=counts[name, edition, "passed"],
                 of=counts[name, edition, "passed"] + counts[name, edition, "failed"])
            for name, edition in sorted({key[:2] for key in counts})]
    for row in rows:
        terminalreporter.write_line(
            "{implementation}, edition {edition}: {hold} of {of} facts hold".format(**row))
    if config.getoption("--report"):
        _write(config.getoption("--report"), rows)


def _write(path, rows):
    lines = ["| implementation | edition | facts that hold | of |", "| --- | --- | --- | --- |"]
    lines += ["| {implementation} | {edition} | {hold} | {of} |".format(**row) for row in rows]
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(rows, indent=1) if path.endswith(".json") else "\n".join(lines))
        file.write("\n")
