"""Batches cut along their first dimension."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flatout.errors import UsageError
from flatout.loop.windows.parts import batch_length, split


class Pair(NamedTuple):
    x: torch.Tensor
    weight: float


@dataclasses.dataclass(frozen=True)
class Sample:
    x: torch.Tensor
    names: list[str]


@given(st.integers(1, 40), st.integers(1, 40))
def test_few_and_even_parts_that_hold_everything(length: int, size: int) -> None:
    parts = split(torch.arange(length), length, size)
    assert torch.equal(torch.cat(parts), torch.arange(length))
    sizes = [len(part) for part in parts]
    assert len(sizes) == -(-length // size)
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1


def test_a_batch_of_everything() -> None:
    x = torch.arange(4)
    names = ["a", "b", "c", "d"]
    batch: Any = [
        x,
        OrderedDict(x=x[:, None], scalar=torch.tensor(3.0), kind="k"),
        Pair(x, 0.5),
        Sample(x, names),
        tuple(names),
        ["one", "two"],
        None,
    ]
    assert batch_length(batch) == 4
    first, second = split(batch, 4, 2)
    assert type(first) is list
    assert torch.equal(second[0], x[2:])
    assert type(second[1]) is OrderedDict
    assert torch.equal(second[1]["x"], x[2:, None])
    assert (second[1]["scalar"], second[1]["kind"]) == (3, "k")
    assert torch.equal(first[2].x, x[:2])
    assert first[2].weight == 0.5
    assert second[3].names == ["c", "d"]
    assert (first[4], second[4]) == (("a", "b"), ("c", "d"))
    assert first[5] == ["one", "two"]
    assert first[6] is None
    assert len(batch[3].x) == 4


def test_a_batch_in_one_part_is_itself() -> None:
    batch = {"x": torch.ones(3)}
    assert split(batch, 3, 3)[0] is batch


@pytest.mark.parametrize("batch", [torch.tensor(1.0), [], {"a": "b"}])
def test_no_length(batch: Any) -> None:
    with pytest.raises(UsageError, match="the batch holds no tensor"):
        batch_length(batch)
