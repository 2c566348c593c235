"""Modules that no one device can hold: each process keeps a share of every parameter.

The engine is torch's own: `torch.distributed.fsdp.fully_shard`.
"""
from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from .data import map_nested
from .precision import STEPS
from .signatures import overrides
from .strategies import DDPStrategy


class FSDPStrategy(DDPStrategy):
    """Several processes, each with its share of the parameters, gradients and optimizer states.

    What `__init__` and `configure_model` have made is sharded child by child, and then the rest:
    the parameters of a child are brought together while it computes. Checkpoints hold whole
    tensors, so that a run may go on with any strategy and any number of processes. Gradients are
    averaged by each backward pass, also inside a window, since whole ones would take more memory.

    Source: edition 2.2, `configure_model` and `Trainer(strategy="fsdp")`.
    """

    inference_mode = False  # what parameters are brought together in is used in training, too
    wraps_steps = True

    def wrap(self, module: nn.Module, trains: bool) -> Any:
        """Shard the module, once; its steps count as forward passes."""
        self._sharded: Any = module  # an FSDPModule, once it is sharded
        if isinstance(module, FSDPModule):
            return module
        mesh = init_device_mesh(self.root_device.type, (dist.get_world_size(),))
        for child in _parts(module):
            fully_shard(child, mesh=mesh)
        fully_shard(module, mesh=mesh)
        for step in filter(lambda name: overrides(module, name), STEPS):
            signature = inspect.signature(getattr(type(module), step))
            register_fsdp_forward_method(module, step)
            getattr(module, step).__func__.__signature__ = signature
        return module

    def evaluated(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches. A forward pass takes all processes: where one has no batch left, the others
        find the parameters together from then on."""
        end, rest = object(), iter(batches)
        batch = next(rest, end)
        while self.reduce_boolean_decision(batch is not end):
            yield batch
            batch = next(rest, end)
        if not self.reduce_boolean_decision(batch is not end, all=False):
            return
        self._sharded.set_reshard_after_forward(False)
        sharded = [each for each in self._sharded.modules() if isinstance(each, FSDPModule)]
        for part in sharded:
            part.unshard()
        while batch is not end:
            yield batch
            batch = next(rest, end)
        for part in sharded:
            part.reshard()
            part.set_reshard_after_forward(part is not self._sharded, recurse=False)

    def gradient(self, parameter: Any) -> Tensor | None:
        """This process's share of it."""
        grad = parameter.grad
        return grad.to_local() if isinstance(grad, DTensor) else grad

    def set_gradient(self, parameter: Any, value: Tensor) -> None:
        """Take this process's share of it back."""
        parameter.grad = DTensor.from_local(
            value.to(self.root_device),
            parameter.device_mesh,
            parameter.placements,
            shape=parameter.shape,
            stride=parameter.stride(),
        )

    def module_state(self, module: nn.Module) -> dict[str, Any]:
        """Whole tensors, on every process."""
        return get_model_state_dict(module, options=StateDictOptions(full_state_dict=True))

    def load_module(self, module: nn.Module, state: dict[str, Any], strict: bool) -> None:
        """Take this process's share of whole tensors."""
        if not isinstance(module, FSDPModule):
            super().load_module(module, state, strict)
            return
        set_model_state_dict(
            module, state, options=StateDictOptions(full_state_dict=True, strict=strict))

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """Whole tensors, under the numbers that they have without shares."""
        whole: dict[str, Any] = _whole(optimizer.state_dict(), None)
        return whole

    def load_optimizer(self, optimizer: Optimizer, state: dict[str, Any]) -> None:
        """Take this process's share of whole tensors."""
        parameters: list[Any] = []
        for group in optimizer.param_groups:
            parameters += group["params"]
        shares: dict[int, dict[str, Any]] = {}
        for number, kept in state["state"].items():
            shares[number] = {
                name: _share(value, parameters[number])
                for name, value in kept.items()
            }
        optimizer.load_state_dict({**state, "state": shares})


def _parts(module: nn.Module) -> Iterator[nn.Module]:
    """The children with parameters; those of a container that is never called itself."""
    for child in module.children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield from _parts(child)
        elif any(True for _ in child.parameters()):
            yield child


def _whole(tree: Any, _: None) -> Any:
    return tree.full_tensor() if isinstance(tree, DTensor) else map_nested(_whole, tree, None)


def _share(value: Any, parameter: Any) -> Any:
    if not isinstance(value, Tensor) or value.shape != parameter.shape or not value.ndim:
        return value
    there = value.to(parameter.device)
    return distribute_tensor(there, parameter.device_mesh, parameter.placements)
