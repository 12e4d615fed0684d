"""Markdown: its blocks of Python at their own line numbers, everything else blank."""

from __future__ import annotations

import re
from typing import NamedTuple

from flatout.source.decoding import Decoded, decode_utf8
from flatout.source.document import Kind, Place
from flatout.source.edits import Edit, apply_edits
from flatout.source.fences import Fenced, python_blocks
from flatout.source.magics import as_python
from flatout.source.text import SourceText

_PROMPT = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")
_LINE_END = re.compile(r"(\r\n|\r|\n)")
_INDENT = re.compile(r"[ \t]*")


class _Block(NamedTuple):
    """A block of code: where it opens, and whether it shows an interpreter's prompts."""

    opening: int
    prompts: bool


class MarkdownDocument:
    """A Markdown file. Line n of `python` is line n of the file, without what stands before the code."""

    kind: Kind = "markdown"

    def __init__(self, path: str, data: bytes, decoded: Decoded) -> None:
        self._path, self._data, self._decoded = path, data, decoded
        self._file = SourceText(decoded.text)
        starts = self._file.line_starts
        lines = [decoded.text[a:b].rstrip("\r\n") for a, b in zip(starts, [*starts[1:], len(decoded.text)])]
        self._code_starts = [0] * len(lines)  # where code begins in each line
        self._block_at: dict[int, _Block] = {}  # by index of line
        python = [""] * len(lines)
        skipped = []
        for fenced in python_blocks(lines):
            prompts, cut = _cut(lines, fenced)
            texts = _texts(lines, cut)
            if texts is None:
                skipped.append(Place(fenced.opening + 1, 1))
            else:
                block = _Block(fenced.opening, prompts)
                for index, start in cut.items():
                    python[index] = texts[index]
                    self._code_starts[index] = start
                    self._block_at[index] = block
        ends = [decoded.text[a + len(line) : b] for line, a, b in zip(lines, starts, [*starts[1:], len(decoded.text)])]
        self.python = SourceText("".join(text + end for text, end in zip(python, ends)))
        self.skipped_blocks = tuple(skipped)

    def _line(self, offset: int) -> tuple[int, int]:
        """Index of the line of `offset`, and the offset in its code."""
        line, column = self.python.position(offset)
        return line - 1, column - 1

    def place(self, offset: int) -> Place:
        """The same line of the file; the column further right by what stands before the code."""
        index, column = self._line(offset)
        return Place(index + 1, self._code_starts[index] + column + 1)

    def holds(self, edit: Edit) -> bool:
        """Whether `edit` lies in one block of code that was not skipped."""
        if not 0 <= edit.start <= edit.end <= len(self.python.text):
            return False
        first, last = self._line(edit.start)[0], self._line(edit.end)[0]
        if self._takes_whole_lines(edit) and last > first:
            last -= 1  # it ends where the next line begins, be that code or the fence
        block = self._block_at.get(first)
        return block is not None and all(self._block_at.get(line) is block for line in range(first, last + 1))

    def _takes_whole_lines(self, edit: Edit) -> bool:
        """Whether the edit, and what it puts in, ends where a line ends."""
        column = self._line(edit.start)[1]
        if self._line(edit.end)[1] != 0 or (edit.start == edit.end and column != 0):
            return False
        return edit.content[-1:] in ("\r", "\n") if edit.content else column == 0

    def edited(self, edits: tuple[Edit, ...]) -> bytes:
        """The file with `edits` made, new lines led in as their neighbours are. Raises ValueError for one not held."""
        if not edits:
            return self._data
        written = []
        for edit in edits:
            if not self.holds(edit):
                raise ValueError(f"{self._path}: the edit at offset {edit.start} does not lie in one block of Python")
            written.append(self._as_written(edit))
        return self._decoded.encoded(apply_edits(self._decoded.text, written))

    def _as_written(self, edit: Edit) -> Edit:
        first, column = self._line(edit.start)
        line_start, code_start = self._file.line_starts[first], self._code_starts[first]
        before = self._decoded.text[line_start : line_start + code_start]
        last, end_column = self._line(edit.end)
        end = self._file.line_starts[last]
        content = self._led_in(edit.content, before, self._block_at[first].prompts)
        if not self._takes_whole_lines(edit):
            return Edit(line_start + code_start + column, end + self._code_starts[last] + end_column, content)
        content = content[: len(content) - len(before)] if edit.content else ""  # the line after has a lead of its own
        if column == 0:  # from the start of the line, so that edits of whole lines meet without overlap
            return Edit(line_start, end, before + content if content else "")
        return Edit(line_start + code_start + column, end, content)

    @staticmethod
    def _led_in(content: str, before: str, prompts: bool) -> str:
        """`content` with its second and later lines after what stands before the first."""
        pieces = _LINE_END.split(content)  # lines and their ends in turn
        for at in range(2, len(pieces), 2):
            lead, line = before, pieces[at]
            if prompts and line[:1] in (" ", "\t", ")", "]", "}"):
                lead = before.replace(">>>", "...")
            blank = not line and at + 1 < len(pieces)
            pieces[at] = lead.rstrip() if blank else lead + line
        return "".join(pieces)


def _cut(lines: list[str], fenced: Fenced) -> tuple[bool, dict[int, int]]:
    """Where the code of each line begins, past prompts or common indentation; and whether there are prompts."""
    filled = {index: start for index, start in fenced.starts.items() if lines[index][start:].strip()}
    if not filled:
        return False, {}
    first = min(filled)
    if lines[first][filled[first] :].lstrip().startswith(">>>"):
        shown = {}
        for index, start in filled.items():  # what has no prompt is output
            if (prompt := _PROMPT.match(lines[index], start)) is not None:
                shown[index] = prompt.end()
        return True, shown
    indents = [_indentation(lines[index], start) for index, start in filled.items()]
    shared = 0
    for one, other in zip(min(indents), max(indents)):  # in the order of text, all others lie between these two
        if one != other:
            break
        shared += 1
    return False, {i: min(start + shared, len(lines[i])) for i, start in fenced.starts.items()}


def _indentation(line: str, start: int) -> str:
    match = _INDENT.match(line, start)
    assert match is not None
    return match.group()


def _texts(lines: list[str], cut: dict[int, int]) -> dict[int, str] | None:
    """The code of each line of a block; None where it is not Python."""
    code = "\n".join(lines[index][start:] for index, start in cut.items())
    python = as_python(code)
    return None if python is None else dict(zip(cut, python.split("\n")))


def read_markdown(path: str, data: bytes) -> MarkdownDocument:
    """The Python in a Markdown file, which is UTF-8. Raises UnreadableFileError."""
    return MarkdownDocument(path, data, decode_utf8(path, data, "Markdown"))
