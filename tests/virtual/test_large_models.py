"""A model larger than the host: its weights and their random initialisation are virtual too."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from command import predict

pytestmark = pytest.mark.integration

GIB = 1 << 30
LAYER = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336 + 2 * 4096
LLAMA_8B = 2 * 128256 * 4096 + 32 * LAYER + 4096
assert LLAMA_8B == 8_030_261_248


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell the memory of ended processes")
def test_llama_8b_within_4_gib_and_two_minutes(tmp_path: Path) -> None:
    import resource

    begin = time.perf_counter()
    ran = predict(tmp_path, "llama_8b.py", "--checkpointing")
    seconds = time.perf_counter() - begin
    # The largest of all children that this process ever waited for: no less than this one's.
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    assert ran.result["error"] is None, ran.report
    assert (ran.code, ran.result["steps"]) == (0, 3)
    assert largest < 4 * GIB
    assert seconds < 120
    # Everything in bfloat16: weights, and AdamW's two moments.
    categories = ran.result["memory"]["by_category"]
    assert 2 * LLAMA_8B <= categories["parameters"] < 2.01 * LLAMA_8B
    assert ran.facts["optimizer_state_bytes"] == 4 * LLAMA_8B
    assert ran.facts["attention_kernels"] == {"flash": 3 * 2 * 32}  # each layer again in the backward pass
    assert set(ran.facts["matmul_dtypes"]) == {"bfloat16"}
    assert "8.03 billion parameters on cuda" in ran.stdout
