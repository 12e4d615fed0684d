"""Python files: what Python reads is read, what it refuses is refused in one line, and no byte changes by itself."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.errors import UnreadableFileError
from flatout.source import Edit, Place, read_document

DECLARED = ["utf-8", "UTF8", "latin-1", "iso-8859-15", "cp1252", "cp1251", "koi8-r", "shift_jis", "euc-jp", "gb18030"]


def _refusal(data: bytes, path: str = "train.py") -> str:
    with pytest.raises(UnreadableFileError) as error:
        read_document(path, data)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


@given(st.lists(st.sampled_from(["x = 1", "# গ্রাফ 😀", "'é'", "\f", "\tif x:", "", "a\u2028b"])), st.data())
def test_nothing_changes_outside_an_edit(lines: list[str], data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=len(lines), max_size=len(lines)))
    mark = data.draw(st.sampled_from([b"", codecs.BOM_UTF8]))
    text = "".join(line + end for line, end in zip(lines, ends))
    content = mark + text.encode()
    document = read_document("a.py", content)
    assert document.python.text == text
    assert document.edited(()) == content
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    changed = document.edited((Edit(start, end, "নতুন"),))
    assert changed == mark + text[:start].encode() + "নতুন".encode() + text[end:].encode()


@given(st.sampled_from(DECLARED), st.binary(max_size=8), st.booleans(), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_a_declared_encoding_is_read_exactly_where_python_reads_it(
    encoding: str, comment: bytes, second_line: bool, end: bytes
) -> None:
    # Where UTF-8 is declared, `compile` looks into strings but not into comments (running the file looks into both).
    in_string = encoding.lower().startswith("utf")
    content = comment.translate(None, b"\r\n\0\\'")
    line = b"s = '" + content + b"'" if in_string else b"# " + content
    lines = [b"#!/usr/bin/python"] * second_line + [b"# -*- coding: " + encoding.encode() + b" -*-", line, b"x = 1"]
    data = end.join(lines)
    try:
        compile(data, "a.py", "exec")
    except (SyntaxError, ValueError):
        _refusal(data)
    else:
        document = read_document("a.py", data)
        assert document.python.text.endswith("x = 1")
        assert document.edited(()) == data


def test_an_edit_keeps_the_bytes_of_its_encoding() -> None:
    data = "# coding: latin-1\r\nname = 'é'; x = 1\r\n".encode("latin-1")
    document = read_document("a.py", data)
    at = document.python.text.index("x")
    assert document.place(at) == Place(2, 13)
    assert document.edited((Edit(at, at + 1, "ü"),)) == data.replace(b"x =", b"\xfc =")


def test_what_the_encoding_lacks_cannot_be_put_in() -> None:
    document = read_document("a.py", b"# coding: latin-1\nx\n")
    with pytest.raises(UnreadableFileError, match=r"a\.py: cannot be edited, since iso-8859-1 has no '😀'"):
        document.edited((Edit(18, 19, "😀"),))


def test_an_encoding_that_writes_one_text_in_two_ways_is_read_but_not_edited() -> None:
    document = read_document("a.py", b"# coding: utf-7\nx = '+AGE-'\n")
    assert "x = 'a'" in document.python.text
    with pytest.raises(UnreadableFileError, match="does not give back the same bytes"):
        document.edited((Edit(0, 0, "#"),))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"x = 1\0", "holds a NUL byte (line 1)"),
        (b"x = 1\r\n\r\n\0", "holds a NUL byte (line 3)"),
        (b"\x7fELF\x02\x01\x01\0\0", "NUL byte"),
        ("x = 1".encode("utf-16"), "UTF-16"),
        (b"x = 1\rname = '\xe9'", "byte 0xe9 in line 2 is not UTF-8, and no encoding is declared"),
        (b"# coding: utf-8\n\xe9", "byte 0xe9 in line 2 is not UTF-8, and its first lines declare utf-8"),
        (b"# encoding is not declared here\n\xe9", "no encoding is declared"),
        (b"# coding: klingon\n", "unknown encoding: klingon"),
        (b"# coding: hex\n", "cannot be read as hex"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "but declares iso-8859-1"),
        (bytes(range(1, 256)), "is not UTF-8"),
    ],
)
def test_what_python_refuses_is_refused_in_one_line(data: bytes, said: str) -> None:
    assert said in _refusal(data)
    with pytest.raises((SyntaxError, ValueError)):
        compile(data, "train.py", "exec")


def test_a_byte_order_mark_is_kept_and_counts_no_column() -> None:
    document = read_document("a.pyi", codecs.BOM_UTF8 + b"x = 1")
    assert document.place(0) == Place(1, 1)
    assert document.edited((Edit(0, 1, "y"),)) == codecs.BOM_UTF8 + b"y = 1"
    assert document.holds(Edit(0, 5, ""))
    assert not document.holds(Edit(0, 6, ""))
