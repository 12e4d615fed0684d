"""The measurement of cost: its statistics, that both arms train the same, and the table."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "parity"
ONE_PROCESS = ("one number", "MLP, steps of 1 ms", "CNN", "GPT", "GPT, bf16")


@pytest.fixture(scope="module")
def cost() -> Iterator[ModuleType]:
    before = list(sys.path)
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("cost")
    sys.path[:] = before
    for name in ("cost", "cost_work", "pages"):
        sys.modules.pop(name, None)


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=40), st.floats(0.9, 1.1))
def test_a_constant_ratio_is_found(cost: ModuleType, plain: list[float], k: float) -> None:
    mean, low, high = cost.ratio_of([k * seconds for seconds in plain], plain)
    assert mean == pytest.approx(k)
    assert low == pytest.approx(k, rel=1e-6)
    assert high == pytest.approx(k, rel=1e-6)


def test_the_interval_is_students(cost: ModuleType) -> None:
    mean, low, high = cost.interval([1.0, 2.0, 3.0])  # t(0.975, 2) = 4.30, standard error 1 / sqrt(3)
    assert (mean, low, high) == pytest.approx((2.0, 2 - 4.30 / math.sqrt(3), 2 + 4.30 / math.sqrt(3)))
    assert cost.interval([1.0]) == (1.0, -math.inf, math.inf)
    assert cost.interval([0.0, 1.0] * 50)[2] == pytest.approx(0.5 + 1.984 * 0.050252, rel=1e-2)


@pytest.mark.parametrize("name", ONE_PROCESS)
def test_both_arms_train_the_same(cost: ModuleType, name: str) -> None:
    work = importlib.import_module("cost_work")
    found = work.alternate(work.WORKS[name], 3, 4, first=1)
    assert found["losses"]["plain"] == pytest.approx(found["losses"]["loop"], rel=1e-12)
    assert found["losses"]["plain"] == found["losses"]["again"]
    assert len(set(found["losses"]["plain"])) == 4
    assert all(len(column) == 4 for column in found["seconds"].values())


def test_weights_stay_the_same_over_epochs(cost: ModuleType) -> None:
    work = importlib.import_module("cost_work")
    small = work.WORKS["one number"]._replace(data=lambda: (torch.randn(40, 1), torch.randn(40, 1)))
    arms = [arm(small) for arm in (work.Plain, work.Looped)]
    for arm in arms:
        arm.train(25)  # two and a half epochs
    assert torch.equal(*(next(arm.model.parameters()) for arm in arms))


def test_other_losses_are_no_measurement(cost: ModuleType) -> None:
    with pytest.raises(SystemExit, match="nothing to compare"):
        cost._require_same("a", [1.0], [1.1])


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_the_peak_of_memory_is_seen(cost: ModuleType) -> None:
    work = importlib.import_module("cost_work")
    before = work.peak_resident_bytes()
    block = torch.ones(256, 1024, 1024, dtype=torch.uint8)
    assert work.peak_resident_bytes() >= before + 100 * 2**20
    del block


def test_the_table(cost: ModuleType) -> None:
    row = {
        "name": "MLP",
        "step_seconds": 1e-3,
        "time_ratio": [1.004, 1.0, 1.008],
        "control_ratio": [1.003, 1.001, 1.005],
        "extra_seconds_per_step": [4e-6, 0.0, 8e-6],
        "peak_bytes": {"plain": 2**28, "loop": 2**28},
        "peak_ratio": [1.001, 0.999, 1.003],
    }
    found = {"date": "d", "torch": "t", "python": "p", "machine": "m", "seconds": 60.0}
    lines = cost.table({**found, "rows": [row, {**row, "peak_ratio": None}]}).splitlines()
    assert lines[-2] == (
        "| MLP | 1 ms | 1.0040 x (1.0000 to 1.0080) | 1.0030 x (1.0010 to 1.0050) | 4.0 µs (0.0 to 8.0) | 256.0 MiB "
        "| 1.0010 x (0.9990 to 1.0030) |"
    )
    assert lines[-1].endswith("| not known |")
