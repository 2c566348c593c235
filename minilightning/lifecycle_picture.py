"""The tree of a trace as a picture (SVG): groups are boxes, receivers are coloured dots.

Colours are classes with a second set for dark backgrounds; the picture brings its own background,
so that it can be read wherever it is put.
"""
from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from . import lifecycle_tree as tree

if TYPE_CHECKING:
    from .lifecycle import Trace

LINE, INDENT, PAD = 18, 12, 12  # pixels: height of a line, of a level's shift, of a margin
DOTS = 272  # where receivers begin in a column
DOT = 12  # from one receiver to the next
LONGEST = 46  # lines of a column, if it can be cut between two groups
STYLE = """
  svg { --paper: #fff; --ink: #1c2128; --soft: #57606c; --box: #0a306010; --edge: #c3cad5;
        --callback: #1789a8; --module: #b7791f; --datamodule: #7b4bc2 }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #14171c; --ink: #e4e8ee; --soft: #a2abb8; --box: #9ec1ff14; --edge: #3f4755;
          --callback: #5cc4de; --module: #e0b04a; --datamodule: #b394ea }
  }
  text { font: 11.5px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
         fill: var(--ink) }
  .group { font: 600 12.5px system-ui, sans-serif } .soft { fill: var(--soft) }
  .paper { fill: var(--paper) } .box { fill: var(--box); stroke: var(--edge) }
  .callback { fill: var(--callback) } .module { fill: var(--module) }
  .datamodule { fill: var(--datamodule) }
"""


def picture(trace: Trace) -> str:
    """The picture as SVG: the runs below each other, cut into columns.

    Args:
        trace: whose events are shown.
    """
    nodes = tree.grow(trace.events, trace.runs)
    columns = _columns(list(tree.fold(nodes)))
    most = max((len(row.node.events) for rows in columns for row in rows if row.node), default=0)
    wide = DOTS + DOT * most + PAD
    width = PAD + len(columns) * (wide + PAD)
    height = max(map(len, columns)) * LINE + 2 * PAD + 24
    parts = [part for place, rows in enumerate(columns)
             for part in _column(rows, PAD + place * (wide + PAD), wide)]
    title = f"Lifecycle of {', '.join(trace.entries) or 'nothing'}"
    words = "\n".join(tree.text(nodes))
    kinds = sorted({event.who.split()[0] for event in trace.events})
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>", f"<desc>{escape(words)}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
        *parts, *_legend(kinds, height - 18), "</svg>\n",
    ])


def _columns(rows: list[tree.Row]) -> list[list[tree.Row]]:
    """Rows cut where a group of the second level, or what follows it, begins."""
    columns: list[list[tree.Row]] = [[]]
    for i, row in enumerate(rows):
        begins = row.depth == 1 and (_is_group(row) or _is_group(rows[i - 1]) or
                                     rows[i - 1].depth > 1)
        rest = next((n for n, other in enumerate(rows[i + 1:], 1) if other.depth <= 1), 0)
        if begins and len(columns[-1]) + rest > LONGEST:
            columns.append([])
        columns[-1].append(row)
    return columns


def _is_group(row: tree.Row) -> bool:
    return row.node is not None and bool(row.node.kind)


def _column(rows: Sequence[tree.Row], left: int, wide: int) -> list[str]:
    """The elements of a column. Boxes come first, so that text is above them."""
    boxes, words = [], []
    if rows and rows[0].depth:  # it goes on with the run
        boxes.append(_box(left, PAD, wide, len(rows)))
    for i, row in enumerate(rows):
        x, top = row.depth * INDENT, PAD + i * LINE
        if row.node is not None and (row.node.kind or row.node.children):
            below = (n for n, other in enumerate(rows[i + 1:]) if other.depth <= row.depth)
            lines = next(below, len(rows) - i - 1) + 1
            boxes.append(_box(left + x, top, wide - x - row.depth * 5, lines))
        words += _words(row, left + x + 7, top + 14, left + DOTS)
    return boxes + words


def _box(x: int, y: int, width: int, lines: int) -> str:
    return (f'<rect class="box" x="{x}.5" y="{y}.5" rx="5" width="{width}" '
            f'height="{lines * LINE + 1}"/>')


def _words(row: tree.Row, x: int, y: int, dots: int) -> list[str]:
    node = row.node
    if node is None:
        return [f'<text class="soft" x="{x}" y="{y}">{escape(row.mark)}</text>']
    if node.kind:
        return [f'<text class="group" x="{x}" y="{y}">{escape(node.title)}</text>']
    drawn = [f'<text x="{x}" y="{y}">{escape(node.title)}</text>']
    for place, event in enumerate(node.events):
        drawn.append(f'<circle class="{event.who.split()[0]}" cx="{dots + DOT * place}" '
                     f'cy="{y - 4}" r="4">'
                     f"<title>{escape(event.who)}</title></circle>")
    return drawn


def _legend(kinds: Sequence[str], y: int) -> list[str]:
    drawn, x = [], PAD + 6
    for kind in kinds:
        name = {"callback": "a callback", "module": "the module"}.get(kind, "the data module")
        drawn.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="4"/>'
                     f'<text class="soft" x="{x + 9}" y="{y + 4}">{name}</text>')
        x += 36 + 7 * len(name)
    return drawn
