"""Which GPUs share a run, and what a shared run says of each."""

from __future__ import annotations

import msgspec
import pytest

from flatout.gpu import all_gpus, find
from flatout.virtual.choosing import largest, shared_result
from flatout.virtual.prediction import Memory, Result
from flatout.virtual.timing import Timing

GIB = 1 << 30
A100 = find("a100-80gb")


def run(needed_bytes: int, outcome: str = "fits", **facts: object) -> Result:
    """A run on an A100 with 80 GB that needs so much, context and all, and never has anything to give back."""
    mine = needed_bytes - A100.context_bytes
    memory = Memory(A100.memory_bytes, A100.usable_bytes, A100.context_bytes, mine, mine, mine, 0, None, {})
    result = Result(A100.name, A100.label, "fits", memory, None, 0, used_gpu=True, steps=3, operations=9, facts=facts)
    return msgspec.structs.replace(result, outcome=outcome)


def test_the_gpu_with_most_memory_leads() -> None:
    assert largest(all_gpus()).usable_bytes == max(gpu.usable_bytes for gpu in all_gpus())


@pytest.mark.parametrize(("needed", "outcome"), [(10 * GIB, "fits"), (50 * GIB, "out_of_memory")])
def test_a_smaller_gpu_is_judged_by_what_the_run_needs(needed: int, outcome: str) -> None:
    small = find("a100-40gb")
    result = shared_result(run(needed), None, small, Timing())
    assert result is not None
    assert (result.label, result.outcome, result.judged_from) == (small.label, outcome, A100.label)
    assert result.memory is not None
    assert result.memory.usable_bytes == small.usable_bytes
    assert result.memory.free_bytes == small.usable_bytes - needed + A100.context_bytes - small.context_bytes


@pytest.mark.parametrize("ratio", [0.98, 1.0, 1.02])
def test_a_gpu_that_is_nearly_full_gets_its_own_run(ratio: float) -> None:
    small = find("a100-40gb")
    assert shared_result(run(int(ratio * small.usable_bytes)), None, small, Timing()) is None


def test_what_is_kept_and_not_used_is_no_reason_to_run_out() -> None:
    small = find("a100-40gb")
    kept = run(50 * GIB)
    assert kept.memory is not None
    memory = msgspec.structs.replace(kept.memory, peak_allocated_bytes=30 * GIB)
    assert shared_result(msgspec.structs.replace(kept, memory=memory), None, small, Timing()) is None


@pytest.mark.parametrize("fact", ["asked_for_free_memory", "out_of_memory_caught"])
def test_a_script_that_looks_at_its_memory_runs_on_every_gpu(fact: str) -> None:
    assert shared_result(run(GIB, **{fact: 1}), None, find("a100-40gb"), Timing()) is None


def test_a_device_error_is_that_of_the_whole_capability() -> None:
    result = shared_result(run(GIB, "error"), None, find("a100-40gb"), Timing())
    assert result is not None
    assert result.outcome == "error"
