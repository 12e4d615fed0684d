"""What a recording of a real run, or of a trace, has to say: how long its steps were, what they went to, what is wrong.

All times are seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import msgspec

from flatout.explain.measured import measured_findings
from flatout.findings import Finding
from flatout.recording import Recording
from flatout.recording.tape import Fetch, Tape
from flatout.recording.timed import PARTS, Part, TimedStep

SCHEMA = "flatout.explanation/1"
_BESIDE: frozenset[Part] = frozenset(("evaluation", "checkpoint", "compile"))


class StepTime(msgspec.Struct, frozen=True):
    """The steady steps: their number, the median, its 95 % interval, and the mean of each part.

    Evaluations, checkpoints and compilations between steps are no part of them; `beside` has their seconds by kind, of
    the whole run.
    """

    steps: int
    median_seconds: float
    low_seconds: float
    high_seconds: float
    parts: dict[Part, float]
    beside: dict[Part, float]


class Explanation(msgspec.Struct, frozen=True):
    """What `flatout explain --json` writes."""

    schema: str
    script: str
    steps: int
    outcome: str | None
    step_seconds: StepTime | None
    samples_per_second: float | None
    findings: tuple[Finding, ...]


def explanation_of(recording: Recording) -> Explanation:
    """The explanation of a recording. Raises `RecordingError` where it is damaged."""
    steps = recording.timed_steps()
    tape = recording.tape()
    facts: dict[str, Any] = recording.facts()
    time = step_time(steps)
    found = (
        ()
        if time is None
        else tuple(measured_findings(tape, facts, time.median_seconds, len(steps), recording.observations()))
    )
    ending = recording.ending
    return Explanation(
        schema=SCHEMA,
        script=recording.run.script,
        steps=len(steps),
        outcome=None if ending is None else ending.outcome,
        step_seconds=time,
        samples_per_second=None if time is None or tape is None else _samples(tape, time.median_seconds),
        findings=found,
    )


def step_time(steps: Sequence[TimedStep]) -> StepTime | None:
    """The time of the steady steps; None where there are none."""
    beside: dict[Part, float] = {}
    for step in steps:
        for part in _BESIDE & step.parts.keys():
            beside[part] = beside.get(part, 0.0) + step.parts[part]
    steady = [step for step in steps if step.kind == "steady"]
    if not steady:
        return None
    own = sorted(step.seconds - sum(step.parts.get(part, 0.0) for part in _BESIDE) for step in steady)
    middle = median(own)
    low, high = _interval(len(own))
    parts = {
        part: sum(step.parts.get(part, 0.0) for step in steady) / len(steady) for part in PARTS if part not in _BESIDE
    }
    return StepTime(len(own), middle, own[low], own[high], {k: v for k, v in parts.items() if v > 0}, beside)


def _interval(count: int) -> tuple[int, int]:
    """Ranks (from 0) of the 95 % interval of a median, by the normal approximation of the binomial distribution.

    Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, section 3.6. Few steps: all of them.
    """
    half = 1.96 * count**0.5 / 2
    low = max(0, int(count / 2 - half))
    return low, count - 1 - low


def _samples(tape: Tape, seconds: float) -> float | None:
    sizes = [tape.loaders[event.loader].samples for event in tape.events if isinstance(event, Fetch)]
    known = [size for size in sizes if size is not None]
    return sum(known) / tape.steps / seconds if known else None
