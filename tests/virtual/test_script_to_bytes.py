"""From a script to bytes: the model of published CUDA memory snapshots on the virtual GPU, against what was recorded.

The figures come from benchmarks/snapshot_model.py, one process a file. The comparison is tighter than what is
promised (2 % allocated, 4 % reserved, 95 % of sizes): all events come out. What may differ are rests of blocks that are
too small to split off, since which block fits best hangs on the addresses that a driver gave.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/scripts/snapshot_lm.py"
BENCHMARK = ROOT / "benchmarks/snapshot_model.py"
ORACLES = Path(os.environ.get("FLATOUT_ORACLES", ROOT / "../shared/oracles")) / "cuda_snapshots"
NAMES = ("128_training", "512_training", "128_inference", "512_inference", "1024_inference")
WORKSPACE_BYTES = 8_519_680
MIB = 1 << 20


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_recorded_step_comes_out(name: str, tmp_path: Path) -> None:
    recorded = ORACLES / f"medium_{name}_memory_snapshot.pickle.xz"
    if not recorded.exists():
        pytest.skip("no recorded snapshots here: set FLATOUT_ORACLES to the folder that has cuda_snapshots/")
    if name == "512_inference" and VERSION < (2, 11):
        pytest.skip("autocast kept cast weights in inference mode before PyTorch 2.11, which recorded this")
    out = tmp_path / "figures.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in (str(ROOT / "src"), *sys.path) if path)}
    ran = subprocess.run(
        [sys.executable, str(BENCHMARK), "--json", str(out), str(recorded)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    row: dict[str, Any] = json.loads(out.read_text("utf-8"))["files"][0]
    assert row["peak_allocated_bytes"] == pytest.approx(row["recorded_peak_allocated_bytes"], rel=0.001)
    assert row["peak_reserved_bytes"] == pytest.approx(row["recorded_reserved_bytes"], rel=0.005)
    assert row["sizes_ratio"] > 0.999
    # Before 3.11, Python lets go of an operator's operands in another order.
    assert row["events_in_order_ratio"] > (0.999 if sys.version_info >= (3, 11) else 0.97)


def run_small(machine: Machine, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, int]:
    """Allocated bytes at the highest point and after the last step's end, above the start, of a model of two layers."""
    machine.workspaces.clear()
    allocator = machine.gpus[0].memory.allocator
    allocator.reset_peaks()
    before: int = allocator.allocated_bytes
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--layers", "2", "--warmup", "1", *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    return int(allocator.peak_allocated_bytes) - before, int(allocator.allocated_bytes) - before


SMALL_PEAKS = {
    ("--context", "128"): 1_120_272_896,
    ("--context", "512", "--autocast"): 1_622_774_784,
    ("--context", "128", "--inference"): 262_336_512,
    ("--context", "512", "--autocast", "--inference"): 474_669_056,
}
"""Peaks in bytes, pinned when all events of the recorded steps came out in order."""
KEPT_CASTS_PEAK = 514_514_944
"""Autocast in inference mode where PyTorch keeps the cast weights (2.6)."""
VERSION = tuple(int(n) for n in torch.__version__.split(".")[:2])


@pytest.mark.parametrize("arguments", SMALL_PEAKS, ids=" ".join)
def test_two_layers_take_what_they_took(
    arguments: tuple[str, ...], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    peak, left = run_small(machine, monkeypatch, *arguments)
    assert left == WORKSPACE_BYTES * (1 if "--inference" in arguments else 2)
    keeps_casts = VERSION < (2, 11) and "--autocast" in arguments and "--inference" in arguments
    assert peak in ((SMALL_PEAKS[arguments], KEPT_CASTS_PEAK) if keeps_casts else (SMALL_PEAKS[arguments],))


def test_inference_mode_keeps_no_cast_weights(machine: Machine) -> None:
    weight = torch.nn.Parameter(torch.zeros(1024, 1024, device="cuda"))
    x = torch.zeros(8, 1024, device="cuda")
    x @ x.T  # cuBLAS's workspace
    allocator = machine.gpus[0].memory.allocator
    kept = {}
    for mode in (torch.no_grad, torch.inference_mode):
        with mode(), torch.autocast("cuda", torch.bfloat16):
            before = allocator.allocated_bytes
            torch.mm(x, weight)
            kept[mode] = allocator.allocated_bytes - before
    assert kept[torch.no_grad] == 2 * MIB
    if VERSION >= (2, 11) or VERSION == (2, 6):  # it changed between these two
        assert kept[torch.inference_mode] == (2 * MIB if VERSION == (2, 6) else 0)


def test_large_tensor_may_be_written_at_indices(machine: Machine) -> None:
    large = torch.zeros(2000, 1000, device="cuda")
    large.scatter_(-1, torch.zeros(2000, 1, dtype=torch.int64, device="cuda"), torch.ones(2000, 1, device="cuda"))
    assert large.shape == (2000, 1000)
