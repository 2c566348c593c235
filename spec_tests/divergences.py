"""The known divergences of an implementation: ``divergences/<implementation>-<version>.txt``.

    FIT-021  got: c1.on_x, not M.on_x  # why it is so, for a reader who maintains it

A line says that this clause fails, with what came instead, and why. It is strict: a clause that
passes all the same, an id that is none, another failure, and a missing reason are all red.
The id of a recorded fact is its edition and name, ``2.2-fit_basic``.
"""

import os
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "divergences")
LINE = re.compile(r"(\S.*?)\s+got: (.*?)(?:\s\s*#\s*(.*))?$")
HEAD = "# What %s does otherwise. Strict: each line fails just so.\n"


class Stale(Exception):
    """A file of divergences cannot be believed; the message is one line."""


def path(implementation):
    """Return where the divergences of an implementation stand."""
    return os.path.join(FOLDER, "%s-%s.txt" % (implementation.name, implementation.version))


def ids(name):
    """Return the ids in the file of an implementation, as ``lightning.pytorch-2.6.6``."""
    with open(os.path.join(FOLDER, name + ".txt"), encoding="utf-8") as opened:
        found = [LINE.match(row.strip()) for row in opened]
    return {match.group(1) for match in found if match}


def read(implementation, known, drafting=False):
    """Return {id: (got, reason)}.

    Args:
        known: function that says whether the clause of an id is asked of the implementation.
        drafting: whether reasons may be missing and ids unknown, since the file is written anew.
    """
    file = path(implementation)
    if not os.path.exists(file):
        return {}
    name, found = "divergences/" + os.path.basename(file), {}
    if implementation.is_ours:
        raise Stale("%s: the implementation beside this suite may not diverge from it" % name)
    with open(file, encoding="utf-8") as opened:
        rows = [(at, row.strip()) for at, row in enumerate(opened, 1)]
    for at, row in rows:
        if not row or row.startswith("#"):
            continue
        match = LINE.match(row)
        if not match:
            raise Stale("%s:%d is not 'ID  got: WHAT CAME  # REASON': %s" % (name, at, row))
        id, got, reason = match.groups()
        if not drafting:
            _believe(name, at, id, reason, known, found)
        found[id] = (got.strip(), reason or "")
    return found


def _believe(name, at, id, reason, known, found):
    if not known(id):
        raise Stale("%s:%d: %s is no clause that is asked of it; remove the line" % (name, at, id))
    if id in found:
        raise Stale("%s:%d: %s stands there twice; keep one line" % (name, at, id))
    if not reason:
        raise Stale("%s:%d: %s has no reason; write one after #" % (name, at, id))


def draft(implementation, before, outcomes):
    """Write the file anew: what still fails, the old reasons kept, the new ones left to a person.

    Args:
        before: what ``read`` returned.
        outcomes: {id: what came, or None if it passed} of the cases that ran.
    """
    kept = dict(before)
    for id, got in outcomes.items():
        kept.pop(id, None)
        if got is not None:
            same = before.get(id, (None, ""))
            kept[id] = (got, same[1] if same[0] == got else "")
    os.makedirs(FOLDER, exist_ok=True)
    with open(path(implementation), "w", encoding="utf-8") as file:
        file.write(HEAD % ("%s %s" % (implementation.name, implementation.version)))
        for id in sorted(kept):
            file.write(("%s  got: %s  # %s" % ((id,) + kept[id])).rstrip() + "\n")
