"""CUDA events on a tape that is to be repeated: which recording of an event a later step waits for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from flatout.recording.tape import Event, Follow, Record, Wait


class Marks:
    """Numbers every recording of a CUDA event, and remembers in which step it was made."""

    def __init__(self) -> None:
        self._last = 0
        self._by_step: list[list[int]] = [[]]

    def record(self, stream: int) -> Record:
        """An event is recorded on a stream now."""
        self._last += 1
        self._by_step[-1].append(self._last)
        return Record(self._last, stream)

    def step_completed(self) -> None:
        """What is recorded from now on belongs to the next step."""
        self._by_step.append([])

    def repeatable(self, steps: Sequence[Sequence[Event]]) -> tuple[Event, ...]:
        """The last `steps`, one after another, to be repeated.

        An event that was recorded before the first of them (a batch that was copied a step ahead) is, when they come
        round again, the one recorded at the same place so many steps later.
        """
        events = [event for step in steps for event in step]
        count, first = len(steps), len(self._by_step) - 1 - len(steps)
        later: dict[int, int] = {}
        for step in range(first):
            rounds = -((step - first) // count)
            later.update(zip(self._by_step[step], self._by_step[step + rounds * count]))
        for position, event in enumerate(events):
            if isinstance(event, (Follow, Wait)) and event.event in later:
                events[position] = msgspec.structs.replace(event, event=later[event.event])
        return tuple(events)
