"""The bar of a GPU's memory, and its legend."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from flatout.report.layout import print_line
from flatout.report.parts import FREE, Kind, Part, free_part, parts_of
from flatout.report.units import size_text
from flatout.virtual.prediction import Memory

_WIDEST_CELLS = 100
_LEGEND_GAP = 4


def cells_of(sizes_bytes: Sequence[int], total_bytes: int, width: int) -> list[int]:
    """How many of `width` cells each size gets: by largest remainder, and their sum never exceeds `width`.

    A size of at least half a cell gets at least one, so that nothing that matters vanishes from the bar; so does the
    largest, however small it is: only an empty GPU has an empty bar.
    """
    if total_bytes <= 0:
        return [0] * len(sizes_bytes)
    exact = [size * width / total_bytes for size in sizes_bytes]
    cells = [int(share) if share >= 1 else int(share >= 0.5) for share in exact]
    spare = min(width, round(sum(exact))) - sum(cells)
    by_remainder = sorted(range(len(exact)), key=lambda index: cells[index] - exact[index])
    for index in by_remainder[: max(0, spare)]:
        cells[index] += 1
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    if width > 0 and not any(cells) and any(sizes_bytes):
        cells[sizes_bytes.index(max(sizes_bytes))] = 1
    return cells


def print_memory(memory: Memory, console: Console) -> None:
    """The bar, where the GPU ends if more than that is needed, and the legend."""
    for line in (*memory_bar(memory, console), *legend(memory, console)):
        print_line(line, console)


def memory_bar(memory: Memory, console: Console) -> list[Text]:
    """A line of cells from empty to full, one that marks the GPU's end where more than that is needed, an empty one."""
    width = min(console.width - 2, _WIDEST_CELLS) - 2
    parts = parts_of(memory)
    total_bytes = max(memory.usable_bytes, sum(part.size_bytes for part in parts))
    cells = cells_of([part.size_bytes for part in parts], total_bytes, width)
    edges = ("|", "|") if console.options.ascii_only else ("▕", "▏")
    line = Text("  ").append(edges[0], "dim")
    for part, count in zip(parts, cells, strict=True):
        line.append_text(_segment(part.kind, count, console))
    dot = FREE.letter if console.options.ascii_only else "·"
    line.append(dot * (width - sum(cells)), "dim").append(edges[1], "dim")
    if total_bytes == memory.usable_bytes:
        return [line, Text("")]
    return [line, _end_mark(memory, total_bytes, width, console), Text("")]


def _segment(kind: Kind, count: int, console: Console) -> Text:
    """Without colour the letter fills the segment; with colour it stands once, at the segment's start."""
    if not _has_colour(console):
        return Text(kind.letter * count)
    letter = f" {kind.letter}" if count > 2 else kind.letter
    return Text(letter.ljust(count)[:count], f"bold #101010 on {kind.colour}")


def _end_mark(memory: Memory, total_bytes: int, width: int, console: Console) -> Text:
    """An arrow below the bar, where the real GPU is full."""
    column = min(width - 1, round(memory.usable_bytes * width / total_bytes))
    arrow = "^" if console.options.ascii_only else "▲"
    words = f"the GPU ends here: {size_text(memory.usable_bytes)}"
    if 3 + column + 2 + cell_len(words) <= console.width:
        return Text(" " * (3 + column)).append(arrow, "bold red").append(f" {words}", "red")
    lead = max(0, 3 + column - cell_len(words) - 1)
    return Text(" " * lead).append(f"{words} ", "red").append(arrow, "bold red")


def legend(memory: Memory, console: Console) -> list[Text]:
    """The letters with their words and sizes, in as many columns as the width allows; read down, then right."""
    parts = [*parts_of(memory), free_part(memory)]
    entries = [part for part in parts if part.size_bytes > 0]
    words = max(cell_len(part.kind.word) for part in entries)
    sizes = max(len(size_text(part.size_bytes)) for part in entries)
    entry_width = 3 + 1 + words + 2 + sizes
    columns = max(1, min(4, (min(console.width, _WIDEST_CELLS) - 2 + _LEGEND_GAP) // (entry_width + _LEGEND_GAP)))
    rows = -(-len(entries) // columns)
    lines = []
    for row in range(rows):
        line = Text("  ")
        for index, part in enumerate(entries[row::rows]):
            line.append(" " * _LEGEND_GAP if index else "").append_text(_entry(part, words, sizes, console))
        lines.append(line)
    return lines


def _entry(part: Part, words: int, sizes: int, console: Console) -> Text:
    kind = part.kind
    letter = "·" if kind is FREE and not console.options.ascii_only else kind.letter
    style = f"bold #101010 on {kind.colour}" if kind.colour and _has_colour(console) else ""
    entry = Text().append(f" {letter} ", style).append(f" {kind.word.ljust(words)}  ")
    return entry.append(size_text(part.size_bytes).rjust(sizes))


def _has_colour(console: Console) -> bool:
    return console.color_system is not None and not console.no_color
