"""`utilities`: what is done in one process only, and the norms of gradients (lightning 2.2.5)."""

import importlib

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
