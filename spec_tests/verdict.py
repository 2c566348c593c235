"""Compare a run with a fact, and say what differs so that one can read it."""

from . import facts, subjects, trace

# Edition 2.2 is silent on the hooks that only older editions have.
OLDER = set(subjects.hooks(subjects.OLDER_CALLBACK))


def differences(fact, run):
    """Return what differs between a fact and a run, as text; "" if nothing does."""
    found = list(_calls(fact, run)) + list(_results(fact, run))
    if not found:
        return ""
    head = ["%s (edition %s)" % (fact.name, fact.edition)]
    if fact.rule:
        head.append("rule: " + fact.rule)
    return "\n".join(head + found)


def _calls(fact, run):
    expected, actual = [call.name for call in fact.calls], [name for name, *_ in run.calls]
    if expected != actual:
        yield "calls: expected %s, got %s" % (expected, actual)
        return
    for want, (name, result, after, events) in zip(fact.calls, run.calls):
        write = trace.call if fact.stateless else trace.line
        lines = [write(event) for event in _seen(fact, events)]
        shown = trace.difference([write(event) for event in want.events], lines)
        if shown:
            yield "%s: %s" % (name, shown)
        if want.result != result:
            yield "%s: expected %s, got %s" % (name, want.result, result)
        if not fact.stateless:
            yield from _after(name, want.after, after)


def _seen(fact, events):
    if fact.only is None:
        return trace.project(events, lambda event: event.who == "M" or event.hook not in OLDER)
    return trace.project(
        events, lambda event: event.hook in fact.only or event.who + "." + event.hook in fact.only)


def _after(name, expected, actual):
    for key in facts.AFTER:
        if expected[key] != actual[key]:
            yield "after %s: trainer %s: expected %r, got %r" % (
                name, key, expected[key], actual[key])


def _results(fact, run):
    for key in sorted(set(fact.results) | set(run.results)):
        expected, actual = fact.results.get(key, "nothing"), run.results.get(key, "nothing")
        if expected != actual:
            yield "%s: expected %r, got %r" % (key, expected, actual)
