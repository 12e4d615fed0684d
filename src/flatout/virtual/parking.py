"""Threads that are still at work on the GPU when the process ends: held where they cannot disturb its end.

A daemon thread that waits for Python's lock inside a kernel when the interpreter goes is ended by an unwinding that C++
does not allow, and takes the process with it. On a real GPU kernels need no Python.
"""

from __future__ import annotations

import threading
import time

from flatout.virtual import machine as machines
from flatout.virtual.machine import Machine

_SETTLE_SECONDS = 0.05
_FOR_EVER_SECONDS = 1e6


def park_other_threads() -> None:
    """From now on, an operation of any other thread never returns. Called when the script's exit handlers have run."""
    machine = machines.current()
    this_thread = threading.get_ident()

    def current() -> Machine:
        if threading.get_ident() != this_thread:
            time.sleep(_FOR_EVER_SECONDS)
        return machine

    machines.current = current
    time.sleep(_SETTLE_SECONDS)  # for operations that had begun
