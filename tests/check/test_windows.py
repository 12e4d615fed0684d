from __future__ import annotations

import ast

import pytest
from asking import module

LOOP = """
def train(model, loader, optimizer, n):
    for i, x in enumerate(loader):
        {before}
        loss = model(x)
        loss.backward()
        if {test}:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("test", "size", "alone"),
    [
        ("(i + 1) % n == 0", "n", True),
        ("i % 4 == 3", "4", True),
        ("not (i + 1) % n", "n", True),
        ("(i + 1) % n == 0 or i + 1 == len(loader)", "n", False),
        ("(i + 1) % self.n == 0", "self.n", True),
    ],
)
def test_windows(test: str, size: str, alone: bool) -> None:
    (window,) = module(LOOP.format(before="pass", test=test)).windows.all
    assert ast.unparse(window.size) == size
    assert window.alone is alone
    assert [found.call.lineno for found in window.backwards] == [5]


def test_a_test_with_a_name() -> None:
    (window,) = module(LOOP.format(before="last = (i + 1) % n == 0 or i + 1 == len(loader)", test="last")).windows.all
    assert not window.alone


@pytest.mark.parametrize(
    "source",
    [
        LOOP.format(before="pass", test="i > 4"),
        LOOP.format(before="pass", test="i % 1 == 0"),
        LOOP.format(before="optimizer.zero_grad()", test="i % 4 == 3"),
        LOOP.format(before="other_optimizer.step()", test="i % 4 == 3"),
        "for i, x in enumerate(loader):\n    if i % 4 == 3:\n        model(x).backward()\n        optimizer.step()\n",
    ],
)
def test_no_windows(source: str) -> None:
    assert module(source).windows.all == []
