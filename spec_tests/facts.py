"""Read the compact notation of ``facts/*.txt`` back into runs.

    fact NAME [EDITION] [needs=CAPABILITY] [stateless]
    rule: ...                                  why it differs from what was recorded
    only: CM.setup on_fit_start                events looked at, if not all: who.hook, or hook
    CALL -> RESULT | key=value ...             one call: what it returned or raised, and what the
                                               trainer says afterwards, where not the usual AFTER
                                               (from the | on also on a line of its own)
      CM.on_fit_start                          its events, indented
    = key: value                               a further result, a Python literal

The edition is 2.2 unless said. A ``stateless`` fact is silent on counters, modes and stages.

An event is ``who.hook(arguments)``. Who: ``c1 c2 c3`` callbacks, ``M`` module, ``D`` data module,
``O`` optimizer, ``S`` scheduler, ``L`` logger; ``C`` is ``c1`` and ``c2``, and ``DCM`` the four in
this order. A callback's leading ``trainer, module`` is left out. ``{ ... }`` after an event holds
what happens inside it. ``[...]`` changes the state from here on: ``T`` or ``E`` (the module trains
or evaluates), ``G g i`` (gradients, none, inference mode), a stage, ``step+1``, ``epoch=2``, or a
submodule's mode (``drop=E``). ``@name(1, 2)`` stands for a ``block name(a, b)``, in which ``$a``
is replaced.
"""

import ast
import os
import re
from collections import namedtuple

from .trace import STAGES, Event

Fact = namedtuple("Fact", "name edition needs stateless rule only calls results")
Call = namedtuple("Call", "name result after events")

# What a trainer says after a call that went as usual.
AFTER = {
    "global_step": 0, "current_epoch": 0, "should_stop": False, "interrupted": False,
    "num_training_batches": float("inf"), "max_epochs": 1, "min_epochs": 0, "max_steps": -1,
    "num_sanity_val_steps": 2, "is_last_batch": False, "status": "FINISHED", "stage": "None",
    "fn": "FITTING", "grad_enabled": True, "module_training": True,
}
NAMES = ("status", "stage", "fn")
# Short for what differs in nearly every call.
SHORT = {
    "step": "global_step", "epoch": "current_epoch", "batches": "num_training_batches",
    "last": "is_last_batch", "sanity": "num_sanity_val_steps",
}

ARGS = r"\((?:[^()]|\([^()]*\))*\)"
TOKEN = re.compile(
    r"\s*(?:(\[[^\]]*\])|([{}])|@(\w+)(%s)?|((?:c\d|[A-Z])+)\.(\w+)(%s)?)" % (ARGS, ARGS))
WHO = re.compile(r"c\d|O[AB]|[A-Z]")
FACTS = os.path.join(os.path.dirname(__file__), "facts")


def load(name, blocks=None):
    """Return the facts of ``facts/NAME.txt``, by scenario; blocks are read from and added to."""
    with open(os.path.join(FACTS, name + ".txt"), encoding="utf-8") as file:
        return parse(file.read(), {} if blocks is None else blocks)


def parse(text, blocks=None):
    """Return the facts of a text, by scenario."""
    blocks = {} if blocks is None else blocks
    facts, fact, current, literals = {}, None, None, []
    for number, full in enumerate(text.splitlines(), 1):
        raw = full.split("#")[0].rstrip()
        word = raw.split(" ")[0]
        if not raw:
            continue
        elif raw.startswith("  | "):
            fact.calls[-1].after.update(_after(raw[4:]))
        elif raw.startswith(" "):
            current.append(raw)
        elif word == "block":
            name, params = re.match(r"block (\w+)(?:\(([^)]*)\))?$", raw).groups()
            current = []
            blocks[name] = (re.findall(r"\w+", params or ""), current)
        elif word == "fact":
            fact = _fact(raw)
            facts[fact.name] = fact
        elif word == "rule:":
            fact = facts[fact.name] = fact._replace(rule=raw[5:].strip())
        elif word == "only:":
            words = re.sub(r"@(\w+)", lambda found: " ".join(blocks[found.group(1)][1]), raw[5:])
            fact = facts[fact.name] = fact._replace(only=(fact.only or set()) | spread(words))
        elif word == "=":
            key, _, value = raw[2:].partition(":")
            current = [value]
            literals.append((fact, key, current))
        elif " -> " in raw:
            current = []
            fact.calls.append(_call(raw, current))
        else:
            raise ValueError("line %d of the facts is not understood: %s" % (number, full))
    for fact, key, lines in literals:
        fact.results[key] = ast.literal_eval(" ".join(line.strip() for line in lines).strip())
    return {name: _expanded(fact, blocks) for name, fact in facts.items()}


def spread(text):
    """Return the set of "who.hook" that words like "CM.setup" stand for; "setup" is any who's."""
    words = set()
    for word in text.split():
        who, dot, hook = word.rpartition(".")
        words |= {one + dot + hook for one in WHO.findall(who.replace("C", "c1c2")) or [""]}
    return words


def _fact(raw):
    _, name, *tags = raw.split()
    needs = {tag[6:] for tag in tags if tag.startswith("needs=")}
    edition = [tag for tag in tags if tag != "stateless" and "=" not in tag] or ["2.2"]
    return Fact(name, edition[0], needs, "stateless" in tags, "", None, [], {})


def _call(raw, lines):
    name, _, rest = raw.partition(" -> ")
    result, _, after = rest.partition(" | ")
    return Call(name, result.strip(), _after(after), lines)


def _after(text):
    changes = [part.split("=") for part in text.split()]
    return {SHORT.get(key, key): value if key in NAMES else _value(value)
            for key, value in changes}


def _value(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return float("inf") if text == "inf" else text


def _expanded(fact, blocks):
    state = dict(step=0, epoch=0, mode="T", grad="G", stage="no_stage", parts={})
    calls = []
    for each in fact.calls:
        events = []
        _read(" ".join(each.events), blocks, state, events, 0)
        calls.append(each._replace(events=events, after=dict(AFTER, **each.after)))
    return fact._replace(calls=calls)


def _read(text, blocks, state, events, depth):
    at = 0
    text = text.rstrip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if not found:
            raise ValueError("not a fact: %s" % text[at:at + 60])
        at = found.end()
        change, brace, block, values, who, hook, args = found.groups()
        if change:
            for word in change[1:-1].split():
                _change(state, word)
        elif brace:
            depth += 1 if brace == "{" else -1
        elif block:
            params, lines = blocks[block]
            body = " ".join(lines)
            for param, value in zip(params, [v.strip() for v in (values or "()")[1:-1].split(",")]):
                body = re.sub(r"\$%s\b" % param, value, body)
            _read(body, blocks, state, events, depth)
        else:
            for one in WHO.findall(who.replace("C", "c1c2")):
                events.append(_event(one, hook, (args or "()")[1:-1], depth, state))


def _event(who, hook, args, depth, state):
    parts = " ".join("%s=%s" % pair for pair in state["parts"].items())
    return Event(who, hook, args, depth, state["step"], state["epoch"], state["mode"],
                 state["grad"], state["stage"], parts)


def _change(state, word):
    name, sign, value = re.match(r"(\w+)([=+]?)(.*)", word).groups()
    if name in ("step", "epoch"):
        state[name] = int(value) + (state[name] if sign == "+" else 0)
    elif sign:
        state["parts"][name] = value
    elif word in STAGES or word == "no_stage":
        state["stage"] = word
    elif word in "TE":
        state["mode"] = word
    else:
        state["grad"] = word
