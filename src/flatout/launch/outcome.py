"""How a supervised script ended."""

from __future__ import annotations

import signal as signals
from dataclasses import dataclass

from flatout.launch.places import spot_in_crash
from flatout.recording.schema import Failure, Place

# What each signal usually means for a training script.
_MEANINGS = {
    "SIGABRT": "aborted by C++ code (SIGABRT)",
    "SIGSEGV": "crashed in C or C++ code (SIGSEGV, a bad memory access)",
    "SIGBUS": "crashed in C or C++ code (SIGBUS): often shared memory that is too small (/dev/shm)",
    "SIGFPE": "crashed in C or C++ code (SIGFPE, often an integer division by zero)",
    "SIGILL": "crashed on an instruction that this processor lacks (SIGILL)",
    "SIGKILL": "killed (SIGKILL): usually the system ran out of memory",
    "SIGINT": "interrupted (SIGINT, Ctrl-C)",
    "SIGTERM": "ended from outside (SIGTERM)",
    "SIGHUP": "its terminal was closed (SIGHUP)",
}


@dataclass(frozen=True)
class Exit:
    """How a supervised script ended.

    `code` is what a shell would show: the script's own exit code, or 128 + the signal that ended it.
    `timed_out`: flatout ended it because its time was up. `interrupted`: a Ctrl-C or a SIGTERM came from outside.
    `stopped`: a hook stopped it on purpose (`stop_run`). `seconds` is the wall time of its process.
    `failure` is the exception that ended it, or for a crash the signal's name, with the deepest line in the user's
    files. `trace` is where each thread was when it crashed. `trouble` says what flatout itself failed at in the end.
    """

    code: int
    seconds: float
    signal: int | None = None
    timed_out: bool = False
    interrupted: bool = False
    stopped: bool = False
    failure: Failure | None = None
    trace: str = ""
    trouble: str = ""

    @property
    def explanation(self) -> str:
        """One phrase that continues "train.py ...": how it ended."""
        if self.timed_out:
            return f"ran out of its time after {self.seconds:.0f} s"
        if self.signal is not None:
            return meaning(self.signal)
        if self.stopped:
            return "was stopped after what was asked for"
        return f"ended with exit code {self.code}"


def meaning(number: int) -> str:
    """What it usually means that a signal ended a script."""
    name = _name(number)
    return _MEANINGS.get(name, f"ended by a signal ({name})")


def failure_from_report(report: object) -> Failure | None:
    """The exception that the child told of."""
    if not isinstance(report, dict):
        return None
    place = report["place"]
    return Failure(report["type"], report["message"], Place(**place) if place else None, tuple(report["notes"]))


def failure_from_crash(number: int, trace: str) -> Failure:
    """The end by signal `number`, with what `faulthandler` saw."""
    spot = spot_in_crash(trace)
    return Failure(_name(number), meaning(number), Place(*spot) if spot else None)


def _name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
