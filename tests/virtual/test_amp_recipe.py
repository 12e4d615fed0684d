"""The AMP recipe of PyTorch's tutorials, whose peaks on a T4 with PyTorch 1.11 are published to the byte.

The script zeroes gradients in place and runs both parts in one process, as the recipe did. PyTorch 1.11 kept cuBLAS's
workspaces outside its allocator, which the newer ones do with CUBLAS_WORKSPACE_CONFIG=:0:0.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = (sys.executable, "-m", "flatout", "predict", "--gpu", "t4", "--steps", "1000")
SCRIPT = Path(__file__).parents[1] / "scripts" / "amp_recipe.py"
FP32_BYTES = 1_350_681_600
AMP_BYTES = 1_577_232_384
SMALLEST_BLOCK_BYTES = 512
CUBLAS_BYTES = 8_519_680
WITHOUT_WORKSPACES = {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0"}

pytestmark = pytest.mark.integration


def predict(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> tuple[dict[str, Any], str]:
    out = folder / "prediction.json"
    done = subprocess.run(
        [*COMMAND, "--json", str(out), str(SCRIPT), *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())["results"][0]["memory"], done.stdout


def test_float32_is_exact(tmp_path: Path) -> None:
    memory, _ = predict(tmp_path, "--only", "fp32", environment=WITHOUT_WORKSPACES)
    assert memory["peak_allocated_bytes"] == FP32_BYTES


def test_autocast_differs_by_two_smallest_blocks(tmp_path: Path) -> None:
    """The peak is in the first forward of the second part, while the last loss of the first still holds its network.

    What is missing is two tensors of one number: PyTorch 1.11 kept two more of them there.
    """
    memory, printed = predict(tmp_path, environment=WITHOUT_WORKSPACES)
    assert AMP_BYTES - memory["peak_allocated_bytes"] == 2 * SMALLEST_BLOCK_BYTES
    assert memory["peak_at"]["phase"] == "forward"
    told = [int(number) for number in re.findall(r"peak allocated (\d+) bytes", printed)]
    assert told == [FP32_BYTES, memory["peak_allocated_bytes"]]


def test_a_newer_pytorch_adds_the_workspaces_of_cublas(tmp_path: Path) -> None:
    """One for the script's thread, one for autograd's."""
    memory, _ = predict(tmp_path, "--only", "fp32")
    assert memory["by_category"]["workspace"] == 2 * CUBLAS_BYTES
    assert memory["peak_allocated_bytes"] == FP32_BYTES + 2 * CUBLAS_BYTES
