"""What IPython adds becomes Python at the same place and of the same length; Python stays as it is."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.source.magics import as_python
from flatout.source.parsing import is_python

IPYTHON = [
    "%matplotlib inline",
    "%x",
    "!ls",
    "!",
    "!pip install 'torch  # it's",
    "files = !ls -l",
    "a, b = %who_ls",
    "x.y[0] = !ls",
    "model?",
    "model.forward??",
    "?model",
    "??x",
    "%time y = model(x)",
    "%timeit -n 10 -r3 y.sum()",
    "%time for i in x: i",
    "%load_ext autoreload",
    "!nvidia-smi \\\n  --query (gpu \\\n\n",
    "pip install torch",
    "cd ..",
    "ls",
    ",f a b",
    "%%time",
]
PYTHON = [
    "x = 1",
    "s = '''\n%hello\n!ls\nx?\n'''",
    "k = (1\n  % 2)",
    "if x:\n    y = [\n  1]",
    "# it's (",
    "",
    's = "(\\"("',
    "t = a \\\n % b",
]


def _shape(text: str) -> list[int]:
    return [len(line) for line in text.splitlines()]


@pytest.mark.parametrize("line", IPYTHON)
@pytest.mark.parametrize("indent", ["", "    "])
def test_each_form_becomes_python_in_place(line: str, indent: str) -> None:
    head = "if x:\n" if indent else ""
    cell = f"{head}{indent}{line}\n{indent}loss = 1\n"
    python = as_python(cell)
    assert python is not None
    assert is_python(python)
    assert _shape(python) == _shape(cell)
    assert python.endswith(f"\n{indent}loss = 1\n")


@given(st.lists(st.sampled_from(IPYTHON[:-1] + PYTHON)), st.sampled_from(["\n", "\r\n", "\r"]))
def test_python_between_magics_stays(lines: list[str], end: str) -> None:
    cell = end.join(line.replace("\n", end) for line in lines)
    python = as_python(cell)
    assert python is not None
    assert is_python(python)
    assert [len(line) for line in python.split(end)] == [len(line) for line in cell.split(end)]
    at = 0
    for line in lines:
        line = line.replace("\n", end)
        if line.replace(end, "\n") in PYTHON:
            assert python[at : at + len(line)] == line
        at += len(line) + len(end)


@given(st.lists(st.sampled_from([*"%!?,;/()[]'\"\\ \n\r\ta=.#", "%%", "'''", '"""', "ls "])).map("".join))
def test_no_text_loses_its_shape(cell: str) -> None:
    python = as_python(cell)
    if python is None:
        return
    assert is_python(python)
    assert len(python) == len(cell)
    assert [i for i, c in enumerate(python) if c in "\r\n"] == [i for i, c in enumerate(cell) if c in "\r\n"]


def test_a_timed_statement_is_kept() -> None:
    body = ast.parse(as_python("%time loss = model(x)\n%timeit -n 5 loss.item()") or "").body
    assert [ast.unparse(node) for node in body] == ["...", "loss = model(x)", "...", "loss.item()"]


@pytest.mark.parametrize("magic", ["time", "timeit", "capture out", "prun -s time", "python3"])
def test_a_cell_magic_of_python_keeps_the_cell(magic: str) -> None:
    assert (as_python(f"%%{magic}\nx = 1") or "").endswith("\nx = 1")


@pytest.mark.parametrize("magic", ["bash", "writefile train.py", "html", "", "script ruby", "timer"])
def test_any_other_cell_magic_blanks_it(magic: str) -> None:
    cell = f"\n%%{magic}\nx = 1\r\ny = 2"
    python = as_python(cell)
    assert python is not None
    assert not python.strip()
    assert _shape(python) == _shape(cell)


def test_what_is_python_already_is_not_touched() -> None:
    for text in PYTHON:
        assert as_python(text) == text


def test_a_broken_cell_stays_broken() -> None:
    assert as_python("!ls\ndef f(:\n") is None
    assert as_python("!ls\nx = '''") is None
    assert as_python("!ls\nx = (\n%ls\n") is None
