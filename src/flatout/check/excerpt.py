"""The lines of source around a finding, short enough to be kept and shown."""

from __future__ import annotations

from flatout.check.result import Excerpt
from flatout.source import Document, Span

CONTEXT_LINES = 2
_LONGEST = 300  # characters of a line that are kept; of a longer one, those around the finding
_LEAD = 60


def excerpt(document: Document, span: Span) -> Excerpt:
    """The first line of `span` and up to two around it, of the same cell, without blank ones at the ends."""
    text = document.python
    number, column = text.position(span.start)
    end_line, end_column = text.position(span.end)
    place = document.place(span.start)
    line = text.line(number)
    length = (end_column if end_line == number else len(line) + 1) - column
    numbers = [number]
    for step in (-1, 1):
        near = [other for other in _near(number, step, len(text.line_starts)) if _cell(document, other) == place.cell]
        while near and not text.line(near[-1]).strip():
            near.pop()
        numbers += near
    numbers.sort()
    start = max(0, column - 1 - _LEAD) if len(line) > _LONGEST else 0
    lines = (text.line(other)[(start if other == number else 0) :][:_LONGEST] for other in numbers)
    return Excerpt(
        first_line=place.line - (number - numbers[0]),
        lines=tuple(lines),
        caret_column=column - 1 - start,
        caret_length=max(1, min(length, _LONGEST - (column - 1 - start))),
    )


def _near(number: int, step: int, lines: int) -> list[int]:
    """The lines before or after, the nearest first."""
    return [n for n in (number + step * away for away in range(1, CONTEXT_LINES + 1)) if 1 <= n <= lines]


def _cell(document: Document, line: int) -> int | None:
    return document.place(document.python.line_starts[line - 1]).cell
