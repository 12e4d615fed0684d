from __future__ import annotations

import ast

import pytest
from asking import module

from flatout.check.keeping import kept_values, outlives


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("a += b", ("a", "b", "sum")),
        ("a = a + b", ("a", "b", "sum")),
        ("a = b + a", ("a", "b", "sum")),
        ("a += [b]", ("a", "b", "list")),
        ("a.append(b)", ("a", "b", "list")),
        ("self.a['x'].append(b)", ("self.a['x']", "b", "list")),
    ],
)
def test_kept_values(statement: str, expected: tuple[str, str, str]) -> None:
    (kept,) = kept_values(module(statement + "\n"))
    assert (ast.unparse(kept.place), ast.unparse(kept.value), kept.how) == expected


@pytest.mark.parametrize("statement", ["a -= b", "a = b + c", "x = a.append(b)", "a.append(b, c)", "a.update(b)"])
def test_what_keeps_nothing(statement: str) -> None:
    assert list(kept_values(module(statement + "\n"))) == []


@pytest.mark.parametrize(
    ("before", "inside", "expected"),
    [
        ("a = 0", "a += x", True),
        ("a = 0", "a = a + x", True),
        ("a = 0", "a += x\n    if i % 9 == 0:\n        a = 0", True),
        ("pass", "a = 0\n    a += x", False),
        ("self.a = []", "self.a.append(x)", True),
        ("self.a = []", "self.a = []\n    self.a.append(x)", False),
    ],
)
def test_what_outlives_a_round(before: str, inside: str, expected: bool) -> None:
    body = f"{before}\nfor i, x in y:\n    {inside}\n".replace("\n", "\n    ").rstrip()
    parsed = module(f"def f(self, y):\n    {body}\n")
    (kept,) = kept_values(parsed)
    assert outlives(parsed, kept.place, parsed.tree.nodes(ast.For)[0]) is expected
