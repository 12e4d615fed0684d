"""FO304, FO309: the GPU waits for batches that workers, or more of them, would have ready."""

from __future__ import annotations

from collections.abc import Iterator

from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy, Saving
from flatout.recording.tape import Fetch, with_workers

_GOOD_ENOUGH = 0.02
"""The fewest workers whose step is within 2 % of the best are proposed."""


def find(subject: Subject) -> Iterator[Finding]:
    """Loaders whose batches come late."""
    for number, loader in enumerate(subject.tape.loaders):
        more = range(loader.workers + 1, max(2, subject.host.cores))
        savings = {workers: s for workers in more if (s := subject.saving(with_workers(subject.tape, workers, number)))}
        if not savings:
            continue
        workers = _fewest(savings, subject.timeline.step_seconds)
        places = [e.place for e in subject.tape.events if isinstance(e, Fetch) and e.loader == number]
        has = f"{loader.workers} workers" if loader.workers else "no workers"
        yield subject.finding(
            "FO309" if loader.workers else "FO304",
            "too-few-workers" if loader.workers else "batches-made-without-workers",
            f"the GPU waits for batches: each takes {loader.batch_seconds * 1e3:.3g} ms to make, by {has}",
            savings[workers],
            Remedy(text=f"num_workers={workers}", speedup="loader-workers"),
            subject.place(places[0]) if places else None,
            {"batch_seconds": loader.batch_seconds, "workers": loader.workers, "workers_proposed": workers},
        )


def _fewest(savings: dict[int, Saving], step_seconds: float) -> int:
    best = max(saving.seconds_per_step or 0.0 for saving in savings.values())
    enough = best - _GOOD_ENOUGH * step_seconds
    return min(workers for workers, saving in savings.items() if (saving.seconds_per_step or 0.0) >= enough)
