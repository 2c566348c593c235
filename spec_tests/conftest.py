"""Options of the suite: which implementation, which editions, which devices, where to report."""

import gc
import logging
import os
import shutil
import tempfile
import traceback
import warnings
from pathlib import Path

import pytest

from . import adapter, cases, clause, collecting, divergences, facts, runner
from .observed import Mismatch

# Exit codes, beside pytest's own: 1 says that an implementation does not conform.
BROKEN_IMPLEMENTATION = 10  # it cannot be imported, has no Trainer, or a plain fit does not run
BAD_REQUEST = 11  # no such edition, device or kind of report
STALE_DIVERGENCES = 12  # the file of divergences cannot be believed
# Tests of the package, not of an implementation.
OF_THE_PACKAGE = ("test_demo.py", "test_readme.py", "test_size.py", "test_tutorials.py")
LONG = ("test_implementation_equals_model", "test_beyond_calls_per_step")
FILES = ("lightning-2.2.5", "pytorch_lightning-1.5.10", "rules")


def pytest_addoption(parser):
    """Add the suite's own options."""
    group = parser.getgroup("conformance")
    group.addoption("--impl", action="append", metavar="MODULE",
                    help="dotted name of an implementation (repeatable; default minilightning)")
    group.addoption("--edition", action="append", metavar="EDITION",
                    help="edition to check, of %s (repeatable; default all that it claims)"
                    % ", ".join(clause.EDITIONS))
    group.addoption("--device", action="append", metavar="DEVICE",
                    help="device to check on, of %s (repeatable; default all there are)"
                    % ", ".join(clause.DEVICES))
    group.addoption("--report", metavar="FILE", help="write a report to FILE (.json or .md)")
    group.addoption("--floor", type=int, default=0, metavar="N",
                    help="end with code %d if fewer than N clauses ran" % cases.TOO_FEW)
    group.addoption("--write-divergences", action="store_true",
                    help="draft the file of known divergences from what fails")


def pytest_configure(config):
    """Load the implementations, or end with one line and a code of its own."""
    logging.getLogger().setLevel(logging.ERROR)
    for option, known in (("edition", clause.EDITIONS), ("device", clause.DEVICES)):
        for value in config.getoption("--" + option) or ():
            if value not in known:
                pytest.exit("--%s %s: there is none; choose from %s" % (
                    option, value, ", ".join(known)), returncode=BAD_REQUEST)
    report = config.getoption("--report")
    if report and not (report.endswith((".json", ".md"))
                       and Path(report).resolve().parent.is_dir()):
        pytest.exit("--report %s: write a file that ends in .json or .md, in a folder that is there"
                    % report, returncode=BAD_REQUEST)
    config.implementations = []
    for name in config.getoption("--impl") or ["minilightning"]:
        try:
            config.implementations.append(_implementation(config, name))
        except adapter.BrokenImplementation as error:
            pytest.exit(str(error), returncode=BROKEN_IMPLEMENTATION)
        except divergences.Stale as error:
            pytest.exit(str(error), returncode=STALE_DIVERGENCES)
    config.pluginmanager.register(collecting)
    config.pluginmanager.register(cases)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(cases.Tally(config))
        config.folder_of_runs = os.environ["SPEC_TESTS_FOLDER"] = tempfile.mkdtemp()


def _implementation(config, name):
    made = adapter.Implementation(name)
    made.divergences = divergences.read(
        made, cases.known(made, applicable(made)), config.getoption("--write-divergences"))
    return made


def every_fact():
    """Return all recorded facts."""
    blocks = {}
    return [fact for file in FILES for fact in facts.load(file, blocks).values()]


def pytest_sessionstart(session):
    """Stop with one line if one plain fit does not run at all."""
    if not hasattr(session.config, "workerinput") and not session.config.option.collectonly:
        for each in session.config.implementations:
            smoke(each)


def pytest_collection_finish(session):
    """Let the garbage collector come rarely, and spare it what is there to stay."""
    gc.freeze()
    gc.set_threshold(50000, 20, 20)


def pytest_sessionfinish(session):
    """Spare the collector the recorded runs, of which nothing is to be freed any more."""
    gc.freeze()


def pytest_unconfigure(config):
    """Remove what runs have left."""
    folder = getattr(config, "folder_of_runs", None)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def smoke(implementation):
    """Play one plain fit."""
    try:
        played = runner.Run(implementation, {}).fit()
        wrong = "" if played.count("training_step") else "calls no training_step"
    except Mismatch as mismatch:
        wrong = " ".join(str(mismatch).split()) + where(mismatch.__cause__)
    except adapter.Lacking as lacking:
        wrong = "it lacks %s" % lacking
    if wrong:
        pytest.exit("adapter or implementation broken: a plain fit of %s: %s" % (
            implementation.name, wrong), returncode=BROKEN_IMPLEMENTATION)


def where(error):
    """Return the line at which an error was raised, to put behind its message."""
    if error is None:
        return ""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if Path(last.filename).parent == Path(__file__).parent:
        return ""
    return " (%s:%d, in %s)" % (Path(last.filename).name, last.lineno, last.name)


def pytest_report_header(config):
    """Say what is tested."""
    return ["implementation: %s %s, claims edition %s%s" % (
        each.name, each.version, ", ".join(each.claims) or "none, so that 2.2 is asked of it",
        "; lacks %s: is asked clauses alone" % ", ".join(each.lacks) if each.lacks else "")
        for each in config.implementations]


def applicable(implementation):
    """Return the facts to ask of an implementation.

    Of each scenario and edition its recording; a rule replaces the recordings of its name for
    those who have what it needs.
    """
    chosen, blocks = {}, {}
    for file in FILES:
        for fact in facts.load(file, blocks).values():
            if fact.edition in implementation.claims and fact.needs <= implementation.capabilities:
                if fact.rule:
                    chosen = {key: other for key, other in chosen.items() if key[0] != fact.name}
                chosen[fact.name, fact.edition] = fact
    return chosen.values()


def pytest_ignore_collect(collection_path, config):
    """Leave out the tests of the package beside the suite where that is not what is tested."""
    ours = any(each.is_ours for each in config.implementations)
    return True if collection_path.name in OF_THE_PACKAGE and not ours else None


@pytest.fixture(autouse=True)
def heard_again():
    """What a test silences is heard by the next one: clauses about messages need it."""
    levels = [(each, each.level) for each in logging.root.manager.loggerDict.values()
              if isinstance(each, logging.Logger)]
    yield
    for logger, level in levels:
        logger.setLevel(level)


@pytest.fixture
def no_noise():
    """Ignore what every implementation warns of on a machine like this one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(num_workers|deprecated|GPU|validation).*")
        yield


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
    """Leave out what is for others: for the CPU, for whole implementations; the longest first.

    Of several workers, none is to begin a long test when the others have nothing left to do.
    """
    items.sort(key=lambda item: getattr(item, "originalname", None) not in LONG and getattr(
        item, "device", None) != "ddp")
    asked = config.getoption("--device") or clause.DEVICES
    kept = [item for item in items if hasattr(item, "clause") or _is_for_whole(item)]
    if "cpu" not in asked:
        kept = [item for item in kept if hasattr(item, "clause")
                or "cuda" in asked and item.path.name == "test_cuda.py"]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def _is_for_whole(item):
    """Return whether a test is of the suite itself, or of an implementation that has it all."""
    impl = item.callspec.params.get("impl") if hasattr(item, "callspec") else None
    return not getattr(impl, "lacks", ())
