"""Which line of the user's own source an exception or a dying process points at.

Standard library only: the child's side uses it before the script's own modules are imported.
"""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import NamedTuple

_INSTALLED = re.compile(r"[/\\](site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]")
_TRACE_LINE = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_LIBRARY = tuple(
    os.path.normcase(os.path.realpath(path)) + os.sep
    for name, path in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib")
)
FLATOUT = os.path.normcase(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class Spot(NamedTuple):
    """A line that was being run. `line` counts from 1."""

    file: str
    line: int
    function: str


def is_flatout(file: str) -> bool:
    """Whether `file` is one of flatout's modules."""
    return os.path.normcase(os.path.abspath(file)).startswith(FLATOUT)


def is_users_own(file: str) -> bool:
    """Whether `file` is neither generated code, nor Python's library, nor an installed package, nor flatout."""
    if file.startswith("<") or is_flatout(file) or _INSTALLED.search(file):
        return False
    return not os.path.normcase(os.path.realpath(file)).startswith(_LIBRARY)


def deepest(spots: Iterable[Spot]) -> Spot | None:
    """Of `spots`, innermost last, the deepest in the user's own files; else the deepest outside flatout."""
    inward = [spot for spot in spots if not spot.file.startswith("<") and not is_flatout(spot.file)]
    return next((spot for spot in reversed(inward) if is_users_own(spot.file)), inward[-1] if inward else None)


def spots_of(trace: TracebackType | None) -> list[Spot]:
    """The lines of a traceback, innermost last."""
    spots = []
    while trace is not None:
        spots.append(_spot(trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return spots


def spot_of_error(error: BaseException) -> Spot | None:
    """The user's line to blame for `error`: a syntax error's own line, else the deepest of the traceback."""
    if isinstance(error, SyntaxError) and error.filename and is_users_own(error.filename):
        return Spot(error.filename, error.lineno or 0, "")
    return deepest(spots_of(error.__traceback__))


def notes_of(error: BaseException) -> list[str]:
    """What was added to `error` with ``add_note`` (from Python 3.11 on), which Python prints below its message."""
    notes = getattr(error, "__notes__", None)
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, (list, tuple)) else []


def spot_in_crash(text: str) -> Spot | None:
    """The user's line in what `faulthandler` wrote: in the thread that died, else in the last listed, the main one."""
    died: list[list[Spot]] = []
    others: list[list[Spot]] = []
    spots: list[Spot] = []
    for line in text.splitlines():
        if line.startswith(("Current thread ", "Thread ")):
            spots = []
            (died if line.startswith("Current") else others).append(spots)
        elif found := _TRACE_LINE.match(line):
            spots.insert(0, Spot(found["file"], int(found["line"]), found["function"]))
    candidates = [spot for thread in (*reversed(died), *reversed(others)) if (spot := deepest(thread))]
    return next((spot for spot in candidates if is_users_own(spot.file)), candidates[0] if candidates else None)


def _spot(frame: FrameType, line: int | None) -> Spot:
    return Spot(frame.f_code.co_filename, line or 0, frame.f_code.co_name)
