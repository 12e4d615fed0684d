"""Rules over a run on a CPU: what its tape, played again, and its facts have to say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flatout.explain.rules import batches, collections_asked, workers_restarted
from flatout.explain.subject import Subject
from flatout.findings import Finding
from flatout.gpu import all_gpus
from flatout.recording.tape import Tape
from flatout.timeline import Host


def measured_findings(tape: Tape | None, facts: dict[str, Any], step_seconds: float, steps: int) -> list[Finding]:
    """What would make a step shorter, the largest saving first.

    `facts` are the recording's, `step_seconds` is the measured median of its steps, `steps` how many there were.
    """
    if tape is None or not isinstance(facts.get("cores"), int):
        return []
    free = facts["cores"] - int(facts.get("threads") or 1)
    # A tape without kernels is played on any GPU; one of the host's cores is the training process's own.
    subject = Subject(tape, all_gpus()[0], Host(cores=free + 1 if free > 0 else 1))
    found = list(_found(subject, facts, free, steps))
    return sorted(found, key=lambda one: -((one.saving and one.saving.seconds_per_step) or 0.0))


def _found(subject: Subject, facts: dict[str, Any], free: int, steps: int) -> Iterator[Finding]:
    if free > 0:  # where training keeps all processors busy, workers take from it what they give
        yield from batches.find(subject)
    yield from workers_restarted.find(subject, facts.get("loaders") or [], steps)
    yield from collections_asked.find(subject, facts.get("garbage_collection") or {}, steps)
