"""Commands that install things, in text of any kind: READMEs, Dockerfiles, workflows, cells of notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from flatout.check.words import words
from flatout.source import Span

_CONTINUED = re.compile(r"[\\^`][ \t]*(?:\r\n|\r|\n)")
_LINE = re.compile(r"(?:[^\r\n]|(?<=[\\^`])(?:\r\n|\r|\n))+")
# In a notebook's cell the reader has `!pip install` as `...# install`.
_INSTALL = re.compile(r"(?:\b(?P<tool>pip|conda|mamba|micromamba)[\d.]*|\.\.\.#[\d.]*)\s+install\b")
_END = re.compile(r"&&|\|\||[;|)`]|\s#|\s&\s|(?<!\\)\n\s*\n")
_TOKEN = re.compile(r"[^\s'\",\\\[\]]+")
_WITH_VALUE = frozenset(
    words(
        "-r --requirement -c --constraint --channel -i --index-url --extra-index-url -f --find-links -t --target -e "
        "--editable -n --name -p --prefix --python --platform"
    )
)


class Word(NamedTuple):
    """A word of a command and where it stands."""

    text: str
    span: Span


class Install(NamedTuple):
    """One installing command: the packages that it names, and its whole text."""

    tool: str  # "pip" or "conda"
    packages: tuple[Word, ...]
    text: str
    span: Span


def logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Each line with its offset; one that ends in a backslash goes on in the next."""
    for match in _LINE.finditer(text):
        yield match.group(), match.start()


def installs(text: str) -> Iterator[Install]:
    """The installing commands of `text`, comments left out."""
    for line, offset in logical_lines(text):
        if line.lstrip().startswith("#") or "install" not in line:
            continue
        for match in _INSTALL.finditer(line):
            if "#" in line[: match.start()] and not match.group().startswith("..."):
                continue
            rest = line[match.end() :]
            end = _END.search(rest)
            rest = rest[: end.start()] if end else rest
            start = offset + match.end()
            packages = tuple(_packages(rest, start))
            tool = "conda" if (match["tool"] or "pip").endswith(("conda", "mamba")) else "pip"
            yield Install(
                tool, packages, match.group() + rest, Span(offset + match.start(), start + len(rest.rstrip()))
            )


def _packages(rest: str, start: int) -> Iterator[Word]:
    skip = False
    for token in _TOKEN.finditer(rest):
        text = token.group()
        if skip:
            skip = False
        elif text.startswith("-"):
            skip = text in _WITH_VALUE
        elif text not in ("\\", "^"):
            yield Word(text, Span(start + token.start(), start + token.end()))
