"""Many GPUs from few runs: which of them share a run of the script, and which need their own.

What PyTorch launches, and the memory that it takes for it, hangs on the GPU's compute capability: which attention
kernel, which data types, how large cuBLAS's workspace is. GPUs of one capability share a run, on the one of them that
has most memory. Temporaries that hang on the number of multiprocessors are those of that GPU, which is why a GPU that
is nearly full gets a run of its own. So does every GPU where the script asked how much memory is free, or caught
running out of it. What it decides by a GPU's name is decided as on the GPU that it ran on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flatout.recording import open_recording
from flatout.virtual.dry_run import DryRun, Job, predict
from flatout.virtual.prediction import Prediction, Result, with_results
from flatout.virtual.timing import Timing, predicted_time

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.recording.tape import Tape

NEARLY_FULL_RATIO = 0.03
"""A GPU whose need is within 3 % of what it has gets a run of its own."""


def leaders(gpus: Sequence[GPU]) -> list[GPU]:
    """The GPUs that the script runs on: of each compute capability the one with most memory."""
    best: dict[tuple[int, int], GPU] = {}
    for gpu in gpus:
        known = best.get(gpu.compute_capability)
        if known is None or gpu.usable_bytes > known.usable_bytes:
            best[gpu.compute_capability] = gpu
    return list(best.values())


def shared_result(leader: Result, tape: Tape | None, gpu: GPU, timing: Timing) -> Result | None:
    """What the leader's run says of another GPU of its capability; None where that one needs its own run."""
    if leader.facts.get("asked_for_free_memory") or leader.out_of_memory_caught:
        return None
    memory = leader.unlimited or leader.memory
    if memory is None:
        return None
    here = msgspec.structs.replace(
        memory,
        capacity_bytes=gpu.memory_bytes,
        usable_bytes=gpu.usable_bytes,
        context_bytes=gpu.context_bytes,
        free_bytes=gpu.usable_bytes - gpu.context_bytes - memory.peak_reserved_bytes,
    )
    fullest, emptiest = here.needed_at_most_bytes / gpu.usable_bytes, here.needed_bytes / gpu.usable_bytes
    if fullest > 1 - NEARLY_FULL_RATIO and emptiest < 1 + NEARLY_FULL_RATIO and leader.outcome != "error":
        return None
    if emptiest > 1 and leader.outcome != "error":
        return msgspec.structs.replace(
            leader, gpu=gpu.name, label=gpu.label, outcome="out_of_memory", memory=here, unlimited=here, time=None,
            needed_bytes=here.needed_bytes, judged_from=leader.label,
        )  # fmt: skip
    if leader.outcome == "out_of_memory":
        return None
    return msgspec.structs.replace(
        leader, gpu=gpu.name, label=gpu.label, memory=here, judged_from=leader.label,
        time=None if leader.time is None else predicted_time(tape, gpu, timing),
        outcome="fits" if leader.outcome == "may_not_fit" else leader.outcome,
    )  # fmt: skip


def predict_many(dry_run: DryRun, gpus: Sequence[GPU], scratch: Path, *, stdout_to_stderr: bool = False) -> Prediction:
    """A prediction for all of these GPUs, from as few runs of the script as tell it. Raises as `predict` does."""
    first = [_job(gpu, scratch) for gpu in leaders(gpus)]
    prediction = predict(dry_run, first, stdout_to_stderr=stdout_to_stderr)
    results = {result.label: result for result in prediction.results}
    tapes = {job.gpu.compute_capability: _tape(job.recording) for job in first}
    led_by = {job.gpu.compute_capability: results[job.gpu.label] for job in first}
    alone = []
    for gpu in gpus:
        if gpu.label not in results:
            shared = shared_result(led_by[gpu.compute_capability], tapes[gpu.compute_capability], gpu, dry_run.timing)
            if shared is None:
                alone.append(_job(gpu, scratch))
            else:
                results[gpu.label] = shared
    if alone:
        own = predict(dry_run, alone, stdout_to_stderr=stdout_to_stderr, first_aloud=False)
        results.update({result.label: result for result in own.results})
    return with_results(prediction, [results[gpu.label] for gpu in gpus])


def _job(gpu: GPU, scratch: Path) -> Job:
    return Job(gpu, scratch / f"{re.sub('[^a-z0-9]+', '-', gpu.label.lower())}.flatout", scratch)


def _tape(path: Path) -> Tape | None:
    with open_recording(path) as recording:
        return recording.tape()
