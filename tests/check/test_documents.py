"""Notebooks and Markdown pages, through a whole check and its fixes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flatout.check.difference import file_diff
from flatout.check.fixing import Fixed, fix_data
from flatout.check.run import Request, check_paths
from flatout.report.check import Options, render

NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {},
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# x.item()"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["%time\n", "a = 1\n", "b = x.item()"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["if b:\n", "    ক = y.item()  # হ্যাঁ\n"]},
    ],
}
PAGE = """# Slow

x.item() in prose, and `x.item()`

- a list:

  ```python
  for a in b:
      total += a.item()
  ```

```python
x.item(   # ... left out
```

```py
risky
```

pip install torch -f https://download.pytorch.org/whl/cu92
"""


def _fix(name: str, *, unsafe: bool = False) -> tuple[bytes, Fixed, str]:
    checked = check_paths(Request(paths=(name,)))
    before = Path(name).read_bytes()
    job = checked.jobs[name]
    done = fix_data(job, before, unsafe=unsafe)
    return before, done, file_diff(job, before, done.data)


@pytest.fixture
def notebook(project: Path) -> Path:
    path = project / "a.ipynb"
    path.write_text(json.dumps(NOTEBOOK, indent=1), encoding="utf-8")
    return path


def test_a_notebook_s_places_are_those_of_its_cells(notebook: Path) -> None:
    result = check_paths(Request()).result
    assert render(result, "concise", Options()).splitlines() == [
        "a.ipynb:cell 2:3:5: FO101 [*] `x.item()` waits",
        "a.ipynb:cell 3:2:9: FO101 [*] `y.item()` waits",
    ]
    first, second = result.diagnoses
    assert first.excerpt.lines[-1] == "b = x.item()"  # nothing of the next cell
    assert (second.excerpt.first_line, second.excerpt.lines) == (1, ("if b:", "    ক = y.item()  # হ্যাঁ"))
    assert json.loads(render(result, "json", Options()))[1]["cell"] == 3


def test_a_notebook_is_fixed_and_stays_the_same_elsewhere(notebook: Path) -> None:
    before, done, difference = _fix("a.ipynb")
    assert done.data == before.replace(b"b = x.item()", b"b = x").replace(b"y.item()", b"y")
    assert json.loads(done.data)["cells"][0]["source"] == ["# x.item()"]
    assert "--- a.ipynb:cell 2\n" in difference
    assert "-b = x.item()\n" in difference
    assert "+    ক = y  # হ্যাঁ\n" in difference


def test_a_damaged_notebook_is_one_line(project: Path) -> None:
    (project / "a.ipynb").write_text('{"cells": [ "item"')
    ((file, reason),) = check_paths(Request()).result.errors
    assert file == "a.ipynb"
    assert "\n" not in reason


@pytest.mark.parametrize("source", ["x.item(  # unfinished", "x.item()  # \ud800 half a character"])
def test_a_cell_that_is_not_python_is_told(project: Path, source: str) -> None:
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": [text]} for text in (source, "y.item()")]
    (project / "a.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    result = check_paths(Request()).result
    assert [one.finding.cell for one in result.diagnoses] == [2]
    assert result.errors == [("a.ipynb", "cell 1: not Python, left out")]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_page(project: Path, newline: str) -> None:
    (project / "a.md").write_bytes(PAGE.replace("\n", newline).encode())
    result = check_paths(Request()).result
    assert [(one.finding.line, one.finding.column, one.finding.code) for one in result.diagnoses] == [
        (9, 16, "FO101"),
        (17, 1, "FO105"),
        (20, 55, "FO805"),
    ]
    assert result.diagnoses[0].excerpt.lines[-1].strip() == "total += a.item()"
    before, done, _ = _fix("a.md", unsafe=True)
    after = before.replace(b"a.item()", b"a").replace(b"risky", b"calm").replace(b"cu92", b"cu126")
    assert done.data == after
    assert fix_data(check_paths(Request()).jobs["a.md"], done.data, unsafe=True).applied == ()


def test_a_fix_that_would_spoil_a_block_is_not_made(project: Path) -> None:
    (project / "a.md").write_text("```python\nbroken\n```\n")
    _, done, difference = _fix("a.md")
    assert done.dropped == ("a.md:2: the fix of FO105 was not made, for it would not leave valid Python",)
    assert difference == ""


def test_an_encoding_that_cannot_carry_a_fix_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toy_rules import names

    monkeypatch.setitem(names.FIXES, "risky", ("চ", "safe"))
    (project / "a.py").write_bytes("# coding: latin-1\nrisky  # \xe9\n".encode("latin-1"))
    before, done, _ = _fix("a.py")
    assert done.data == before
    assert len(done.dropped) == 1
    assert "iso-8859-1 has no" in done.dropped[0]
