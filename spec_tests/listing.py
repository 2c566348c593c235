"""The clauses as a page of Markdown, with the table of what they cover. Imports no torch."""

import os
import re

from . import clause, divergences

FOLDER = os.path.dirname(os.path.abspath(__file__))
TITLES = {
    "fit": "Fit", "val": "Validation", "test": "Test", "predict": "Prediction",
    "opt": "Optimization", "cb": "Callbacks", "data": "Data", "ckpt": "Checkpoints",
    "log": "Logging", "ddp": "Several processes",
}
RECEIVERS = {"C": "callback", "M": "module", "D": "data module"}
# Hooks of the module that stand in no seed's inventory: a clause is theirs if it names them.
BESIDES = ("optimizer_zero_grad", "backward", "configure_gradient_clipping", "lr_scheduler_step")
HEAD = """\
# The lifecycle, clause by clause

Printed by `python -m spec_tests clauses`; do not edit. A clause holds in the editions that stand
behind it, for an implementation that has what it needs.
"""


def page():
    """Return the whole page."""
    clauses = clause.load()
    parts = [HEAD, _numbers(clauses)]
    parts += [_area(area, [each for each in clauses.values() if each.area == area])
              for area in clause.AREAS]
    parts += [_coverage(clauses), _arguments(clauses), _unchecked()]
    return "\n".join(part for part in parts if part)


def covered(clauses):
    """Return {(hook, receiver): {aspect: [ids]}} of what clauses say they cover."""
    table = {}
    for each in clauses.values():
        for said in each.hooks:
            event, *aspects = said.split()
            who, _, hook = event.partition(".")
            for one in who:
                for aspect in aspects:
                    row = table.setdefault((hook, one), {})
                    row.setdefault(aspect, []).append(each.id)
    return table


def argued(clauses):
    """Return {"Class.argument": [clauses]} of what clauses say the meaning of."""
    table = {}
    for each in clauses.values():
        for argument in each.arguments:
            table.setdefault(argument, []).append(each)
    return table


def inventory():
    """Return {(hook, receiver): (edition, parameters)}, of each hook its newest edition."""
    hooks = {}
    for line in lines("inventory.txt"):
        edition, who, hook, *params = line.split()
        for one in who:
            hooks.setdefault((hook, one), (edition, params))
    return hooks


def lines(name):
    """Return the lines of a file of the suite, without comments and empty ones."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        kept = [line.split("#")[0].strip() for line in file]
    return [line for line in kept if line]


def cells():
    """Return (covered, all) cells of the coverage table of the inventory."""
    table = covered(clause.load())
    every = [(key, aspect) for key in inventory() for aspect in clause.ASPECTS]
    return sum(aspect in table.get(key, {}) for key, aspect in every), len(every)


def by_hook():
    """Return what a viewer shows beside a hook: of each clause about hooks its id, its editions,
    the hooks as who.hook, and its sentence, on a line."""
    clauses = clause.load()
    declared = {key[0] for key in covered(clauses)}
    rows = []
    for each in clauses.values():
        events = [said.split()[0] for said in each.hooks]
        words = set(re.findall(r"\w+", each.sentence)) - declared
        events += ["M." + hook for hook in BESIDES if hook in words]
        if events:
            rows.append("%s | %s | %s | %s\n" % (
                each.id, " ".join(each.editions), " ".join(events), each.sentence))
    return "".join(rows)


def _numbers(clauses):
    head = ["topic"] + list(clause.EDITIONS) + ["all"]
    rows = [_row(head), _row(["---"] * len(head))]
    for area in clause.AREAS + (None,):
        own = [each for each in clauses.values() if area in (each.area, None)]
        counts = [sum(edition in each.editions for each in own) for edition in clause.EDITIONS]
        rows.append(_row([TITLES.get(area, "all")] + counts + [len(own)]))
    return "\n".join(rows) + "\n"


def _area(area, clauses):
    if not clauses:
        return ""
    text = ["## %s\n" % TITLES[area]]
    for each in clauses:
        notes = ["editions " + " ".join(each.editions), "needs " + ", ".join(each.needs)]
        notes += ["on " + " ".join(each.devices)] if each.devices != ["cpu"] else []
        notes += ["from " + each.source]
        text.append("- **%s** %s\n  *%s*" % (each.id, each.sentence, "; ".join(notes)))
        text += ["  - also allowed: `%s`: %s" % pair for pair in sorted(each.allow.items())]
    return "\n".join(text) + "\n"


def _coverage(clauses):
    table, known = covered(clauses), inventory()
    text = ["## What is covered\n", "%d of %d cells of the seeds' hooks; the hooks after them are "
            "none of a seed's.\n" % cells()]
    text += [_row(["hook", "of", *clause.ASPECTS]), _row(["---"] * (2 + len(clause.ASPECTS)))]
    order = sorted(known) + sorted(set(table) - set(known))
    for key in order:
        row = table.get(key, {})
        text.append(_row(["`%s`" % key[0], RECEIVERS.get(key[1], key[1])]
                         + [_ids(row.get(aspect, [])) for aspect in clause.ASPECTS]))
    return "\n".join(text) + "\n"


NEWEST = "lightning.pytorch-2.6.6"  # whose differences stand beside the arguments


def _arguments(clauses):
    differ = divergences.ids(NEWEST)
    text = ["## Arguments of the built-in classes\n",
            "The last column is what Lightning 2.6.6 does on those of edition 2.2, which are the "
            "ones that are asked of it; why it differs stands in its file of divergences.\n",
            _row(["class", "argument", "clauses", "Lightning 2.6.6"]), _row(["---"] * 4)]
    for name, those in sorted(argued(clauses).items()):
        owner, _, argument = name.rpartition(".")
        text.append(_row(["`%s`" % owner, "`%s`" % argument, " ".join(each.id for each in those),
                          _newest(those, differ)]))
    return "\n".join(text) + "\n"


def _newest(those, differ):
    asked = [each for each in those if "2.2" in each.editions]
    if not asked:
        return "not asked: " + ", ".join(sorted({edition for each in those
                                                 for edition in each.editions}))
    wrong = [each.id for each in asked if each.id in differ]
    return "differs: " + " ".join(wrong) if wrong else "holds"


def _ids(ids):
    return " ".join(ids[:3]) + (" +%d" % (len(ids) - 3) if len(ids) > 3 else "")


def _unchecked():
    text = ["## Sentences without a clause\n"]
    for line in lines("unchecked.txt"):
        seed, sentence, reason = [part.strip() for part in line.split("|")]
        text.append("- %s: \"%s\" %s" % (seed, sentence, reason))
    return "\n".join(text) + "\n"


def _row(cells):
    return "| %s |" % " | ".join(map(str, cells))
