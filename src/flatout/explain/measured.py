"""Rules over a run on a CPU: what its tape, played again, and its facts have to say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flatout.explain.rules import (
    batches,
    collections_asked,
    evaluation_recorded,
    graph_retained,
    growth,
    optimizer_alone,
    workers_restarted,
)
from flatout.explain.sights import Sights
from flatout.explain.subject import Subject
from flatout.findings import Finding
from flatout.findings.finding import SEVERITIES
from flatout.gpu import all_gpus
from flatout.recording.observation import Observation
from flatout.recording.tape import Tape
from flatout.timeline import Host

SEEN: tuple[Callable[[Sights], Iterator[Finding]], ...] = (
    growth.find,
    graph_retained.find,
    evaluation_recorded.find,
    optimizer_alone.find,
)


def measured_findings(
    tape: Tape | None,
    facts: dict[str, Any],
    step_seconds: float,
    steps: int,
    seen: Sequence[Observation] = (),
) -> list[Finding]:
    """What is wrong and what would make a step shorter: the most severe first, of those the largest saving.

    `facts` are the recording's, `step_seconds` is the measured median of its steps, `steps` how many there were, `seen`
    what the run was seen to do.
    """
    sights = Sights(seen, step_seconds)
    found = [finding for rule in SEEN for finding in rule(sights)]
    if tape is not None and isinstance(facts.get("cores"), int):
        found += _replayed(tape, facts, steps)
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> tuple[int, float]:
    return SEVERITIES.index(finding.severity), -((finding.saving and finding.saving.seconds_per_step) or 0.0)


def _replayed(tape: Tape, facts: dict[str, Any], steps: int) -> Iterator[Finding]:
    free = facts["cores"] - int(facts.get("threads") or 1)
    # A tape without kernels is played on any GPU; one of the host's cores is the training process's own.
    subject = Subject(tape, all_gpus()[0], Host(cores=free + 1 if free > 0 else 1))
    if free > 0:  # where training keeps all processors busy, workers take from it what they give
        yield from batches.find(subject)
    yield from workers_restarted.find(subject, facts.get("loaders") or [], steps)
    yield from collections_asked.find(subject, facts.get("garbage_collection") or {}, steps)
