"""Checkpoint files: written so that a reader sees all or nothing, read so that none runs code."""
from __future__ import annotations

import contextlib
import errno
import glob
import os
import pickle
import socket
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, Iterator

import torch

from .errors import MisconfigurationException, note

# Writing


def write(checkpoint: dict[str, Any], path: str | Path) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it.

    The new file is written beside the old one, brought to the disk, and takes its name. Tensors
    are streamed into it one after another; no second copy of them is made.

    Args:
        checkpoint: anything that `torch.save` takes.
        path: the file; folders that are missing are made.

    Raises:
        OSError: it cannot be written; the error names the path.
        pickle.PicklingError and what else the write raised: the note on it names the path and what
            cannot be saved. In either case the old file is untouched and nothing is left beside it.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_away(path.parent)
        beside = path.parent / f".{path.name}.{_me()}.tmp"
        try:
            with open(beside, "wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except Exception as error:
        cause = _disk_error(error)
        if cause is not None:
            raise OSError(cause.errno, f"Could not save a checkpoint: {cause.strerror}. A file "
                          "that was there before is as it was", str(path)) from None
        culprit = next(_unpicklable(checkpoint), "")
        note(error, f"Could not save a checkpoint to {path}{culprit}. A file that was there before "
                    "is as it was.")
        raise


def _me() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _clear_away(folder: Path) -> None:
    """Delete what processes of this machine left half written when they were killed."""
    mine = f"{socket.gethostname()}-"
    for beside in folder.glob(f".*.{glob.escape(mine)}*.tmp"):
        pid = beside.name.removesuffix(".tmp").rpartition("-")[2]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            beside.unlink(missing_ok=True)
        except (ValueError, OSError):  # not one of ours, or another user's
            continue


def _sync_folder(folder: Path) -> None:
    """Make sure that the new name is on the disk, too; not every system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def _disk_error(error: BaseException | None) -> OSError | None:
    """The system's error behind what torch made of it, if there is one."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        error = error.__context__
    return None


def _unpicklable(tree: Any, place: str = "checkpoint") -> Iterator[str]:
    """Where in a checkpoint something stands that cannot be pickled."""
    for key, child in tree.items() if isinstance(tree, dict) else ():
        where = f"{place}[{key!r}]"
        try:
            torch.save(child, os.devnull)
        except Exception:  # noqa: BLE001
            yield from _unpicklable(child, where)
            yield f": {where}, {origin(where, child)}, cannot be pickled"


# Reading


def read(path: str | Path, weights_only: bool | None = None, map_location: Any = "cpu") -> Any:
    """Read a checkpoint without running code from it.

    Args:
        path: the file.
        weights_only: False trusts the file and lets it run code.
        map_location: where its tensors go, as in `torch.load`.

    Returns:
        The checkpoint, a dict with a `state_dict` in it.

    Raises:
        FileNotFoundError: there is no such file.
        pickle.UnpicklingError: it needs to run code, and is not trusted.
        MisconfigurationException: it is no checkpoint, or not a whole one.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"Checkpoint file not found: {path}")
    safely = weights_only is not False
    _check_sizes(path)
    try:
        checkpoint = torch.load(path, map_location=map_location, weights_only=safely)
    except PermissionError:
        raise
    except Exception as error:  # anything may come of reading words or noise as a pickle
        if safely and (wanted := _globals_wanted(path)):
            raise pickle.UnpicklingError(_refusal(path, wanted, error)) from None
        raise MisconfigurationException(
            f"{path} is no checkpoint: {_brief(path, error)}.") from error
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise MisconfigurationException(f"{path} is no checkpoint: it has no `state_dict`.")
    return checkpoint


def _brief(path: str | Path, error: Exception) -> str:
    if not zipfile.is_zipfile(path):
        return "it is not what `torch.save` wrote, or not the whole of it"
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _check_sizes(path: str | Path) -> None:
    """Refuse a file that claims to hold more than it has, before memory is reserved for it."""
    size, claimed = os.path.getsize(path), 0
    problem = "it is a folder" if os.path.isdir(path) else "it is empty" * (size == 0)
    if not problem and zipfile.is_zipfile(path):
        try:
            with zipfile.ZipFile(path) as archive:
                claimed = sum(entry.file_size for entry in archive.infolist())
        except zipfile.BadZipFile as error:
            problem = f"it is damaged ({error})"
    if claimed > size:
        problem = f"it claims to hold {claimed:,} bytes and has {size:,}: it is damaged or a trap"
    if problem:
        raise MisconfigurationException(f"{path} is no checkpoint: {problem}.")


class _Inert:
    """Stands for whatever a pickle asks for: keeps its name, and does nothing."""

    name = ""
    held: list[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> _Inert:
        made = super().__new__(cls)
        made.held = [*args, *kwargs.values()]
        return made

    def __setstate__(self, state: Any) -> None:
        self.held.append(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.held += [key, value]

    def append(self, value: Any) -> None:
        self.held.append(value)

    add = append

    def extend(self, values: Any) -> None:
        self.held += values


class _Looking(pickle.Unpickler):
    """Unpickles with inert stand-ins, so that one can look at a pickle without running it."""

    def find_class(self, module: str, name: str) -> type:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        return type(name, (_Inert,), {"name": f"{module}.{name}"})

    def persistent_load(self, pid: Any) -> Any:
        return None


def _globals_wanted(path: str | Path) -> list[tuple[str, str]]:
    """The types and functions that a pickle asks for beyond tensors and plain containers: each
    with its place in the checkpoint."""
    allowed = {each if isinstance(each, str) else f"{each.__module__}.{each.__qualname__}"
               for each in map(_named, torch.serialization.get_safe_globals())}
    try:
        return [(name, place) for tree in _looked_at(path)
                for name, place in _inert(tree, "checkpoint", set())
                if name not in allowed and not _is_plain(name)]
    except Exception:  # noqa: BLE001  it is no pickle at all, or too deep to look into
        return []


def _named(allowed: Any) -> Any:
    return allowed[1] if isinstance(allowed, tuple) else allowed


def _looked_at(path: str | Path) -> Iterator[Any]:
    """What a file holds, with stand-ins; before torch 1.6 it was several pickles in a row."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            name = next(n for n in archive.namelist() if n.endswith("data.pkl"))
            yield _Looking(archive.open(name)).load()
        return
    with open(path, "rb") as file:
        yield _Looking(file).load()
        for _ in range(3):
            with contextlib.suppress(EOFError, pickle.UnpicklingError):
                yield _Looking(file).load()


def _is_plain(name: str) -> bool:
    return name in _PLAIN or name.startswith(("torch._utils._rebuild", "torch.storage."))


_PLAIN = {
    "collections.OrderedDict",
    "collections.Counter",
    "torch.device",
    "torch.Size",
    "torch.nn.parameter.Parameter",
    "torch.Tensor",
    "builtins.set",
    "builtins.bytearray",
    "builtins.complex",
    "_codecs.encode",
    "torch.serialization._get_layout",
}
for _name in dir(torch):
    if _name.endswith("Storage") or isinstance(getattr(torch, _name), torch.dtype):
        _PLAIN.add(f"torch.{_name}")


def _inert(tree: Any, place: str, seen: set[int]) -> Iterator[tuple[str, str]]:
    """Every stand-in below a node, with its place."""
    if id(tree) in seen:
        return
    if isinstance(tree, type):
        if issubclass(tree, _Inert):
            yield tree.name, place
        return
    if not isinstance(tree, (dict, list, tuple, set, frozenset, _Inert)):
        return
    seen.add(id(tree))
    if isinstance(tree, _Inert):
        yield tree.name, place
        for child in tree.held:
            yield from _inert(child, place, seen)
        return
    children = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, child in children:
        if isinstance(key, (str, int)):
            yield from _inert(child, f"{place}[{key!r}]", seen)
        else:
            yield from _inert((key, child), place, seen)


def _refusal(path: str | Path, wanted: list[tuple[str, str]], error: Exception) -> str:
    name, place = wanted[0]
    others = sorted({other for other, _ in wanted} - {name})
    also = f" Also: {', '.join(f'`{other}`' for other in others)}." * bool(others)
    return (
        f"{path} was not loaded, since it needs `{name}` and could run code: it stands in {place}, "
        f"{origin(place)}.{also} If you trust where the file comes from, pass `weights_only=False`."
        f" If you wrote it, save plain values instead (numbers, strings, lists, dicts, tensors)."
    )


_ORIGINS = (  # the beginning of a place, and who put there what stands in it
    ("checkpoint['callbacks'][", "the state of the callback {key}: what its `state_dict` or "
                                 "`on_save_checkpoint` returned"),
    ("checkpoint['hyper_parameters']", "an argument kept by `save_hyperparameters`"),
    ("checkpoint['datamodule_hyper_parameters']",
     "an argument kept by the data module's `save_hyperparameters`"),
    ("checkpoint['state_dict']", "what the module's `state_dict` returned"),
    ("checkpoint['optimizer_states']", "what an optimizer's `state_dict` returned"),
    ("checkpoint['lr_schedulers']", "what a scheduler's `state_dict` returned"),
    ("checkpoint['loops']", "the trainer's own state"),
    ("checkpoint[", "what the `on_save_checkpoint` of the module or a callback added, or the state "
                    "of the data module"),
)


def origin(place: str, value: Any = None) -> str:
    """Who put there what stands at a place of a checkpoint, as far as the place tells.

    Args:
        place: as it is written in Python, such as `["callbacks"]["Mine"]`.
        value: what stands there.
    """
    for beginning, who in _ORIGINS:
        if place.startswith(beginning):
            return who.format(key=place[len(beginning):].partition("]")[0])
    return "outside of any checkpoint's keys"
