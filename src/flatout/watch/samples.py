"""Twice a second: the memory of the script's process and how busy it keeps its processors; and what is known so far.

What is written here survives `kill -9`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flatout.recording import Writer

SECONDS = 0.5
_MOST = 600  # then every other sample goes, and they are taken half as often


class Samples:
    """A daemon thread; `now_and_then` is called with each sample."""

    def __init__(self, writer: Writer, now_and_then: Callable[[], None]) -> None:
        import psutil

        self._writer = writer
        self._now_and_then = now_and_then
        self.process: Any = psutil.Process()
        self._rows: list[tuple[float, int, float]] = []
        self._began = time.monotonic()
        self._every = 1
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flatout-samples", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        ticks = 0
        last, spent = time.monotonic(), sum(os.times()[:2])
        while not self._stopped.wait(SECONDS):
            ticks += 1
            if ticks % self._every == 0:
                now, used = time.monotonic(), sum(os.times()[:2])
                self._rows.append((now - self._began, self.process.memory_info().rss, (used - spent) / (now - last)))
                last, spent = now, used
                if len(self._rows) > _MOST:
                    self._rows, self._every = self._rows[::2], self._every * 2
            if ticks & (ticks - 1) == 0 or ticks % 8 == 0:  # often at first, when little is known
                self._writer.fact(
                    "samples", {"columns": ["seconds", "resident_bytes", "processors_busy"], "rows": self._rows}
                )
                with contextlib.suppress(Exception):  # told at the end again, where a failure is noted
                    self._now_and_then()
