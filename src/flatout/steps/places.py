"""Which line of the user's own source is running."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType

import flatout
from flatout.recording.schema import Place

_FLATOUT = os.path.dirname(os.path.abspath(flatout.__file__)) + os.sep
_PACKAGES = tuple(
    os.path.normpath(path) + os.sep
    for path in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        os.path.dirname(os.path.dirname(os.path.abspath(os.__file__))),
        os.path.dirname(os.path.abspath(flatout.__file__)),
        *(path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")),
    }
)
_users_own: dict[CodeType, bool] = {}
_interned: dict[tuple[CodeType, int], Place] = {}


def is_users_own(code: CodeType) -> bool:
    """Whether the code comes from a file of the user's, not from Python, an installed package or flatout."""
    known = _users_own.get(code)
    if known is None:
        file = code.co_filename
        known = not file.startswith("<") and not os.path.abspath(file).startswith(_PACKAGES)
        _users_own[code] = known
    return known


def user_frame() -> FrameType | None:
    """The innermost frame of the user's own source on this thread."""
    frame: FrameType | None = sys._getframe(1)
    known = _users_own
    while frame is not None:
        code = frame.f_code
        own = known.get(code)
        if own is None:
            own = is_users_own(code)
        if own:
            return frame
        frame = frame.f_back
    return None


def reading_line() -> tuple[CodeType, int] | None:
    """The innermost line outside flatout on this thread, be it the user's or a library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_FLATOUT):
            return frame.f_code, frame.f_lineno
        frame = frame.f_back
    return None


def user_place() -> Place | None:
    """The innermost line of the user's own source on this thread, or None (a library's thread)."""
    frame = user_frame()
    if frame is None:
        return None
    key = (frame.f_code, frame.f_lineno)
    place = _interned.get(key)
    if place is None:
        place = _interned[key] = Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    return place
