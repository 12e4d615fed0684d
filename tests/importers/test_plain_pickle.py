from __future__ import annotations

import contextlib
import os
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatout.importers.plain_pickle import PlainPickleError, load_plain

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.tuples(inner, inner, inner, inner)
    ),
    max_leaves=30,
)


@given(PLAIN, st.sampled_from([2, 3, 4, 5]))
def test_plain_data_comes_back(value: Any, protocol: int) -> None:
    # What is longer than the value's own bytes are worth is refused as hostile; a long string makes room.
    value = [value, "x" * 5000]
    assert load_plain(pickle.dumps(value, protocol)) == value


def test_shared_values_and_large_numbers() -> None:
    shared = {"filename": "train.py", "line": 70000}
    value = [shared, shared, 1 << 3000, -(1 << 63), 255, 65535, "é" * 300]
    loaded = load_plain(pickle.dumps(value, 4))
    assert loaded == value
    assert loaded[0] is loaded[1]


def test_nothing_is_run() -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, ("exit 1",)

    for protocol in (2, 4):
        with pytest.raises(PlainPickleError, match="does not build plain data"):
            load_plain(pickle.dumps([Attack()], protocol))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "damaged or cut off"),
        (b"\x80\x04", "damaged or cut off"),
        (b"\x80\x09N.", "protocol 9 is not known"),
        (b"(lp0\n.", "does not build plain data"),
        (b"\x80\x04\x8c\xff", "damaged or cut off"),
        (b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b".", "damaged or cut off"),
        (b"\x80\x02Nr\xff\xff\xff\xff.", "memo entry 4294967295 comes before entry 0"),
        (b"\x80\x04" + b"]" * 5000 + b".", "more containers than"),
        (b"\x80\x04" + b")" * 5000 + b".", "more containers than"),
        (b"\x80\x04\x8c\x01\xff.", "not UTF-8"),
        (b"\x80\x04}(]N\x75.", "contradict"),
        (b"\x80\x04Na.", "damaged or cut off"),
        (b"\x80\x04NNa.", "contradict"),
        (b"\x80\x04\x85.", "damaged or cut off"),
        (b"\x80\x04e.", "damaged or cut off"),
    ],
)
def test_hostile_and_damaged_bytes_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(PlainPickleError, match=message):
        load_plain(data)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    with contextlib.suppress(PlainPickleError):
        load_plain(b"\x80\x04" + data)


@given(st.integers(0, 400))
def test_every_cut_is_an_error(cut: int) -> None:
    data = pickle.dumps([{"addr": 1 << 40, "size": 512, "frames": [("a", 1)]}] * 5 + ["text"] * 50, 4)
    with pytest.raises(PlainPickleError):
        load_plain(data[: min(cut, len(data) - 1)])
