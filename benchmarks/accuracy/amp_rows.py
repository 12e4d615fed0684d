"""The AMP recipe of PyTorch's tutorials on a T4 with PyTorch 1.11: peaks that are published to the byte.

Source: pytorch/tutorials, recipes_source/recipes/amp_recipe.py (3 linear layers of 4096, batch 512, 50 batches kept
on the GPU, SGD, MSE); its output is in the public run logs of that repository. PyTorch 1.11 kept cuBLAS's
workspaces outside its allocator: CUBLAS_WORKSPACE_CONFIG=:0:0 makes the newer ones do so.
"""

from __future__ import annotations

from typing import Any

from dry import ROOT, Runner
from score import Line

GPU = "t4"
SCRIPT = str(ROOT / "tests/scripts/amp_recipe.py")
FP32_BYTES = 1_350_681_600
AMP_BYTES = 1_577_232_384
ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0"}


def runner(*, reuse: bool = False) -> Runner:
    """A runner with torch imported."""
    return Runner("amp", ["torch"], ENVIRONMENT, reuse=reuse)


def score(runner: Runner) -> tuple[list[Line], list[dict[str, Any]]]:
    """Both parts in one process, as published: the second part's peak includes what the first left behind."""
    rows = []
    for name, arguments, measured in (("float32", ("--only", "fp32"), FP32_BYTES), ("autocast", (), AMP_BYTES)):
        said = runner.run(SCRIPT, arguments, GPU)["peak_allocated_bytes"]
        rows.append(
            {"row": name, "measured_bytes": measured, "predicted_bytes": said, "missing_bytes": measured - said}
        )
    missing = rows[1]["missing_bytes"]
    return [
        Line("AMP recipe, T4", 1, "float32 peak to the byte", f"{rows[0]['missing_bytes']} bytes missing",
             rows[0]["missing_bytes"] == 0),
        Line("AMP recipe, T4", 1, "autocast peak within 0.6 %",
             f"{missing} bytes missing ({100 * missing / AMP_BYTES:.5f} %)", abs(missing) <= 0.006 * AMP_BYTES),
    ], rows  # fmt: skip
