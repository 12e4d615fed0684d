"""The script's process with all that it started: signalling it, and ending it without leaving orphans.

On POSIX the child leads a session, hence a process group, of its own; on Windows a process group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable

GRACE_SECONDS = 3.0  # between SIGINT and SIGTERM, and again between SIGTERM and SIGKILL

NEW_GROUP: dict[str, object] = (
    {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    if sys.platform == "win32"
    else {"start_new_session": True}
)


class Family:
    """A child that was started with `NEW_GROUP`, and its descendants."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        self._seen: dict[int, Callable[[], None]] = {}

    def tell_all(self, number: int) -> None:
        """Send a signal to the child's group, as a terminal does."""
        if sys.platform == "win32":
            self.child.send_signal(signal.CTRL_BREAK_EVENT if number == signal.SIGINT else number)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, number)

    def tell_child(self, number: int) -> None:
        """Send a signal to the child alone, as ``kill`` does."""
        if sys.platform == "win32":
            self.tell_all(number)
            return
        self.child.send_signal(number)

    def end(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Make the child end: ask it, tell it, then kill everything that it started."""
        for number, tell in ((signal.SIGINT, self.tell_child), (signal.SIGTERM, self.tell_all)):
            self._note_descendants()
            tell(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(grace_seconds)
                break
        self._note_descendants()
        self.kill()

    def kill(self) -> None:
        """Kill what is left: the group, and descendants seen before that had left it. Wait for the child."""
        if sys.platform != "win32":
            self.tell_all(signal.SIGKILL)
        if self.child.poll() is None:
            self.child.kill()
        for kill in self._seen.values():
            kill()
        self.child.wait()

    def _note_descendants(self) -> None:
        """Remember who descends from the child: a process that has lost its parent no longer shows it."""
        import psutil

        def killer(process: psutil.Process) -> Callable[[], None]:
            def kill() -> None:
                with contextlib.suppress(psutil.Error):
                    process.kill()  # psutil makes sure that the number was not given to another process since

            return kill

        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self.child.pid).children(recursive=True):
                self._seen.setdefault(process.pid, killer(process))
