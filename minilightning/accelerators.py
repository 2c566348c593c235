"""The devices of one process: the CPU, one GPU, Apple's GPU; a new kind is a class of this size."""
from __future__ import annotations

from typing import Any

import torch

from .errors import MisconfigurationException


class Accelerator:
    """A kind of device. Derive from it, and give an instance as `Trainer(accelerator=...)`.

    Attributes:
        name: of the device's type in torch.
        backend: how processes on such devices speak with each other, in torch.distributed.

    Source: edition 2.2, `Trainer(accelerator=...)`.
    """

    name = "cpu"
    backend = "gloo"

    def count(self) -> int:
        """How many devices this machine has."""
        return 1

    def device(self, number: int) -> torch.device:
        """One of them; the process makes it its own.

        Args:
            number: which, counted from 0.

        Returns:
            The device, as torch calls it.
        """
        return torch.device(self.name)

    def numbers(self, devices: Any) -> list[int]:
        """What `Trainer(devices=...)` asks for, as numbers of devices.

        Args:
            devices: how many, -1 for all, a list of numbers, or one of these as a string.

        Returns:
            The numbers, counted from 0; one process gets each.

        Raises:
            MisconfigurationException: a device that is not there.
            TypeError: none of these, as in Lightning 2.2.
        """
        there = list(range(self.count()))
        asked = _parsed(devices)
        wanted = there if asked == -1 else list(range(asked)) if isinstance(asked, int) else asked
        if not wanted or len(set(wanted)) < len(wanted) or not set(wanted) <= set(there):
            raise MisconfigurationException(
                f"`Trainer(devices={devices!r})`: of {self.name!r} there are the devices {there}. "
                f"Accepted are how many of them (1 to {len(there)}), a list of different numbers, "
                "-1 and 'auto' for all."
            )
        return wanted


class CPUAccelerator(Accelerator):
    """The CPU: as many processes as one likes, each with the whole of it."""

    def numbers(self, devices: Any) -> list[int]:
        """What `Trainer(devices=...)` asks for: processes, since all of them share the CPU.

        Args:
            devices: how many processes, as an int or a string; -1 is one.

        Returns:
            A number for each process.

        Raises:
            MisconfigurationException: 0 processes.
            TypeError: a list, or a number below -1, as in Lightning 2.2.
        """
        asked = _parsed(devices)
        if not asked:
            raise MisconfigurationException(
                f"`Trainer(devices={devices!r})` is out of range; accepted on the CPU are an int "
                "of at least 1, -1 and 'auto' for 1."
            )
        if isinstance(asked, list) or asked < -1:
            raise TypeError(
                f"`Trainer(devices={devices!r})`: on the CPU `devices` is how many processes there "
                "are. Accepted are an int of at least 1, -1 and 'auto' for 1."
            )
        return list(range(abs(asked)))


class CUDAAccelerator(Accelerator):
    """NVIDIA's GPUs (and AMD's, where torch is built for them)."""

    name = "cuda"
    backend = "nccl"

    def count(self) -> int:
        """How many GPUs torch sees."""
        return torch.cuda.device_count()

    def device(self, number: int) -> torch.device:
        """A GPU, which becomes the current one."""
        torch.cuda.set_device(number)
        return torch.device("cuda", number)


class MPSAccelerator(Accelerator):
    """The GPU of Apple's own chips."""

    name = "mps"

    def count(self) -> int:
        """One, where there is one."""
        return int(torch.backends.mps.is_available())

    def device(self, number: int) -> torch.device:
        """The GPU."""
        return torch.device("mps", number)


ACCELERATORS = {
    "cpu": CPUAccelerator,
    "cuda": CUDAAccelerator,
    "gpu": CUDAAccelerator,
    "mps": MPSAccelerator,
}


def choose_accelerator(accelerator: Any) -> Accelerator:
    """The accelerator for `Trainer(accelerator=...)`.

    Args:
        accelerator: a name, an instance, or "auto": the first of CUDA, MPS, CPU that is there.

    Raises:
        MisconfigurationException: there is no such device on this machine.
        ValueError: a name that is not known, as in Lightning 2.2.
    """
    if isinstance(accelerator, Accelerator):
        return accelerator
    gpu = MPSAccelerator if MPSAccelerator().count() else CUDAAccelerator
    kinds = {**ACCELERATORS, "gpu": gpu}
    if accelerator == "auto":
        return gpu() if gpu().count() else CPUAccelerator()
    if accelerator not in kinds:
        raise ValueError(
            f"`Trainer(accelerator={accelerator!r})` is not known; accepted are 'auto', "
            f"{', '.join(map(repr, kinds))}, and an `Accelerator` of your own."
        )
    chosen = kinds[accelerator]()
    if not chosen.count():
        raise MisconfigurationException(
            f"`Trainer(accelerator={accelerator!r})`: torch sees no such device on this machine. "
            "Use accelerator='cpu', or 'auto' for the best one there is."
        )
    return chosen


def _parsed(devices: Any) -> int | list[int]:
    """`devices` as a count, or as a list of numbers."""
    asked = devices
    if isinstance(devices, str):
        parts = [part.strip() for part in devices.strip(",").split(",")]
        if all(part.lstrip("-").isdigit() for part in parts):
            several = "," in devices
            asked = [int(part) for part in parts] if several else int(parts[0])
    if isinstance(asked, (list, tuple)) and all(type(each) is int for each in asked):
        return list(asked)
    if not isinstance(asked, int) or isinstance(asked, bool):
        raise TypeError(
            f"`Trainer(devices={devices!r})`: accepted are an int of at least 1, a list of "
            "numbers, -1, 'auto', and one of these as a string."
        )
    return asked
