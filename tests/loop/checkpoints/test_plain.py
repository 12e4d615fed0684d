"""What a checkpoint may hold: all of it comes back from a reader that runs nothing."""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flatout.errors import UsageError
from flatout.loop.checkpoints.plain import plain

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
KEYS = st.text() | st.integers()
VALUES = st.recursive(LEAVES, lambda parts: st.lists(parts) | st.tuples(parts, parts) | st.dictionaries(KEYS, parts))


class Colour(str, enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


Point = namedtuple("Point", ["x", "y"])


@given(VALUES)
def test_plain_things_stay_as_they_are(value: Any) -> None:
    assert plain(value, "value") == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(0.3), 0.3),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int64(4), 4),
        (np.bool_(True), True),
        (Colour.RED, "red"),
        (Size.BIG, 3),
        (Point(1, [2]), (1, [2])),
        (defaultdict(list, {1: [2]}), {1: [2]}),
        (OrderedDict(b=1, a=2), OrderedDict(b=1, a=2)),
        (Counter([4, 4, 7]), Counter([4, 4, 7])),
        ({1, 2}, {1, 2}),
        (1j, 1j),
        (torch.Size([2, 3]), torch.Size([2, 3])),
        (torch.float16, torch.float16),
        (torch.device("cpu"), torch.device("cpu")),
    ],
)
def test_subclasses_become_what_they_derive_from_and_are_read_back(tmp_path: Path, value: Any, expected: Any) -> None:
    made = plain(value, "value")
    assert made == expected
    assert type(made) is type(expected)
    torch.save(made, tmp_path / "file")
    read = torch.load(tmp_path / "file", weights_only=True)
    assert read == expected
    assert type(read) is type(expected)


def test_a_copy_is_on_its_own() -> None:
    tensor = torch.zeros(6).view(2, 3).t()
    shared, copied = plain([tensor], "value"), plain([tensor], "value", copy=True)
    tensor += 1
    assert torch.equal(shared[0], tensor)
    assert torch.equal(copied[0], tensor - 1)
    assert copied[0].stride() == tensor.stride()
    assert not plain(torch.nn.Parameter(torch.zeros(2)), "value").requires_grad


class Tagged(torch.Tensor):
    """A tensor of a kind of its own."""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (object(), r"object"),
        (np.zeros(3), "ndarray"),
        (frozenset({1}), "frozenset"),
        (len, "builtin_function_or_method"),
        (Path("x"), r"PosixPath|WindowsPath"),
        (torch.zeros(2).as_subclass(Tagged), "Tagged"),
    ],
)
def test_anything_else_is_refused_by_its_place(value: Any, name: str) -> None:
    with pytest.raises(UsageError, match=rf"loop.save\(...\): extra\['a'\]\[1\] is .*({name})"):
        plain({"a": [0, value]}, "extra")
