"""Where the sources of a notebook's code cells stand in its JSON.

The format is read no further than that: what lies between is skipped with the standard library's own parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder().raw_decode


class Piece(NamedTuple):
    """One JSON string of a cell's source: offsets of its quotes in the JSON (the end after the closing one)."""

    start: int
    end: int
    text: str


class Cell(NamedTuple):
    """One cell that holds text of some kind."""

    kind: str | None  # `code`, `markdown`, `raw`, ...
    language: str | None  # the cell's own, where it has one
    pieces: tuple[Piece, ...]
    listed: bool  # whether the source is a list of lines, not one string
    separator: str  # what stands between two lines of the list


class Notebook(NamedTuple):
    """The cells in their order, and the language of the notebook (None where it says nothing)."""

    language: str | None
    cells: tuple[Cell, ...]


def read_cells(text: str) -> Notebook:
    """The cells of a notebook of format 3 or 4. Raises ValueError where `text` is none, RecursionError if too deep."""
    cells: list[Cell] = []
    language, found = None, False
    start = _skip_space(text, 0)
    # All of it is parsed once, so that below only what the format asks for has to be checked.
    if (end := _after_value(text, start)) < len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    for key, at in _members(text, start):
        if key == "metadata":
            language = _language(_decode(text, at)[0])
        elif key == "cells":
            found = True
            cells += [_cell(text, item) for item in _items(text, at)]
        elif key == "worksheets":  # format 3: each sheet has its cells
            found = True
            for sheet in _items(text, at):
                for name, inner in _members(text, sheet):
                    if name == "cells":
                        cells += [_cell(text, item) for item in _items(text, inner)]
    if not found:
        raise ValueError("it has no cells")
    return Notebook(language, tuple(cells))


def _language(metadata: Any) -> str | None:
    return _word(metadata, "language_info", "name") or _word(metadata, "kernelspec", "language")


def _word(value: Any, *keys: str) -> str | None:
    """The string under `keys`, one inside the other; None where the file has something else there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _cell(text: str, at: int) -> Cell:
    kind: str | None = None
    language: str | None = None
    source: int | None = None
    for key, value in _members(text, at):
        if key == "cell_type":
            kind = _word(_decode(text, value)[0])
        elif key == "language":  # format 3
            language = _word(_decode(text, value)[0])
        elif key == "metadata":  # a cell that an editor marked as of another language
            language = _word(_decode(text, value)[0], "vscode", "languageId") or language
        elif key in ("source", "input"):
            source = value
    if source is None:
        return Cell(kind, language, (), False, "")
    if text.startswith('"', source):
        value_text, end = _decode(text, source)
        return Cell(kind, language, (Piece(source, end, value_text),), False, "")
    pieces = []
    for item in _items(text, source):
        if not text.startswith('"', item):
            raise ValueError(f"the source of a cell is no text at character {item}")
        piece, end = _decode(text, item)
        pieces.append(Piece(item, end, piece))
    if len(pieces) > 1:
        separator = text[pieces[0].end : pieces[1].start]
    else:
        separator = "," + (text[source + 1 : pieces[0].start] if pieces else "")
    return Cell(kind, language, tuple(pieces), True, separator)


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _past(text: str, at: int, mark: str) -> int:
    """Past `mark` and the space after it. Raises ValueError where something else stands at `at`."""
    if not text.startswith(mark, at):
        raise json.JSONDecodeError(f"Expecting {mark!r}", text, at)
    return _skip_space(text, at + len(mark))


def _after_value(text: str, at: int) -> int:
    """Past the value at `at` and the space after it."""
    end: int = _decode(text, at)[1]
    return _skip_space(text, end)


def _items(text: str, at: int) -> Iterator[int]:
    """Where each value of the array at `at` begins. Each is skipped, and so checked, when the next is asked for."""
    at = _past(text, at, "[")
    while not text.startswith("]", at):
        yield at
        at = _after_value(text, at)
        if not text.startswith("]", at):
            at = _past(text, at, ",")


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The name and the start of the value of each member of the object at `at`."""
    at = _past(text, at, "{")
    while not text.startswith("}", at):
        name, at = _decode(text, at)
        at = _past(text, _skip_space(text, at), ":")
        yield name, at
        at = _after_value(text, at)
        if not text.startswith("}", at):
            at = _past(text, at, ",")
