"""Lines and columns for the terminal: nothing is wider than the console, nothing ends in spaces."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from flatout.report.sources import source_line

INDENT = "  "
LABEL_WIDTH = 9
_NARROWEST_COLUMN = 8


def print_line(line: Text, console: Console) -> None:
    """One line, cut with an ellipsis where the console ends."""
    line.rstrip()
    ellipsis = "..." if console.options.ascii_only else "…"
    if line.cell_len > console.width:
        line.truncate(max(0, console.width - len(ellipsis)))
        line.append(ellipsis)
    console.print(line, no_wrap=True, overflow="ignore", highlight=False, crop=False)


def print_hanging(lead: Text, body: Text, console: Console) -> None:
    """`lead`, then `body` beside it; what does not fit goes on below the body, not below the lead.

    Where the lead leaves less than a third of the console, the body starts on its own line, indented.
    """
    room = console.width - lead.cell_len
    if room >= min(body.cell_len, console.width // 3):
        margin = lead.cell_len
    else:
        print_line(lead, console)
        margin = len(INDENT) * 2
        lead = Text(" " * margin)
    for line in body.wrap(console, max(8, console.width - margin), overflow="fold"):
        print_line(Text.assemble(lead, line), console)
        lead = Text(" " * margin)


def print_labelled(label: str, body: Text, console: Console) -> None:
    """A paragraph behind its label, both indented."""
    print_hanging(Text(INDENT).append(label.ljust(LABEL_WIDTH), "dim"), body, console)


def print_source(source: str, console: Console) -> None:
    """A line of somebody's source, on one line of the console, marked as a quotation."""
    edge = "| " if console.options.ascii_only else "│ "
    margin = Text(INDENT + " " * LABEL_WIDTH).append(edge, "dim")
    print_line(margin.append(source, "cyan"), console)


def print_quotation(file: str | None, line: int | None, console: Console) -> None:
    """The line of source, where it can be read."""
    source = None if file is None else source_line(file, line)
    if source is not None:
        print_source(source, console)


def print_columns(rows: Sequence[Sequence[Text]], right: set[int], console: Console) -> None:
    """Rows whose columns are as wide as their widest cell; the last is cut where the console ends.

    `right` holds the numbers of the columns that are aligned to the right. A last column of which next to nothing would
    be seen is left out.
    """
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    room = console.width - sum(len(INDENT) + width for width in widths[:-1]) - len(INDENT)
    if room < min(_NARROWEST_COLUMN, widths[-1]):
        rows, widths = [row[:-1] for row in rows], widths[:-1]
    for row in rows:
        line = Text(INDENT)
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            padded = cell.copy()
            if number in right:
                padded.pad_left(width - cell.cell_len)
            else:
                padded.pad_right(width - cell.cell_len)
            line.append_text(padded).append(INDENT)
        print_line(line, console)
