"""What a run is seen to do, gathered by sight and line until it is written down."""

from __future__ import annotations

from typing import Any

from flatout.recording.observation import Observation, Sight
from flatout.recording.schema import Place


class Note:
    """One sight at one line, while it is added to. `steps`: in how many steps it was seen."""

    def __init__(self) -> None:
        self.count = 0
        self.evidence: dict[str, Any] = {}
        self.saved: tuple[float, float, float] | None = None
        self._last_step = -1
        self.steps_seen = 0

    def add(self, step: int, count: int = 1) -> None:
        """It was seen again, in that step."""
        self.count += count
        if step != self._last_step:
            self._last_step = step
            self.steps_seen += 1


class Notes:
    """All of them."""

    def __init__(self) -> None:
        self._notes: dict[tuple[Sight, Place | None], Note] = {}

    def of(self, sight: Sight, place: Place | None) -> Note:
        """The note of that sight at that line, made when it is first asked for."""
        note = self._notes.get((sight, place))
        if note is None:
            note = self._notes[sight, place] = Note()
        return note

    def observations(self, steps: int) -> tuple[Observation, ...]:
        """As they are written down; `steps` is how many the run has made."""
        return tuple(
            Observation(
                sight=sight,
                place=place,
                count=note.count,
                steps=steps,
                saved_seconds=note.saved[0] if note.saved else None,
                low_seconds=note.saved[1] if note.saved else None,
                high_seconds=note.saved[2] if note.saved else None,
                evidence={"steps_seen": note.steps_seen, **note.evidence},
            )
            for (sight, place), note in self._notes.items()
            if note.count
        )
