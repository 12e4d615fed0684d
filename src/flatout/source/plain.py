"""A file of plain text, of which nothing is parsed: requirements, Dockerfiles, YAML, TOML."""

from __future__ import annotations

import codecs

from flatout.errors import UnreadableFileError
from flatout.source.document import Kind, Place
from flatout.source.edits import Edit, apply_edits
from flatout.source.text import SourceText


class PlainDocument:
    """UTF-8 text. `python` is the whole of it, so that it can be looked through as a Document."""

    kind: Kind = "text"

    def __init__(self, text: str, mark: bytes) -> None:
        self.python = SourceText(text)
        self._mark = mark

    def place(self, offset: int) -> Place:
        """Line and column of `offset`."""
        return Place(*self.python.position(offset))

    def edited(self, edits: tuple[Edit, ...]) -> bytes:
        """The file with `edits` made."""
        return self._mark + apply_edits(self.python.text, edits).encode()


def read_plain(path: str, data: bytes) -> PlainDocument:
    """The text of `data`. Raises UnreadableFileError for what is not UTF-8 text."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        text = data[len(mark) :].decode()
    except UnicodeDecodeError as error:
        raise UnreadableFileError(
            f"{path}: not UTF-8 text (byte {error.start + len(mark)}); save it as UTF-8"
        ) from error
    if "\0" in text:
        raise UnreadableFileError(f"{path}: holds NUL bytes, so it is not text; leave it out")
    return PlainDocument(text, mark)
