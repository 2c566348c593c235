"""One seed for every random number generator."""
from __future__ import annotations

import os
import random
import sys

import torch



def seed_everything(seed: int | None = None, workers: bool = False, verbose: bool = True) -> int:
    """Seed Python, NumPy if it is imported, and torch on every device.

    Args:
        seed: from 0 to 2**32 - 1; None takes PL_GLOBAL_SEED from the environment, or 0.
        workers: accepted for Lightning's signature; torch seeds loader workers from its own
            generator, which is seeded here.
        verbose: accepted for Lightning's signature.

    Returns:
        The seed.

    Raises:
        ValueError: a seed out of range.

    Source: edition 2.2.
    """
    if seed is None:
        seed = int(os.environ.get("PL_GLOBAL_SEED", 0))
    if not 0 <= int(seed) < 2**32:
        raise ValueError(f"`seed_everything({seed})`: a seed lies between 0 and 2**32 - 1.")
    os.environ["PL_GLOBAL_SEED"] = str(seed)
    os.environ["PL_SEED_WORKERS"] = str(int(workers))
    random.seed(seed)
    if sys.modules.get("numpy") is not None:
        sys.modules["numpy"].random.seed(seed)
    torch.manual_seed(seed)
    return int(seed)
