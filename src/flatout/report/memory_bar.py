"""The bar of a GPU's memory, and its legend."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from flatout.report.bars import Kind, bar, bar_width, cells_of
from flatout.report.bars import legend as legend_of
from flatout.report.layout import print_line
from flatout.report.parts import FREE, free_part, parts_of
from flatout.report.units import size_text
from flatout.virtual.prediction import Memory


def print_memory(memory: Memory, console: Console) -> None:
    """The bar, where the GPU ends if more than that is needed, and the legend."""
    for line in (*memory_bar(memory, console), *legend(memory, console)):
        print_line(line, console)


def memory_bar(memory: Memory, console: Console) -> list[Text]:
    """A line of cells from empty to full, one that marks the GPU's end where more than that is needed, an empty one."""
    width = bar_width(console)
    parts = parts_of(memory)
    total_bytes = max(memory.usable_bytes, sum(part.size_bytes for part in parts))
    cells = cells_of([part.size_bytes for part in parts], total_bytes, width)
    line = bar([part.kind for part in parts], cells, console, rest=_dot(console))
    if total_bytes == memory.usable_bytes:
        return [line, Text("")]
    return [line, _end_mark(memory, total_bytes, width, console), Text("")]


def _dot(console: Console) -> str:
    return FREE.letter if console.options.ascii_only else "·"


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
    """The letters with their words and sizes; what is free last."""
    free = free_part(memory)
    entries = [(part.kind, size_text(part.size_bytes)) for part in parts_of(memory)]
    if free.size_bytes > 0:
        entries.append((Kind(_dot(console), free.kind.word, ""), size_text(free.size_bytes)))
    return legend_of(entries, console)
