"""The comparison of recorded with virtual events, on made-up ones."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("snapshot_events")


def made(events: ModuleType, *moves: tuple[str, int, int | None]) -> list[object]:
    return [events.Event(kind, size, "", "", source) for kind, size, source in moves]


def test_equal_windows_agree_entirely(events: ModuleType) -> None:
    window = made(events, ("alloc", 8, None), ("alloc", 4, None), ("free", 8, 0), ("free", 16, None))
    comparison, differences = events.compare(window, window)
    assert (comparison.events_in_order_ratio, comparison.sizes_ratio, differences) == (1.0, 1.0, [])


def test_freeing_another_block_of_that_size_is_a_difference(events: ModuleType) -> None:
    recorded = made(events, ("alloc", 8, None), ("alloc", 8, None), ("free", 8, 0))
    virtual = made(events, ("alloc", 8, None), ("alloc", 8, None), ("free", 8, 1))
    comparison, differences = events.compare(recorded, virtual)
    assert comparison.events_in_order_ratio == pytest.approx(2 / 3)
    assert comparison.sizes_ratio == 1.0
    assert differences == [("replace", 2, 3, 2, 3)]


def test_sizes_are_counted_as_multisets(events: ModuleType) -> None:
    recorded = made(events, ("alloc", 8, None), ("alloc", 8, None), ("alloc", 4, None))
    virtual = made(events, ("alloc", 8, None), ("alloc", 2, None))
    comparison, _ = events.compare(recorded, virtual)
    assert comparison.sizes_ratio == 1 / 4
    assert (comparison.only_recorded, comparison.only_virtual) == ({8: 1, 4: 1}, {2: 1})
