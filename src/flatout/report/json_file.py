"""Results as JSON: the same bytes for the same result, and a file that is either whole or not there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import msgspec

from flatout.errors import UsageError


def json_text(result: msgspec.Struct) -> str:
    """`result` as indented JSON with a final line end; fields in the order of their definition."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n"


def write_json(result: msgspec.Struct, path: Path) -> None:
    """Write `result` to `path`, replacing what is there at once or not at all.

    Raises UsageError, naming the path, when it cannot be written.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(json_text(result))
            os.chmod(temporary, _usual_mode())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}; give another file to --json") from error


def _usual_mode() -> int:
    """The mode that `open` would have given: a temporary file is private, a result is not."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
