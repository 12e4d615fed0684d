"""The step that the rules look at, and what a change of it saves: the tape with the cause taken out, played again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cached_property

import msgspec

from flatout.costs import cost, operation_seconds
from flatout.explain.names import NAMES
from flatout.findings import Finding, Remedy, Saving, Severity
from flatout.gpu import GPU
from flatout.recording.operation import Operation
from flatout.recording.schema import Phase, Place
from flatout.recording.tape import Enter, Event, Tape, operations_of
from flatout.timeline import Host, Prices, Timeline, play, step_seconds
from flatout.timeline.uncertainty import HOST_UNCERTAINTY, KERNELS_UNCERTAINTY

WORTH_RATIO = 0.01
"""What saves less than this share of a step is not worth a word: it is less than steps differ from each other."""

HIGH_RATIO, MEDIUM_RATIO = 0.10, 0.03
_OTHERWISE = (
    (1 / KERNELS_UNCERTAINTY, 1.0),
    (KERNELS_UNCERTAINTY, 1.0),
    (1.0, 1 / HOST_UNCERTAINTY),
    (1.0, HOST_UNCERTAINTY),
)
"""How many times as long kernels may take, and the host."""


class Subject:
    """A tape, the GPU and the host to play it on."""

    def __init__(self, tape: Tape, gpu: GPU, host: Host) -> None:
        self.tape = tape
        self.gpu = gpu
        self.host = host
        self._prices: dict[float, Prices] = {}

    @cached_property
    def timeline(self) -> Timeline:
        """The step as it is."""
        return play(self.tape, self.gpu, self.host)

    @property
    def worth_seconds(self) -> float:
        """The least saving that is worth a word."""
        return WORTH_RATIO * self.timeline.step_seconds

    def saved_seconds(self, changed: Tape, host: Host | None = None) -> float:
        """By how much a step of `changed` is shorter, if all is as it is taken to be."""
        return self.timeline.step_seconds - self._played(changed, host or self.host, 1.0)

    def saving(self, changed: Tape, host: Host | None = None) -> Saving | None:
        """What a step of `changed` saves; None where that is not worth a word.

        `low` and `high` are the least and the most of five replays: kernels and host as they are taken to be, and
        either faster and slower.
        """
        saved = self.saved_seconds(changed, host)
        if saved < self.worth_seconds:
            return None
        others = [
            before - self._played(changed, _scaled(host or self.host, scale), kernels)
            for (kernels, scale), before in zip(_OTHERWISE, self._otherwise)
        ]
        return Saving(seconds_per_step=saved, low=max(0.0, min(saved, *others)), high=max(saved, *others))

    @cached_property
    def _otherwise(self) -> tuple[float, ...]:
        return tuple(self._played(self.tape, _scaled(self.host, scale), kernels) for kernels, scale in _OTHERWISE)

    def _played(self, tape: Tape, host: Host, kernels: float) -> float:
        return step_seconds(tape, host, self._prices.setdefault(kernels, Prices(self.gpu, slower=kernels)))

    def with_events(self, events: Iterable[Event]) -> Tape:
        """The tape with other events."""
        return msgspec.structs.replace(self.tape, events=tuple(events))

    def with_operations(self, numbers: Collection[int], change: Callable[[Operation], Operation]) -> Tape:
        """The tape with the operations of these numbers changed."""
        operations = tuple(
            change(operation) if number in numbers else operation
            for number, operation in enumerate(self.tape.operations)
        )
        return msgspec.structs.replace(self.tape, operations=operations)

    @cached_property
    def issued(self) -> tuple[tuple[int, Phase], ...]:
        """The number of each operation that is issued, in order, inside compiled regions and graphs too; its phase."""
        phase: Phase = "forward"
        found: list[tuple[int, Phase]] = []
        for event in self.tape.events:
            if isinstance(event, Enter):
                phase = event.phase
            found.extend((number, phase) for number in operations_of(event))
        return tuple(found)

    def per_step(self, numbers: Collection[int]) -> float:
        """How often a step issues operations of these numbers."""
        return sum(number in numbers for number, _ in self.issued) / self.tape.steps

    def dearest_line(self, numbers: Collection[int]) -> Place | None:
        """The line whose operations of these numbers take the GPU longest.

        Those of a backward pass count only where there are no others: its line is no place to change anything.
        """
        found: dict[tuple[bool, int], float] = {}
        seconds = {number: operation_seconds(cost(self.tape.operations[number]), self.gpu) for number in numbers}
        for number, phase in self.issued:
            line = self.tape.lines[number] if number in seconds and number < len(self.tape.lines) else None
            if line is not None:
                key = phase == "backward", line
                found[key] = found.get(key, 0.0) + seconds[number]
        if not found:
            return None
        return self.place(min(found, key=lambda key: (key[0], -found[key]))[1])

    def place(self, number: int | None) -> Place | None:
        """A line of source, by its number on the tape."""
        return None if number is None else self.tape.places[number]

    def finding(
        self,
        code: str,
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
            name=NAMES[code],
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
        return "high" if share >= HIGH_RATIO else "medium" if share >= MEDIUM_RATIO else "low"


def _scaled(host: Host, scale: float) -> Host:
    return msgspec.structs.replace(host, scale=host.scale * scale)
