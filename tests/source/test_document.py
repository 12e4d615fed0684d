"""Kinds of files, and that reading any of them takes time in proportion to its size."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from flatout.source import Edit, kind_of, read_document


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.py", "python"),
        ("a/b.pyi", "python"),
        ("-", "python"),
        ("a", "python"),
        ("README.MD", "markdown"),
        ("a.ipynb", "notebook"),
        ("a.qmd", "markdown"),
        ("a.Rmd", "markdown"),
        ("C:\\x\\a.ipynb", "notebook"),
    ],
)
def test_the_suffix_tells_the_kind(path: str, kind: str) -> None:
    assert kind_of(path) == kind


def _notebook(source: object) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": source}], "metadata": {}})


# Each makes a file of about `size` characters that a careless expression or loop would take quadratic time for.
HARD: dict[str, tuple[str, Callable[[int], str]]] = {
    "many lines": ("a.py", lambda size: "x = model(y)\n" * (size // 13)),
    "one line": ("a.py", lambda size: "x = [" + "1, " * (size // 3) + "]"),
    "one comment that seems to declare": ("a.py", lambda size: "# " + "coding " * (size // 7)),
    "backticks in one line": ("a.md", lambda size: "`" * size),
    "backticks, then text": ("a.md", lambda size: "`" * (size // 2) + "a" * (size // 2) + "`"),
    "fences in fences": ("a.md", lambda size: "".join(f"{'`' * (3 + n % 9)}python\nx\n" for n in range(size // 17))),
    "growing fences": ("a.md", lambda size: "".join("`" * n + "python\n" for n in range(3, int((2 * size) ** 0.5)))),
    "small blocks": ("a.md", lambda size: "```py\nx\n```\n" * (size // 12)),
    "broken blocks": ("a.md", lambda size: "```py\nx(\n```\n" * (size // 13)),
    "quotes": ("a.md", lambda size: ">" * (size // 2) + "```py\n" + ">" * (size // 2)),
    "list marks": ("a.md", lambda size: "- " * (size // 2) + "``` `\n"),
    "spaces before a fence": ("a.md", lambda size: " " * size + "``` `"),
    "comments that stay open": ("a.md", lambda size: "<!--\n" * (size // 5)),
    "indented blank lines": ("a.md", lambda size: "```py\n" + " " * 50 + "\n" + "  \n" * (size // 3)),
    "magics": ("a.ipynb", lambda size: _notebook("!ls\nx = 1\n" * (size // 10))),
    "a magic line": ("a.ipynb", lambda size: _notebook("%time" + " -n 1" * (size // 5))),
    "a magic over lines": ("a.ipynb", lambda size: _notebook("!a \\\n" * (size // 5))),
    "an open string": ("a.ipynb", lambda size: _notebook("!ls\ns = '''" + "\\'''" * (size // 4))),
    "open brackets": ("a.ipynb", lambda size: _notebook("!ls\n" + "(\n" * (size // 2))),
    "cells": ("a.ipynb", lambda size: json.dumps({"cells": [{"cell_type": "code", "source": "x"}] * (size // 35)})),
    "lines in a cell": ("a.ipynb", lambda size: _notebook(["x = 1\n"] * (size // 10))),
    "escapes": ("a.ipynb", lambda size: _notebook("s = '" + "\u0997" * (size // 6) + "'")),
}


def _seconds(path: str, data: bytes) -> float:
    """Processor time to read `data` and to make one edit in it."""
    start = time.process_time()
    document = read_document(path, data)
    document.place(len(document.python.text))
    edit = Edit(0, 0, "y")
    if document.holds(edit):
        document.edited((edit,))
    return time.process_time() - start


@pytest.mark.parametrize("name", HARD)
def test_time_grows_with_the_size(name: str) -> None:
    path, make = HARD[name]
    small, large = make(25_000).encode(), make(400_000).encode()
    large_seconds = min(_seconds(path, large) for _ in range(3))
    # 16 times the size; a quadratic one takes 256 times as long. Below 0.2 s nothing can be told, nor need be.
    assert large_seconds < 0.2 or large_seconds < 64 * min(_seconds(path, small) for _ in range(3))
