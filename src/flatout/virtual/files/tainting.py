"""One fact about this process: has the script seen an invented value yet?

From then on whatever the script writes may have been computed from invented values, so nothing that it writes may reach
a real file. Conservative on purpose: there is no way back, and no value is followed through the program.
"""

from __future__ import annotations

from collections.abc import Callable

_tainted = False
_listeners: list[Callable[[], None]] = []


def taint() -> None:
    """Declare that the script has read, or is saving, an invented value. Later calls cost one comparison."""
    global _tainted
    if _tainted:
        return
    _tainted = True
    for listener in list(_listeners):
        listener()


def tainted() -> bool:
    """Whether the script has read or saved an invented value in this process (forked children inherit it)."""
    return _tainted


def when_tainted(listener: Callable[[], None]) -> None:
    """Call `listener` once, at the moment of the first `taint`."""
    _listeners.append(listener)


def reset() -> None:
    """Forget the taint and all listeners: a new run begins (or a test)."""
    global _tainted
    _tainted = False
    _listeners.clear()
