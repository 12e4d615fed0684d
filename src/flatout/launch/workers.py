"""Taking the hook along into the processes that `multiprocessing` starts afresh (spawn, forkserver).

Such a process first unpickles a dict of preparation data, then the user's objects. What is put into that dict here runs
flatout's entry when it is unpickled; the entry is named by its path, so the process need not be able to import flatout.
Processes that the script starts by `subprocess` are its own affair and are left alone.
"""

from __future__ import annotations

import multiprocessing.spawn as mp_spawn
import os
import runpy
import sys
from typing import Any

from flatout.launch.entry import WORKER
from flatout.launch.hooks import call_hook

_ENTRY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "entry.py")
_original = mp_spawn.get_preparation_data


class _Passenger:
    """Pickles as a call of the entry."""

    def __init__(self, orders: dict[str, Any]) -> None:
        self._orders = orders

    def __reduce__(self) -> tuple[Any, ...]:
        return runpy.run_path, (_ENTRY, {"worker_orders": self._orders}, WORKER)


def take_along(orders: dict[str, Any]) -> None:
    """From now on start `multiprocessing`'s fresh processes with the hook in them."""

    def get_preparation_data(name: str) -> dict[str, Any]:
        return {**_original(name), "flatout": _Passenger(orders)}

    mp_spawn.get_preparation_data = get_preparation_data


def start(orders: dict[str, Any]) -> None:
    """Prepare a worker process."""
    try:
        take_along(orders)
        call_hook(orders["hook"], orders["options"], "worker")
    except Exception as error:
        print(f"flatout: cannot enter a worker process: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
