"""A bar of cells, cut into parts, and the legend below it.

Without colour a part's letter fills its segment; with colour it stands once, at the segment's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

WIDEST_CELLS = 100
_LEGEND_GAP = 4


@dataclass(frozen=True)
class Kind:
    """A kind of part: `letter` stands for it in the bar, `word` in the legend, `colour` is a hex triplet."""

    letter: str
    word: str
    colour: str


def cells_of(sizes: Sequence[float], total: float, width: int) -> list[int]:
    """How many of `width` cells each size gets: by largest remainder, and their sum never exceeds `width`.

    A size of at least half a cell gets at least one, so that nothing that matters vanishes from the bar; so does the
    largest, however small it is: only an empty whole has an empty bar.
    """
    if total <= 0:
        return [0] * len(sizes)
    exact = [size * width / total for size in sizes]
    cells = [int(share) if share >= 1 else int(share >= 0.5) for share in exact]
    spare = min(width, round(sum(exact))) - sum(cells)
    by_remainder = sorted(range(len(exact)), key=lambda index: cells[index] - exact[index])
    for index in by_remainder[: max(0, spare)]:
        cells[index] += 1
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    if width > 0 and not any(cells) and any(sizes):
        cells[sizes.index(max(sizes))] = 1
    return cells


def bar_width(console: Console) -> int:
    """Cells between the edges of a bar."""
    return min(console.width - 2, WIDEST_CELLS) - 2


def bar(kinds: Sequence[Kind], cells: Sequence[int], console: Console, rest: str = "") -> Text:
    """A bar from edge to edge. `rest` fills the cells that belong to no part."""
    edges = ("|", "|") if console.options.ascii_only else ("▕", "▏")
    line = Text("  ").append(edges[0], "dim")
    for kind, count in zip(kinds, cells, strict=True):
        line.append_text(_segment(kind, count, console))
    return line.append(rest * (bar_width(console) - sum(cells)), "dim").append(edges[1], "dim")


def _segment(kind: Kind, count: int, console: Console) -> Text:
    if not has_colour(console):
        return Text(kind.letter * count)
    letter = f" {kind.letter}" if count > 2 else kind.letter
    return Text(letter.ljust(count)[:count], f"bold #101010 on {kind.colour}")


def legend(entries: Sequence[tuple[Kind, str]], console: Console) -> list[Text]:
    """Letters, words and figures, in as many columns as the width allows; read down, then right."""
    words = max(cell_len(kind.word) for kind, _ in entries)
    figures = max(cell_len(figure) for _, figure in entries)
    entry_width = 3 + 1 + words + 2 + figures
    columns = max(1, min(4, (min(console.width, WIDEST_CELLS) - 2 + _LEGEND_GAP) // (entry_width + _LEGEND_GAP)))
    rows = -(-len(entries) // columns)
    lines = []
    for row in range(rows):
        line = Text("  ")
        for index, (kind, figure) in enumerate(entries[row::rows]):
            style = f"bold #101010 on {kind.colour}" if kind.colour and has_colour(console) else ""
            line.append(" " * _LEGEND_GAP if index else "").append(f" {kind.letter} ", style)
            line.append(f" {kind.word.ljust(words)}  ").append(figure.rjust(figures))
        lines.append(line)
    return lines


def has_colour(console: Console) -> bool:
    """Whether colours are shown."""
    return console.color_system is not None and not console.no_color
