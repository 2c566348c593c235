"""Where the numbers go: the Logger interface, CSV files (the default) and TensorBoard.

Nothing is created on disk until there is something to write, and only the process with RANK 0
writes. Names, folders and versions are those of edition 2.2 (Lightning 2.2.5), but for
hyperparameters, which are kept as JSON instead of YAML.
"""
from __future__ import annotations

import contextlib
import csv
import json
import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .errors import MisconfigurationException, on_rank_zero

if TYPE_CHECKING:
    from torch import nn

    from .callback import Callback

__all__ = ["CSVLogger", "Logger", "TensorBoardLogger"]

PathLike = str | os.PathLike[str]
Version = int | str
Metrics = Mapping[str, float]
Params = Mapping[str, Any] | Namespace
METRICS = "metrics.csv"


class Logger:
    """What the trainer expects of a logger; a subclass overrides what it needs (edition 2.2).

    `group_separator` stands between the parts of a name that the trainer composes.
    """

    group_separator: str = "/"

    @property
    def name(self) -> str | None:
        """Name of the experiment."""
        return None

    @property
    def version(self) -> Version | None:
        """Number or name of the run within the experiment."""
        return None

    @property
    def save_dir(self) -> str | None:
        """Folder below which the logger writes."""
        return None

    @property
    def root_dir(self) -> str | None:
        """Folder of all versions of the experiment."""
        return None

    @property
    def log_dir(self) -> str | None:
        """Folder of this run."""
        return None

    @property
    def experiment(self) -> Any:
        """The backend's own object, as a module uses it: `self.logger.experiment`."""
        return None

    def log_metrics(self, metrics: Metrics, step: int | None = None) -> None:
        """Record values by name at `step`, counted in optimizer steps.

        Args:
            metrics: value by name, each a number.
            step: the optimizer steps before these; None: the logger counts by itself.
        """

    def log_hyperparams(self, params: Params, *args: Any) -> None:
        """Record the settings of the run.

        Args:
            params: value by name, or a namespace.
            args: what a logger of its own may take besides.
        """

    def log_graph(self, model: nn.Module, input_array: Tensor | None = None) -> None:
        """Record the model's graph, where the backend can draw one.

        Args:
            model: the module of the run.
            input_array: an input of its `forward`; by default its `example_input_array`.
        """

    def save(self) -> None:
        """Bring to disk what is still in memory."""

    def finalize(self, status: str) -> None:
        """The run is over.

        Args:
            status: "success" or "failed".
        """
        self.save()

    def after_save_checkpoint(self, checkpoint_callback: Callback) -> None:
        """A checkpoint has just been written.

        Args:
            checkpoint_callback: who wrote it; `best_model_path` and others say where.
        """


class FolderLogger(Logger):
    """A logger that owns the folder `save_dir/name/version_N`, with `hparams.json` in it.

    Args:
        save_dir: the folder of all runs; `~` and `$NAME` in it are replaced.
        name: the folder between that and the version; None or "": none.
        version: a number or a name; None: the next free number.
        prefix: stands before the name of each metric, with a `-`; "" for none.
    """

    def __init__(
        self, save_dir: PathLike, name: str | None, version: Version | None, prefix: str
    ) -> None:
        save_dir = os.path.expandvars(save_dir)
        self._save_dir = os.path.expanduser(save_dir)
        self._name = name or ""
        self._version = version
        self._prefix = f"{prefix}-" if prefix else ""
        self._hparams: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The folder between `save_dir` and the version; "" for none."""
        return self._name

    @property
    def version(self) -> Version:
        """The number of this run, or the name given for it; the next free number by default."""
        if self._version is None:
            self._version = _next_version(Path(self.root_dir))
        return self._version

    @property
    def save_dir(self) -> str:
        """The folder of all runs."""
        return self._save_dir

    @property
    def root_dir(self) -> str:
        """The folder of the runs of this name."""
        return os.path.join(self._save_dir, self._name)

    @property
    def log_dir(self) -> str:
        """The folder of this run: `save_dir/name/version_N`."""
        version = self.version
        folder = version if isinstance(version, str) else f"version_{version}"
        return os.path.join(self.root_dir, folder)

    def log_hyperparams(self, params: Params, *args: Any) -> None:
        """Write `hparams.json`; what JSON cannot hold is written as its `str`."""
        if isinstance(params, Namespace):
            params = vars(params)
        self._hparams.update(params)
        if self._hparams and on_rank_zero():
            file = self._folder() / "hparams.json"
            text = json.dumps(self._hparams, indent=2, default=str)
            file.write_text(text + "\n")

    def _folder(self) -> Path:
        folder = Path(self.log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class CSVLogger(FolderLogger):
    """Metrics as CSV: `save_dir/name/version_N/metrics.csv`.

    Rows are only ever appended, `step` first. A new column comes last in the header; the rows
    above keep their bytes and end earlier, which `csv`, pandas and spreadsheets read as empty.
    The longer header is put in place at once, so that a run may be killed at any moment. A
    version that is there already is continued. `read_metrics(logger.log_dir)` reads the rows.

    Args:
        save_dir: folder below which to write.
        name: of the experiment, a folder; "" or None for none.
        version: number, or the folder's name; None takes the next free number.
        prefix: put before each metric's name, with a "-" between.
        flush_logs_every_n_steps: rows are written when the step has advanced this far, and by
            `save` and `finalize`; a killed run loses no more than that.

    Raises:
        MisconfigurationException: if `flush_logs_every_n_steps` is not a positive integer.

    Edition 2.2, which deletes the file of a version that is there, and rewrites its rows.
    """

    def __init__(
        self, save_dir: PathLike, name: str | None = "lightning_logs",
        version: Version | None = None, prefix: str = "",
        flush_logs_every_n_steps: int = 100,
    ) -> None:
        super().__init__(save_dir, name, version, prefix)
        if not isinstance(flush_logs_every_n_steps, int) or flush_logs_every_n_steps < 1:
            raise MisconfigurationException(
                f"CSVLogger got `flush_logs_every_n_steps={flush_logs_every_n_steps!r}`."
                " Pass a number of steps, 1 or more."
            )
        self._every = flush_logs_every_n_steps
        self._columns: list[str] = []  # of the file; none before it was opened
        self._rows: list[dict[str, Any]] = []
        self._count = 0
        self._saved_step = 0

    @property
    def experiment(self) -> CSVLogger:
        """The logger itself: there is no backend behind it."""
        return self

    def log_metrics(self, metrics: Metrics, step: int | None = None) -> None:
        """Add a row. Without `step`, the row's number stands for it."""
        if not on_rank_zero():
            return
        if step is None:
            step = self._count
        self._count += 1
        row: dict[str, Any] = {"step": step}
        for name, value in metrics.items():
            row[self._prefix + name] = value.item() if isinstance(value, Tensor) else value
        row["step"] = step  # also if a metric is called that
        self._rows.append(row)
        # Steps go back when an earlier checkpoint is resumed: a distance either way counts.
        if abs(step + 1 - self._saved_step) >= self._every:
            self.save()

    def save(self) -> None:
        """Append the rows in memory to the file."""
        if not self._rows:
            return
        file = self._folder() / METRICS
        old = self._columns or _header(file)
        self._columns = list(dict.fromkeys([*old, *(name for row in self._rows for name in row)]))
        if len(self._columns) > len(old) or not file.exists():
            _put_header(file, self._columns)
        with file.open("a", newline="", encoding="utf-8") as rows:
            csv.DictWriter(rows, self._columns, lineterminator="\n").writerows(self._rows)
        self._saved_step = self._rows[-1]["step"] + 1
        self._rows = []


class TensorBoardLogger(FolderLogger):
    """Metrics for TensorBoard, over `torch.utils.tensorboard`, loaded when first used.

    Args:
        save_dir, name, version, prefix: as for `CSVLogger`.
        log_graph: whether the model is drawn, as it runs on its `example_input_array`.
        default_hp_metric: whether hyperparameters without metrics get `hp_metric` -1, so that
            TensorBoard lists them.
        sub_dir: folder within the run's folder.

    Raises:
        ModuleNotFoundError: at first use, if TensorBoard is not installed.

    Edition 2.2.
    """

    def __init__(
        self, save_dir: PathLike, name: str | None = "lightning_logs",
        version: Version | None = None, log_graph: bool = False, default_hp_metric: bool = True,
        prefix: str = "", sub_dir: PathLike | None = None,
    ) -> None:
        super().__init__(save_dir, name, version, prefix)
        self._log_graph = log_graph
        self._default_hp_metric = default_hp_metric
        self._sub_dir = os.fspath(sub_dir or "") or None
        self._writer: Any = None

    @property
    def sub_dir(self) -> str | None:
        """Folder within the run's folder."""
        return self._sub_dir

    @property
    def log_dir(self) -> str:
        """The folder of this run: `save_dir/name/version_N/sub_dir`."""
        folder = super().log_dir
        return os.path.join(folder, self._sub_dir) if self._sub_dir else folder

    @property
    def experiment(self) -> Any:
        """The `SummaryWriter`; on other ranks an object that takes every call and does nothing."""
        if not on_rank_zero():
            return _Silent()
        if self._writer is None:
            self._writer = _summary_writer(self)
        return self._writer

    def log_metrics(self, metrics: Metrics, step: int | None = None) -> None:
        """Add one scalar per metric; a mapping of values becomes one chart of several lines."""
        for name, value in metrics.items():
            name = self._prefix + name
            if isinstance(value, Mapping):
                self.experiment.add_scalars(name, value, step)
            else:
                self.experiment.add_scalar(name, value, step)

    def log_hyperparams(
        self, params: Params, metrics: Metrics | None = None, *args: Any
    ) -> None:
        """Write `hparams.json`, and the hyperparameters with `metrics` for the HPARAMS tab.

        Args:
            metrics: what is shown beside them; by default `hp_metric`, as -1, if the logger has it
                on.
        """
        super().log_hyperparams(params)
        if metrics is None:
            metrics = {"hp_metric": -1.0} if self._default_hp_metric else {}
        if metrics and on_rank_zero():
            self.log_metrics(metrics, 0)
            self._list_hparams(dict(metrics))

    def _list_hparams(self, metrics: dict[str, float]) -> None:
        # The writer's own add_hparams would put them into a second run.
        from torch.utils.tensorboard import summary

        writer, flat = self.experiment, _flat(self._hparams)
        for part in summary.hparams(flat, metrics):
            writer.file_writer.add_summary(part)

    def log_graph(self, model: nn.Module, input_array: Tensor | None = None) -> None:
        """Draw the model as it runs on `input_array`, if the logger has `log_graph=True`."""
        if input_array is None:
            input_array = getattr(model, "example_input_array", None)
        if self._log_graph and input_array is not None:
            self.experiment.add_graph(model, input_array)

    def save(self) -> None:
        """Flush the writer, if it was ever used."""
        if self._writer is not None:
            self._writer.flush()

    def finalize(self, status: str) -> None:
        """Flush and close the writer; it opens a further file if it is used again."""
        if self._writer is not None:
            self._writer.close()


def read_metrics(path: PathLike) -> list[dict[str, float]]:
    """Read what a CSVLogger wrote.

    Args:
        path: folder of the run (`logger.log_dir`), or the `metrics.csv` in it.

    Returns:
        One dict per row, of the columns that the row has; what is no number is left out. So is a
        last line that was cut off by the end of the process.

    Raises:
        FileNotFoundError: if there is no `metrics.csv`.
    """
    file = Path(path)
    if file.suffix != ".csv":
        file = file / METRICS
    if not file.exists():
        raise FileNotFoundError(
            f"No {METRICS} in {file.parent}. Pass the `log_dir` of a CSVLogger."
        )
    return [
        {name: number for name, text in row.items() if (number := _number(text)) is not None}
        for row in csv.DictReader(_whole_lines(file))
    ]


def _whole_lines(file: Path) -> list[str]:
    """The lines of a file, but for a last one that was cut off."""
    with file.open(newline="", encoding="utf-8") as lines:
        return [line for line in lines if line.endswith("\n")]


def _header(file: Path) -> list[str]:
    """The columns of a file that an earlier run left, after cutting off half a line."""
    if not file.exists():
        return ["step"]
    lines = _whole_lines(file)
    os.truncate(file, sum(len(line.encode()) for line in lines))
    return next(csv.reader(lines), ["step"])


def _put_header(file: Path, columns: list[str]) -> None:
    """Put a header above the rows of a file. Whoever looks sees the old header or the new one."""
    beside = file.with_name(f".{METRICS}.new")
    with beside.open("w", newline="", encoding="utf-8") as new:
        csv.writer(new, lineterminator="\n").writerow(columns)
        new.writelines(_whole_lines(file)[1:] if file.exists() else ())
    os.replace(beside, file)


def _next_version(folder: Path) -> int:
    version = -1
    for taken in folder.glob("version_*"):
        number = taken.name.removeprefix("version_")
        if number.isdigit():
            version = max(version, int(number))
    return version + 1


def _number(text: str | None) -> float | None:
    for kind in (int, float):
        with contextlib.suppress(ValueError, TypeError):
            return kind(text or "")
    return None


def _flat(params: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings as one, with names like `optimizer/lr`, and single values only."""
    flat: dict[str, Any] = {}
    for key, value in params.items():
        if isinstance(value, Mapping):
            nested = _flat(value)
            flat.update((f"{key}/{name}", item) for name, item in nested.items())
        else:
            single = isinstance(value, (bool, int, float, str))
            flat[str(key)] = value if single else str(value)
    return flat


def _summary_writer(logger: TensorBoardLogger) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "TensorBoardLogger needs TensorBoard: `pip install minilightning[tensorboard]`,"
            " or log with CSVLogger."
        ) from error
    return SummaryWriter(log_dir=str(logger._folder()))


class _Silent:
    """Stands for a SummaryWriter on the ranks that do not write."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **named: None
