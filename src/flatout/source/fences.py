"""The fenced code blocks of Markdown, found line by line, and which of them are Python.

Looser than CommonMark in one thing: a fence may be indented by any amount, in a list or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# What may stand before a fence: quote marks and list markers, each begun by a character of its own.
_OPENING = re.compile(
    r"(?P<before>[ \t]*(?:(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t]))[ \t]*)*)(?P<fence>`{3,}|~{3,})(?P<info>.*)"
)
_QUOTED = re.compile(r"[ \t]*>[ \t]?")
_WORD = re.compile(r"[\w+#-]+")

_PYTHON = frozenset({"python", "py", "python3", "py3", "python2", "ipython", "ipython3", "pycon", "pyi"})
_DIRECTIVES = frozenset({"code", "code-cell", "code-block", "sourcecode"})  # of MyST: ```{code-block} python


class Fenced(NamedTuple):
    """One block of Python: `lines` from `first` on, each with the offset in its line at which the code begins."""

    opening: int  # index of the line of the fence
    starts: dict[int, int]  # index of a line of code -> where its code begins


def python_blocks(lines: Sequence[str]) -> Iterator[Fenced]:
    """The blocks of Python among `lines`, which carry no line ends."""
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.lstrip().startswith("<!--") and "-->" not in line:  # what it hides nobody reads
            while at < len(lines) and "-->" not in lines[at]:
                at += 1
            continue
        opening = _opening(line)
        if opening is None:
            continue
        opened = at - 1
        starts, at = _code(lines, at, opening)
        if _says_python(opening["info"]):
            yield Fenced(opened, starts)


def _opening(line: str) -> re.Match[str] | None:
    if "```" not in line and "~~~" not in line:
        return None
    match = _OPENING.fullmatch(line)
    if match is None or (match["fence"][0] == "`" and "`" in match["info"]):  # ```such as this``` is text
        return None
    return match


def _code(lines: Sequence[str], at: int, opening: re.Match[str]) -> tuple[dict[int, int], int]:
    """The lines of a block and where it ends: at its closing fence, where its quote ends, or with the file."""
    quotes = opening["before"].count(">")
    # How far the fence stands in behind the last quote mark: as much is taken off each line of code.
    indent = len((opening["before"].rpartition(">")[2] if quotes else opening["before"]).expandtabs(4))
    if quotes and opening["before"].rpartition(">")[2][:1] in (" ", "\t"):
        indent -= 1  # belongs to the quote mark
    mark, length = opening["fence"][0], len(opening["fence"])
    starts: dict[int, int] = {}
    while at < len(lines):
        line = lines[at]
        start = 0
        for _ in range(quotes):
            quote = _QUOTED.match(line, start)
            if quote is None:
                return starts, at
            start = quote.end()
        rest = line[start:].strip()
        if rest and not rest.strip(mark) and len(rest) >= length:
            return starts, at + 1
        starts[at] = _unindented(line, start, indent)
        at += 1
    return starts, at


def _unindented(line: str, start: int, indent: int) -> int:
    """Where `line` begins past up to `indent` columns of space from `start` on. A tab that reaches further stays."""
    column = 0
    while start < len(line) and column < indent and line[start] in " \t":
        column += 4 - column % 4 if line[start] == "\t" else 1
        if column > indent:
            break
        start += 1
    return start


def _says_python(info: str) -> bool:
    """Whether what follows a fence names Python: `py title="x"`, `{.python .numbered}`, `{code} py`."""
    words = _WORD.findall(info[:200].lower())
    if words and words[0] in _DIRECTIVES and info.lstrip().startswith("{"):
        words = words[1:]
    return bool(words) and words[0] in _PYTHON
