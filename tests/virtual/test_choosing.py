"""Which GPUs share a run, and what a shared run says of each."""

from __future__ import annotations

import msgspec
import pytest

from flatout.gpu import all_gpus, find
from flatout.virtual.choosing import leaders, shared_result
from flatout.virtual.prediction import Memory, Result
from flatout.virtual.timing import Timing

GIB = 1 << 30
A100 = find("a100-80gb")


def run(needed_bytes: int, outcome: str = "fits", **facts: object) -> Result:
    """A run on an A100 with 80 GB that needs so much, context and all."""
    memory = Memory(
        A100.memory_bytes, A100.usable_bytes, A100.context_bytes, 0, needed_bytes - A100.context_bytes, 0, 0, None, {}
    )
    result = Result(A100.name, A100.label, "fits", memory, None, 0, used_gpu=True, steps=3, operations=9, facts=facts)
    return msgspec.structs.replace(result, outcome=outcome)


def test_one_gpu_of_each_capability_leads_the_one_with_most_memory() -> None:
    gpus = all_gpus()
    chosen = leaders(gpus)
    assert len(chosen) == len({gpu.compute_capability for gpu in gpus}) < len(gpus) / 4
    for gpu in gpus:
        (leader,) = [one for one in chosen if one.compute_capability == gpu.compute_capability]
        assert leader.usable_bytes >= gpu.usable_bytes


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


@pytest.mark.parametrize("fact", ["asked_for_free_memory", "out_of_memory_caught"])
def test_a_script_that_looks_at_its_memory_runs_on_every_gpu(fact: str) -> None:
    assert shared_result(run(GIB, **{fact: 1}), None, find("a100-40gb"), Timing()) is None


def test_a_device_error_is_that_of_the_whole_capability() -> None:
    result = shared_result(run(GIB, "error"), None, find("a100-40gb"), Timing())
    assert result is not None
    assert result.outcome == "error"
