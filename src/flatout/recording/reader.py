"""The reading end of a recording.

The file may come from anybody: it is read, checked against the schema, and runs nothing.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from flatout.errors import RecordingError
from flatout.recording.layout import ACTIONS, NO_PLACE, PHASES, TABLES, check_header
from flatout.recording.observation import Observation
from flatout.recording.schema import CATEGORIES, Assumption, Ending, MemoryEvent, Peak, Place, Run, Step, Wait
from flatout.recording.tape import Tape
from flatout.recording.timed import TimedStep

LONGEST_TEXT_BYTES = 64 * 2**20
ROWS_AT_ONCE = 10_000  # a short read never keeps the writer of a live run waiting

_T = TypeVar("_T")
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA}


def open_recording(path: str | Path) -> Recording:
    """Open the recording at `path`, whether its run has ended, goes on, or was killed.

    Raises `RecordingError` where the file is missing, is no recording, is damaged, or has another schema version.
    """
    return Recording(Path(path))


class Recording:
    """A recording, open for reading. Close it, or use it in a ``with`` statement.

    Every method may raise `RecordingError` when it meets a damaged part of the file.
    """

    def __init__(self, path: Path) -> None:
        check_header(path)
        self.path = path
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        with self._guard():
            self._connection = self._connect()
        try:
            self._check_tables()
            self._places = self._read_places()
            run = self._document("run", Run)
            if run is None:
                raise RecordingError(f"{path}: damaged (it does not say what was run). Record again.")
            self.run: Run = run
        except BaseException:
            self.close()
            raise

    @property
    def ending(self) -> Ending | None:
        """How the run ended; `None` while it goes on, or when its maker was killed."""
        return self._document("ending", Ending)

    @property
    def doing(self) -> str:
        """What the run was last said to be doing; empty where nothing was said."""
        return self._document("doing", str) or ""

    def peak(self) -> Peak | None:
        """The moment of highest allocated memory, or `None` where none was noted."""
        return self._document("peak", Peak)

    def tape(self) -> Tape | None:
        """What the host asked for in some steps, or `None` where that was not noted."""
        return self._document("tape", Tape)

    def observations(self) -> tuple[Observation, ...]:
        """What the run was seen to do; empty for a dry run."""
        return self._document("observations", tuple[Observation, ...]) or ()

    def steps(self) -> list[Step]:
        """The optimizer steps in their order."""
        names = Step.__struct_fields__
        rows = self._rows(
            "SELECT number, operations, last_sequence, peak_allocated_bytes, place FROM steps ORDER BY number"
        )
        with self._guard():
            return [
                msgspec.convert(dict(zip(names, (*row[:4], self._place(row[4])), strict=True)), Step) for row in rows
            ]

    def timed_steps(self) -> list[TimedStep]:
        """The steps of a real run with their times, in their order; empty for a dry run."""
        names = TimedStep.__struct_fields__
        rows = self._rows(
            "SELECT number, start_seconds, seconds, kind, parts, gpu_parts FROM timed_steps ORDER BY number"
        )
        with self._guard():
            return [
                msgspec.convert(
                    dict(zip(names, (*row[:4], *(msgspec.json.decode(text or "null") for text in row[4:])))), TimedStep
                )
                for row in rows
            ]

    def waits(self) -> list[Wait]:
        """The host's waits for the GPU, the most frequent first."""
        rows = self._rows("SELECT place, reason, count, invented, steered FROM waits ORDER BY count DESC, rowid")
        with self._guard():
            return [
                msgspec.convert(
                    {
                        "place": self._place(place),
                        "reason": reason,
                        "count": count,
                        "invented": bool(invented),
                        "steered": bool(steered),
                    },
                    Wait,
                )
                for place, reason, count, invented, steered in rows
            ]

    def assumptions(self) -> list[Assumption]:
        """What the maker had to assume, in the order in which it first did."""
        rows = self._rows("SELECT text, place, count FROM assumptions ORDER BY rowid")
        with self._guard():
            return [
                msgspec.convert({"text": text, "place": self._place(place), "count": count}, Assumption)
                for text, place, count in rows
            ]

    def facts(self) -> dict[str, Any]:
        """The named facts."""
        with self._guard():
            return {name: msgspec.json.decode(text) for name, text in self._rows("SELECT name, json FROM facts")}

    def memory_events(self) -> Iterator[MemoryEvent]:
        """The allocator's moves in order, a few thousand in memory at a time."""
        after = -1
        while True:
            rows = self._rows(
                "SELECT sequence, action, address, size_bytes, requested_bytes, stream, category, phase, step, place "
                f"FROM memory_events WHERE sequence > {after} ORDER BY sequence LIMIT {ROWS_AT_ONCE}"
            )
            if not rows:
                return
            with self._guard():
                events = [self._event(row) for row in rows]
            yield from events
            after = events[-1].sequence

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            return self._connect_to(self.path, "ro")
        except sqlite3.OperationalError:
            journal = self.path.with_name(self.path.name + "-journal")
            if not journal.exists():
                raise
        # The maker was killed inside a commit. SQLite undoes that half by writing, so let it do so on a copy.
        self._scratch = tempfile.TemporaryDirectory(prefix="flatout-")
        shutil.copy(journal, self._scratch.name)
        return self._connect_to(Path(shutil.copy(self.path, self._scratch.name)), "rw")

    def _connect_to(self, path: Path, mode: str) -> sqlite3.Connection:
        address = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(address, uri=True, timeout=10, check_same_thread=False)
        if sys.version_info >= (3, 11):  # before it, the size of the file is the only bound
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT_BYTES)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # the first read finds a half-written commit
        connection.set_authorizer(_allow_reading_only)
        return connection

    def _check_tables(self) -> None:
        found = {name for kind, name in self._rows("SELECT type, name FROM sqlite_master") if kind == "table"}
        if missing := sorted(set(TABLES) - found):
            raise RecordingError(f"{self.path}: damaged (no table {missing[0]!r}). Record again.")

    def _read_places(self) -> dict[int, Place]:
        rows = self._rows("SELECT id, file, line, function FROM places")
        with self._guard():
            return {
                code: msgspec.convert({"file": file, "line": line, "function": function}, Place)
                for code, file, line, function in rows
            }

    def _place(self, code: int) -> Place | None:
        if code == NO_PLACE:
            return None
        if code not in self._places:  # a live run has met new places since
            self._places = self._read_places()
        return self._places[code]

    def _event(self, row: tuple[Any, ...]) -> MemoryEvent:
        sequence, action, address, size, requested, stream, category, phase, step, place = row
        event = (
            sequence,
            _named(ACTIONS, action),
            address,
            size,
            requested,
            stream,
            _named(CATEGORIES, category),
            _named(PHASES, phase),
            step,
            self._place(place),
        )
        return msgspec.convert(event, MemoryEvent)

    def _document(self, name: str, kind: type[_T]) -> _T | None:
        rows = self._rows("SELECT json FROM documents WHERE name = ?", name)
        with self._guard():
            return msgspec.json.decode(rows[0][0], type=kind) if rows else None

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._guard():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Turn whatever a damaged or hostile file provokes into one clear error."""
        try:
            yield
        except RecordingError:
            raise
        except (
            sqlite3.Error,
            msgspec.MsgspecError,
            RecursionError,
            OverflowError,
            MemoryError,
            LookupError,
            TypeError,
            ValueError,
            OSError,
        ) as error:
            raise RecordingError(f"{self.path}: damaged ({error or type(error).__name__}). Record again.") from None


def _named(names: tuple[_T, ...], code: object) -> _T:
    if not isinstance(code, int) or not 0 <= code < len(names):
        raise ValueError(f"code {code!r} is not one of 0 to {len(names) - 1}")
    return names[code]


def _allow_reading_only(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
