"""Running a user's script in a supervised child as if it were alone.

The public names load when they are asked for, because the child's side of this package must work with nothing but the
standard library: it runs before anything of the script's, in whatever Python the script runs in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Exit", "Relay", "StopRun", "Target", "stop_run", "supervise"]

if TYPE_CHECKING:
    from flatout.launch.outcome import Exit
    from flatout.launch.relay import Relay
    from flatout.launch.stop import StopRun, stop_run
    from flatout.launch.supervisor import supervise
    from flatout.launch.target import Target

_HOMES = {
    "Exit": "outcome",
    "Relay": "relay",
    "StopRun": "stop",
    "Target": "target",
    "stop_run": "stop",
    "supervise": "supervisor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
