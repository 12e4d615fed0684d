"""A file of plain text, of which nothing is parsed: requirements, Dockerfiles, YAML, TOML."""

from __future__ import annotations

from flatout.source.decoding import Decoded, decode_utf8
from flatout.source.document import Kind, Place
from flatout.source.edits import Edit, apply_edits
from flatout.source.text import SourceText


class PlainDocument:
    """UTF-8 text. `python` is the whole of it, so that it can be looked through as any Document."""

    kind: Kind = "text"
    skipped_blocks: tuple[Place, ...] = ()

    def __init__(self, decoded: Decoded) -> None:
        self._decoded = decoded
        self.python = SourceText(decoded.text)

    def place(self, offset: int) -> Place:
        """Line and column of `offset`."""
        return Place(*self.python.position(offset))

    def holds(self, edit: Edit) -> bool:
        """Any edit of the text."""
        return 0 <= edit.start <= edit.end <= len(self.python.text)

    def edited(self, edits: tuple[Edit, ...]) -> bytes:
        """The file with `edits` made."""
        return self._decoded.encoded(apply_edits(self.python.text, edits))


def read_plain(path: str, data: bytes) -> PlainDocument:
    """The text of `data`. Raises UnreadableFileError for what is not UTF-8 text."""
    return PlainDocument(decode_utf8(path, data, "text file"))
