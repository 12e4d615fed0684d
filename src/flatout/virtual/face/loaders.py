"""What the batches of a DataLoader cost the host: timed where they are made, in this process or in a worker.

Processor time counts; time spent waiting counts as well where the thread gave the processor up by itself (it read a
file, a socket), and not where a busy machine took it away.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flatout.recording.tape import Loader
from flatout.virtual import machine as machines
from flatout.virtual.face import late
from flatout.virtual.places import user_place

if TYPE_CHECKING:
    from flatout.virtual.face.patches import Patches

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_MOST_LOADERS = 64


class Stopwatch:
    """Times a stretch of one thread's work. Use it in a ``with`` statement; `seconds` is there at its end."""

    seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._pauses = _pauses()
        self._wall, self._work = time.perf_counter(), time.thread_time()
        return self

    def __exit__(self, *exception: object) -> None:
        wall, work = time.perf_counter() - self._wall, time.thread_time() - self._work
        self.seconds = wall if _pauses() > self._pauses else work


def _pauses() -> int:
    """How often this thread has given the processor up by itself; never where the system does not tell."""
    who = getattr(resource, "RUSAGE_THREAD", None)
    return 0 if who is None else resource.getrusage(who).ru_nvcsw


class Workshop:
    """What making batches has taken, by loader: sums in memory that forked workers share."""

    def __init__(self) -> None:
        self._slots: dict[tuple[int, int], int] = {}
        self._sums = multiprocessing.Array("d", 2 * _MOST_LOADERS)

    def slot(self, key: tuple[int, int]) -> int:
        """The number of a loader, given before its workers start. Loaders beyond the last share one."""
        return self._slots.setdefault(key, min(len(self._slots), _MOST_LOADERS - 1))

    def made(self, dataset: Any, seconds: float) -> None:
        """A worker made a batch."""
        for (of, _), slot in self._slots.items():
            if of == id(dataset):
                with self._sums:
                    self._sums[2 * slot] += seconds
                    self._sums[2 * slot + 1] += 1

    def mean_seconds(self, slot: int) -> float | None:
        """What a batch took on average; None before there was one."""
        with self._sums:
            total, count = self._sums[2 * slot : 2 * slot + 2]
        return total / count if count else None


def samples_in(batch: Any) -> int | None:
    """How many samples a batch holds: the length of its first tensor or list."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    if isinstance(batch, (list, tuple)):
        for part in batch:
            found = len(part) if isinstance(part, list) else samples_in(part)
            if found is not None:
                return found
    return None


def install(patches: Patches) -> None:
    """Follow every DataLoader of this process, and of the workers that it forks."""
    late.when_imported("torch.utils.data.dataloader", lambda module: _follow(patches, module))


def _follow(patches: Patches, dataloader: Any) -> None:
    workshop = Workshop()
    base: Any = dataloader._BaseDataLoaderIter
    plain_init, plain_next = base.__init__, base.__next__

    def __init__(self: Any, loader: Any) -> None:
        workshop.slot((id(loader.dataset), loader.num_workers))
        plain_init(self, loader)

    def __next__(self: Any) -> Any:
        machine = machines.installed()
        clock = None if machine is None else machine.clock
        if clock is None:
            return plain_next(self)
        with Stopwatch() as watch:
            batch = plain_next(self)
        slot = workshop.slot((id(self._dataset), self._num_workers))
        seconds = workshop.mean_seconds(slot) if self._num_workers else watch.seconds
        place = user_place()
        loader = Loader(
            batch_seconds=watch.seconds * self._num_workers if seconds is None else seconds,
            workers=self._num_workers,
            prefetch_factor=getattr(self, "_prefetch_factor", None) or 2,
            samples=samples_in(batch),
        )
        clock.fetched(slot, loader, place)
        return batch

    patches.set(base, "__init__", __init__)
    patches.set(base, "__next__", __next__)
    fetchers = dataloader._utils.fetch
    for kind in (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher):
        patches.set(kind, "fetch", _timed(kind.fetch, workshop))


def _timed(plain: Any, workshop: Workshop) -> Any:
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        from torch.utils.data import get_worker_info

        if get_worker_info() is None:
            return plain(self, possibly_batched_index)
        with Stopwatch() as watch:
            batch = plain(self, possibly_batched_index)
        workshop.made(self.dataset, watch.seconds)
        return batch

    return fetch
