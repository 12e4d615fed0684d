"""Offsets, lines and columns of a text, against `ast` and against plain counting."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from flatout.source import SourceText

# Every line end, what only looks like one, and characters of one to four bytes, combining ones among them.
PIECES = ["\r\n", "\r", "\n", "\f", "\u2028", "\x85", "a", " ", "\t", "é", "গ", "্", "😀", "e\u0301"]
ANY_TEXT = st.lists(st.sampled_from(PIECES)).map("".join)
NAMES = st.sampled_from(["a", "গ্রাফ", "é", "模型", "x1"])


@given(ANY_TEXT)
def test_offset_and_position_go_round(text: str) -> None:
    source = SourceText(text)
    for offset in range(len(text) + 1):
        line, column = source.position(offset)
        assert 1 <= line <= len(source.line_starts)
        before = text[source.line_starts[line - 1] : offset]
        assert len(before) == column - 1
        assert source.offset(line, len(before.encode())) == offset


@given(ANY_TEXT)
def test_lines_are_those_of_the_tokenizer(text: str) -> None:
    source = SourceText(text)
    lines = [source.line(number) for number in range(1, len(source.line_starts) + 1)]
    assert lines == text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


@given(st.lists(NAMES, min_size=1), st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["", "'😀'; ", "\f"]))
def test_a_node_has_its_very_text(names: list[str], end: str, before: str) -> None:
    source = SourceText(end.join(f"{before}{name} = {name}" for name in names))
    found = [source.of(node) for node in ast.walk(ast.parse(source.text)) if isinstance(node, ast.Name)]
    assert sorted(found) == sorted(names * 2)


def test_the_newline_of_a_file_is_its_first() -> None:
    assert SourceText("a\r\nb\n").newline == "\r\n"
    assert SourceText("a").newline == "\n"
