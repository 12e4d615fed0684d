"""Times, choices and kept recordings through the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import argparse
import torch
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
arguments = parser.parse_args()
model = torch.nn.Sequential(torch.nn.Linear(256, 65536), torch.nn.ReLU(), torch.nn.Linear(65536, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.zeros(1 << 16, 256), torch.zeros(1 << 16, dtype=torch.long))
for x, y in DataLoader(data, arguments.batch_size):
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def flatout(folder: Path, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, report, JSON (empty where none was written)."""
    written = folder / "prediction.json"
    written.unlink(missing_ok=True)
    ran = subprocess.run(
        [sys.executable, "-m", "flatout", "predict", "--json", str(written), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return ran.returncode, ran.stderr, json.loads(written.read_text()) if written.exists() else {}


def test_a_kept_recording_gives_the_same_prediction_twice(script: Path, tmp_path: Path) -> None:
    code, report, first = flatout(tmp_path, "--gpu", "a100", "-o", "run.flatout", "train.py")
    assert code == 0
    assert "simulated" in report
    time = first["results"][0]["time"]
    assert time["samples_per_second"] == pytest.approx(32 / time["step_seconds"])
    assert sum(time["bound_by"].values()) == pytest.approx(time["step_seconds"])
    _, _, again = flatout(tmp_path, "run.flatout")
    _, _, once_more = flatout(tmp_path, "run.flatout")
    assert again["results"] == first["results"] == once_more["results"]
    assert again["findings"] == first["findings"]

    _, _, slow = flatout(tmp_path, "--cpu-scale", "4", "--trace", "step.json", "run.flatout")
    assert slow["results"][0]["time"]["step_seconds"] > 1.5 * time["step_seconds"]
    assert json.loads((tmp_path / "step.json").read_text())["traceEvents"]
    _, _, smaller = flatout(tmp_path, "--gpu", "a100-40gb", "run.flatout")
    assert smaller["results"][0]["judged_from"] == first["results"][0]["label"]

    code, _, priced = flatout(tmp_path, "--price", "a100=1.3", "run.flatout")
    assert (code, priced["results"][0]["dollars_per_million_samples"] is not None) == (0, True)
    code, report, _ = flatout(tmp_path, "--gpu", "h100", "run.flatout")
    assert (code, "another path" in report) == (2, True)
    code, report, _ = flatout(tmp_path, "run.flatout", "--workers", "2")
    assert (code, "options come before it" in report) == (2, True)


def test_every_gpu_in_one_table_and_the_script_runs_once_a_path(script: Path, tmp_path: Path) -> None:
    script.write_text(SCRIPT.replace("for x, y", "open('ran', 'a').write('x')\nfor x, y"))
    _, report, found = flatout(tmp_path, "--allow-writes", "--gpu", "all", "--price", "t4=0.35,h100=2.5", "train.py")
    from flatout.gpu import all_gpus

    assert len(found["results"]) == len(all_gpus())
    ran_on = {result["judged_from"] or result["label"] for result in found["results"]}
    # Products in float32 differ in nothing but the workspace of cuBLAS, which is larger from Hopper on.
    assert (len((tmp_path / "ran").read_text()), len(ran_on)) == (2, 2)
    assert all(result["time"] is not None for result in found["results"])
    priced = [r["label"] for r in found["results"] if r["dollars_per_million_samples"] is not None]
    assert sorted(priced) == ["H100 SXM 80 GB", "T4"]
    lines = [line.split()[0] for line in report.splitlines() if "fits" in line]
    assert set(lines[:2]) == {"T4", "H100"}


def test_the_largest_and_the_fastest_batch(script: Path, tmp_path: Path) -> None:
    _, report, found = flatout(tmp_path, "--gpu", "t4", "--vary", "batch-size=4096..65536", "train.py")
    batch = found["results"][0]["largest_batch"]
    assert batch["argument"] == "--batch-size"
    values = {tried["value"]: tried["outcome"] for tried in batch["tried"]}
    assert batch["largest"] == max(value for value, outcome in values.items() if outcome == "fits")
    assert "out_of_memory" in values.values()
    assert "largest" in report


def test_an_argument_that_the_script_does_not_know(script: Path, tmp_path: Path) -> None:
    code, report, found = flatout(tmp_path, "--gpu", "t4", "--vary", "images=8..64", "train.py")
    assert code == 2
    assert len(found["results"][0]["largest_batch"]["tried"]) == 1
    assert "unrecognized arguments" in report
