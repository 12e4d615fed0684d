"""The child's side: what happens in the script's process before its first line and after its last.

Standard library only. Nothing here raises into the script.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import signal
import sys
import threading
from types import TracebackType
from typing import Any

from flatout.launch import relaunch, stop, workers
from flatout.launch.control import Control
from flatout.launch.hooks import Watcher, call_hook
from flatout.launch.places import Spot, deepest, notes_of, spot_of_error, spots_of
from flatout.launch.tracebacks import hide_flatout

LONGEST_MESSAGE = 20_000  # characters

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


def start(folder: str, orders: dict[str, Any]) -> None:
    """Set up this process, call the hook, and let the script begin. If that fails, say why and end the process."""
    control = Control(folder)
    try:
        if sys.platform == "linux":
            _end_with_parent()
        if sys.platform == "win32":
            signal.signal(signal.SIGBREAK, signal.default_int_handler)
        _leave_a_trace(control)
        session = _Session(control)
        atexit.register(session.end)  # registered before anybody else's, so it is called after them
        stop.before_hard_end(session.hard_end)
        session.previous_hook, sys.excepthook = sys.excepthook, session.excepthook
        _quieten_threads()
        workers.take_along(orders)
        relaunch.follow(folder, orders)
        session.watcher = call_hook(orders["hook"], {**orders["options"], "own_files": control.paths()}, "script")
        control.mark_started()
    except BaseException as error:
        control.write("trouble", _described(error, deepest(spots_of(error.__traceback__)) or _last(error)))
        os._exit(2)


def _quieten_threads() -> None:
    """A thread that meets the stop ends as by `SystemExit`, whose subclasses Python would print."""
    plain = threading.excepthook

    def excepthook(arguments: threading.ExceptHookArgs, /) -> None:
        if not issubclass(arguments.exc_type, stop.StopRun):
            plain(arguments)

    threading.excepthook = excepthook


class _Session:
    """One script in this process."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._process_id = os.getpid()
        self._ended = False
        self._told: dict[str, Any] = {}
        self.watcher: Watcher | None = None
        self.previous_hook = sys.excepthook

    def excepthook(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Print an uncaught exception as Python does, and tell the supervisor."""
        if os.getpid() == self._process_id:
            self._put_right(error)
            self._tell(failure=_described(error, spot_of_error(error)))  # now: the exit may yet hang
        hide_flatout(error)
        self.previous_hook(kind, error, error.__traceback__)

    def end(self) -> None:
        """The last exit handler."""
        if os.getpid() != self._process_id or self._ended:
            return
        error = stop.stop_that_was_raised() or getattr(sys, "last_value", None)
        self._finish(error)

    def hard_end(self, error: stop.StopRun) -> None:
        """The end of a script that swallowed every stop."""
        if os.getpid() == self._process_id:
            self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        self._ended = True
        if isinstance(error, stop.StopRun):
            self._tell(stopped=True)
        elif error is not None:  # also where the script has an excepthook of its own
            self._put_right(error)
            self._tell(failure=_described(error, spot_of_error(error)))
        finished = getattr(self.watcher, "finished", None)
        if finished is not None:
            try:
                finished(error)
            except BaseException as trouble:
                self._tell(trouble=f"{type(trouble).__name__}: {trouble}")

    def _put_right(self, error: BaseException) -> None:
        failing = getattr(self.watcher, "failing", None)
        if failing is not None:
            with contextlib.suppress(Exception):  # the script's error comes before what is made of its words
                failing(error)

    def _tell(self, **news: Any) -> None:
        self._told.update(news)
        try:
            self._control.write("report", self._told)
        except OSError:  # the supervisor is gone, and nobody is left to be told
            self._told.clear()


def _described(error: BaseException, spot: Spot | None) -> dict[str, Any]:
    kind = type(error)
    try:
        message = str(error)
    except Exception as unprintable:
        message = f"(its message cannot be printed: {type(unprintable).__name__})"
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return {
        "type": f"{module}{kind.__qualname__}",
        "message": message[:LONGEST_MESSAGE],
        "place": spot._asdict() if spot else None,
        "notes": notes_of(error),
    }


def _last(error: BaseException) -> Spot | None:
    spots = spots_of(error.__traceback__)
    return spots[-1] if spots else None


def _leave_a_trace(control: Control) -> None:
    """Have a crash in C or C++ code, and a SIGTERM, note where the script was.

    In a file of flatout's own: stderr is the script's.
    """
    if faulthandler.is_enabled():
        return
    crash = control.crash.open("w")
    _kept_open.append(crash)
    faulthandler.enable(crash)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGTERM, crash, chain=True)
    if hasattr(os, "register_at_fork"):
        # What becomes of a forked child is not what became of the script.
        os.register_at_fork(after_in_child=lambda: _send_nowhere(crash.fileno()))


_kept_open: list[Any] = []


def _send_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)


def _end_with_parent() -> None:
    """Ask Linux for a SIGTERM when the supervisor dies, so that a killed flatout leaves no script behind."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return
