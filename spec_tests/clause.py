"""What a clause is: a sentence with an id that never moves, and a function that checks it.

Importing this file, or any file of clauses, imports neither torch nor an implementation, so that
the clauses can be printed anywhere.
"""

import importlib
import os

AREAS = ("fit", "val", "test", "predict", "opt", "cb", "data", "ckpt", "log", "ddp")
AREA_NEEDS = dict(ckpt="save_checkpoint", log="log")  # of every clause of an area
LIFECYCLE = ("fit", "val", "test", "predict", "opt", "log")
KEYWORDS = ("MUST NOT", "MUST", "MAY")
EDITIONS = ("1.1", "1.5", "2.2", "beyond")
DEVICES = ("cpu", "ddp", "cuda")
ASPECTS = ("fires", "arguments", "return", "state")

# Numbers of clauses that were removed. They are never given again.
RETIRED = set()

CLAUSES = {}  # id: Clause, in the order of the files


class Clause:
    """One sentence of the specification, and its check."""

    def __init__(self, id, sentence, editions, needs, source, hooks, allow, device, arguments):
        self.id = id
        self.sentence = sentence
        self.editions = editions.split()
        self.needs = needs.split()
        area = AREA_NEEDS.get(self.area)
        if area and area not in self.needs:
            self.needs.append(area)
        self.source = source
        self.hooks = [hooks] if isinstance(hooks, str) else list(hooks)
        self.allow = dict(allow)
        self.devices = device.split()
        self.arguments = arguments.split()
        self.check = None

    @property
    def area(self):
        """Return the area that the id begins with, in lower case."""
        return self.id.partition("-")[0].lower()


def clause(id, sentence, editions, needs, source, hooks=(), allow=(), device=None, arguments=""):
    """Let the decorated function check the sentence; it is called with a ``Run``.

    Args:
        id: ``AREA-NNN``, given by hand, never changed, never given again.
        sentence: one sentence with one MUST, MUST NOT or MAY.
        editions: those in which the sentence holds, out of ``EDITIONS``, space-separated.
        needs: names of ``adapter.CAPABILITIES``, space-separated.
        source: seed and hook, trace, bug report or ruling that says so.
        hooks: what it covers, as ``"M.on_train_start fires state"`` (who, hook, aspects); several
            as a list. Who: any of ``C`` (callback), ``M`` (module), ``D`` (data module).
        allow: alternatives that hold as well, {what came instead: reason}.
        device: where it is checked, out of ``DEVICES``, space-separated; by default on the CPU, and
            what is about the lifecycle in two processes and on a GPU, too.
        arguments: what it says the meaning of, as ``"EarlyStopping.patience"``, space-separated.
    """
    if device is None:
        device = "cpu ddp cuda" if id.partition("-")[0].lower() in LIFECYCLE else "cpu"
    made = Clause(id, sentence, editions, needs, source, hooks, allow, device, arguments)

    def take(check):
        if id in CLAUSES:
            raise ValueError("%s is the id of two clauses" % id)
        made.check = check
        CLAUSES[id] = made
        return made

    return take


def load(areas=AREAS):
    """Import the files of clauses of these areas and return {id: Clause}, by area and number."""
    folder = os.path.join(os.path.dirname(__file__), "clauses")
    for area in areas:
        if os.path.exists(os.path.join(folder, area + ".py")):
            importlib.import_module(__package__ + ".clauses." + area)
    order = sorted(CLAUSES.values(), key=lambda each: (AREAS.index(each.area), each.id))
    return {each.id: each for each in order if each.area in areas}


class _Torch:
    """Stands for torch in a file of clauses, and imports it at the first use."""

    def __getattr__(self, name):
        return getattr(importlib.import_module("torch"), name)


torch = _Torch()
