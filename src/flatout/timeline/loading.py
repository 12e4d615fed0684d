"""When the next batch of a loader is there."""

from __future__ import annotations

from collections import deque

from flatout.recording.tape import Loader
from flatout.timeline.host import Host


class Batches:
    """A loader while it is played: workers make batches in turn, at most `prefetch_factor` ahead each.

    Without workers the host makes a batch when it asks for it. Workers beyond the host's cores (one of them belongs to
    the training process) share these. So with enough of both a step takes the longest of: what the host and the GPU
    need for the rest of it, `batch_seconds / workers`, and, where batches are pinned, taking one over.
    """

    def __init__(self, loader: Loader, host: Host) -> None:
        self._seconds = loader.batch_seconds * host.scale
        self._workers = loader.workers
        self._handover = host.handover_seconds * host.issuing
        self._pinned = loader.pinned
        self._pinning_until = 0.0
        if loader.workers:
            crowd = max(1.0, loader.workers * loader.busy_ratio / max(1, host.cores - 1))
            self._seconds *= 1.0 + loader.busy_ratio * (crowd - 1.0)
        self._ready = deque([self._seconds] * loader.workers)
        self._ahead = max(1, loader.prefetch_factor)
        self._taken: deque[float] = deque()

    def take(self, now: float) -> float:
        """The host asks at `now`; returns when it has the batch."""
        if not self._workers:
            return now + self._seconds
        ready = self._ready.popleft()
        there, handover = ready, self._handover
        if self._pinned:
            # A thread takes batches over, one after another, while the host does other things.
            there = self._pinning_until = max(ready, self._pinning_until) + handover
            handover = 0.0
        got = max(now, there)
        # The worker goes on at once, unless as many of its batches as it may make ahead have not been taken yet.
        self._taken.append(got)
        begins = ready
        if len(self._taken) > self._workers * (self._ahead - 1):
            begins = max(ready, self._taken.popleft())
        self._ready.append(begins + self._seconds)
        return got + handover
