"""How a recording lies in its SQLite file: tables, codes, and the two numbers in the file's header that name it.

The header of an SQLite file has two fields for applications (https://www.sqlite.org/fileformat2.html, section 1.3): the
application id at byte 68 and the user version at byte 60, both big-endian 32-bit. They are read before SQLite is let
near the file, so that a file that is not ours is never parsed.
"""

from __future__ import annotations

import struct
from pathlib import Path

from flatout.errors import RecordingError
from flatout.recording.schema import CATEGORIES, MemoryAction, Phase

APPLICATION_ID = 0x464C4F54  # "FLOT"
VERSION = 2

ACTIONS: tuple[MemoryAction, ...] = ("alloc", "free", "segment_alloc", "segment_free")
PHASES: tuple[Phase, ...] = ("setup", "forward", "backward", "optimizer", "other")

ACTION_CODES = {name: code for code, name in enumerate(ACTIONS)}
CATEGORY_CODES = {name: code for code, name in enumerate(CATEGORIES)}
PHASE_CODES = {name: code for code, name in enumerate(PHASES)}

NO_PLACE = 0

TABLES = {
    "documents": "name TEXT PRIMARY KEY, json TEXT NOT NULL",
    "facts": "name TEXT PRIMARY KEY, json TEXT NOT NULL",
    "places": "id INTEGER PRIMARY KEY, file TEXT NOT NULL, line INTEGER NOT NULL, function TEXT NOT NULL",
    "memory_events": (
        "sequence INTEGER PRIMARY KEY, action INTEGER NOT NULL, address INTEGER NOT NULL, size_bytes INTEGER NOT NULL, "
        "requested_bytes INTEGER NOT NULL, stream INTEGER NOT NULL, category INTEGER NOT NULL, phase INTEGER NOT NULL, "
        "step INTEGER NOT NULL, place INTEGER NOT NULL"
    ),
    "steps": (
        "number INTEGER PRIMARY KEY, operations INTEGER NOT NULL, last_sequence INTEGER NOT NULL, "
        "peak_allocated_bytes INTEGER NOT NULL, place INTEGER NOT NULL"
    ),
    "timed_steps": (
        "number INTEGER PRIMARY KEY, start_seconds REAL NOT NULL, seconds REAL NOT NULL, kind TEXT NOT NULL, "
        "parts TEXT NOT NULL, gpu_parts TEXT"
    ),
    "waits": (
        "place INTEGER NOT NULL, reason TEXT NOT NULL, count INTEGER NOT NULL, invented INTEGER NOT NULL, "
        "steered INTEGER NOT NULL, PRIMARY KEY (place, reason)"
    ),
    "assumptions": "text TEXT NOT NULL, place INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (text, place)",
}

CREATE = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
    *(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()),
)

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100


def is_recording(path: Path) -> bool:
    """Whether the file's header says that flatout wrote it, in whatever version. Raises `OSError`."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    return len(header) == _HEADER_BYTES and header.startswith(_MAGIC) and _header_number(header, 68) == APPLICATION_ID


def check_header(path: Path) -> None:
    """Raise `RecordingError` unless `path` is a recording of the version that this flatout reads."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        raise RecordingError(f"{path}: no such recording. Give the file that `-o` wrote.") from None
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read ({error.strerror}).") from None
    if not header:
        raise RecordingError(f"{path}: empty. Its maker was killed before it wrote anything: record again.")
    if not header.startswith(_MAGIC) or len(header) < _HEADER_BYTES or _header_number(header, 68) != APPLICATION_ID:
        raise RecordingError(f"{path}: not a flatout recording. Give the file that `-o` wrote.")
    version = _header_number(header, 60)
    if version > VERSION:
        raise RecordingError(
            f"{path}: written by a newer flatout (schema {version}, this one reads {VERSION}). "
            "Upgrade: pip install -U flatout"
        )
    if version < VERSION:
        raise RecordingError(
            f"{path}: written by an older flatout (schema {version}, this one reads {VERSION} and cannot migrate it). "
            "Record again."
        )


def _header_number(header: bytes, offset: int) -> int:
    number: int = struct.unpack_from(">I", header, offset)[0]
    return number
