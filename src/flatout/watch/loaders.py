"""Follows the DataLoaders of a real run: how long each batch was waited for, and what making one takes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flatout.steps.batches import Notebook, WorkerLoop, follow_workers, samples_in
from flatout.steps.places import user_place

if TYPE_CHECKING:
    from flatout.recording.schema import Place
    from flatout.watch.recorder import Recorder

_KEPT = 512  # times of the latest batches
_EVERY = 8  # of so many batches one is looked at for its processor time: asking the system takes long


class LoaderFacts:
    """What is known of one loader: of all iterators made at one line with the same settings."""

    def __init__(self, number: int, iterator: Any) -> None:
        self.number = number
        self.workers: int = iterator._num_workers
        self.prefetch_factor: int = getattr(iterator, "_prefetch_factor", None) or 2
        self.pinned = bool(iterator._pin_memory)
        self.samples: int | None = None
        self.place: Place | None = None
        self.batches = 0
        self.iterators = 0
        self.start_seconds = 0.0
        self.wait_seconds = 0.0
        self.batch_seconds: deque[float] = deque(maxlen=_KEPT)
        self.first_seconds = 0.0
        self.made_seconds = self.busy_seconds = 0.0
        self.fresh = True
        self.notebook: Notebook | None = None

    def facts(self) -> dict[str, Any]:
        """As plain data.

        `start_seconds`: what making all iterators took, with their workers; `first_seconds`: waits for first batches.
        """
        place = self.place
        return {
            "workers": self.workers,
            "prefetch_factor": self.prefetch_factor,
            "pinned": self.pinned,
            "samples": self.samples,
            "file": None if place is None else place.file,
            "line": None if place is None else place.line,
            "batches": self.batches,
            "iterators": self.iterators,
            "start_seconds": self.start_seconds,
            "wait_seconds": self.wait_seconds,
            "batch_seconds": self.typical_seconds(),
            "busy_ratio": self.busy_ratio(),
            "first_seconds": self.first_seconds,
        }

    def busy_ratio(self) -> float:
        """The share of making batches in which a processor was busy with it; 1 where that was not seen."""
        made, busy = (self.made_seconds, self.busy_seconds) if self.notebook is None else self.notebook.sums()[1:]
        return min(1.0, busy / made) if made else 1.0

    def typical_seconds(self) -> float | None:
        """What making a batch takes one process: its median; None where that was not seen.

        By the clock on the wall: a tape of this run is to be played on the machine as busy as it was.
        """
        if self.notebook is not None:
            seconds = self.notebook.batch_seconds()
            timed, wall, _ = self.notebook.sums()
            return seconds * wall / timed if seconds is not None and timed else seconds
        times = sorted(self.batch_seconds)
        return times[len(times) // 2] if times else None


def follow(recorder: Recorder, dataloader: Any) -> Callable[[], None]:
    """Follow every DataLoader of this process; returns what ends that. `dataloader` is PyTorch's module."""
    base: Any = dataloader._BaseDataLoaderIter
    worker = dataloader._utils.worker
    loader_type: Any = dataloader.DataLoader
    plain_init, plain_next, plain_get = base.__init__, base.__next__, loader_type._get_iterator
    undo_workers = follow_workers(worker)

    def __init__(self: Any, loader: Any) -> None:
        plain_init(self, loader)
        if not recorder.here():
            return
        place = user_place()
        key = (place, type(loader.dataset), loader.num_workers, loader.batch_size)
        self._flatout_facts = facts = recorder.loader(key, self)
        facts.place = facts.place or place
        facts.iterators += 1
        facts.fresh = True
        if loader.num_workers:
            facts.notebook = Notebook(loader.num_workers)
            # The rest of the constructor starts the workers with this loop.
            worker._worker_loop = WorkerLoop(facts.notebook)

    def get_iterator(self: Any) -> Any:
        if not recorder.begins("data"):
            return plain_get(self)
        began = time.perf_counter()
        try:
            iterator = plain_get(self)
        finally:
            recorder.ends()
        facts = getattr(iterator, "_flatout_facts", None)
        if facts is not None:
            facts.start_seconds += time.perf_counter() - began
        return iterator

    def __next__(self: Any) -> Any:
        facts = getattr(self, "_flatout_facts", None)
        if facts is None or not recorder.here():
            return plain_next(self)
        recorder.fetch_begins(facts)
        began = time.perf_counter()
        try:
            if facts.workers:
                batch = plain_next(self)
            elif facts.batches % _EVERY:
                batch = plain_next(self)
                facts.batch_seconds.append(time.perf_counter() - began)
            else:
                busy = time.thread_time()
                batch = plain_next(self)
                facts.busy_seconds += time.thread_time() - busy
                seconds = time.perf_counter() - began
                facts.made_seconds += seconds
                facts.batch_seconds.append(seconds)
            if facts.samples is None:
                facts.samples = samples_in(batch)
            facts.batches += 1
            return batch
        finally:
            seconds = time.perf_counter() - began
            facts.wait_seconds += seconds
            if facts.fresh:
                facts.first_seconds += seconds
                facts.fresh = False
            recorder.fetch_ends()

    base.__init__, base.__next__, loader_type._get_iterator = __init__, __next__, get_iterator

    def undo() -> None:
        base.__init__, base.__next__, loader_type._get_iterator = plain_init, plain_next, plain_get
        undo_workers()

    return undo
