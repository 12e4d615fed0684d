"""The step that the rules look at, and what a change of it saves: the tape with the cause taken out, played again."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec

from flatout.findings import Finding, Remedy, Saving, Severity
from flatout.gpu import GPU
from flatout.recording.schema import Place
from flatout.recording.tape import Event, Tape, operations_of
from flatout.timeline import Host, Timeline, play

WORTH_RATIO = 0.01
"""What saves less than this share of a step is not worth a word: it is less than steps differ from each other."""

_HIGH_RATIO, _MEDIUM_RATIO = 0.10, 0.03
_SLOWER = (1 / 1.2, 1.0, 1.2)
"""Kernels may be so much faster or slower than they are taken to be (see docs/costs.md)."""


class Subject:
    """A tape, the GPU and the host to play it on."""

    def __init__(self, tape: Tape, gpu: GPU, host: Host) -> None:
        self.tape = tape
        self.gpu = gpu
        self.host = host

    @cached_property
    def timeline(self) -> Timeline:
        """The step as it is."""
        return self._before[1]

    @cached_property
    def _before(self) -> tuple[Timeline, ...]:
        return tuple(play(self.tape, self.gpu, self.host, slower=slower) for slower in _SLOWER)

    def saving(self, changed: Tape, host: Host | None = None) -> Saving | None:
        """What a step of `changed` saves; None where that is not worth a word, or only if kernels are unlike thought.

        `low` and `high` are the least and the most of three replays: kernels as they are taken to be, faster, slower.
        """
        saved = [
            before.step_seconds - play(changed, self.gpu, host or self.host, slower=slower).step_seconds
            for before, slower in zip(self._before, _SLOWER)
        ]
        if saved[1] < WORTH_RATIO * self.timeline.step_seconds:
            return None
        return Saving(seconds_per_step=saved[1], low=max(0.0, min(saved)), high=max(saved))

    def with_events(self, events: Iterable[Event]) -> Tape:
        """The tape with other events."""
        return msgspec.structs.replace(self.tape, events=tuple(events))

    def issued(self) -> list[int]:
        """The operations that the steps bring to the GPU, compiled or not, as positions in the tape's operations."""
        return [number for event in self.tape.events for number in operations_of(event)]

    def place(self, number: int | None) -> Place | None:
        """A line of source, by its number on the tape."""
        return None if number is None else self.tape.places[number]

    def finding(
        self,
        code: str,
        name: str,
        message: str,
        saving: Saving,
        remedy: Remedy,
        place: Place | None,
        evidence: dict[str, object],
    ) -> Finding:
        """A finding at a line, weighed by its share of the step."""
        line = 0 if place is None else place.line
        return Finding(
            code=code,
            name=name,
            severity=self._severity(saving),
            message=message,
            file="" if place is None else place.file,
            line=line,
            column=1,
            end_line=line,
            end_column=1,
            evidence=evidence,
            saving=saving,
            remedy=remedy,
        )

    def _severity(self, saving: Saving) -> Severity:
        share = (saving.seconds_per_step or 0.0) / self.timeline.step_seconds
        return "high" if share >= _HIGH_RATIO else "medium" if share >= _MEDIUM_RATIO else "low"
