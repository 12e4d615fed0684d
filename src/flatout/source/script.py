"""A Python file."""

from __future__ import annotations

from flatout.errors import UnreadableFileError
from flatout.source.decoding import Decoded, decode_python
from flatout.source.document import Kind, Place
from flatout.source.edits import Edit, apply_edits
from flatout.source.text import SourceText


class Script:
    """A .py file: its own text, its own offsets."""

    kind: Kind = "python"
    skipped_blocks: tuple[Place, ...] = ()

    def __init__(self, path: str, data: bytes, decoded: Decoded) -> None:
        self._path, self._data, self._decoded = path, data, decoded
        self.python = SourceText(decoded.text)

    def place(self, offset: int) -> Place:
        """The same place: nothing was taken out but the byte order mark, which editors do not count."""
        return Place(*self.python.position(offset))

    def holds(self, edit: Edit) -> bool:
        """Any edit of the text."""
        return 0 <= edit.start <= edit.end <= len(self.python.text)

    def edited(self, edits: tuple[Edit, ...]) -> bytes:
        """The file with `edits` made. Raises UnreadableFileError where its encoding cannot carry them."""
        if not edits:
            return self._data
        text, encoding = self.python.text, self._decoded.encoding
        try:
            if self._decoded.encoded(text) != self._data:  # such as UTF-7, which writes one text in several ways
                raise UnreadableFileError(
                    f"{self._path}: cannot be edited, since {encoding} does not give back the same bytes. "
                    "Save the file as UTF-8."
                )
            return self._decoded.encoded(apply_edits(text, edits))
        except UnicodeEncodeError as error:
            raise UnreadableFileError(
                f"{self._path}: cannot be edited, since {encoding} has no {error.object[error.start]!r}. "
                "Save the file as UTF-8."
            ) from None


def read_script(path: str, data: bytes) -> Script:
    """The script in `data`. Raises UnreadableFileError where Python would not read it as text either."""
    return Script(path, data, decode_python(path, data))
