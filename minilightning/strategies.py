"""How the processes of a run work together: one alone, or several that average gradients.

The engine is torch's own: `torch.distributed` and `DistributedDataParallel`.
"""
from __future__ import annotations

import atexit
import pickle
import warnings
from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from .accelerators import Accelerator, CPUAccelerator, choose_accelerator
from .data import map_nested
from .errors import MisconfigurationException, listed
from .processes import Processes, find_processes, processes_per_node, under_torchrun

T = TypeVar("T")
_meetings = count()  # names for what the processes of a job do together, in the same order
FOR_EVER = timedelta(days=1000)
MERGED = {"sum": "SUM", "mean": "SUM", "avg": "SUM", "min": "MIN", "max": "MAX"}


class SingleDeviceStrategy:
    """One process, one device. What several do together has nobody to wait for and returns at once.

    Attributes:
        root_device: where the module and its batches live.
        device_ids: numbers of the devices that this node uses.

    Source: edition 2.2, `trainer.strategy`.
    """

    inference_mode = True  # whether evaluation may run in it
    wraps_steps = False  # whether `wrap` replaces methods of the module

    def __init__(self) -> None:
        self.accelerator: Accelerator = CPUAccelerator()
        self.processes = Processes()
        self.root_device = torch.device("cpu")
        self.device_ids = [0]

    def place(self, accelerator: Accelerator, device_ids: list[int], of: Processes) -> None:
        """Say which device this process has, and which of the processes it is.

        Args:
            accelerator: whose device it is.
            device_ids: numbers of the devices that this node uses, one for each of its processes.
            of: this process among all.
        """
        self.accelerator, self.device_ids, self.processes = accelerator, device_ids, of
        self.root_device = accelerator.device(device_ids[of.local_rank])

    @property
    def global_rank(self) -> int:
        """This process among all."""
        return self.processes.global_rank

    @property
    def local_rank(self) -> int:
        """This process on its node."""
        return self.processes.local_rank

    @property
    def node_rank(self) -> int:
        """This node among all."""
        return self.processes.node_rank

    @property
    def world_size(self) -> int:
        """How many processes there are."""
        return self.processes.world_size

    @property
    def is_global_zero(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.global_rank == 0

    def prepares_data(self, per_node: bool) -> bool:
        """Whether `prepare_data` runs in this process (seed 2.2).

        Args:
            per_node: on local rank 0 of every node, instead of global rank 0 alone.
        """
        return (self.local_rank if per_node else self.global_rank) == 0

    def begin_run(self) -> None:
        """Say that a run begins, whose data is not prepared yet."""

    def wait_for_data(self) -> None:
        """Wait until all that prepare data have done so, however long it takes."""

    def connect(self) -> None:
        """Let the processes speak with each other."""

    def disconnect(self, error: BaseException | None = None) -> None:
        """End it, so that no other process waits for one that has failed.

        Args:
            error: what has ended the run; None: nothing has.
        """

    def wrap(self, module: nn.Module, trains: bool) -> Any:
        """The module as it is called.

        Args:
            module: of this run, on its device.
            trains: whether it is to be trained.
        """
        return module

    def evaluated(self, batches: Iterable[Any]) -> Iterable[Any]:
        """The batches of an evaluation, of which processes may have different numbers.

        Args:
            batches: those of this process.
        """
        return batches

    def gradient(self, parameter: nn.Parameter) -> Tensor | None:
        """What a checkpoint keeps of a gradient.

        Args:
            parameter: whose; with its `grad`, or None in it.
        """
        return parameter.grad

    def set_gradient(self, parameter: nn.Parameter, value: Tensor) -> None:
        """Give a parameter back what a checkpoint keeps of its gradient.

        Args:
            parameter: that gets it.
            value: of the parameter's shape, on any device.
        """
        parameter.grad = value.to(parameter.device)

    def module_state(self, module: nn.Module) -> dict[str, Any]:
        """What a checkpoint keeps of a module.

        Args:
            module: whose parameters and buffers are kept, by name.
        """
        return module.state_dict()

    def load_module(self, module: nn.Module, state: dict[str, Any], strict: bool) -> None:
        """Give a module back what a checkpoint keeps of it.

        Args:
            module: that takes them.
            state: tensors by name, as `module_state` gave them.
            strict: refuse names that are missing or too many.
        """
        module.load_state_dict(state, strict=strict)

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """What a checkpoint keeps of an optimizer.

        Args:
            optimizer: whose state is kept.
        """
        return optimizer.state_dict()

    def load_optimizer(self, optimizer: Optimizer, state: dict[str, Any]) -> None:
        """Give an optimizer back what a checkpoint keeps of it.

        Args:
            optimizer: that takes it.
            state: as `optimizer_state` gave it.
        """
        optimizer.load_state_dict(state)

    def synchronize_buffers(self, module: nn.Module) -> None:
        """Give the buffers of all processes the values of the first.

        Args:
            module: whose buffers.
        """

    def before_backward(self, loss: Tensor, averages: bool) -> Tensor:
        """The loss whose backward pass averages the gradients of all processes, if it shall.

        Args:
            loss: a scalar, of this process.
            averages: whether this backward pass is the last of its accumulation window.
        """
        return loss

    def barrier(self, name: str | None = None) -> None:
        """Wait until every process has come here.

        Args:
            name: says for what; it changes nothing.
        """

    def broadcast(self, obj: T, src: int = 0) -> T:
        """The object that process `src` has.

        Args:
            obj: that of this process; anything that can be pickled.
            src: rank of the process whose object all get.
        """
        return obj

    def reduce(self, tensor: Any, group: Any = None, reduce_op: str = "mean") -> Any:
        """The tensor, or each in a nesting, reduced over all processes.

        Args:
            tensor: of the same shape on every process; anything else comes back as it is.
            group: the processes; None: all.
            reduce_op: "mean" (or "avg"), "sum", "min" or "max".
        """
        return tensor

    def all_gather(self, tensor: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """The tensors of all processes, stacked.

        Args:
            tensor: of the same shape on every process; also a number, or a nesting of them.
            group: the processes; None: all.
            sync_grads: let gradients flow back to each process.
        """
        return tensor

    def gather_objects(self, obj: T) -> list[T]:
        """What each process gives, by rank.

        Args:
            obj: that of this process; anything that can be pickled.
        """
        return [obj]

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        """One decision for all processes: whether all of them, or any of them, say so.

        Args:
            decision: what this process says.
            all: whether all have to say so, or one is enough.
        """
        return decision


class DDPStrategy(SingleDeviceStrategy):
    """Several processes, each with the whole module and its share of the data.

    Args:
        find_unused_parameters: some parameters may have no part in a loss.
        static_graph: every batch uses the same parameters in the same way.
        gradient_as_bucket_view: gradients are views of what is sent, which saves memory.
        process_group_backend: of torch.distributed; by default that of the accelerator.
        timeout: after so long, a process that waits for another one gives up.

    Source: edition 2.2, `Trainer(strategy="ddp")`; the engine is torch's DistributedDataParallel.
    """

    def __init__(
        self,
        find_unused_parameters: bool = False,
        static_graph: bool = False,
        gradient_as_bucket_view: bool = False,
        process_group_backend: str | None = None,
        timeout: timedelta = timedelta(minutes=30),
    ) -> None:
        super().__init__()
        self.find_unused_parameters = find_unused_parameters
        self.static_graph = static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.process_group_backend = process_group_backend
        self.timeout = timeout
        self._store: Any = None
        self._small: Any = None  # a group for decisions, which are made on the CPU
        self._averaging: Any = None
        self._has_data = True

    def begin_run(self) -> None:
        """Say that a run begins, whose data is not prepared yet."""
        self._has_data = False

    def wait_for_data(self) -> None:
        """Meet in the store that torchrun keeps, before there is a process group: it knows no
        timeout but the one that is given here.

        Raises:
            RuntimeError: another process has failed before it came here.
        """
        if self.world_size == 1:
            return
        name, self._has_data = f"data{next(_meetings)}", True
        if self._the_store().add(name, 1) == self.world_size:
            self._the_store().set(name + "/go", "ready")
        self._the_store().wait([name + "/go"], FOR_EVER)
        said = self._the_store().get(name + "/go").decode()
        if said != "ready":
            raise RuntimeError(f"Another process failed before its data was prepared: {said}")

    def connect(self) -> None:
        """Make the process group, once for all trainers of this process."""
        if not dist.is_initialized():
            backend = self.process_group_backend or self.accelerator.backend
            dist.init_process_group(
                backend, timeout=self.timeout, rank=self.global_rank, world_size=self.world_size,
                store=dist.PrefixStore(f"group{next(_meetings)}", self._the_store()))
            atexit.register(self.disconnect)
        if self._small is None:
            gloo = dist.get_backend() == "gloo"
            self._small = dist.group.WORLD if gloo else dist.new_group(backend="gloo")

    def disconnect(self, error: BaseException | None = None) -> None:
        """End the process group; who waits for this process learns of it at once."""
        if not self._has_data and self.world_size > 1:
            self._the_store().set(f"data{next(_meetings)}/go", f"{type(error).__name__}: {error}")
        self._has_data = True
        if dist.is_initialized():
            dist.destroy_process_group()
        self._small = self._averaging = None

    def _the_store(self) -> Any:
        if self._store is None and self.world_size == 1:
            self._store = dist.HashStore()
        elif self._store is None:
            self._store, _, _ = next(dist.rendezvous("env://", timeout=FOR_EVER))
        return self._store

    def wrap(self, module: nn.Module, trains: bool) -> Any:
        """DistributedDataParallel around the module, if it is to be trained."""
        if not trains or not any(parameter.requires_grad for parameter in module.parameters()):
            return module
        with warnings.catch_warnings():  # newer torch has another name for `broadcast_buffers`
            warnings.simplefilter("ignore", FutureWarning)
            self._averaging = nn.parallel.DistributedDataParallel(
                _Identity(module), broadcast_buffers=False, static_graph=self.static_graph,
                find_unused_parameters=self.find_unused_parameters,
                gradient_as_bucket_view=self.gradient_as_bucket_view)
        return self._averaging

    def synchronize_buffers(self, module: nn.Module) -> None:
        """As DistributedDataParallel does before each forward pass."""
        for work in [dist.broadcast(each, 0, async_op=True) for each in module.buffers()]:
            work.wait()

    def before_backward(self, loss: Tensor, averages: bool) -> Tensor:
        """Pass the loss through DistributedDataParallel, which then averages in its backward pass.

        Inside an accumulation window the loss stays outside of it: gradients add up locally, and
        the last backward pass of the window averages the sums.
        """
        return self._averaging(loss) if averages and self._averaging is not None else loss

    def barrier(self, name: str | None = None) -> None:
        """Wait until every process has come here."""
        if dist.is_initialized():
            dist.barrier(group=self._small)

    def broadcast(self, obj: T, src: int = 0) -> T:
        """The object that process `src` has; anything that can be pickled."""
        if not dist.is_initialized():
            return obj
        packed = _packed(obj)
        size = torch.tensor(len(packed))
        dist.broadcast(size, src, group=self._small)
        if self.global_rank != src:
            packed = torch.empty(int(size), dtype=torch.uint8)
        dist.broadcast(packed, src, group=self._small)
        received: T = _unpacked(packed)
        return received

    def reduce(self, tensor: Any, group: Any = None, reduce_op: str = "mean") -> Any:
        """The tensor, or each in a nesting, reduced over all processes."""
        name = str(getattr(reduce_op, "name", reduce_op) or "sum").lower()
        if name not in MERGED:
            raise MisconfigurationException(
                f"`strategy.reduce(reduce_op={reduce_op!r})`: accepted are {listed(MERGED)}."
            )
        if not isinstance(tensor, Tensor):
            return map_nested(self._reduce_child, tensor, (group, name))
        reduced = tensor.detach().clone().to(self.root_device)
        dist.all_reduce(reduced, getattr(dist.ReduceOp, MERGED[name]), group=group)
        if name not in ("mean", "avg"):
            return reduced
        number = dist.get_world_size(group)
        return reduced / number if reduced.is_floating_point() else reduced // number

    def _reduce_child(self, child: Any, how: tuple[Any, str]) -> Any:
        return self.reduce(child, *how)

    def all_gather(self, tensor: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """The tensors of all processes, stacked along a new first dimension; also in a nesting.

        Args:
            tensor: of the same shape on every process.
            group: the processes; None: all.
            sync_grads: let gradients flow back to each process.
        """
        if not isinstance(tensor, Tensor):
            if isinstance(tensor, (int, float)):
                return self.all_gather(torch.tensor(tensor), group, sync_grads)
            return map_nested(self._gather_child, tensor, (group, sync_grads))
        import torch.distributed.nn.functional as with_grad

        there = tensor.to(self.root_device).contiguous()
        if sync_grads:
            group = dist.group.WORLD if group is None else group
            return torch.stack(with_grad.all_gather(there, group))
        gathered = [torch.empty_like(there) for _ in range(dist.get_world_size(group))]
        dist.all_gather(gathered, there.detach(), group=group)
        return torch.stack(gathered)

    def _gather_child(self, child: Any, how: tuple[Any, bool]) -> Any:
        return self.all_gather(child, *how)

    def gather_objects(self, obj: T) -> list[T]:
        """What each process gives, by rank."""
        packed = _packed(obj)
        size = torch.tensor(len(packed))
        sizes = [torch.tensor(0) for _ in range(self.world_size)]
        dist.all_gather(sizes, size, group=self._small)
        largest = int(max(sizes))
        padded = torch.zeros(largest, dtype=torch.uint8)
        padded[:len(packed)] = packed
        gathered = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(gathered, padded, group=self._small)
        return [
            _unpacked(each[:int(size)])
            for each, size in zip(gathered, sizes)
        ]

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        """One decision for all processes: whether all of them, or any of them, say so."""
        said = torch.tensor(int(bool(decision)))
        dist.all_reduce(said, dist.ReduceOp.MIN if all else dist.ReduceOp.MAX, group=self._small)
        return bool(said)


def __getattr__(name: str) -> Any:
    if name == "FSDPStrategy":
        from .fsdp import FSDPStrategy  # torch takes a while to import what it needs

        return FSDPStrategy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


DDP = DDPStrategy
BY_NAME: dict[str, Callable[[], DDPStrategy]] = {
    "ddp": DDPStrategy,
    "ddp_find_unused_parameters_true": lambda: DDPStrategy(find_unused_parameters=True),
    "ddp_find_unused_parameters_false": DDPStrategy,
    "fsdp": lambda: __getattr__("FSDPStrategy")(),
}
KNOWN = ", ".join(map(repr, BY_NAME))
INSTEAD = {  # strategies of Lightning that are not here
    "ddp_spawn": "'ddp'", "ddp_fork": "'ddp'", "ddp_notebook": "'ddp', in a script",
    "dp": "'ddp'", "deepspeed": "'fsdp'", "single_device": "'auto'",
}


def _packed(obj: Any) -> Tensor:
    """An object as bytes in a tensor; torch's own way of sending objects needs NumPy."""
    pickled = bytearray(pickle.dumps(obj))
    return torch.frombuffer(pickled, dtype=torch.uint8)


def _unpacked(packed: Tensor) -> Any:
    pickled = bytes(packed.tolist())
    return pickle.loads(pickled)


class _Identity(nn.Module):
    """What DistributedDataParallel wraps: the parameters of a module, and a loss that was computed
    outside of it. `training_step` is so called as it is, and may return None."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, loss: Tensor) -> Tensor:
        return loss


def choose_strategy(accelerator: Any, devices: Any, num_nodes: Any, strategy: Any
                    ) -> SingleDeviceStrategy:
    """The strategy for the trainer's flags, with its device and its place among the processes.

    Args:
        accelerator: as for `choose_accelerator`.
        devices: how many on each node, a list of numbers, -1 or "auto".
        num_nodes: how many machines.
        strategy: a name, an instance, or "auto".

    Raises:
        MisconfigurationException: devices that are not there, or another number of processes than
            torchrun has started.
        ValueError: a name that is not known, as in Lightning 2.2.
        TypeError: `devices` of a wrong type, as in Lightning 2.2.
    """
    if not isinstance(num_nodes, int) or isinstance(num_nodes, bool) or num_nodes < 1:
        raise ValueError(f"`Trainer(num_nodes={num_nodes!r})`: accepted is an int of at least 1.")
    kind = choose_accelerator(accelerator)
    if devices == "auto":
        devices = processes_per_node() if under_torchrun() else -1
    device_ids = kind.numbers(devices)
    of = find_processes(len(device_ids), num_nodes)
    if strategy == "auto":
        strategy = "ddp" if of.world_size > 1 else SingleDeviceStrategy()
    if isinstance(strategy, str):
        if strategy not in BY_NAME:
            instead = f" Write {INSTEAD[strategy]}." if strategy in INSTEAD else ""
            raise ValueError(
                f"`Trainer(strategy={strategy!r})` is not known.{instead} Accepted are 'auto', "
                f"{KNOWN}, and a strategy object such as `DDPStrategy(...)`."
            )
        strategy = BY_NAME[strategy]()
    if not isinstance(strategy, SingleDeviceStrategy):
        raise ValueError(
            f"`Trainer(strategy={strategy!r})`: accepted are 'auto', {KNOWN}, and a "
            "strategy object such as `DDPStrategy(...)`."
        )
    if of.world_size > 1 and type(strategy) is SingleDeviceStrategy:
        raise MisconfigurationException(
            f"`Trainer(strategy=SingleDeviceStrategy(), devices={devices!r})`: that is one process "
            f"on one device, and {of.world_size} are asked for. Use strategy='ddp'."
        )
    strategy.place(kind, device_ids, of)
    return strategy
