"""Notebooks: positions in cells, and JSON in which only the strings that an edit touches change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.errors import UnreadableFileError
from flatout.source import Edit, Place, read_document
from flatout.source.notebook_json import read_cells

LINES = ["x = 1", "গ্রাফ = '😀'", "", "!ls", "%%bash", "def f(:", "s = 'é\\\\ \"q\"'", "if x:\n    y = 2", "\tz"]


def _cell(source: Any, kind: str = "code", **metadata: Any) -> dict[str, Any]:
    return {"cell_type": kind, "metadata": metadata, "source": source, "outputs": [{"data": {"image/png": "A" * 50}}]}


def _notebook(cells: list[dict[str, Any]], **metadata: Any) -> dict[str, Any]:
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _read(notebook: Any, **options: Any) -> Any:
    return read_document("a.ipynb", json.dumps(notebook, **options).encode())


CELLS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(LINES)).map("\n".join),
        st.booleans(),
        st.sampled_from(["code", "code", "markdown", "raw"]),
    )
)
LAYOUTS = st.sampled_from(
    [{"indent": 1}, {"indent": None}, {"separators": (",", ":")}, {"indent": 1, "ensure_ascii": False}]
)


def _listed(cells: list[tuple[str, bool, str]]) -> list[dict[str, Any]]:
    return [_cell(text.splitlines(True) if listed else text, kind) for text, listed, kind in cells]


@given(CELLS, LAYOUTS)
def test_every_offset_is_told_in_its_cell(cells: list[tuple[str, bool, str]], layout: dict[str, Any]) -> None:
    document = _read(_notebook(_listed(cells)), **layout)
    text = document.python.text
    skipped = {place.cell for place in document.skipped_blocks}
    assert len(text) == sum(len(source) + 1 for source, _, kind in cells if kind == "code")
    for offset, character in enumerate(text):
        place = document.place(offset)
        if not character.isspace() and place.cell is not None:
            source, _, kind = cells[place.cell - 1]
            assert kind == "code"
            assert place.cell not in skipped
            here = source.split("\n")[place.line - 1]
            assert here[place.column - 1] == character or here[0] in "!%"  # a magic has a stand-in
    assert document.edited(()) == json.dumps(_notebook(_listed(cells)), **layout).encode()


def test_what_is_put_behind_the_last_whole_line_is_a_line_of_its_own() -> None:
    document = _read(_notebook(_listed([("x = 1\ny = 2\n", True, "code")])), indent=1)
    raw = document.edited((Edit(12, 12, "z"),))
    assert json.loads(raw)["cells"][0]["source"] == ["x = 1\n", "y = 2\n", "z"]


@given(CELLS, LAYOUTS, st.data())
def test_an_edit_changes_its_cell_as_text_and_nothing_else(
    cells: list[tuple[str, bool, str]], layout: dict[str, Any], data: st.DataObject
) -> None:
    document = _read(_notebook(_listed(cells)), **layout)
    numbers = [number for number, (text, _, kind) in enumerate(cells) if kind == "code" and text]
    if not numbers:
        return
    number = data.draw(st.sampled_from(numbers))
    source = cells[number][0]
    start_of_cell = sum(len(text) + 1 for text, _, kind in cells[:number] if kind == "code")
    start = data.draw(st.integers(0, len(source)))
    end = data.draw(st.integers(start, len(source)))
    content = data.draw(st.sampled_from(["", "loss", 'a\n"b"\\', "import os\n", "মান 😀"]))
    edit = Edit(start_of_cell + start, start_of_cell + end, content)
    assert document.holds(edit)
    raw = document.edited((edit,))
    after = json.loads(raw)
    expected = _notebook(_listed(cells))
    new = after["cells"][number]["source"]
    assert "".join(new) == source[:start] + content + source[end:]
    if cells[number][1]:  # still a list, of which no string but the last lacks its line end
        assert all(line.endswith("\n") for line in new[:-1] if line) or start == end == len(source)
        assert not any("\n" in line[:-1] for line in new)
    expected["cells"][number]["source"] = new
    assert after == expected
    if json.dumps(expected, **layout).isascii():
        assert raw.isascii()
    before, changed = json.dumps(_notebook(_listed(cells)), **layout), raw.decode()
    pieces = read_cells(before).cells[number].pieces
    assert changed.startswith(before[: pieces[0].start + 1])
    assert changed.endswith(before[pieces[-1].end - 1 :])


def test_the_layout_of_jupyter_is_kept_where_lines_come_and_go() -> None:
    notebook = _notebook([_cell(["import torch\n", "x = 1\n", "y = 2"])])
    raw = json.dumps(notebook, indent=1)
    document = read_document("a.ipynb", raw.encode())
    text = document.python.text
    at = text.index("x = 1")
    insertion = Edit(at, at, "import time\n")
    removal = Edit(text.index("y"), text.index("y") + 6, "")  # with the line end that ends the cell in our text only
    notebook["cells"][0]["source"] = ["import torch\n", "import time\n", "x = 1\n", ""]
    assert document.edited((insertion, removal)).decode() == json.dumps(notebook, indent=1)


def test_cells_are_numbered_as_ruff_numbers_them() -> None:
    document = _read(
        _notebook([_cell("# t", "markdown"), _cell("%%bash\nls"), _cell("a\nb"), _cell("", "raw"), _cell(["c"])])
    )
    places = [document.place(document.python.text.index(name)) for name in "abc"]
    assert places == [Place(1, 1, 3), Place(2, 1, 3), Place(1, 1, 5)]


def test_an_edit_over_two_cells_is_not_made() -> None:
    document = _read(_notebook([_cell("a"), _cell("b"), _cell([])]))
    assert document.python.text == "a\nb\n\n"
    for edit in (Edit(0, 3, "x"), Edit(4, 4, "x"), Edit(0, 99, "")):
        assert not document.holds(edit)
        with pytest.raises(ValueError, match="does not lie in one cell"):
            document.edited((edit,))


def test_format_3_is_read() -> None:
    cells = [
        {"cell_type": "code", "language": "python", "input": ["x = 1\n", "y"]},
        {"cell_type": "code", "language": "r", "input": "z"},
    ]
    document = _read({"nbformat": 3, "worksheets": [{"cells": cells}]})
    assert document.python.text == "x = 1\ny\n"
    assert document.edited((Edit(0, 1, "w"),)).count(b"w = 1\\n") == 1


@pytest.mark.parametrize("metadata", [{"language_info": {"name": "R"}}, {"kernelspec": {"language": "julia"}}])
def test_a_notebook_of_another_language_holds_no_python(metadata: dict[str, Any]) -> None:
    document = _read(_notebook([_cell("x <- 1")], **metadata))
    assert document.python.text == ""
    assert document.place(0) == Place(1, 1)
    assert not document.holds(Edit(0, 0, "x"))


def test_a_cell_of_another_language_is_left_out() -> None:
    document = _read(
        _notebook([_cell("SELECT", vscode={"languageId": "sql"}), _cell("x")], language_info={"name": "python"})
    )
    assert document.python.text == "x\n"
    assert document.place(0).cell == 2


def test_an_escaped_pair_is_one_character() -> None:
    raw = rb'{"cells": [{"cell_type": "code", "source": ["s = \"\ud83d\ude00\u00e9\\n\"; \u0061 = 1"]}]}'
    document = read_document("a.ipynb", raw)
    at = document.python.text.index("a")
    assert document.edited((Edit(at, at + 1, "b"),)) == raw.replace(rb"\u0061", b"b")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "line 1, column 1"),
        (b"[]", "line 1, column 1"),
        (b"{}", "it has no cells"),
        (b'{"cells": 3}', "Expecting '['"),
        (b'{"cells": [3]}', "Expecting '{'"),
        (b'{"cells": [{"cell_type": "code", "source": 3}]}', "Expecting '['"),
        (b'{"cells": [{"cell_type": "code", "source": [3]}]}', "no text"),
        (b'{"cells": [{"cell_type": "code",\n "source": "a', "line 2"),
        (b'{"cells": []', "line 1, column 13"),
        (b"{3: 4}", "line 1, column 2"),
        (b'{"cells": []}\n{}', "line 2, column 1"),
        (b"<<<<<<< HEAD\n", "line 1"),
        (b'{"cells": ' + b"[" * 200_000, "not a notebook"),
        (b'{"cells": [], "metadata": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"cells": ["\xe9"]}', "byte 0xe9 in line 1 is not UTF-8"),
        (b'{"cells": []}\0', "NUL byte"),
    ],
)
def test_what_is_no_notebook_is_refused_in_one_line(data: bytes, said: str) -> None:
    with pytest.raises(UnreadableFileError) as error:
        read_document("a.ipynb", data)
    message = str(error.value)
    assert message.startswith("a.ipynb: ")
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "odd", [{"cell_type": 3}, {"metadata": 1, "cell_type": "code"}, {"cell_type": "code", "language": []}, {}]
)
def test_what_is_odd_in_a_cell_does_no_harm(odd: dict[str, Any]) -> None:
    document = _read({"cells": [odd, _cell("x")], "metadata": {"language_info": []}})
    assert document.python.text.strip() == "x"


def test_a_lone_surrogate_leaves_its_cell_out() -> None:
    raw = rb'{"cells": [{"cell_type": "code", "source": "s = \"\ud83d\""}, {"cell_type": "code", "source": "x"}]}'
    document = read_document("a.ipynb", raw)
    assert document.python.text.split() == ["x"]
    assert document.skipped_blocks == (Place(1, 1, 1),)
