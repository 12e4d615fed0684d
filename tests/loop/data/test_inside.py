"""What lies inside the parts of a loader: a fingerprint tells whether it has changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from flatout.loop.data.inside import fingerprint


class Plain:
    def __init__(self) -> None:
        self.number, self.words, self.weights = 0.5, ["a"], torch.zeros(2)
        self.inner = type("Inner", (), {})()
        self.inner.size = 224


@pytest.mark.parametrize(
    "change",
    [
        lambda p: setattr(p, "number", 0.6),
        lambda p: p.words.append("b"),
        lambda p: p.weights.add_(1),
        lambda p: setattr(p.inner, "size", 256),
        lambda p: setattr(p, "inner", None),
        lambda p: setattr(p, "extra", 1),
    ],
)
def test_a_fingerprint_tells_a_change(change: Any) -> None:
    plain = Plain()
    before = fingerprint({"dataset": plain})
    assert fingerprint({"dataset": plain}) == before
    change(plain)
    assert fingerprint({"dataset": plain}) != before
