"""A Jupyter notebook: its code cells as one Python text; an edit rewrites nothing but the strings that it touches."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import NamedTuple

from flatout.errors import UnreadableFileError
from flatout.source.decoding import Decoded, decode_utf8
from flatout.source.document import Kind, Place
from flatout.source.edits import Edit, apply_edits
from flatout.source.magics import as_python
from flatout.source.notebook_json import Cell, Piece, read_cells
from flatout.source.parsing import blank
from flatout.source.text import SourceText

_LINE_WITH_END = re.compile(r"[^\n]*\n|[^\n]+")
# One character of a JSON string as written; a pair of surrogates is one character of Python.
_WRITTEN = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL
)


class _Stretch(NamedTuple):
    """A code cell in the joined text."""

    start: int  # offset of its first character
    end: int  # offset past its last one; the line end that was put between the cells comes after
    number: int  # among all cells, from 1
    cell: Cell


class NotebookDocument:
    """The code cells of a notebook, each followed by a line end."""

    kind: Kind = "notebook"

    def __init__(self, path: str, data: bytes, decoded: Decoded, cells: list[tuple[int, Cell]]) -> None:
        self._path, self._data, self._decoded = path, data, decoded
        self._stretches: list[_Stretch] = []
        texts: list[str] = []
        skipped: list[Place] = []
        at = 0
        for number, cell in cells:
            source = "".join(piece.text for piece in cell.pieces)
            python = as_python(source)
            if python is None:
                python = blank(source)
                skipped.append(Place(1, 1, number))
            self._stretches.append(_Stretch(at, at + len(source), number, cell))
            texts += (python, "\n")
            at += len(source) + 1
        self.python = SourceText("".join(texts))
        self.skipped_blocks = tuple(skipped)
        self._starts = [stretch.start for stretch in self._stretches]

    def _stretch(self, offset: int) -> _Stretch:
        return self._stretches[max(0, bisect_right(self._starts, offset) - 1)]

    def place(self, offset: int) -> Place:
        """The cell, and the line and column in it."""
        if not self._stretches:
            return Place(1, 1)
        stretch = self._stretch(offset)
        line, column = self.python.position(offset)
        return Place(line - self.python.position(stretch.start)[0] + 1, column, stretch.number)

    def holds(self, edit: Edit) -> bool:
        """Whether `edit` lies in one cell."""
        if not self._stretches or not 0 <= edit.start <= edit.end:
            return False
        stretch, edit = self._within(edit)
        return edit.start <= edit.end <= stretch.end and bool(stretch.cell.pieces)

    def _within(self, edit: Edit) -> tuple[_Stretch, Edit]:
        """The cell of an edit. One that removes a cell's last line takes the line end that only stands in our text."""
        stretch = self._stretch(edit.start)
        if edit.start <= stretch.end and edit.end == stretch.end + 1:
            edit = edit._replace(end=stretch.end, content=edit.content.removesuffix("\n"))
        return stretch, edit

    def edited(self, edits: tuple[Edit, ...]) -> bytes:
        """The notebook with `edits` made in its JSON strings. Raises ValueError for one that is not in one cell."""
        if not edits:
            return self._data
        written = []
        for edit in edits:
            if not self.holds(edit):
                raise ValueError(f"{self._path}: the edit at offset {edit.start} does not lie in one cell")
            stretch, edit = self._within(edit)
            start = self._written_offset(stretch, edit.start, at_end=edit.start == stretch.end)
            end = (
                start
                if edit.end == edit.start
                else self._written_offset(stretch, edit.end, at_end=edit.end == stretch.end)
            )
            content = self._as_written(stretch.cell, edit.content)
            if content and edit.start == stretch.end and _ends_in_whole_line(stretch.cell):
                content = f'"{stretch.cell.separator}"{content}'  # what comes behind it is a string of its own
            written.append(Edit(start, end, content))
        return self._decoded.encoded(apply_edits(self._decoded.text, written))

    def _written_offset(self, stretch: _Stretch, offset: int, *, at_end: bool) -> int:
        """Where the character at `offset` is written in the JSON; at a boundary of two lines, the later one's start."""
        left = offset - stretch.start
        pieces = stretch.cell.pieces
        for piece in pieces:
            if left < len(piece.text) or (at_end and piece is pieces[-1]):
                return _offset_in(self._decoded.text, piece, left)
            left -= len(piece.text)
        raise AssertionError("an offset beyond its cell")

    def _as_written(self, cell: Cell, content: str) -> str:
        """`content` inside a JSON string; in a list of lines each line is a string of its own."""
        ascii_only = self._decoded.text.isascii()
        lines = _LINE_WITH_END.findall(content) if cell.listed else [content]
        written = [json.dumps(line, ensure_ascii=ascii_only)[1:-1] for line in lines]
        if cell.listed and content.endswith("\n"):
            written.append("")  # what follows the edit begins a string of its own
        return f'"{cell.separator}"'.join(written)


def _ends_in_whole_line(cell: Cell) -> bool:
    return cell.listed and bool(cell.pieces) and cell.pieces[-1].text.endswith("\n")


def _offset_in(text: str, piece: Piece, index: int) -> int:
    """The offset in the JSON `text` of character `index` of a string."""
    at = piece.start + 1
    if piece.end - piece.start - 2 == len(piece.text):  # nothing is escaped
        return at + index
    for _ in range(index):
        match = _WRITTEN.match(text, at)
        assert match is not None
        at = match.end()
    return at


def read_notebook(path: str, data: bytes) -> NotebookDocument:
    """The notebook in `data`, of format 3 or 4; one of another language holds no Python. Raises UnreadableFileError."""
    decoded = decode_utf8(path, data, "a notebook")
    try:
        notebook = read_cells(decoded.text)
    except json.JSONDecodeError as error:
        raise UnreadableFileError(
            f"{path}: not a notebook: its JSON breaks off at line {error.lineno}, column {error.colno} ({error.msg}). "
            "Save it from Jupyter again."
        ) from None
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else error
        raise UnreadableFileError(f"{path}: not a notebook ({said}). Save it from Jupyter again.") from None
    cells = [
        (number, cell)
        for number, cell in enumerate(notebook.cells, 1)
        if cell.kind == "code" and (cell.language or notebook.language or "python").lower() in ("python", "ipython")
    ]
    return NotebookDocument(path, data, decoded, cells)
