"""A run goes on from wherever it was saved, as if it had not stopped: a part of what torture.py and
exact_matrix.py ask. Two processes are asked with ``MORE_PROCESSES=1``, as `make processes` does.

What is asked here no implementation promises yet. Lightning 2.x keeps no random numbers, no sums of
an epoch and no gradients of a window, and it starts an interrupted epoch's loader from its first
row.
"""

import os
import random
import tempfile

import pytest

torch = pytest.importorskip("torch")

from . import exact, exact_matrix, torture  # noqa: E402
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
    (("on_train_epoch_end", "m", 3), "shuffle", "plain"),
    (("on_train_epoch_start", "c", 2), "stateful", "plain"),
    (("on_sanity_check_end", "c", 1), "shuffle", "plain"),
    (("lr_scheduler_step", "m", 4), "shuffle", "window of 2"),
    ("steps/step=4.ckpt", "2 workers", "window of 2"),
    ("steps/step=2.ckpt", "2 that stay", "window of 2"),
    (("on_train_batch_end", "c", 7), "shuffle", "16-mixed"),
    (("on_after_backward", "c", 9), "own generator", "16-mixed"),
    (("on_after_backward", "c", 9), "stateful", "window of 2"),
]
TORCHDATA = [  # the same for torchdata's StatefulDataLoader
    (("on_sanity_check_end", "c", 1), "torchdata, 2", "plain"),
    (("on_train_batch_end", "c", 7), "torchdata", "window of 2"),
    (("on_train_batch_end", "m", 8), "torchdata, 2", "val every 2"),
    (("on_train_batch_end", "c", 10), "torchdata", "plain"),
    (("on_train_epoch_end", "c", 2), "torchdata", "plain"),
    (("on_train_epoch_start", "c", 2), "torchdata, 2", "plain"),
    ("steps/step=4.ckpt", "torchdata, stream", "window of 2"),
]
BY_TWO = [  # the same in two processes
    (("on_train_batch_end", "c", 7), "shuffle", "16-mixed"),
    (("on_train_batch_end", "c", 10), "shuffle", "window of 2"),
    (("on_before_backward", "c", 8), "own generator", "window of 2"),
    (("on_validation_end", "c", 2), "dict of two", "window of 2"),
    (("on_train_epoch_end", "c", 2), "sampler", "plain"),
    (("on_after_backward", "c", 9), "stateful", "16-mixed"),
    ("best/last.ckpt", "2 workers", "window of 2"),
]


@pytest.fixture
def name(impl, request):
    ask(request, impl, "beyond")
    exact.quiet(impl.name)
    return impl.name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place, loader, flags", QUICK, ids=lambda value: str(value))
def test_beyond_a_resumed_run_is_bit_identical(name, place, loader, flags):
    with tempfile.TemporaryDirectory() as folder:
        assert exact.differences(name, folder, place, loader, exact.FLAGS[flags]) == []


def test_beyond_a_scaled_run_skips_steps_and_grows(name, tmp_path):
    end = exact.play(name, str(tmp_path), "shuffle", exact.FLAGS["16-mixed"], 5)
    scales = [draws[-1] for _, _, _, draws in end["batches and draws"]]
    pairs = list(zip(scales, scales[1:]))
    assert any(b > a for a, b in pairs) and any(b < a for a, b in pairs), scales


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(exact.StatefulDataLoader is None, reason="torchdata is not installed")
@pytest.mark.parametrize("place, loader, flags", TORCHDATA, ids=lambda value: str(value))
def test_beyond_torchdata_is_asked_for_its_place(name, tmp_path, place, loader, flags):
    assert exact.differences(name, str(tmp_path), place, loader, exact.FLAGS[flags]) == []


@pytest.mark.skipif("MORE_PROCESSES" not in os.environ, reason="takes long; MORE_PROCESSES=1")
def test_beyond_a_resumed_run_of_two_processes_is_bit_identical(name):
    assert exact_matrix.played_by_two(name, BY_TWO) == [[]] * len(BY_TWO)


@pytest.mark.filterwarnings("ignore")
def test_beyond_kills_and_full_disks_cost_nothing(name):
    counts = torture.torture(name, 3, 1, random.Random(1))
    assert counts.is_clean(), "\n".join([str(counts), *counts.told])
    assert counts.kills == 3
