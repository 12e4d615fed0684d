"""Writers and forks: a forked child (a DataLoader worker) must never touch the recording of its parent.

SQLite forbids carrying a connection over a fork (https://www.sqlite.org/howtocorrupt.html, section 2.6). So a fork
waits until no commit is under way, and the child keeps the connection open without ever using it.
"""

from __future__ import annotations

import os
from typing import Protocol


class Forkable(Protocol):
    """What is told about forks."""

    def before_fork(self) -> None: ...
    def after_fork_in_parent(self) -> None: ...
    def after_fork_in_child(self) -> None: ...


_watched: list[Forkable] = []
_held: list[Forkable] = []
_kept_for_ever: list[Forkable] = []


def watch(writer: Forkable) -> None:
    """Tell `writer` about every fork from now on."""
    _watched.append(writer)


def forget(writer: Forkable) -> None:
    """Tell `writer` no more."""
    _watched.remove(writer)


def _before() -> None:
    for writer in list(_watched):
        writer.before_fork()
        _held.append(writer)


def _after_in_parent() -> None:
    while _held:
        _held.pop().after_fork_in_parent()


def _after_in_child() -> None:
    for writer in _held:
        writer.after_fork_in_child()
    _kept_for_ever.extend(_held)
    _held.clear()
    _watched.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
