"""A file that holds Python: a script, a notebook, or Markdown with ```python blocks; or, of kind `text`, none."""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal, NamedTuple, Protocol

from flatout.source.edits import Edit
from flatout.source.text import SourceText

Kind = Literal["python", "notebook", "markdown", "text"]

# `.qmd` and `.Rmd` are Markdown whose blocks are run: ```{python}.
_KINDS: dict[str, Kind] = {
    ".ipynb": "notebook",
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".qmd": "markdown",
    ".rmd": "markdown",
}


class Place(NamedTuple):
    """Where something stands in the file that people see: from 1; `cell` in notebooks only.

    A cell's number is its index among all cells of the notebook, text cells included, as ruff counts.
    """

    line: int
    column: int
    cell: int | None = None


class Document(Protocol):
    """A file as the checker sees it: one Python text, whose offsets can be told in the file's own terms.

    What is not Python is blank in that text, and so is each block or cell that does not parse alone: a snippet with
    something left out says nothing about its neighbours. `skipped_blocks` tells where these begin. All blocks of a
    document are one scope.
    """

    kind: Kind
    python: SourceText
    skipped_blocks: tuple[Place, ...]

    def place(self, offset: int) -> Place:
        """Where `offset` of `python` stands in the file."""

    def holds(self, edit: Edit) -> bool:
        """Whether `edit` lies in one block of Python, so that it can be made."""

    def edited(self, edits: tuple[Edit, ...]) -> bytes:
        """The whole file with `edits` (offsets of `python`) made and every other byte as it was.

        Raises ValueError where two edits overlap or where one is not `held`.
        """


def kind_of(path: str) -> Kind:
    """The kind of file that `path` names by its suffix; a script where it says nothing."""
    return _KINDS.get(PurePath(path).suffix.lower(), "python")


def read_document(path: str, data: bytes) -> Document:
    """The Python in `data`, the bytes of the file `path`. Syntax errors in a script are left for its parser to find.

    Raises UnreadableFileError with one line that names the file, the reason and what to do.
    """
    kind = kind_of(path)
    if kind == "notebook":
        from flatout.source.notebook import read_notebook

        return read_notebook(path, data)
    if kind == "markdown":
        from flatout.source.markdown import read_markdown

        return read_markdown(path, data)
    from flatout.source.script import read_script

    return read_script(path, data)
