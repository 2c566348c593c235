"""From outcomes to a report: one structure, written as JSON or as Markdown.

An outcome is a dict: implementation, version, device, kind (clause or fact), id, topic, editions,
sentence, outcome (passed, failed, diverges, unsupported), got and reason.
"""

import json
import platform
from collections import Counter

from . import clause, listing

OUTCOMES = ("passed", "diverges", "failed", "unsupported")
COUNTED = ("passed", "diverges", "failed")


def structure(outcomes, versions):
    """Return the report as plain data: what ran on what, the outcomes, and what nobody ran."""
    ran = {each["id"] for each in outcomes if each["outcome"] in COUNTED}
    every = clause.load()
    return {
        "python": platform.python_version(), "torch": versions["torch"],
        "devices": sorted({each["device"] for each in outcomes
                           if each["outcome"] in COUNTED}),
        "implementations": sorted({(each["implementation"], each["version"]) for each in outcomes}),
        "clauses": len(every), "ran": sum(id in ran for id in every),
        "nobody_ran": [id for id in every if id not in ran],
        "outcomes": sorted(outcomes, key=lambda each: (
            each["implementation"], each["kind"], each["id"], each["device"])),
    }


def write(file, report):
    """Write a report to a file, by its suffix."""
    with open(file, "w", encoding="utf-8") as opened:
        opened.write(json.dumps(report, indent=1) + "\n" if file.endswith(".json")
                     else markdown([report]))


def read(files):
    """Return the reports of JSON files."""
    reports = []
    for file in files:
        with open(file, encoding="utf-8") as opened:
            reports.append(json.load(opened))
    return reports


def markdown(reports):
    """Return one page for one report or several."""
    outcomes = [each for report in reports for each in report["outcomes"]]
    names = []
    for each in outcomes:
        if _name(each) not in names:
            names.append(_name(each))
    text = ["# Results\n"]
    text += ["- %s on Python %s, torch %s, %s: %d of %d clauses ran" % (
        ", ".join(" ".join(each) for each in report["implementations"]), report["python"],
        report["torch"], " ".join(report["devices"]) or "nothing", report["ran"],
        report["clauses"]) for report in reports]
    text += ["\n## By edition\n"] + _table(outcomes, names, clause.EDITIONS, lambda each, edition:
                                           edition in each["editions"])
    topics = list(clause.AREAS) + sorted({each["topic"] for each in outcomes} - set(clause.AREAS))
    text += ["\n## By topic\n"] + _table(outcomes, names, topics, lambda each, topic:
                                         topic == each["topic"])
    for title, outcome in (("Failed", "failed"), ("Divergences", "diverges")):
        text += ["\n## %s\n" % title] + (_listed(outcomes, names, outcome) or ["None."])
    nobody = set.intersection(*[set(report["nobody_ran"]) for report in reports] or [set()])
    text += ["\n## Clauses that nobody ran\n", " ".join(sorted(nobody)) or "None."]
    return "\n".join(text) + "\n"


def _table(outcomes, names, groups, belongs):
    rows = [_row([""] + names), _row(["---"] * (1 + len(names)))]
    for group in groups:
        cells = []
        for name in names:
            own = [each for each in outcomes if _name(each) == name and belongs(each, group)]
            cells.append(counts(own))
        if any(cells):
            rows.append(_row([listing.TITLES.get(group, group)] + cells))
    return rows


def counts(outcomes):
    """Return "210 of 216 passed, 4 diverge, 2 failed; 1 unsupported", or "" for nothing."""
    count = Counter(each["outcome"] for each in outcomes)
    ran = sum(count[outcome] for outcome in COUNTED)
    text = "%d of %d passed" % (count["passed"], ran) if ran else ""
    text += ", %d diverge" % count["diverges"] if count["diverges"] else ""
    text += ", %d failed" % count["failed"] if count["failed"] else ""
    unsupported = "%d unsupported" % count["unsupported"] if count["unsupported"] else ""
    return "; ".join(part for part in (text, unsupported) if part)


def _listed(outcomes, names, outcome):
    text = []
    for name in names:
        own = [each for each in outcomes if _name(each) == name and each["outcome"] == outcome]
        text += ["\n### %s\n" % name] if own else []
        for each in own:
            text.append("- **%s** %s\n  - instead: `%s`" % (each["id"], each["sentence"],
                                                            each["got"]))
            text += ["  - reason: " + each["reason"]] if each["reason"] else []
    return text


def _name(each):
    return "%s %s" % (each["implementation"], each["version"])


def _row(cells):
    return "| %s |" % " | ".join(cells)
