"""Following a script that replaces itself: ``os.execv(sys.executable, [sys.executable, *sys.argv])``.

Scripts do so to set variables that a library reads when it is loaded (``LD_PRELOAD``, ``OMP_NUM_THREADS``). Unfollowed,
the new process would train for real. All of `os`'s exec functions go through `os.execv` and `os.execve`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from flatout.launch.control import Control

_os: Any = os
_execve = _os.execve


def follow(folder: str, orders: dict[str, Any]) -> None:
    """Have a Python that replaces this process enter through the supervisor's `folder` again."""
    script_process_id = os.getpid()

    def execve(path: Any, arguments: Sequence[Any], environment: Mapping[Any, Any]) -> None:
        if os.getpid() == script_process_id and _is_python(path):
            environment = _led_through(folder, orders, environment)
        _execve(path, arguments, environment)

    def execv(path: Any, arguments: Sequence[Any]) -> None:
        execve(path, arguments, os.environ)

    _os.execv, _os.execve = execv, execve


def _led_through(folder: str, orders: dict[str, Any], environment: Mapping[Any, Any]) -> dict[str, str]:
    """`environment` with the folder first on PYTHONPATH, and the orders changed to put back what it had."""
    plain = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
    python_path = plain.get("PYTHONPATH")
    Control(folder).write("orders", {**orders, "python_path": python_path})
    plain["PYTHONPATH"] = f"{folder}{os.pathsep}{python_path}" if python_path else folder
    return plain


def _is_python(path: Any) -> bool:
    if isinstance(path, int):  # a file descriptor
        return False
    found = shutil.which(os.fsdecode(path)) or os.fsdecode(path)
    return os.path.realpath(found) == os.path.realpath(sys.executable) or os.path.basename(found).startswith("python")
