"""`utilities`: what is done in one process only, and the norms of gradients (lightning 2.2.5)."""

import importlib
import random
import sys

import pytest
import torch


@pytest.fixture
def utilities(impl):
    try:
        return importlib.import_module(impl.name + ".utilities")
    except ImportError:
        pytest.skip("no module utilities")


@pytest.fixture
def module():
    made = torch.nn.Sequential(torch.nn.Linear(2, 1))
    made(torch.ones(1, 2)).sum().backward()
    return made


@pytest.mark.parametrize("order, separator, expected", [
    (2, "/", {"grad_2.0_norm/0.weight": 2 ** 0.5, "grad_2.0_norm/0.bias": 1.0,
              "grad_2.0_norm_total": 3 ** 0.5}),
    ("inf", "/", {"grad_inf_norm/0.weight": 1.0, "grad_inf_norm/0.bias": 1.0,
                  "grad_inf_norm_total": 1.0}),
    (1, ".", {"grad_1.0_norm.0.weight": 2.0, "grad_1.0_norm.0.bias": 1.0,
              "grad_1.0_norm_total": 3.0}),
])
def test_grad_norm_has_one_norm_for_each_parameter_and_one_for_all(
        utilities, module, order, separator, expected):
    got = utilities.grad_norm(module, order, separator)
    assert {name: norm.item() for name, norm in got.items()} == pytest.approx(expected)


def test_grad_norm_without_gradients_has_no_norms(utilities):
    assert utilities.grad_norm(torch.nn.Linear(2, 1), 2) == {}


def test_grad_norm_refuses_an_order_of_zero(utilities, module):
    with pytest.raises(ValueError, match="norm_type"):
        utilities.grad_norm(module, 0)


def test_rank_zero_only_calls_in_the_first_process_only(utilities, monkeypatch):
    answer = utilities.rank_zero_only(lambda: 3)
    with_default = utilities.rank_zero_only(lambda: 3, default=5)
    assert answer() == with_default() == 3
    monkeypatch.setattr(utilities.rank_zero_only, "rank", 1)
    assert answer() is None
    assert with_default() == 5


def test_without_numpy_random_numbers_are_kept_and_a_seed_is_set(impl, monkeypatch):
    """And where a saved run had it, and this one has it not."""
    try:
        rng = importlib.import_module(impl.name + ".rng")
    except ImportError:
        pytest.skip("no module rng")
    monkeypatch.setitem(sys.modules, "numpy", None)
    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "0")

    def drawn():
        return [random.random(), torch.rand(1).item()]

    assert impl.seed_everything(3) == 3
    seeded, kept = drawn(), rng.rng_state()
    first = drawn()
    assert "numpy" not in kept
    rng.set_rng_state(dict(kept, numpy=["MT19937", [1] * 624, 624, 0, 0.0]))
    assert drawn() == first
    impl.seed_everything(3)
    assert drawn() == seeded


def test_random_numbers_of_gpus_are_kept(impl, monkeypatch):
    """Stand-ins for two GPUs; test_cuda.py asks a real one."""
    try:
        rng = importlib.import_module(impl.name + ".rng")
    except ImportError:
        pytest.skip("no module rng")
    states, given, there = [torch.tensor([1]), torch.tensor([2])], {}, [True, 2]
    stand_ins = dict(is_available=lambda: there[0], is_initialized=lambda: there[0],
                     device_count=lambda: there[1], get_rng_state_all=lambda: states,
                     set_rng_state=lambda state, device: given.update({device: state}))
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    kept = rng.rng_state()
    for there[:], expected in (([True, 2], [0, 1]), ([True, 1], [0]), ([False, 0], [])):
        given.clear()
        rng.set_rng_state(kept)
        assert [given[device] is states[device] for device in expected] == [True] * len(given)
    assert "cuda" not in rng.rng_state()  # on a machine without
