"""Where the work runs. One process on the CPU; the place where other devices will stand."""
from __future__ import annotations

from typing import Any

import torch

from .errors import MisconfigurationException


class SingleDevice:
    """One process, one device.

    Args:
        root_device: where the module and its batches live.

    `barrier`, `broadcast`, `reduce` and `all_gather` have nobody to speak to and return at once.
    """

    global_rank = local_rank = node_rank = 0
    world_size = 1
    is_global_zero = True
    distributed_sampler_kwargs: dict[str, int] | None = None

    def __init__(self, root_device: torch.device) -> None:
        self.root_device = root_device

    def prepares_data(self, per_node: bool) -> bool:
        """Whether `prepare_data` runs in this process."""
        return True

    def barrier(self, name: str | None = None) -> None:
        """Wait until every process has come here."""

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """The object that process `src` has."""
        return obj

    def reduce(self, tensor: Any, group: Any = None, reduce_op: str = "mean") -> Any:
        """The tensor reduced over all processes."""
        return tensor

    def all_gather(self, tensor: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """The tensors of all processes, stacked."""
        return tensor


def choose(
    accelerator: Any, devices: Any, num_nodes: Any, strategy: Any, precision: Any
) -> SingleDevice:
    """The device for the trainer's flags.

    Raises:
        MisconfigurationException: a device, strategy or precision that is known but not there yet,
            or a value that is out of range.
        ValueError: a name that is not known, as in Lightning 2.2.
        TypeError: `devices` of a wrong type, as in Lightning 2.2.
    """
    _known("accelerator", accelerator, ("auto", "cpu"), ("cuda", "gpu", "mps", "tpu", "hpu"))
    _known("strategy", strategy, ("auto",), ("ddp", "fsdp", "deepspeed", "ddp_spawn", "dp"))
    _known("precision", precision, ("32-true", "32", 32, None), (
        "64-true", "64", 64, "bf16-mixed", "bf16", "bf16-true", "16-mixed", "16", 16, "16-true"))
    if not isinstance(num_nodes, int) or num_nodes < 1:
        raise ValueError(f"`Trainer(num_nodes={num_nodes!r})`: accepted is an int of at least 1.")
    if num_nodes > 1:
        raise MisconfigurationException(
            f"`Trainer(num_nodes={num_nodes})`: several nodes are not supported yet; use 1."
        )
    _check_devices(devices)
    return SingleDevice(torch.device("cpu"))


def _known(flag: str, value: Any, here: tuple[Any, ...], later: tuple[Any, ...]) -> None:
    if value in here:
        return
    accepted = ", ".join(repr(each) for each in here)
    if value in later:
        raise MisconfigurationException(
            f"`Trainer({flag}={value!r})` is not supported yet; accepted are {accepted}."
        )
    raise ValueError(f"`Trainer({flag}={value!r})` is not known; accepted are {accepted}.")


def _check_devices(devices: Any) -> None:
    if devices in ("auto", "1", 1, -1, "-1") and devices is not True:
        return
    if not isinstance(devices, int) or isinstance(devices, bool):
        raise TypeError(
            f"`Trainer(devices={devices!r})`: accepted on the CPU are 'auto' and 1."
        )
    problem = "is out of range" if devices < 1 else "is more than is supported yet"
    raise MisconfigurationException(
        f"`Trainer(devices={devices})` {problem}; accepted on the CPU are 'auto' and 1."
    )
