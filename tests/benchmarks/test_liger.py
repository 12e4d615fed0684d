"""Published peaks of single operators, a handful of them, through the benchmark's own command."""

from __future__ import annotations

import csv
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "liger"
A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
HEAD = {"H": 4096, "V": 128256, "mode": "forward", "dtype": "torch.bfloat16"}
NEIGHBORS = {"batch_size": 2, "hidden_size": 512, "num_heads": 8, "kernel_size": 7, "dilation": 1, "bias": True}
TABLE = {"B": 32, "T": 512, "D": 768, "dtype": "torch.float32"}
# Kernel, provider, GPU, settings, what was varied, its value, peak in MiB: benchmark/data/all_benchmark_data.csv of
# linkedin/Liger-Kernel. The third needs the product in softmax's backward, the fourth a sum in two parts.
PUBLISHED: list[tuple[str, str, str, dict[str, Any], str, int, float]] = [
    ("rms_norm", "huggingface", A100, {"M": 2048, "dtype": "torch.bfloat16", "eps": 1e-6}, "H", 1024, 80.01953125),
    ("fused_linear_cross_entropy", "huggingface", A100, HEAD, "BT", 4096, 6092.2822265625),
    ("fused_neighborhood_attention", "torch", H100, NEIGHBORS, "seq_len", 4096, 4332.0234375),
    ("fused_linear_jsd", "torch", H100, HEAD, "BT", 8192, 56368.015625),
    ("embedding", "huggingface", A100, TABLE, "V", 2048, 12371.359375),
    ("embedding", "huggingface", A100, TABLE, "V", 8192, 12461.5),
]


def write(folder: Path, rows: list[tuple[str, str, str, dict[str, Any], str, int, float]]) -> None:
    (folder / "liger").mkdir()
    with (folder / "liger/operator_benchmarks.csv").open("w", newline="") as file:
        names = ["kernel_name", "kernel_provider", "gpu_name", "extra_benchmark_config_str", "x_name", "x_value"]
        same = {"kernel_operation_mode": "full", "metric_name": "memory", "timestamp": "2025-01-01 00:00:00"}
        writer = csv.DictWriter(file, [*names, "y_value_50", *same])
        writer.writeheader()
        for *keys, settings, x_name, x_value, mib in rows:
            values = [*keys, json.dumps(settings), x_name, x_value]
            writer.writerow({**dict(zip(names, values)), "y_value_50": mib, **same})


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    result = folder / "result.json"
    done = subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), "--json", str(result), *arguments],
        check=False,
        env={**os.environ, "FLATOUT_ORACLES": str(folder)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    runs = json.loads(result.read_text()) if result.exists() else {}
    return done.returncode, next(iter(runs.values()), {}), done.stdout + done.stderr


def test_published_peaks_come_out_in_every_digit(tmp_path: Path) -> None:
    write(tmp_path, PUBLISHED)
    code, result, said = run(tmp_path, "--alone")
    assert (code, result["exact"], result["compared"]) == (0, 4, 4), said
    assert (result["held"], result["held_explained"]) == (2, 2), said


def test_a_figure_one_digit_off_is_not_exact(tmp_path: Path) -> None:
    kernel, *rest, mib = PUBLISHED[0]
    write(tmp_path, [(kernel, *rest, mib + 2**-11)])  # type: ignore[arg-type]
    code, result, said = run(tmp_path)
    assert (code, result["exact_alone"], result["exact_in_order"]) == (1, 0, 0), said
    assert "alone -512, in_order -512" in said


def test_without_the_file_it_says_what_to_do(tmp_path: Path) -> None:
    code, result, said = run(tmp_path)
    assert (code, result) == (2, {})
    assert "set FLATOUT_ORACLES" in said


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("rows")
    sys.modules.pop("rows", None)


def test_a_stored_figure_allows_what_rounds_to_it(rows: ModuleType) -> None:
    row = rows.Row("kernel", "full", A100, "T", 1, "{}", "2025-01-01", 9083.28125)  # float32: steps of 1 KiB
    stored = round(row.mib * rows.MIB)
    assert row.missing_bytes(stored) == (-512.0, 512.0)
    assert row.is_exact(stored + 511)
    assert not row.is_exact(stored + 513)
