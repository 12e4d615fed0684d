"""FO304, FO309: training waits for batches that workers, or more of them, would have ready."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy
from flatout.recording.tape import Fetch, with_workers
from flatout.timeline.uncertainty import HOST_UNCERTAINTY

_GOOD_ENOUGH = 0.02
"""The fewest workers whose step is within 2 % of the best are proposed."""


def find(subject: Subject) -> Iterator[Finding]:
    """Loaders whose batches come late."""
    timeline = subject.timeline
    fetching = sum(span.end - span.start for span in timeline.host if span.bound == "data") / timeline.steps
    if fetching < subject.worth_seconds:
        return  # no number of workers saves more than what the host spends on fetching
    for number, loader in enumerate(subject.tape.loaders):
        more = range(loader.workers + 1, max(2, subject.host.cores))
        saved = {workers: subject.saved_seconds(with_workers(subject.tape, workers, number)) for workers in more}
        if not saved:
            continue
        workers = _fewest(saved, timeline.step_seconds)
        if not loader.workers and not _surely_worth(subject, number, workers):
            continue
        saving = subject.saving(with_workers(subject.tape, workers, number))
        if saving is None:
            continue
        places = [e.place for e in subject.tape.events if isinstance(e, Fetch) and e.loader == number]
        has = f"{loader.workers} workers" if loader.workers else "no workers"
        waiting = "the GPU waits" if subject.issued else "training waits"
        yield subject.finding(
            "FO309" if loader.workers else "FO304",
            f"{waiting} for batches: each takes {loader.batch_seconds * 1e3:.3g} ms to make, by {has}",
            saving,
            Remedy(text=f"num_workers={workers}", speedup="loader-workers"),
            subject.place(places[0]) if places else None,
            {
                "batch_seconds": loader.batch_seconds,
                "workers": loader.workers,
                "workers_proposed": workers,
                "cores_assumed": subject.host.cores,
            },
        )


def _surely_worth(subject: Subject, loader: int, workers: int) -> bool:
    """Whether it is with batches that take long to hand over: where that decides, workers may as well lose."""
    slower = msgspec.structs.replace(subject.host, handover_seconds=subject.host.handover_seconds * HOST_UNCERTAINTY)
    return subject.saved_seconds(with_workers(subject.tape, workers, loader), slower) >= subject.worth_seconds


def _fewest(saved: dict[int, float], step_seconds: float) -> int:
    enough = max(saved.values()) - _GOOD_ENOUGH * step_seconds
    return min(workers for workers, seconds in saved.items() if seconds >= enough)
