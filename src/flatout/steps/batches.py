"""What the batches of a DataLoader cost the host: timed where they are made, in this process or in a worker.

Processor time counts, and so does time that the thread waited for something: a file, a socket, threads that compute for
it. Time in which it could have gone on, had the machine not been busy with others, does not.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_MOST_BATCHES = 64
_ROW = 1 + _MOST_BATCHES
_plain_loop: Callable[..., Any] | None = None
"""PyTorch's loop of a worker, where it is replaced."""


class Stopwatch:
    """Times a stretch of one thread's work. Use it in a ``with`` statement; `seconds` is there at its end.

    `busy_seconds`: how much of it was processor time; `wall_seconds`: all of it, on a busy machine too.
    """

    seconds = busy_seconds = wall_seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._held_up, self._pauses = _held_up_ns(), _pauses()
        self._wall, self._work = time.perf_counter(), time.thread_time()
        return self

    def __exit__(self, *exception: object) -> None:
        wall, work = time.perf_counter() - self._wall, time.thread_time() - self._work
        self.busy_seconds, self.wall_seconds = work, wall
        if _pauses() == self._pauses:
            self.seconds = work
            return
        held_up = _held_up_ns()
        if self._held_up is not None and held_up is not None:
            wall -= (held_up - self._held_up) * 1e-9
        self.seconds = max(wall, work)


def _pauses() -> int:
    """How often this thread has given the processor up by itself; never where the system does not tell."""
    who = getattr(resource, "RUSAGE_THREAD", None)
    return 0 if who is None else resource.getrusage(who).ru_nvcsw


def _held_up_ns() -> int | None:
    """How long this thread was ready to run and had no processor; None where the system (Linux) does not tell.

    Source: Documentation/scheduler/sched-stats.rst of Linux, second figure of /proc/<pid>/schedstat.
    """
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read(100).split()[1])
    except (OSError, ValueError, IndexError):
        return None


class Notebook:
    """What workers write down for the process that uses their batches: seconds, in memory that all of them see.

    Each worker has a row of its own (how many batches, then their seconds), so nobody has to wait for anybody.
    """

    def __init__(self, workers: int) -> None:
        self._rows = multiprocessing.RawArray("d", workers * _ROW)
        self._sums = multiprocessing.RawArray("d", workers * 3)
        self._workers = workers

    def write(self, worker: int, seconds: float, wall_seconds: float = 0.0, busy_seconds: float = 0.0) -> None:
        """That worker made a batch. Beyond the most that a row holds the oldest but the first goes."""
        count = int(self._rows[worker * _ROW])
        at = count if count < _MOST_BATCHES else 1 + count % (_MOST_BATCHES - 1)
        self._rows[worker * _ROW + 1 + at] = seconds
        self._rows[worker * _ROW] = count + 1
        for place, value in enumerate((seconds, wall_seconds, busy_seconds), start=worker * 3):
            self._sums[place] += value

    def sums(self) -> tuple[float, float, float]:
        """What all batches took together: as they are timed, by the clock on the wall, and of processor time."""
        return sum(self._sums[::3]), sum(self._sums[1::3]), sum(self._sums[2::3])

    def batch_seconds(self) -> float | None:
        """The median of what batches took. A worker's first, which warms it up, counts only until there are others."""
        first: list[float] = []
        later: list[float] = []
        for row in range(0, self._workers * _ROW, _ROW):
            count = min(int(self._rows[row]), _MOST_BATCHES)
            first += self._rows[row + 1 : row + 1 + min(count, 1)]
            later += self._rows[row + 2 : row + 1 + count]
        return median(later or first) if first else None


class WorkerLoop:
    """In place of PyTorch's loop of a worker: the same, with each batch timed. Goes to fresh processes too."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook

    def __call__(self, *arguments: Any) -> None:
        from torch.utils.data import _utils, get_worker_info

        def write(watch: Stopwatch) -> None:
            info = get_worker_info()
            if info is not None:
                self._notebook.write(info.id, watch.seconds, watch.wall_seconds, watch.busy_seconds)

        kinds: tuple[Any, ...] = (_utils.fetch._MapDatasetFetcher, _utils.fetch._IterableDatasetFetcher)
        for kind in kinds:
            kind.fetch = _timed(kind.fetch, write)
        (_plain_loop or _utils.worker._worker_loop)(*arguments)


def _timed(plain: Callable[..., Any], write: Callable[[Stopwatch], None]) -> Callable[..., Any]:
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        with Stopwatch() as watch:
            batch = plain(self, possibly_batched_index)
        write(watch)
        return batch

    return fetch


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


def follow_workers(worker: Any) -> Callable[[], None]:
    """Remember PyTorch's own loop of a worker, `worker` being the module that holds it; returns what puts it back."""
    global _plain_loop
    if not isinstance(worker._worker_loop, WorkerLoop):
        _plain_loop = worker._worker_loop
    plain = worker._worker_loop

    def undo() -> None:
        worker._worker_loop = plain

    return undo
