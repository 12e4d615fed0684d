"""What a dry run measured of the host, freed of what only this machine at this moment added."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from flatout.recording.tape import Event, Loader, Work

LONG_SECONDS = 20e-3
"""Work that takes so long is the script's, though only one of the steps has it (it saves, it draws a picture)."""


def typical_loader(seen: Sequence[Loader]) -> Loader:
    """A loader with what its batches take: the median of this process's, without the first, which warms up.

    What workers made is a median already, and the last one is of the most batches.
    """
    if seen[-1].workers:
        return seen[-1]
    return msgspec.structs.replace(seen[-1], batch_seconds=median(one.batch_seconds for one in seen[1:] or seen))


def typical_work(steps: Sequence[tuple[Event, ...]]) -> list[tuple[Event, ...]]:
    """The steps, with the host's work at a line as long as it was in the step that was least disturbed.

    Short work that not every step has at that line is none: a busy machine makes it appear anywhere.
    """
    found: list[dict[tuple[int | None, int], float]] = []
    for step in steps:
        found.append({key: event.seconds for key, event in _numbered(step) if isinstance(event, Work)})
    least = (
        {key: min(one[key] for one in found) for key in found[0] if all(key in one for one in found)} if found else {}
    )
    settled = []
    for step in steps:
        events: list[Event] = []
        for key, event in _numbered(step):
            if not isinstance(event, Work):
                events.append(event)
            elif key in least:
                events.append(msgspec.structs.replace(event, seconds=least[key]))
            elif event.seconds >= LONG_SECONDS:
                events.append(event)
        settled.append(tuple(events))
    return settled


def _numbered(step: tuple[Event, ...]) -> list[tuple[tuple[int | None, int], Event]]:
    """Each event; work with its line and how many at that line were before it."""
    counts: dict[int | None, int] = {}
    numbered = []
    for event in step:
        place = event.place if isinstance(event, Work) else None
        number = counts.get(place, 0)
        if isinstance(event, Work):
            counts[place] = number + 1
        numbered.append(((place, number), event))
    return numbered
