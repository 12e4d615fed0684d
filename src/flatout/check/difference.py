"""What fixes would change, as a unified diff.

file_diff(job, before, after) -> str
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from flatout.check.jobs import Job
from flatout.source import Document, read_document
from flatout.source.text import LINE_END


def file_diff(job: Job, before: bytes, after: bytes) -> str:
    """The change of a file, for people and for `patch`; of a notebook, cell by cell."""
    if job.kind == "notebook":
        old, new = _cells(read_document(job.shown, before)), _cells(read_document(job.shown, after))
        return "".join(_diff(f"{job.shown}:cell {cell}", old[cell], new.get(cell, [])) for cell in old)
    return _diff(job.shown, _lines(before), _lines(after))


def _lines(data: bytes) -> list[str]:
    """Lines with their ends. What is not UTF-8 is shown in its place by Latin-1's characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return list(_split(text))


def _split(text: str) -> Iterator[str]:
    start = 0
    for match in LINE_END.finditer(text):
        yield text[start : match.end()]
        start = match.end()
    if start < len(text):
        yield text[start:]


def _cells(document: Document) -> dict[int, list[str]]:
    """The lines of each cell of a notebook."""
    cells: dict[int, list[str]] = {}
    text = document.python
    for start, line in zip(text.line_starts, _split(text.text)):
        cells.setdefault(document.place(start).cell or 0, []).append(line)
    return cells


def _diff(name: str, old: list[str], new: list[str]) -> str:
    pieces = []
    for line in difflib.unified_diff(old, new, name, name):
        pieces.append(line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n")
    return "".join(pieces)
