"""Garbage collection: how often it held the script up, for how long, and who asked for it."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

from flatout.steps.places import user_place


class Collections:
    """Follows every collection of this process. Times are seconds, all generations together, the longest apart."""

    def __init__(self) -> None:
        self.seconds = self.longest_seconds = 0.0
        self.counts = [0, 0, 0]
        self.asked: dict[tuple[str, int], list[float]] = {}
        self._began = 0.0
        self._plain = gc.collect
        gc.collect = self._asked_for  # before the script can take the name elsewhere
        gc.callbacks.append(self._called)

    def facts(self) -> dict[str, Any]:
        """As plain data; `asked`: by line, how often the script asked for one, and the seconds of these."""
        asked = list(self.asked.items())
        return {
            "seconds": self.seconds,
            "longest_seconds": self.longest_seconds,
            "counts": list(self.counts),
            "asked": [
                {"file": file, "line": line, "count": int(count), "seconds": seconds}
                for (file, line), (count, seconds) in asked
            ],
        }

    def remove(self) -> None:
        """Follow no longer."""
        gc.collect = self._plain
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    @property
    def _asked_for(self) -> Callable[..., int]:
        plain = self._plain

        def collect(generation: int = 2) -> int:
            began = time.perf_counter()
            try:
                return plain(generation)
            finally:
                place = user_place()
                if place is not None and threading.current_thread() is threading.main_thread():
                    sums = self.asked.setdefault((place.file, place.line), [0, 0.0])
                    sums[0] += 1
                    sums[1] += time.perf_counter() - began

        return collect

    def _called(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
            return
        seconds = time.perf_counter() - self._began
        self.seconds += seconds
        self.longest_seconds = max(self.longest_seconds, seconds)
        self.counts[min(info["generation"], 2)] += 1
