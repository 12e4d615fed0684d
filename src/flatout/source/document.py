"""A file that holds Python: a script, a notebook, or Markdown with ```python blocks."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from flatout.source.edits import Edit
from flatout.source.text import SourceText

Kind = Literal["python", "notebook", "markdown"]


class Place(NamedTuple):
    """Where something stands in the file that people see: from 1; `cell` in notebooks only."""

    line: int
    column: int
    cell: int | None = None


class Document(Protocol):
    """A file as the checker sees it: one Python text, whose offsets can be told in the file's own terms."""

    kind: Kind
    python: SourceText  # what is parsed: the blocks or cells joined, everything else blank

    def place(self, offset: int) -> Place:
        """Where `offset` of `python` stands in the file."""

    def edited(self, edits: tuple[Edit, ...]) -> bytes:
        """The whole file with `edits` (offsets of `python`) made and every other byte as it was."""
