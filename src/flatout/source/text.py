"""The text of a source file with the positions that `ast` speaks of."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

# The line ends of Python's tokenizer. str.splitlines knows more (form feed, U+2028), which would shift all after.
LINE_END = re.compile(r"\r\n|\r|\n")


class Span(NamedTuple):
    """A piece of a text: offsets in characters, the end exclusive."""

    start: int
    end: int


class SourceText:
    """Decoded source, byte order mark removed. Line ends are as in the file, so offsets are those of its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset of each line's first character."""
        return [0, *(match.end() for match in LINE_END.finditer(self.text))]

    @cached_property
    def _ascii(self) -> bool:
        return self.text.isascii()

    def offset(self, line: int, utf8_column: int) -> int:
        """The offset of an `ast` position: `line` from 1, `utf8_column` in bytes from 0."""
        start = self.line_starts[line - 1]
        if self._ascii:
            return start + utf8_column
        end = self.line_starts[line] if line < len(self.line_starts) else len(self.text)
        return start + len(
            self.text[start:end].encode("utf-8", "surrogatepass")[:utf8_column].decode("utf-8", "ignore")
        )

    def span(self, node: ast.expr | ast.stmt | ast.keyword | ast.alias | ast.arg | ast.excepthandler) -> Span:
        """Where `node` stands."""
        end_line, end_column = node.end_lineno, node.end_col_offset
        assert end_line is not None
        assert end_column is not None
        return Span(self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of `offset`, both from 1, the column in characters."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Line `number` (from 1) without its line end."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def of(self, node: ast.expr | ast.stmt | ast.keyword | ast.alias | ast.arg) -> str:
        """The very text of `node`."""
        start, end = self.span(node)
        return self.text[start:end]

    def short(self, node: ast.expr | ast.stmt, longest: int = 60) -> str:
        """The text of `node` on one line, its middle left out where it is long: for messages."""
        text = " ".join(self.of(node).split())
        keep = longest // 2 - 1
        return text if len(text) <= longest else f"{text[:keep]}...{text[-keep:]}"

    @cached_property
    def newline(self) -> str:
        """The file's own line end."""
        match = LINE_END.search(self.text)
        return match.group() if match else "\n"
