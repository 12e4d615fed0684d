"""FO303: workers are started again for each pass over the data, and the loop waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy, Saving
from flatout.recording.schema import Place


def find(subject: Subject, loaders: Sequence[dict[str, Any]], steps: int) -> Iterator[Finding]:
    """Loaders whose iterators were made more than once. What is saved was measured: all starts but the first.

    A first batch is waited for with persistent workers too: as long as one worker takes to make it.
    """
    for loader in loaders:
        restarts = loader["iterators"] - 1
        if not loader["workers"] or restarts < 1 or not steps:
            continue
        made = loader["batch_seconds"] or 0.0
        start = loader["start_seconds"] / loader["iterators"]
        first = max(0.0, loader["first_seconds"] / loader["iterators"] - made)
        seconds = (start + first) * restarts / steps
        if seconds < subject.worth_seconds:
            continue
        place = None if loader["file"] is None else Place(loader["file"], loader["line"])
        yield subject.finding(
            "FO303",
            f"{loader['workers']} workers are started again for each pass over the data, {restarts + 1} times: "
            f"{(start + first) * 1e3:.3g} ms each time",
            Saving(seconds_per_step=seconds, low=start * restarts / steps, high=seconds),
            Remedy(text="persistent_workers=True", safe=True),
            place,
            {
                "starts": restarts + 1,
                "start_seconds": start,
                "first_seconds": first,
                "workers": loader["workers"],
            },
        )
