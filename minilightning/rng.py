"""The random numbers of a run: of Python, NumPy, torch and CUDA, and of loaders of their own."""
from __future__ import annotations

import importlib
import random
import sys
from typing import Any

import torch


def rng_state() -> dict[str, Any]:
    """The state of every global generator in use, in plain containers and tensors."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")  # None in there means that it may not be imported
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state(legacy=True)
        state["numpy"] = [kind, keys.tolist(), *rest]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_rng_state(state: dict[str, Any]) -> None:
    """Set every global generator to a state from `rng_state`.

    Args:
        state: what it gave, maybe in another process.
    """
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        _set_numpy(*state["numpy"])
    if "cuda" in state and torch.cuda.is_available():
        for device, each in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(each, device)


def _set_numpy(kind: str, keys: list[int], *rest: Any) -> None:
    try:
        numpy = importlib.import_module("numpy")  # the saved run had it
    except ImportError:
        return
    numpy.random.set_state((kind, numpy.array(keys, dtype="uint32"), *rest))


def generators_of(loaders: list[Any]) -> list[torch.Generator]:
    """The generators that loaders and their samplers draw from instead of the global one.

    Args:
        loaders: any iterables.
    """
    found: dict[int, torch.Generator] = {}
    for loader in loaders:
        batches = getattr(loader, "batch_sampler", None)
        owners = (
            loader,
            getattr(loader, "sampler", None),
            batches,
            getattr(batches, "sampler", None),
        )
        for owner in owners:
            whole = getattr(owner, "whole", owner)  # of a `Share` between processes
            generator = getattr(whole, "generator", None)
            if isinstance(generator, torch.Generator):
                found[id(generator)] = generator
    return list(found.values())


def states_of(loaders: list[Any]) -> list[torch.Tensor]:
    """The state of each of the loaders' own generators.

    Args:
        loaders: any iterables.
    """
    return [generator.get_state() for generator in generators_of(loaders)]


def set_states(loaders: list[Any], states: list[torch.Tensor]) -> None:
    """Set the loaders' own generators to what `states_of` gave.

    Args:
        loaders: any iterables.
        states: one for each of their generators.
    """
    for generator, state in zip(generators_of(loaders), states):
        generator.set_state(state)
