"""The traps: a naive loop falls into them, Loop does not; and the page shows what was measured."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "parity"
RESULT = ROOT / "benchmarks" / "results" / "parity.json"
ONE_PROCESS = (
    "last_window",
    "token_means",
    "frozen_weights",
    "clip_unscaled",
    "persistent_workers",
    "resume_order",
    "other_methods",
)
TWO_PROCESSES = ("scheduler_steps", "evaluation_duplicates")
NO_TRAP_IN_PLAIN = ("scheduler_steps",)  # plain PyTorch steps a scheduler once; this trap is of a library's making


@pytest.fixture(scope="module")
def driver() -> Iterator[ModuleType]:
    """benchmarks/parity/traps.py, with the package `traps` beside it."""
    sys.path.insert(0, str(FOLDER))
    importlib.invalidate_caches()
    specification = importlib.util.spec_from_file_location("parity_traps_driver", FOLDER / "traps.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    yield module
    sys.path.remove(str(FOLDER))
    for name in [n for n in sys.modules if n in ("traps", "pages") or n.startswith("traps.")]:
        del sys.modules[name]


@pytest.fixture
def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULT.read_text("utf-8"))
    return found


def test_all_traps_are_tested(driver: ModuleType) -> None:
    assert sorted(importlib.import_module("traps").NAMES) == sorted(ONE_PROCESS + TWO_PROCESSES)
    assert sorted(p.stem for p in (FOLDER / "traps").glob("*.py") if p.stem != "__init__") == sorted(
        ONE_PROCESS + TWO_PROCESSES
    )


@pytest.mark.parametrize("name", ONE_PROCESS)
def test_a_naive_loop_falls_in_and_loop_does_not(driver: ModuleType, name: str) -> None:
    naive = driver.run_here(name, "naive")
    assert (naive.right, naive.value == driver.trap(name).RIGHT) == (False, False)
    ours = driver.run_here(name, "loop")
    assert (ours.right, ours.value) == (True, driver.trap(name).RIGHT)


@pytest.mark.integration
@pytest.mark.parametrize("name", TWO_PROCESSES)
def test_on_two_processes(driver: ModuleType, name: str) -> None:
    assert driver.run_apart(name, "naive")["right"] is (name in NO_TRAP_IN_PLAIN)
    assert driver.run_apart(name, "loop")["right"] is True


@pytest.mark.parametrize("column", ["accelerate", "accelerate_best"])
@pytest.mark.parametrize("name", ONE_PROCESS)
def test_accelerate_does_what_the_page_says(driver: ModuleType, stored: dict[str, Any], name: str, column: str) -> None:
    pytest.importorskip("accelerate")
    version = importlib.metadata.version("accelerate")
    if version != stored["versions"]["accelerate"]:
        pytest.skip(f"the page is about Accelerate {stored['versions']['accelerate']}, installed is {version}")
    cell = next(row for row in stored["rows"] if row["name"] == name)["cells"].get(column)
    if cell is None:
        assert column not in driver.trap(name).COLUMNS
        return
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert driver.run_here(name, column)._asdict() == cell


# --- the page -------------------------------------------------------------------------------------------------------


def test_the_page_shows_what_was_measured(driver: ModuleType, stored: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "loop-parity.md").read_text("utf-8")
    assert f"{driver.BEGIN}\n{driver.table(stored)}\n{driver.END}" in page
    assert [row["name"] for row in stored["rows"]] == list(importlib.import_module("traps").NAMES)
    assert all(row["cells"]["loop"]["right"] for row in stored["rows"])


def test_a_table_is_put_between_the_marks(driver: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{driver.BEGIN}\nold\n{driver.END}\nafter\n", "utf-8")
    driver.write_between(page, driver.BEGIN, driver.END, "new")
    driver.write_between(page, driver.BEGIN, driver.END, "newer")
    assert page.read_text("utf-8") == f"before\n{driver.BEGIN}\nnewer\n{driver.END}\nafter\n"


def test_a_row_says_who_is_wrong(driver: ModuleType) -> None:
    cells = {
        "naive": {"value": "0.25", "right": False, "note": ""},
        "accelerate": {"value": "1", "right": True, "note": "so"},
        "fabric": {"value": "its own", "right": None, "note": ""},
    }
    row = {"name": "a", "title": "A", "measures": "m", "right": "1", "ranks": 1, "cells": cells}
    text = driver.table({"date": "2026-01-01", "python": "3.11", "versions": {"torch": "2"}, "rows": [row]})
    last = text.splitlines()[-1]
    assert last.endswith("| 1 | **0.25** ✗ | 1 ✓ (so) | as default | its own | as default | as default |")
