"""Hooks for the tests. Loaded in children, so standard library only."""

from __future__ import annotations

import builtins
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def nothing(options: dict[str, Any]) -> None:
    """A hook without a watcher."""


class Notes:
    """Writes what it is told into the file that the options name, and gives the script `stop()`."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.file = Path(options["notes"])
        self.note("hook", options["launched_as"])
        self.count = 0

    def note(self, event: str, what: str) -> None:
        with self.file.open("a") as file:
            file.write(json.dumps([event, what]) + "\n")

    def finished(self, error: BaseException | None) -> None:
        self.note("finished", type(error).__name__)

    def forked(self) -> None:
        self.note("forked", "")

    def step(self) -> None:
        """An optimizer step as a hook sees it: after the second one the run is to stop."""
        from flatout.launch import stop_run

        self.count += 1
        if self.count >= 2:
            stop_run("two steps")


def notes(options: dict[str, Any]) -> Notes:
    watcher = Notes(options)
    builtins.step = watcher.step
    builtins.launched_as = options["launched_as"]
    return watcher


def refuses(options: dict[str, Any]) -> None:
    from flatout.errors import UnsupportedError

    raise UnsupportedError("sparse tensors are not known to the virtual GPU")


def breaks(options: dict[str, Any]) -> None:
    {}["gone"]


class _BreaksAtTheEnd:
    def finished(self, error: BaseException | None) -> None:
        raise OSError("disk full")


def breaks_at_the_end(options: dict[str, Any]) -> _BreaksAtTheEnd:
    return _BreaksAtTheEnd()


class _Translates:
    def failing(self, error: BaseException) -> None:
        error.args = tuple(str(word).replace("meta", "cuda") for word in error.args)


def translating(options: dict[str, Any]) -> _Translates:
    return _Translates()


def slow(options: dict[str, Any]) -> None:
    Path(options["notes"]).write_text(str(os.getpid()))
    sys.stdout.flush()
    time.sleep(60)
