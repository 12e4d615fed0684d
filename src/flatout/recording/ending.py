"""The ending of a recording, written from outside: a supervisor knows how the maker died, the maker does not."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from flatout.errors import RecordingError
from flatout.recording.layout import check_header
from flatout.recording.schema import Ending
from flatout.recording.text import json_of


def write_ending(path: str | Path, ending: Ending) -> None:
    """Write `ending` into the recording at `path`, replacing what its maker wrote. The maker must be gone.

    Raises `RecordingError` where the file is no recording, or cannot be written.
    """
    path = Path(path)
    check_header(path)
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=10)
        try:
            with connection:
                connection.execute("INSERT OR REPLACE INTO documents VALUES ('ending', ?)", (json_of(ending),))
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise RecordingError(f"{path}: cannot note how the run ended ({error}). Is the disk full?") from None
