"""Signals that reach flatout, handed on to the script.

The script's process is not in the terminal's group, so a Ctrl-C reaches flatout alone and the script hears of it once,
here, together with its workers, as it would from the terminal.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

from flatout.launch.family import Family

_TO_GROUP = ("SIGINT", "SIGQUIT", "SIGHUP")  # a terminal sends these to everybody in the foreground
_TO_CHILD = ("SIGTERM", "SIGUSR1", "SIGUSR2")  # somebody's `kill`


class Relay:
    """Hands signals on while it is entered; outside the main thread, where Python allows no handlers, it hands on none.

    It may serve several families at once. Signals that come before the first are delivered when it is there.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._families: list[Family] = []
        self._early: list[int] = []
        self._ctrl_c = 0
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Relay:
        if threading.current_thread() is threading.main_thread():
            for name in (*_TO_GROUP, *_TO_CHILD):
                self._listen(name, self._hand_on)
            self._listen("SIGTSTP", self._pause)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def serve(self, family: Family) -> None:
        """Hand signals on to `family` from now on."""
        self._families.append(family)
        early, self._early = self._early, []
        for number in early:
            self._hand_on(number, None)

    def leave(self, family: Family) -> None:
        """Its process has ended: its number may soon be another's."""
        self._families.remove(family)

    def _listen(self, name: str, handler: Any) -> None:
        number = getattr(signal, name, None)
        if number is None:
            return
        old = signal.getsignal(number)
        if old is not signal.SIG_IGN and old is not None:  # ignored (nohup) means ignored, for the script too
            self._old[number] = signal.signal(number, handler)

    def _hand_on(self, number: int, _: FrameType | None) -> None:
        if not self._families:
            self._early.append(number)
            return
        name = signal.Signals(number).name
        self.interrupted |= name in ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM")
        self._ctrl_c += name == "SIGINT"
        for family in tuple(self._families):
            if name == "SIGINT":
                self._interrupt(family)
            elif name in _TO_GROUP:
                family.tell_all(number)
            else:
                family.tell_child(number)

    def _interrupt(self, family: Family) -> None:
        """Twice as from the terminal, for the script to clean up and to break off cleaning up; then flatout insists."""
        if self._ctrl_c <= 2:
            family.tell_all(signal.SIGINT)
        elif self._ctrl_c == 3:
            family.tell_all(signal.SIGTERM)
        elif sys.platform == "win32":
            family.child.kill()
        else:
            family.tell_all(signal.SIGKILL)

    def _pause(self, _number: int, _: FrameType | None) -> None:
        """Ctrl-Z: the script pauses, then flatout; both go on together."""
        if not self._families or sys.platform == "win32":
            return
        paused = tuple(self._families)
        for family in paused:
            family.tell_all(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        for family in paused:
            family.tell_all(signal.SIGCONT)
