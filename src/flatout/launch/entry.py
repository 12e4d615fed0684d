"""The door through which flatout enters a Python process before the user's code does.

It has two names. Copied as ``sitecustomize.py`` into the supervisor's folder, which is first on PYTHONPATH, it is run
by `site` at the start of the script's process: so the script is run by Python itself and by nobody else, and all about
it (``__main__``, ``sys.argv``, ``sys.path``, tracebacks, exit codes) is true by nature. Under ``WORKER`` it is run
in the processes that `multiprocessing` starts afresh, before these unpickle any of the user's objects.

It stands alone: at its top it imports nothing of flatout.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from types import ModuleType
from typing import Any

WORKER = "flatout_worker"  # with the global `worker_orders` set by whoever starts the worker


def load_flatout(root: str) -> None:
    """Make the very flatout of the supervisor importable, without touching `sys.path`."""
    if "flatout" in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        "flatout", os.path.join(root, "__init__.py"), submodule_search_locations=[root]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["flatout"] = module
    spec.loader.exec_module(module)


def leave_no_trace(folder: str, python_path: str | None) -> None:
    """Put PYTHONPATH and `sys.path` back to what they are without flatout."""
    if python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = python_path
    sys.path[:] = [entry for entry in sys.path if os.path.normcase(entry) != os.path.normcase(folder)]
    sys.path_importer_cache.pop(folder, None)


def import_the_real_one() -> ModuleType | None:
    """The ``sitecustomize`` that this Python would have run, if there is one."""
    ours = sys.modules.pop("sitecustomize")
    try:
        return importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        return None
    finally:
        sys.modules.setdefault("sitecustomize", ours)


def enter_script(folder: str) -> None:
    """Prepare the script's process."""
    with open(os.path.join(folder, "orders.json"), encoding="utf-8") as file:
        orders = json.load(file)
    leave_no_trace(folder, orders["python_path"])
    try:
        real = import_the_real_one()
    finally:
        load_flatout(orders["root"])
        importlib.import_module("flatout.launch.child").start(folder, orders)
    if real is None:
        raise ImportError("as in a Python without one", name="sitecustomize")


def enter_worker(orders: dict[str, Any]) -> None:
    """Prepare a process of `multiprocessing`."""
    load_flatout(orders["root"])
    importlib.import_module("flatout.launch.workers").start(orders)


if __name__ == "sitecustomize":
    enter_script(os.path.dirname(os.path.abspath(__file__)))
elif __name__ == WORKER:
    enter_worker(globals()["worker_orders"])
