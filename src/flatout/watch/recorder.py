"""Turns what the hooks tell into timed steps, facts and a tape. One thread trains; others are not followed."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from statistics import median
from typing import TYPE_CHECKING, Any

from flatout.recording.schema import Phase, Place
from flatout.recording.timed import Kind, TimedStep
from flatout.steps.parts import Known, Ledger, Stretch, sums
from flatout.steps.places import user_place
from flatout.watch.loaders import LoaderFacts
from flatout.watch.taping import tape_of

if TYPE_CHECKING:
    from flatout.recording import Writer

WARM_UP_STEPS = 3
TAPED_STEPS = 256
"""The steps that the tape is chosen from: the latest steady ones."""


class Recorder:
    """Follows the thread that does the first training, and writes to `writer`."""

    def __init__(self, writer: Writer, on_step: Callable[[int], None]) -> None:
        self.steps = 0
        self.kind_of_next: Kind = "steady"
        self._writer = writer
        self._on_step = on_step
        self._zero = time.perf_counter()
        self._ledger = Ledger(self._zero)
        self._thread: int | None = None
        self._phase: Phase = "setup"
        self.optimizers: dict[int, tuple[weakref.ref[Any], Place | None]] = {}
        self._loaders: dict[Hashable, LoaderFacts] = {}
        self._steady: deque[list[Stretch]] = deque(maxlen=TAPED_STEPS)
        self._closed = False

    def here(self) -> bool:
        """Whether this thread is followed: the one of the first backward pass, and until then any."""
        return self._thread in (None, threading.get_ident()) and not self._closed

    def loader(self, key: Hashable, iterator: Any) -> LoaderFacts:
        """The facts of the loader that this iterator is of, which `key` tells from others."""
        facts = self._loaders.get(key)
        if facts is None:
            facts = self._loaders[key] = LoaderFacts(len(self._loaders), iterator)
        return facts

    def fetch_begins(self, facts: LoaderFacts) -> None:
        self._ledger.begin("data", time.perf_counter(), facts.number)

    def fetch_ends(self) -> None:
        self._ledger.end(time.perf_counter())

    def in_loader(self) -> bool:
        """Whether a batch is being made or waited for, or this is another thread."""
        return not self.here() or self._ledger.inside("data")

    def begins(self, part: Known) -> bool:
        """A part of its own begins here, if this thread is followed."""
        if not self.here():
            return False
        self._ledger.begin(part, time.perf_counter())
        return True

    def ends(self) -> None:
        """It ends."""
        self._ledger.end(time.perf_counter())

    def evaluating(self, model_trains: bool) -> None:
        """A model was put into its training mode, or out of it."""
        if self.here():
            (self._ledger.evaluation_ends if model_trains else self._ledger.evaluation_begins)(time.perf_counter())

    # For `flatout.steps.watch_steps`.

    def phase_changed(self, phase: Phase) -> None:
        if not self.here():
            return
        before, self._phase = self._phase, phase
        if phase == before:  # an optimizer that steps another one
            return
        if phase == "backward" and self._thread is None:
            self._thread = threading.get_ident()
        now = time.perf_counter()
        if phase in ("backward", "optimizer") and not (before == "backward" and phase == "optimizer"):
            self._ledger.begin("backward" if phase == "backward" else "optimizer", now)
        elif before in ("backward", "optimizer"):
            self._ledger.end(now)

    def optimizer_stepped(self, optimizer: Any) -> None:
        if id(optimizer) not in self.optimizers:
            self.optimizers[id(optimizer)] = weakref.ref(optimizer), user_place()

    def step_completed(self, steps: int) -> None:
        if not self.here():
            return
        began, seconds, stretches = self._ledger.step_ends(time.perf_counter())
        while self.steps < steps:  # several at once: an optimizer that was waited for is gone
            kind: Kind = "warm_up" if self.steps < WARM_UP_STEPS else self.kind_of_next
            self._writer.timed_step(TimedStep(self.steps, began - self._zero, seconds, kind, sums(stretches)))
            if kind == "steady":
                self._steady.append(stretches)
            self.steps += 1
            began, seconds, stretches = began + seconds, 0.0, []
        self._writer.doing(f"step {self.steps + 1}")
        self._on_step(steps)

    def write_facts(self) -> None:
        """Put what is known so far into the recording. May be called from any thread."""
        loaders = list(self._loaders.values())
        self._writer.fact("loaders", [facts.facts() for facts in loaders])
        tape = tape_of(list(self._steady), loaders, self.steps)
        if tape is not None:
            self._writer.tape(tape)

    def optimizer_seconds(self) -> float | None:
        """The median that optimizers take of a steady step; None where there was none."""
        times = [sums(step).get("optimizer", 0.0) for step in self._steady]
        return median(times) if times else None

    def close(self) -> None:
        """Follow no longer."""
        self._closed = True
