"""Stopping a script from inside, once enough was seen, as gently as the script allows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

ATTEMPTS = 3  # times that a script may swallow the stop and run into it again


class StopRun(SystemExit):
    """Raised inside the script to end it.

    A kind of `SystemExit`, so that Python itself does everything right: ``finally`` blocks and context managers run,
    ``except Exception`` does not catch it, workers are shut down, nothing is printed, the exit code is 0, and a process
    of `multiprocessing` or a thread that meets it ends quietly.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__()
        self.reason = reason


_raised: list[StopRun] = []
_last_act: list[Callable[[StopRun], None]] = []


def stop_run(reason: str = "") -> NoReturn:
    """Raise `StopRun`, and end the process at the call after `ATTEMPTS` of them were swallowed.

    That hard end flushes the standard streams and ends the script's worker processes, but runs none of its code.
    """
    stop = StopRun(reason)
    _raised.append(stop)
    if len(_raised) > ATTEMPTS:
        _end_now(stop)
    raise stop


def stop_that_was_raised() -> StopRun | None:
    """The stop that this process has met, if any."""
    return _raised[0] if _raised else None


def before_hard_end(act: Callable[[StopRun], None]) -> None:
    """Have `act` called when a script that swallows every stop is ended."""
    _last_act.append(act)


def _end_now(stop: StopRun) -> NoReturn:
    for act in _last_act:
        act(stop)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed, broken or replaced: the script's affair
            continue
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None:
        for worker in multiprocessing.active_children():
            worker.kill()
    os._exit(0)
