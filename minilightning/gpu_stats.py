"""GPUStatsMonitor: memory, utilization and temperature of the GPUs, for the loggers."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from .callback import Callback
from .errors import MisconfigurationException
from .reporting import is_due

if TYPE_CHECKING:
    from .module import LightningModule
    from .trainer import Trainer

__all__ = ["GPUStatsMonitor"]

MB = 2**20
Reading = tuple[str, Callable[[int], Any]]  # a name, and what reads it from a device


class GPUStatsMonitor(Callback):
    """Pass figures of the GPUs to the loggers, at every `log_every_n_steps`, from one process.

    Names are those of `nvidia-smi --query-gpu`, such as `device_id: 0/memory.used (MB)`; what a
    GPU does not report is 0. It needs `nvidia-ml-py` (`pip install minilightning[gpu]`).

    Args:
        memory_utilization: memory in use and free, and the share of time in which it was read or
            written, before and after a batch.
        gpu_utilization: share of time in which kernels ran, before and after a batch.
        intra_step_time: how long a batch took, in ms.
        inter_step_time: how long it took from one batch to the next, in ms.
        fan_speed: in percent of the maximum, after a batch.
        temperature: of the GPU and its memory, in degrees Celsius, after a batch.

    Raises:
        MisconfigurationException: at the start of a run without a GPU, a logger, or nvidia-ml-py.

    Editions 1.1 and 1.5; names as in 1.5.10.
    """

    def __init__(
        self,
        memory_utilization: bool = True,
        gpu_utilization: bool = True,
        intra_step_time: bool = False,
        inter_step_time: bool = False,
        fan_speed: bool = False,
        temperature: bool = False,
    ) -> None:
        self._times = ["intra"] * intra_step_time + ["inter"] * inter_step_time
        self._before = _UTILIZATION * gpu_utilization + _MEMORY * memory_utilization
        self._after = self._before + _FAN * fan_speed + _TEMPERATURE * temperature
        self._step = 0  # of the running batch; the trainer counts on before it ends
        self._began: float | None = None
        self._ended: float | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Refuse a run in which there is nothing to read, or nobody to tell."""
        if not trainer.loggers:
            raise MisconfigurationException(
                "GPUStatsMonitor has no logger to tell. Leave out `Trainer(logger=False)`, or the "
                "callback."
            )
        device = trainer.strategy.root_device
        if device.type != "cuda":
            there = "there is one" if torch.cuda.is_available() else "CUDA finds none here"
            raise MisconfigurationException(
                f"GPUStatsMonitor needs a GPU, and this run is on `{device}` ({there}). Use "
                "`Trainer(accelerator='gpu')`, or leave the callback out."
            )
        try:
            _nvml("nvmlDeviceGetMemoryInfo", trainer.device_ids[0])
        except Exception as error:
            raise MisconfigurationException(
                f"GPUStatsMonitor cannot ask the GPU: {error!r}. It takes nvidia-ml-py: "
                "`pip install minilightning[gpu]`. Or leave the callback out."
            ) from error

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._began = self._ended = None

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._step = trainer._progress.stepping_batches
        self._log(trainer, self._before, "inter", self._ended)
        self._began = time.monotonic()

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self._ended = time.monotonic()
        self._log(trainer, self._after, "intra", self._began)

    def _log(
        self, trainer: Trainer, readings: Iterable[Reading], kind: str, since: float | None
    ) -> None:
        if not trainer.is_global_zero or not is_due(trainer, self._step + 1):
            return
        stats = {
            f"device_id: {device}/{name}": _reported(read, device)
            for device in trainer.device_ids
            for name, read in readings
        }
        if kind in self._times and since is not None:
            stats[f"batch_time/{kind}_step (ms)"] = (time.monotonic() - since) * 1000
        for logger in trainer.loggers if stats else ():
            logger.log_metrics(stats, step=self._step)


def _reported(read: Callable[[int], Any], device: int) -> float:
    from pynvml import NVMLError

    try:
        return float(read(device))
    except NVMLError:  # this model of GPU does not report it
        return 0.0


def _nvml(function: str, device: int, *arguments: Any) -> Any:
    """Ask NVML what torch.cuda does not offer, of the device that torch calls by this number."""
    import pynvml

    handle = torch.cuda._get_pynvml_handler(device)
    return getattr(pynvml, function)(handle, *arguments)


def _memory_temperature(device: int) -> float:
    from pynvml import NVML_FI_DEV_MEMORY_TEMP

    (field,) = _nvml("nvmlDeviceGetFieldValues", device, [NVML_FI_DEV_MEMORY_TEMP])
    return 0.0 if field.nvmlReturn else field.value.uiVal


# Memory is asked of NVML: torch.cuda.mem_get_info would take memory on each GPU that it asks.
_UTILIZATION: tuple[Reading, ...] = (
    ("utilization.gpu (%)", lambda device: torch.cuda.utilization(device)),
)
_MEMORY: tuple[Reading, ...] = (
    ("memory.used (MB)", lambda device: _nvml("nvmlDeviceGetMemoryInfo", device).used / MB),
    ("memory.free (MB)", lambda device: _nvml("nvmlDeviceGetMemoryInfo", device).free / MB),
    ("utilization.memory (%)", lambda device: torch.cuda.memory_usage(device)),
)
_FAN: tuple[Reading, ...] = (
    ("fan.speed (%)", lambda device: _nvml("nvmlDeviceGetFanSpeed", device)),
)
_TEMPERATURE: tuple[Reading, ...] = (
    ("temperature.gpu (°C)", lambda device: torch.cuda.temperature(device)),
    ("temperature.memory (°C)", _memory_temperature),
)
