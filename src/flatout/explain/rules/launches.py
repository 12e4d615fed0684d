"""FO609: the GPU waits for the host to issue many small kernels."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy, Saving
from flatout.recording.tape import Replay, operations_of
from flatout.timeline.compiled import compiled

_NOTABLE_RATIO = 0.2
"""Of a step: below that, a host that issues faster than any can would still change little."""


def find(subject: Subject) -> Iterator[Finding]:
    """At most what it would save if issuing took no time at all: CUDA graphs come near that, where they can be used."""
    ideal = msgspec.structs.replace(
        subject.host, forward_seconds=0.0, backward_seconds=0.0, optimizer_seconds=0.0, kernel_seconds=0.0,
        compiled_seconds=0.0, call_seconds=0.0,
    )  # fmt: skip
    saving = subject.saving(subject.tape, ideal)
    most = 0.0 if saving is None else saving.seconds_per_step or 0.0
    if saving is None or most < _NOTABLE_RATIO * subject.timeline.step_seconds:
        return
    events = compiled(subject.tape).events
    issued = sum(1 if isinstance(event, Replay) else len(operations_of(event)) for event in events)
    per_step = issued / subject.tape.steps
    kernels_us = subject.timeline.kernels_seconds / per_step * 1e6
    yield subject.finding(
        "FO609",
        f"{per_step:,.0f} operations a step, {kernels_us:.3g} us of the GPU each on average: "
        "it waits for the host to issue them",
        Saving(seconds_per_step=most, low=0.0, high=most),
        Remedy(text='larger batches, or torch.compile(mode="reduce-overhead"); the saving is what is there at most'),
        None,
        {"operations_per_step": per_step, "gpu_seconds_per_operation": kernels_us * 1e-6},
    )
