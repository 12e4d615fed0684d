"""The exception that ended a script, as the ending of its recording. For makers, inside the script's process."""

from __future__ import annotations

import sys

from flatout.launch.places import notes_of, spot_of_error
from flatout.launch.stop import StopRun
from flatout.recording.schema import Ending, Failure, Place


def ending_of(error: BaseException | None) -> Ending:
    """How a script ended by `error`; None where it ended by itself. Never loads torch."""
    if error is None:
        return Ending("completed", 0)
    if isinstance(error, StopRun):
        return Ending("stopped", 0)
    if isinstance(error, SystemExit):
        code = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
        return Ending("completed", 0) if code == 0 else Ending("error", code, _failure(error))
    if isinstance(error, KeyboardInterrupt):
        return Ending("interrupted", 130, _failure(error))
    out_of_memory = getattr(sys.modules.get("torch"), "OutOfMemoryError", ())
    return Ending("out_of_memory" if isinstance(error, out_of_memory) else "error", 1, _failure(error))


def _failure(error: BaseException) -> Failure:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    spot = spot_of_error(error)
    place = None if spot is None else Place(spot.file, spot.line, spot.function)
    return Failure(name, str(error), place, tuple(notes_of(error)))
