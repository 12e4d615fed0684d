"""The writing end of a recording: cheap for the program that is recorded, safe against its sudden death.

The program's threads only append to memory. A daemon thread commits what has gathered twice a second; what is committed
survives `kill -9`, because SQLite's rollback journal makes every commit all or nothing and the operating system keeps
the pages. (`synchronous=OFF` gives up power cuts, not crashes: https://www.sqlite.org/pragma.html#pragma_synchronous.)
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flatout.errors import RecordingError, UsageError
from flatout.recording import forks
from flatout.recording.layout import ACTION_CODES, CATEGORY_CODES, CREATE, NO_PLACE, PHASE_CODES, is_recording
from flatout.recording.observation import Observation
from flatout.recording.schema import (
    SCHEMA,
    Category,
    Ending,
    MemoryAction,
    Peak,
    Phase,
    Place,
    Run,
    Step,
)
from flatout.recording.tape import Tape
from flatout.recording.text import json_of, storable
from flatout.recording.timed import TimedStep

COMMIT_SECONDS = 0.5
BATCH_EVENTS = 20_000  # wakes the committing thread early
CROWDED_EVENTS = 200_000  # the recorded program commits itself: about 40 MB of tuples, so memory stays bounded

_Event = tuple[MemoryAction, int, int, int, int, Category, Phase, int, "Place | None"]


class Writer:
    """Writes one run to one file. All methods may be called from any thread.

    After a fork the child's copy drops whatever it is given; the recording belongs to the process that made the writer.
    A full disk, or anything else that stops the store, never disturbs the recorded program: `close` reports it.
    """

    def __init__(self, path: str | Path, run: Run) -> None:
        """Start a recording at `path`, replacing an older recording there.

        Raises `UsageError` where `path` is some other file, or cannot be written.
        """
        self.path = Path(path)
        self._pending: deque[_Event] = deque()
        self._steps: deque[Step] = deque()
        self._timed: deque[TimedStep] = deque()
        self._documents: dict[str, Any] = {}
        self._facts: dict[str, str] = {}
        self._waits: dict[tuple[Place | None, str], list[int]] = {}
        self._assumptions: dict[tuple[str, Place | None], int] = {}
        self._places: dict[Place, int] = {}
        self._doing = self._written_doing = ""
        self._taken_events = 0
        self._error: BaseException | None = None
        self._closed = False
        self._small_lock = threading.Lock()  # held for microseconds: what gathers in memory
        self._commit_lock = threading.RLock()  # held while SQLite works
        self._wake = threading.Event()
        self._connection = _create(self.path, run)
        forks.watch(self)
        self._thread = threading.Thread(target=self._commit_now_and_then, name="flatout-recording", daemon=True)
        self._thread.start()

    def memory_event(
        self,
        action: MemoryAction,
        address: int,
        size_bytes: int,
        requested_bytes: int,
        stream: int,
        category: Category,
        phase: Phase,
        step: int,
        place: Place | None,
    ) -> None:
        """Note one move of the allocator. Its sequence number is its rank. Costs well under a microsecond."""
        pending = self._pending
        pending.append((action, address, size_bytes, requested_bytes, stream, category, phase, step, place))
        if len(pending) > BATCH_EVENTS:
            self._hurry()

    @property
    def next_sequence(self) -> int:
        """The sequence number that the next memory event will get: `Step.last_sequence` of a step that ends now."""
        with self._small_lock:
            return self._taken_events + len(self._pending)

    def step(self, step: Step) -> None:
        """Note an optimizer step. A later step of the same index replaces it."""
        self._steps.append(step)

    def timed_step(self, step: TimedStep) -> None:
        """Note how long a step took. A later one of the same index replaces it."""
        self._timed.append(step)

    def peak(self, peak: Peak) -> None:
        """Note the highest moment so far, replacing an earlier one."""
        with self._small_lock:
            self._documents["peak"] = peak

    def tape(self, tape: Tape) -> None:
        """Note what the host asked for in some steps, replacing an earlier tape."""
        with self._small_lock:
            self._documents["tape"] = tape

    def observations(self, seen: Sequence[Observation]) -> None:
        """Note what the run was seen to do, replacing what was noted before."""
        with self._small_lock:
            self._documents["observations"] = tuple(seen)

    def fact(self, name: str, value: object) -> None:
        """Note a named fact, replacing an earlier one. Raises `TypeError` for a value that JSON cannot carry."""
        text = json_of(value)
        with self._small_lock:
            self._facts[name] = text

    def doing(self, text: str) -> None:
        """Say what the run is doing now: the last words in case it dies. As cheap as an assignment."""
        self._doing = text

    def wait(self, place: Place | None, reason: str, *, invented: bool = False, steered: bool = False) -> None:
        """Count one wait of the host for the GPU. Waits of the same place and reason add up, and their flags too."""
        with self._small_lock:
            known = self._waits.setdefault((place, reason), [0, 0, 0])
            known[0] += 1
            known[1] |= invented
            known[2] |= steered

    def assume(self, text: str, place: Place | None = None) -> None:
        """Count one assumption. The same text at the same place adds up."""
        with self._small_lock:
            self._assumptions[text, place] = self._assumptions.get((text, place), 0) + 1

    def flush(self) -> None:
        """Commit everything noted so far: for readers of a run that goes on."""
        with self._commit_lock:
            if self._error is None and not self._closed:
                self._commit()

    def close(self, ending: Ending) -> None:
        """Write how the run ended and close the file. The first ending stands; a later call changes nothing.

        Raises `RecordingError` if anything could not be stored (a full disk).
        """
        with self._commit_lock:
            if self._closed:
                return
            with self._small_lock:
                self._documents["ending"] = ending
            if self._error is None:
                self._commit()
            self._closed = True
            self._connection.close()
        forks.forget(self)
        self._wake.set()
        if self._error is not None:
            raise RecordingError(f"{self.path}: the recording is incomplete ({self._error}). Is the disk full?")

    def _hurry(self) -> None:
        if len(self._pending) < CROWDED_EVENTS:
            self._wake.set()
        elif self._error is None:
            self.flush()
        else:
            self._pending.clear()

    def _commit_now_and_then(self) -> None:
        while not self._closed:
            self._wake.wait(COMMIT_SECONDS)
            self._wake.clear()
            if self._error is None:
                self.flush()

    def _commit(self) -> None:
        """Move what has gathered to the file in one transaction. The commit lock is held."""
        try:
            with self._small_lock:
                events = [self._pending.popleft() for _ in range(len(self._pending))]
                first = self._taken_events
                self._taken_events += len(events)
                documents, self._documents = self._documents, {}
                facts, self._facts = self._facts, {}
                waits, self._waits = self._waits, {}
                assumptions, self._assumptions = self._assumptions, {}
            steps = [self._steps.popleft() for _ in range(len(self._steps))]
            timed = [self._timed.popleft() for _ in range(len(self._timed))]
            if (doing := self._doing) != self._written_doing:
                documents["doing"] = self._written_doing = doing
            if events or steps or timed or documents or facts or waits or assumptions:
                self._store(first, events, steps, timed, documents, facts, waits, assumptions)
        except Exception as error:
            self._error = error

    def _store(
        self,
        first: int,
        events: list[_Event],
        steps: list[Step],
        timed: list[TimedStep],
        documents: dict[str, Any],
        facts: dict[str, str],
        waits: dict[tuple[Place | None, str], list[int]],
        assumptions: dict[tuple[str, Place | None], int],
    ) -> None:
        place = self._place_code
        run = self._connection.executemany
        action, category, phase = ACTION_CODES, CATEGORY_CODES, PHASE_CODES
        with _Transaction(self._connection):
            codes = {where: place(where) for where in {event[8] for event in events}}
            run(
                "INSERT INTO memory_events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (sequence, action[a], address, size, requested, stream, category[c], phase[p], step, codes[where])
                    for sequence, (a, address, size, requested, stream, c, p, step, where) in enumerate(events, first)
                ],
            )
            run(
                "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?)",
                [(s.index, s.operations, s.last_sequence, s.peak_allocated_bytes, place(s.place)) for s in steps],
            )
            run(
                "INSERT OR REPLACE INTO timed_steps VALUES (?, ?, ?, ?, ?, ?)",
                [(t.index, t.start_seconds, t.seconds, t.kind, json_of(t.parts), _or_null(t.gpu_parts)) for t in timed],
            )
            run(
                "INSERT INTO waits VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count, "
                "invented = max(invented, excluded.invented), steered = max(steered, excluded.steered)",
                [(place(where), reason, *numbers) for (where, reason), numbers in waits.items()],
            )
            run(
                "INSERT INTO assumptions VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
                [(storable(text), place(where), count) for (text, where), count in assumptions.items()],
            )
            run("INSERT OR REPLACE INTO documents VALUES (?, ?)", [(k, json_of(v)) for k, v in documents.items()])
            run("INSERT OR REPLACE INTO facts VALUES (?, ?)", list(facts.items()))

    def _place_code(self, place: Place | None) -> int:
        if place is None:
            return NO_PLACE
        code = self._places.get(place)
        if code is None:
            code = self._places[place] = len(self._places) + 1
            self._connection.execute(
                "INSERT INTO places VALUES (?, ?, ?, ?)",
                (code, storable(place.file), place.line, storable(place.function)),
            )
        return code

    # For `forks`: a fork happens between two commits, never inside one.

    def before_fork(self) -> None:
        self._commit_lock.acquire()

    def after_fork_in_parent(self) -> None:
        self._commit_lock.release()

    def after_fork_in_child(self) -> None:
        """Make this copy inert: fresh locks, a queue that keeps nothing, and `close` finds it closed."""
        self._pending = deque(maxlen=0)
        self._steps = deque(maxlen=0)
        self._timed = deque(maxlen=0)
        self._small_lock = threading.Lock()
        self._commit_lock = threading.RLock()
        self._wake = threading.Event()
        self._closed = True


def _or_null(value: object) -> str | None:
    return None if value is None else json_of(value)


class _Transaction:
    """All or nothing, also where Python's own transaction handling differs between versions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")


def _create(path: Path, run: Run) -> sqlite3.Connection:
    try:
        if path.exists():
            if path.stat().st_size and not is_recording(path):
                raise UsageError(f"{path}: exists and is not a flatout recording. Choose another name, or remove it.")
            path.unlink()
        path.with_name(path.name + "-journal").unlink(missing_ok=True)
        connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = OFF")
        with _Transaction(connection):
            for statement in CREATE:
                connection.execute(statement)
            documents = [("schema", json_of(SCHEMA)), ("run", json_of(run))]
            connection.executemany("INSERT INTO documents VALUES (?, ?)", documents)
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"{path}: cannot write a recording there ({error}). Choose another place.") from None
    return connection
