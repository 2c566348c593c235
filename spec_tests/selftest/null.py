"""An implementation that has every class and method, and does nothing. No clause may hold on it."""

import sys
import types

import torch

from .. import adapter

NAME = "null_implementation"


def make(real):
    """Return the null implementation that has what ``real`` has.

    Args:
        real: an ``adapter.Implementation``.
    """
    for name, places in adapter.CLASSES.items():
        for place in places if hasattr(real, name) else ():
            module, _, attribute = (NAME + "." + place).rpartition(".")
            setattr(_module(module), attribute, null(getattr(real, name)))
    made = adapter.Implementation(NAME)
    made.editions, made.divergences = real.editions, {}
    return made


def null(real):
    """Return a class that has the public names of ``real``, none of which does anything."""
    if not isinstance(real, type):
        return nothing
    base = torch.nn.Module if issubclass(real, torch.nn.Module) else object
    members = {name: nothing if callable(getattr(real, name)) else None for name in dir(real)
               if not name.startswith("_") and not hasattr(base, name)}
    members.update(__init__=_init(base), __getattr__=_attribute(base))
    if real.__name__ == "Trainer":
        members["__init__"] = _trainer
        members["__getattr__"] = lambda self, name: None
    return type(real.__name__, (base,), members)


def nothing(self=None, *args, **kwargs):
    """Do nothing."""


def _init(base):
    return lambda self, *args, **kwargs: base.__init__(self)


def _attribute(base):
    def attribute(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(base, "__getattr__", None)
        return found(self, name) if found else None
    return attribute


def _trainer(self, callbacks=None, **flags):
    self.__dict__.update(flags, callbacks=callbacks, state=types.SimpleNamespace())


def _module(name):
    if name not in sys.modules:
        sys.modules[name] = types.ModuleType(name)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(_module(parent), child, sys.modules[name])
    return sys.modules[name]
