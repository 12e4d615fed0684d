"""Results as JSON: the same bytes for the same result, and a file that is either whole or not there."""

from __future__ import annotations

from pathlib import Path

import msgspec

from flatout.errors import UsageError
from flatout.source.writing import write_atomically


def json_text(result: msgspec.Struct) -> str:
    """`result` as indented JSON with a final line end; fields in the order of their definition."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n"


def write_json(result: msgspec.Struct, path: Path) -> None:
    """Write `result` to `path`, replacing what is there at once or not at all.

    Raises UsageError, naming the path, when it cannot be written.
    """
    try:
        write_atomically(path, json_text(result).encode())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}; give another file to --json") from error
