"""Several runs of one script on one machine: what the host took is measured once, so that GPUs differ by GPU alone."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from flatout.recording.schema import Place
from flatout.recording.tape import Event, Fetch, Loader, Tape, Work


def as_measured_in(tape: Tape, other: Tape) -> Tape:
    """The tape with the batches and the host's own work as `other` measured them, as far as both have the same ones."""
    loaders = other.loaders if _same_loaders(tape.loaders, other.loaders) else tape.loaders
    events = tape.events
    if _kinds(tape) == _kinds(other):
        measured = iter(event for event in other.events if isinstance(event, Work))
        events = tuple(_worked(event, next(measured)) if isinstance(event, Work) else event for event in events)
    return msgspec.structs.replace(tape, loaders=loaders, events=events)


def _worked(event: Work, measured: Work) -> Event:
    return msgspec.structs.replace(event, seconds=measured.seconds)


def _same_loaders(mine: Sequence[Loader], theirs: Sequence[Loader]) -> bool:
    return len(mine) == len(theirs) and all(
        msgspec.structs.replace(one, batch_seconds=0.0) == msgspec.structs.replace(two, batch_seconds=0.0)
        for one, two in zip(mine, theirs)
    )


def _kinds(tape: Tape) -> list[tuple[str, Place | None]]:
    """The batches that are fetched and the work that is done, each with its line, in order."""
    events = [event for event in tape.events if isinstance(event, (Work, Fetch))]
    places = [None if event.place is None else tape.places[event.place] for event in events]
    return [(type(event).__name__, place) for event, place in zip(events, places)]
