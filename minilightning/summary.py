"""The tables that a run prints: a model's layers at the start, metrics after an evaluation."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from torch import nn
from torch.nn.parameter import is_lazy

from .callback import Callback

if TYPE_CHECKING:
    from .module import LightningModule
    from .trainer import Trainer

__all__ = ["ModelSummary", "results_table", "summarize"]

LAYERS = ("", "Name", "Type", "Params", "Mode")
Row = tuple[str, ...]


def summarize(module: nn.Module, max_depth: int = 1) -> str:
    """Draw the table: one row per layer, then the totals.

    Args:
        module: any module. Parameters that are shared count once in the totals; those that a lazy
            layer has yet to make count as 0, and a line below says so.
        max_depth: levels of submodules to show; 0 for the totals alone, -1 for all.

    Returns:
        The table as text, without a final newline. Sizes are parameters only, in units of
        1,000,000 bytes, at the width that each has now.

    Raises:
        ValueError: if `max_depth` is less than -1.

    Edition 2.2; the column of modes as in Lightning 2.6.
    """
    if max_depth < -1:
        raise ValueError(f"`max_depth` got {max_depth}. Pass -1 for all levels, 0 or more.")
    lines = []
    if max_depth and (rows := _rows(module, max_depth)):
        lines = _table(LAYERS, rows, numbers=(0, 3))
    totals = _totals(list(module.parameters()))
    width = max(len(number) for number, _ in totals)
    lines += [f"{number:>{width}}  {what}" for number, what in totals]
    return "\n".join(lines)


def _totals(parameters: list[nn.Parameter]) -> list[tuple[str, str]]:
    total = trainable = size = lazy = 0
    for parameter in parameters:
        if is_lazy(parameter):
            lazy += 1
            continue
        count = parameter.numel()
        total += count
        trainable += count if parameter.requires_grad else 0
        size += count * parameter.element_size()
    totals = [
        (f"{trainable:,}", "trainable parameters"),
        (f"{total - trainable:,}", "non-trainable parameters"),
        (f"{total:,}", "parameters in total"),
        (f"{size / 1e6:,.3f}", "MB, their size"),
    ]
    if lazy:
        totals.append((f"{lazy:,}", "lazy parameters not made yet, counted as 0"))
    return totals


def _rows(module: nn.Module, max_depth: int) -> list[Row]:
    rows: list[Row] = []
    for name, layer in module.named_modules():
        shown = max_depth == -1 or name.count(".") < max_depth
        if name and shown:
            number = str(len(rows))
            kind = type(layer).__name__
            count = _count(layer.parameters())
            mode = "train" if layer.training else "eval"
            rows.append((number, name, kind, count, mode))
    own = list(module.parameters(recurse=False))
    if own:
        kind = type(module).__name__
        rows.append(("", "other params", kind, _count(own), ""))
    return rows


def results_table(results: Sequence[Mapping[str, float]], entry: str) -> str:
    """Draw what an evaluation logged: a row per metric, a column per loader.

    Args:
        results: what `validate` or `test` returns.
        entry: "validate" or "test", for the headline.

    Returns:
        The table as text, without a final newline; values have six significant digits.

    Edition 2.2.
    """
    several = len(results) > 1
    header = [f"{entry.capitalize()} metric"]
    cells: dict[str, list[str]] = {}
    for number, result in enumerate(results):
        header.append(f"Loader {number}" if several else "Value")
        for name, value in result.items():
            name = name.removesuffix(f"/dataloader_idx_{number}")
            blank = [""] * len(results)
            row = cells.setdefault(name, blank)
            row[number] = f"{value:.6g}"
    rows: list[Row] = [
        (name, *values)
        for name, values in cells.items()
    ]
    numbers = range(1, len(header))
    return "\n".join(_table(tuple(header), rows, numbers))


def _table(header: Row, rows: list[Row], numbers: Collection[int]) -> list[str]:
    """Lines with the columns padded; those in `numbers` are set to the right."""
    columns = zip(header, *rows)
    widths = [
        max(len(text) for text in column)
        for column in columns
    ]
    lines = []
    for row in (header, *rows):
        cells = []
        for place, text in enumerate(row):
            width = widths[place]
            if place in numbers:
                cells.append(text.rjust(width))
            else:
                cells.append(text.ljust(width))
        line = "  ".join(cells)
        lines.append(line.rstrip())
    longest = max(map(len, lines))
    rule = "-" * longest
    lines.insert(1, rule)
    lines.append(rule)
    return lines


def _count(parameters: Iterable[nn.Parameter]) -> str:
    made = [p for p in parameters if not is_lazy(p)]
    count = sum(p.numel() for p in made)
    return f"{count:,}"


class ModelSummary(Callback):
    """Prints the table of `summarize` at the start of each fit, from one process only.

    Args:
        max_depth: levels of submodules to show; 0 prints nothing, -1 shows all.

    Raises:
        ValueError: if `max_depth` is less than -1.

    Edition 2.2.
    """

    def __init__(self, max_depth: int = 1) -> None:
        if max_depth < -1:
            raise ValueError(
                f"ModelSummary got `max_depth={max_depth}`. Pass -1 for all levels, 0 or more."
            )
        self._max_depth = max_depth

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the table."""
        if self._max_depth and trainer.is_global_zero:
            print(summarize(pl_module, self._max_depth), flush=True)
