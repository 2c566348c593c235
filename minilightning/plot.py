"""A picture of a run: the metrics that a CSVLogger wrote, as curves over the steps.

`panels_of` decides what is shown together; `draw` needs matplotlib, which is imported only there.
"""
from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .loggers import PathLike, read_metrics

STAGES = ("", "train", "training", "val", "valid", "validation", "test")
COLORS = (0, 0, 0, 1, 1, 1, 2)  # of each stage; a second curve of a stage gets one after these
_STAGE = "|".join(STAGES[1:])
_FORMS = (
    re.compile(rf"(?P<stage>{_STAGE})[_/.-](?P<metric>.+)"),  # val_loss
    re.compile(rf"(?P<metric>.+)[_/.-](?P<stage>{_STAGE})"),  # loss/val
    re.compile(r"(?P<stage>)(?P<metric>.+)"),
)
_LEVEL = re.compile(r"_(step|epoch)(?=/dataloader_idx_\d+$|$)")
_LOADER = re.compile(r"/dataloader_idx_\d+$")
_RATE = re.compile(r"(lr(-.*?)?|learning_rate)(-(?P<what>momentum|weight_decay))?")
SUFFIXES = (".svg", ".png")


@dataclass
class Panel:
    """Curves that share a pair of axes.

    Args:
        title: what is written above.
        curves: name -> the steps and the values of its points.
        x_label: what the steps are.
    """

    title: str
    curves: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    x_label: str = "step"


def panels_of(rows: Iterable[dict[str, float]]) -> list[Panel]:
    """Sort the columns of a run into panels.

    Args:
        rows: as `read_metrics` returns them.

    Returns:
        A panel per metric, with its curves of training, validation and test, in the order in which
        they were logged; below them what LearningRateMonitor logged. What an evaluation logged
        per batch counts batches of its own, and has a panel of its own.
    """
    panels: dict[str, Panel] = {}
    for row in rows:
        for name, value in row.items():
            if name not in ("step", "epoch"):
                title, x_label = _place(name)
                panel = panels.setdefault(title, Panel(title, x_label=x_label))
                steps, values = panel.curves.setdefault(name, ([], []))
                steps.append(row["step"])
                values.append(value)
    return sorted(panels.values(), key=lambda panel: panel.title.startswith("learning rate"))


def _place(name: str) -> tuple[str, str]:
    """The title of a column's panel, and what its steps count."""
    if rate := _RATE.fullmatch(name):
        what = rate["what"]
        return f"learning rate: {what}" if what else "learning rate", "step"
    metric, stage = _split(name)
    level = _LEVEL.search(name)
    if level and level[1] == "step" and STAGES.index(stage) > STAGES.index("training"):
        return f"{metric}, per batch ({stage})", "batch of an evaluation"
    return metric, "step"


def _split(name: str) -> tuple[str, str]:
    """A column's metric, and its stage: a word of STAGES."""
    bare = _LOADER.sub("", _LEVEL.sub("", name))
    found = next(filter(None, (form.fullmatch(bare) for form in _FORMS)))
    return found["metric"], found["stage"]


def _stage_of(name: str) -> int:
    """The place of a column's stage in STAGES."""
    return STAGES.index(_split(name)[1])


def epoch_ends(rows: Iterable[dict[str, float]]) -> dict[int, float]:
    """The last step at which each epoch logged something, by epoch.

    Args:
        rows: of metrics, each with its "step" and some with an "epoch".
    """
    ends: dict[int, float] = {}
    for row in rows:
        if "epoch" in row:
            epoch = int(row["epoch"])
            ends[epoch] = max(row["step"], ends.get(epoch, 0))
    return ends


def plot(run: PathLike, file: PathLike | None = None) -> Path:
    """Draw a run.

    Args:
        run: folder of the run (`logger.log_dir`), or the `metrics.csv` in it.
        file: where to; its suffix, .svg or .png, is the format. By default `metrics.svg` in the
            folder of the run.

    Returns:
        The path of the picture.

    Raises:
        FileNotFoundError: there is no `metrics.csv`.
        ValueError: it has no metrics, or the suffix is another.
        ModuleNotFoundError: matplotlib is not installed.
    """
    folder = Path(run).parent if Path(run).suffix == ".csv" else Path(run)
    file = folder / "metrics.svg" if file is None else Path(file)
    if file.suffix not in SUFFIXES:
        raise ValueError(f"{file}: the format of a picture is {' or '.join(SUFFIXES)}.")
    rows = read_metrics(folder)
    panels = panels_of(rows)
    if not panels:
        raise ValueError(f"Nothing was logged in {folder}.")
    draw(panels, file, str(folder), epoch_ends(rows))
    return file


def draw(panels: list[Panel], file: Path, title: str, ends: dict[int, float]) -> None:
    """Draw panels below each other.

    Args:
        panels: from top to bottom.
        file: where to.
        title: above them.
        ends: epoch -> its last step, which is marked in panels over steps.
    """
    figure = _figure((8, 1 + 2.2 * len(panels)))
    figure.suptitle(title, fontsize="medium")
    all_axes = figure.subplots(len(panels), squeeze=False)[:, 0]
    first = None
    for panel, axes in zip(panels, all_axes):
        if panel.x_label == "step":
            _mark_epochs(axes, ends, with_numbers=first is None)
            if first is not None:
                axes.sharex(first)
            first = first or axes
        _draw_curves(panel, axes)
    figure.savefig(file, dpi=150)


def plot_range_test(
    rates: list[float], losses: list[float], mode: str, suggested: float | None = None,
    show: bool = False, ax: Any = None, file: PathLike | None = None,
) -> Any:
    """Draw what a learning-rate range test found; see `LRFinder.plot`.

    Args:
        rates, losses: of each step.
        mode: "exponential" for a logarithmic scale.
        suggested: the rate to mark.
        show: open a window.
        ax: axes to draw on; by default those of a new figure.
        file: write the picture to this file.

    Returns:
        The figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    figure = _figure((6, 3.5), show) if ax is None else ax.figure
    axes = figure.subplots() if ax is None else ax
    axes.plot(rates, losses, linewidth=1.2)
    if mode == "exponential":
        axes.set_xscale("log")
    finite = sorted(loss for loss in losses if math.isfinite(loss))
    if finite:  # the explosion at the end would flatten all that is before it
        low, high = finite[0], finite[int(0.95 * (len(finite) - 1))]
        axes.set_ylim(low - 0.2 * (high - low), high + 0.2 * (high - low) or high + 1)
    if suggested is not None:
        loss = losses[rates.index(suggested)]
        axes.plot([suggested], [loss], "o", color="C3", label=f"suggested: {suggested:.3g}")
        axes.legend(fontsize="small", frameon=False)
    axes.set_xlabel("learning rate", fontsize="small")
    axes.set_ylabel("loss, smoothed", fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    if file is not None:
        figure.savefig(file, dpi=150)
    if show:
        from matplotlib import pyplot

        pyplot.show()
    return figure


def _figure(size: tuple[float, float], in_window: bool = False) -> Any:
    """A figure of so many inches; matplotlib's global list knows it only if it gets a window."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Plots are drawn by matplotlib: `pip install minilightning[plot]`."
        ) from error
    if in_window:
        from matplotlib import pyplot

        return pyplot.figure(figsize=size, layout="constrained")
    return Figure(figsize=size, layout="constrained")


def _draw_curves(panel: Panel, axes: Any) -> None:
    colors: dict[str, int] = {}
    curves = sorted(panel.curves.items(), key=lambda curve: _stage_of(curve[0]))
    for name, (steps, values) in curves:
        color, bare = COLORS[_stage_of(name)], _LEVEL.sub("", name)
        free = color if color not in colors.values() else max(2, *colors.values()) + 1
        color = colors.setdefault(bare, free)
        faint = "_step" in name and name.replace("_step", "_epoch") in panel.curves
        axes.plot(
            steps, values, color=f"C{color}", alpha=0.4 if faint else 1, label=name, linewidth=1.2,
            marker="o" if len(steps) <= 30 else "", markersize=3,
        )
    axes.set_title(panel.title, loc="left", fontsize="medium")
    axes.set_xlabel(panel.x_label, fontsize="small")
    axes.legend(fontsize="small", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _mark_epochs(axes: Any, ends: dict[int, float], with_numbers: bool) -> None:
    marked: dict[int, float] = {}
    span = max(ends.values(), default=0)
    for epoch, step in ends.items():
        if step - max(marked.values(), default=-span) > span / 25:  # room for a number
            marked[epoch] = step
    for step in marked.values():
        axes.axvline(step, color="0.85", linewidth=0.8, zorder=0)
    if with_numbers and marked:
        top = axes.secondary_xaxis("top")
        top.set_xlabel("end of epoch", fontsize="small", color="0.5")
        top.set_xticks(list(marked.values()), [str(epoch) for epoch in marked])
        top.tick_params(length=0, labelsize="small", labelcolor="0.5")
        top.spines["top"].set_visible(False)
