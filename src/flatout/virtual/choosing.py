"""Many GPUs from few runs: which of them share a run of the script, and which need their own.

The script runs on the GPU with most memory. Whatever it, or PyTorch, decides by what the GPU is (which attention
kernel, how large a workspace, what its compute capability is) is worked out for the others too (see
`flatout.virtual.alike`): those with the same answers would have run the same operations, and are judged by the same
recording. What is left runs on the largest GPU of the rest, until none is left.

A run of its own needs a GPU on which the script may just fit: what PyTorch keeps for later it gives back when memory is
short, and temporaries that hang on the number of multiprocessors are those of the GPU that the script ran on. So does
every GPU where the script asked how much memory is free, or caught running out of it. What it decides by a name or
size is decided as on the GPU that it ran on, and said to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flatout.recording import open_recording
from flatout.virtual.dry_run import DryRun, Job, predict, unlimited_path
from flatout.virtual.one_host import as_measured_in
from flatout.virtual.prediction import Prediction, Result, with_results
from flatout.virtual.timing import Timing, predicted_time

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.recording.tape import Tape

NEARLY_FULL_RATIO = 0.03
"""A GPU whose need is within 3 % of what it has gets a run of its own."""


def largest(gpus: Iterable[GPU]) -> GPU:
    """The one with most memory; the first of several."""
    return max(gpus, key=lambda gpu: gpu.usable_bytes)


def shared_result(leader: Result, tape: Tape | None, gpu: GPU, timing: Timing) -> Result | None:
    """What the leader's run says of another GPU where the path is the same; None where that one needs its own run."""
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
    if leader.outcome != "error":
        # Reserved and not allocated is what PyTorch gives back before it runs out.
        least_bytes = here.peak_allocated_bytes + here.context_bytes
        if least_bytes > (1 + NEARLY_FULL_RATIO) * gpu.usable_bytes:
            return msgspec.structs.replace(
                leader, gpu=gpu.name, label=gpu.label, outcome="out_of_memory", memory=here, unlimited=here, time=None,
                needed_bytes=here.needed_bytes, judged_from=leader.label,
            )  # fmt: skip
        if here.needed_at_most_bytes > (1 - NEARLY_FULL_RATIO) * gpu.usable_bytes or leader.outcome == "out_of_memory":
            return None
    return msgspec.structs.replace(
        leader, gpu=gpu.name, label=gpu.label, memory=here, judged_from=leader.label,
        time=None if leader.time is None else predicted_time(tape, gpu, timing),
        outcome="fits" if leader.outcome == "may_not_fit" else leader.outcome,
    )  # fmt: skip


def predict_many(dry_run: DryRun, gpus: Sequence[GPU], scratch: Path, *, stdout_to_stderr: bool = False) -> Prediction:
    """A prediction for all of these GPUs, from as few runs of the script as tell it. Raises as `predict` does."""
    found = _Found(dry_run.timing)
    left, alone = list(gpus), []
    prediction: Prediction | None = None
    while left:
        job = _job(largest(left), scratch)
        left.remove(job.gpu)
        run = replace(dry_run, options={**dry_run.options, "alike": [gpu.label for gpu in left]})
        one = predict(run, [job], stdout_to_stderr=stdout_to_stderr, first_aloud=prediction is None)
        prediction = prediction or one
        (leader,) = one.results
        tape = found.lead(leader, job)
        # A run that tells nothing of its GPU would tell nothing of others either.
        same = {gpu.label for gpu in left} if leader.says_nothing else _alike(job)
        for gpu in [gpu for gpu in left if gpu.label in same]:
            left.remove(gpu)
            if not found.share(leader, tape, gpu):
                alone.append(_job(gpu, scratch))
    assert prediction is not None
    if alone:
        own = predict(dry_run, alone, stdout_to_stderr=stdout_to_stderr, first_aloud=False)
        for result, job in zip(own.results, alone, strict=True):
            found.lead(result, job)
    return with_results(prediction, [found.results[gpu.label] for gpu in gpus])


@dataclass
class _Found:
    """Results by label, all timed on one host: as the first run measured it."""

    timing: Timing

    def __post_init__(self) -> None:
        self.results: dict[str, Result] = {}
        self._first: Tape | None = None

    def lead(self, result: Result, job: Job) -> Tape | None:
        """Take the result of a GPU's own run; its tape."""
        with open_recording(job.recording) as recording:
            tape = recording.tape()
        time = result.time
        if tape is not None and time is not None:
            if self._first is not None:
                tape = as_measured_in(tape, self._first)
                time = predicted_time(tape, job.gpu, self.timing)
            self._first = self._first or tape
        facts = {name: fact for name, fact in result.facts.items() if name != "alike"}
        self.results[result.label] = msgspec.structs.replace(result, time=time, facts=facts)
        return tape

    def share(self, leader: Result, tape: Tape | None, gpu: GPU) -> bool:
        """Judge a GPU by the leader's run, if that can be."""
        result = shared_result(self.results[leader.label], tape, gpu, self.timing)
        if leader.says_nothing:
            result = msgspec.structs.replace(leader, gpu=gpu.name, label=gpu.label, judged_from=leader.label)
        if result is not None:
            self.results[gpu.label] = result
        return result is not None


def _job(gpu: GPU, scratch: Path) -> Job:
    return Job(gpu, scratch / f"{re.sub('[^a-z0-9]+', '-', gpu.label.lower())}.flatout", scratch)


def _alike(job: Job) -> set[str]:
    """The GPUs that the job's run stands for as well: of the run without a limit, where there was one."""
    path = unlimited_path(job)
    with open_recording(path if path.exists() else job.recording) as recording:
        return set(recording.facts().get("alike", ()))
