"""FO504: the script asks for a garbage collection, step after step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy, Saving
from flatout.recording.schema import Place

_OFTEN = 0.1
"""Asked for in fewer than one step of ten, collections are no part of a step."""


def find(subject: Subject, collection: dict[str, Any], steps: int) -> Iterator[Finding]:
    """Lines that call `gc.collect`; what is saved is what these calls took."""
    for asked in collection.get("asked", ()):
        seconds = asked["seconds"] / steps if steps else 0.0
        if asked["count"] < _OFTEN * steps or seconds < subject.worth_seconds:
            continue
        yield subject.finding(
            "FO504",
            f"gc.collect() is called {asked['count'] / steps:.2g} times a step, {seconds * 1e3:.3g} ms of it",
            Saving(seconds_per_step=seconds, low=seconds, high=seconds),
            Remedy(text="leave it out: Python collects by itself; find what holds memory instead"),
            Place(asked["file"], asked["line"]),
            {"calls": asked["count"], "seconds": asked["seconds"], "steps": steps},
        )
