"""A run goes on from wherever it was saved, as if it had not stopped: a part of torture.py.

What is asked here no implementation promises yet. Lightning 2.x keeps no random numbers, no sums of
an epoch and no gradients of a window, and it starts an interrupted epoch's loader from its first
row.
"""

import random
import tempfile

import pytest

torch = pytest.importorskip("torch")

from . import exact, torture  # noqa: E402
from .asking import ask  # noqa: E402

QUICK = [  # place, loader, flags
    (("on_train_batch_end", "c", 7), "shuffle", "window of 2"),
    (("on_train_batch_end", "c", 8), "set_epoch", "plain"),
    (("on_train_batch_end", "m", 8), "dict of two", "plain"),
    (("training_step", "m", 7), "stream", "window of 2"),
    (("validation_step", "m", 4), "mixed", "val every 2"),
    (("on_validation_end", "c", 3), "stateful, no length", "val every 2"),
    (("on_train_epoch_end", "c", 2), "sampler", "window of 2"),
    (("on_train_epoch_end", "c", 3), "own generator", "plain"),
    (("on_train_epoch_start", "c", 2), "stateful", "plain"),
    (("on_sanity_check_end", "c", 1), "shuffle", "plain"),
    (("lr_scheduler_step", "m", 4), "shuffle", "window of 2"),
    ("steps/step=4.ckpt", "2 workers", "window of 2"),
]


@pytest.fixture
def name(impl, request):
    ask(request, impl, "beyond")
    torture.quiet(impl.name)
    return impl.name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place, loader, flags", QUICK, ids=lambda value: str(value))
def test_beyond_a_resumed_run_is_bit_identical(name, place, loader, flags):
    with tempfile.TemporaryDirectory() as folder:
        assert exact.differences(name, folder, place, loader, exact.FLAGS[flags]) == []


@pytest.mark.filterwarnings("ignore")
def test_beyond_kills_and_full_disks_cost_nothing(name):
    counts = torture.torture(name, 3, 1, random.Random(1))
    assert counts.is_clean(), "\n".join([str(counts), *counts.told])
    assert counts.kills == 3
