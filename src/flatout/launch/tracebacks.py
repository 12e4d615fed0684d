"""Tracebacks as the script alone would have them: without flatout's frames."""

from __future__ import annotations

import re
from types import TracebackType

from flatout.launch.places import is_flatout


def hide_flatout(error: BaseException) -> None:
    """Take flatout's frames out of the tracebacks of `error` and of the errors that it came from."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        error_now = waiting.pop()
        if error_now is None or id(error_now) in seen:
            continue
        seen.add(id(error_now))
        error_now.__traceback__ = _without_flatout(error_now.__traceback__)
        waiting += [error_now.__cause__, error_now.__context__, *getattr(error_now, "exceptions", ())]


def _without_flatout(trace: TracebackType | None) -> TracebackType | None:
    links: list[TracebackType] = []
    while trace is not None:
        links.append(trace)
        trace = trace.tb_next
    kept: TracebackType | None = None
    changed = False
    for link in reversed(links):
        if is_flatout(link.tb_frame.f_code.co_filename):
            changed = True
        else:
            kept = TracebackType(kept, link.tb_frame, link.tb_lasti, link.tb_lineno) if changed else link
    return kept


# One entry of a traceback in words: where, then the line of source and what Python draws below it.
_ENTRY = re.compile(r'^  File "([^"\n]*)", line \d+, in .*\n(?:    .*\n)*', re.MULTILINE)


def without_flatout(text: str) -> str:
    """A message that quotes a traceback, as that of a loader whose worker failed, without flatout's lines."""
    return _ENTRY.sub(lambda entry: "" if is_flatout(entry[1]) else entry[0], text)
