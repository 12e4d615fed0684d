"""Markdown: which blocks are Python, positions of the file, and edits that keep what stands before the code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.errors import UnreadableFileError
from flatout.source import Edit, Place, read_document


def _python(text: str) -> list[str]:
    """The lines of code that are found."""
    return [line for line in read_document("a.md", text.encode()).python.text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    "opening",
    [
        "python",
        "py",
        "Python",
        " python3",
        'python title="a"',
        "{python}",
        "{.python .numberLines}",
        "{code-cell} ipython3",
        "python,ignore",
        "python {1,3}",
        "python:train.py",
        "{code-block} python",
        "{python, echo=FALSE}",
        "pycon",
    ],
)
def test_a_block_of_python_is_known_by_its_opening(opening: str) -> None:
    assert _python(f"```{opening}\nx = 1\n```\ny\n") == ["x = 1"]


@pytest.mark.parametrize("opening", ["", "bash", "pytb", "text python", "python-repl", "{note} python", "json"])
def test_any_other_block_is_not(opening: str) -> None:
    assert _python(f"```{opening}\nx = 1\n```\n") == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("~~~python\nx\n```\ny\n~~~\nz", []),  # ``` inside is no Python
        ("~~~py\nx\n~~~~\nz", ["x"]),
        ("````py\nx = '''\n```\n'''\n````\nz", ["x = '''", "```", "'''"]),
        ("```python\nx", ["x"]),  # never closed
        ("```python\r\nx\r\n```\r\ny", ["x"]),
        ("```python\rx\r```\ry", ["x"]),
        ("```python\nx\n``` y\n```\n", []),  # no closing fence, and not Python
        ("- a\n\n  ```python\n  if x:\n      y\n  ```\n", ["if x:", "    y"]),
        ("- ```python\n  x\n  ```\n", ["x"]),
        ("1. ```python\n   if x:\n       y\n   ```\nz", ["if x:", "    y"]),
        ("\t```python\n\tx\n\t```\n", ["x"]),
        ("> ```python\n> if x:\n>     y\n> ```\n> z", ["if x:", "    y"]),
        ("> ```python\n>x\nz\n", ["x"]),  # ends with the quote
        (">> ```python\n> > x\n>> ```\n", ["x"]),
        ("> - ```python\n>   x\n>   ```\n", ["x"]),
        ("```python\n    def f(self):\n        return 1\n```\n", ["def f(self):", "    return 1"]),
        ("```text\n```python\nx\n```\n", []),  # no closing fence: an opening one has nothing to say inside a block
        ("```this``` and ```python\nx\n", []),
        ("<!--\n```python\nx\n```\n-->\n```python\ny\n```", ["y"]),
        ("<!-- a -->\n```python\ny\n```", ["y"]),
        (
            "```python\n>>> x = 1\n>>> for a in x:\n...     b\n...\n3\n>>> c\n'out'\n```",
            ["x = 1", "for a in x:", "    b", "c"],
        ),
        ("```python\n!pip install torch\nx\n```", ["...# install torch", "x"]),
        ("```{code-cell} ipython3\n%time x = 1\n```", ["...  ;x = 1"]),
        ("```python\nloss = ...\n...\n```", ["loss = ...", "..."]),
        ("```python\n```\n```python\nx\n```", ["x"]),
    ],
)
def test_blocks_are_found_where_readers_see_them(text: str, code: list[str]) -> None:
    assert _python(text) == code


def test_a_block_that_does_not_parse_is_left_out_and_known() -> None:
    document = read_document("a.md", "# শিরোনাম\n```python\nmodel = Net(…)\n```\n\n```python\nx = 1\n```\n".encode())
    assert document.python.text == "\n\n\n\n\n\nx = 1\n\n"
    assert document.skipped_blocks == (Place(2, 1),)
    assert not document.holds(Edit(2, 2, "y"))


# Each way to lead a line in: the text before the opening fence, before each line of code, and before the closing fence.
LEADS = st.sampled_from(
    [
        ("", "", ""),
        ("  ", "  ", "  "),
        ("- ", "  ", "  "),
        ("> ", "> ", "> "),
        ("\t", "\t", "\t"),
        ("> 1. ", ">    ", ">    "),
    ]
)
CODE = st.lists(st.sampled_from(["x = 1", "গ্রাফ = 2  # 😀", "", "if x:\n    y = 'e\u0301'", "f(a,\n  b)"]), min_size=1)
PROSE = st.sampled_from(["", "কথা 👩‍🔬 é\n\n", "# h\n- a\n\n", "```bash\nls\n```\n", "text ``` more\n"])
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
BLOCKS = st.lists(st.tuples(PROSE, LEADS, CODE), min_size=1, max_size=4)


def _file(blocks: list[tuple[str, tuple[str, str, str], list[str]]], end: str) -> tuple[str, list[list[str]]]:
    """A Markdown file and the lines of code of each of its blocks."""
    text, codes = "", []
    for prose, (opening, lead, closing), code in blocks:
        lines = "\n".join(code).split("\n")
        body = "".join(f"{lead}{line}\n" for line in lines)
        text += f"{prose}\n{opening}```python\n{body}{closing}```\n"
        codes.append(lines)
    return text.replace("\n", end), codes


@given(BLOCKS, ENDS)
def test_every_offset_is_told_in_the_file(blocks: list[tuple[str, tuple[str, str, str], list[str]]], end: str) -> None:
    text, codes = _file(blocks, end)
    document = read_document("a.md", text.encode())
    assert document.edited(()) == text.encode()
    assert document.skipped_blocks == ()
    lines = text.split(end)
    seen = document.python.text.split(end)
    assert len(seen) == len(lines)
    assert [line for line in seen if line.strip()] == [line for code in codes for line in code if line]
    for offset, character in enumerate(document.python.text):
        place = document.place(offset)
        if character not in "\r\n":
            assert lines[place.line - 1][place.column - 1] == character


@given(BLOCKS, ENDS, st.data())
def test_whole_lines_come_and_go_with_what_leads_them_in(
    blocks: list[tuple[str, tuple[str, str, str], list[str]]], end: str, data: st.DataObject
) -> None:
    text, codes = _file(blocks, end)
    document = read_document("a.md", text.encode())
    python = document.python
    number = data.draw(st.integers(0, len(blocks) - 1))
    lead = blocks[number][1][1]
    candidates = [i for i, line in enumerate(codes[number]) if line and not line.startswith(" ")]
    if not candidates:
        return
    index = data.draw(st.sampled_from(candidates))
    file_lines = text.split(end)
    above = sum(len(_file([block], end)[0].split(end)) - 1 for block in blocks[:number])
    row = above + blocks[number][0].count("\n") + 2 + index
    assert file_lines[row] == lead + codes[number][index]
    start, stop = python.line_starts[row], python.line_starts[row + 1]
    new = data.draw(st.sampled_from([[], ["import os"], ["a", "    b"], ["a", "", "b"]]))
    content = "".join(line + end for line in new)
    insertion, removal = Edit(start, start, "import re" + end), Edit(start, stop, content)
    assert document.holds(removal)
    assert document.holds(insertion)
    expected = (
        file_lines[:row]
        + [f"{lead}import re"]
        + [(lead + line).rstrip() if not line else lead + line for line in new]
        + file_lines[row + 1 :]
    )
    assert document.edited((insertion, removal)).decode() == end.join(expected)


@given(BLOCKS, ENDS, st.data())
def test_an_edit_inside_a_line_changes_nothing_outside_it(
    blocks: list[tuple[str, tuple[str, str, str], list[str]]], end: str, data: st.DataObject
) -> None:
    text, _ = _file(blocks, end)
    document = read_document("a.md", text.encode())
    python = document.python
    rows = [row for row in range(len(python.line_starts)) if python.line(row + 1)]
    if not rows:
        return
    row = data.draw(st.sampled_from(rows))
    start = data.draw(st.integers(0, len(python.line(row + 1))))
    stop = data.draw(st.integers(start, len(python.line(row + 1))))
    edit = Edit(python.line_starts[row] + start, python.line_starts[row] + stop, "নাম")
    lines = text.split(end)
    line, column = document.place(edit.start)[:2]
    assert line == row + 1
    old = lines[row]
    lines[row] = old[: column - 1] + "নাম" + old[column - 1 + stop - start :]
    assert document.edited((edit,)).decode() == end.join(lines)


def test_an_edit_outside_the_blocks_is_not_made() -> None:
    document = read_document("a.md", b"text\n```python\nx\n```\n```python\ny\n```\n")
    x, y = document.python.text.index("x"), document.python.text.index("y")
    for edit in (Edit(0, 0, "import os\n"), Edit(x, y + 1, ""), Edit(x, 999, ""), Edit(x + 2, x + 2, "z\n")):
        assert not document.holds(edit)
        with pytest.raises(ValueError, match="does not lie in one block of Python"):
            document.edited((edit,))


def test_lines_put_between_prompts_have_prompts() -> None:
    document = read_document("a.md", b"```pycon\n>>> x = 1\n>>> if x:\n...     y\n2\n>>> z\n```\n")
    text = document.python.text
    edits = (
        Edit(text.index("x"), text.index("x"), "import os\n"),
        Edit(text.index("    y"), text.index("    y"), "    w\n"),
    )
    assert (
        document.edited(edits)
        == b"```pycon\n>>> import os\n>>> x = 1\n>>> if x:\n...     w\n...     y\n2\n>>> z\n```\n"
    )
    assert not document.holds(Edit(text.index("y"), text.index("z"), ""))  # would take the output with it


def test_markdown_is_utf_8() -> None:
    with pytest.raises(
        UnreadableFileError, match=r"^a\.md: byte 0xe9 in line 2 is not UTF-8, as Markdown must be\. Save"
    ):
        read_document("a.md", b"a\n\xe9")


def test_a_byte_order_mark_is_kept() -> None:
    data = "\ufeff```python\nx\n```\n".encode()
    document = read_document("a.md", data)
    assert document.edited(()) == data
    at = document.python.text.index("x")
    assert document.edited((Edit(at, at + 1, "y"),)) == data.replace(b"\nx", b"\ny")
