"""The last line: refuses what would change a real file by a way that the replaced functions do not cover.

Python reports every file operation of its own to audit hooks (`sys.addaudithook`, PEP 578). A hook cannot be removed,
so there is one for the process and it looks at the guard that is set at the moment.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

from flatout.virtual.files import native
from flatout.virtual.files.shadow import ShadowStore

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_APPEND
_ONE_PATH = {"os.remove": "delete", "os.rmdir": "delete", "os.truncate": "truncate", "os.setxattr": "change"}
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn")

_store: ShadowStore | None = None
_installed = False
_programs: dict[str, None] = {}


def _refuse(store: ShadowStore, path: Any, verb: str, follow: bool, dir_fd: int = -1) -> None:
    if path is None or isinstance(path, int):
        return
    try:
        key = store.key(store.text(path, None if dir_fd < 0 else dir_fd), follow)
    except (OSError, TypeError, ValueError):
        return
    if native.look(key) is None or not store.diverts(key) or store.hidden(key):
        return
    raise PermissionError(
        errno.EPERM,
        f"a dry run does not {verb} a file that was there before it, and this call does not go through the functions "
        "that divert it to a temporary copy; open it with open() or pathlib, or let it be changed with --allow-writes",
        key,
    )


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    store = _store
    if store is None or native.exempt():
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITES:
            _refuse(store, path, "overwrite", True)
    elif event in _ONE_PATH:
        dir_fd = arguments[1] if event in ("os.remove", "os.rmdir") else -1
        _refuse(store, arguments[0], _ONE_PATH[event], event == "os.truncate", dir_fd)
    elif event == "os.rename":
        source, target, from_fd, to_fd = arguments
        _refuse(store, source, "rename", False, from_fd)
        _refuse(store, target, "replace", False, to_fd)
    elif event in _PROGRAMS:
        program = arguments[0] if arguments else ""
        _programs[os.fsdecode(program) if isinstance(program, (str, bytes)) else str(program)] = None


def watch(store: ShadowStore) -> None:
    """Begin to refuse, for this store."""
    global _store, _installed
    _store = store
    _programs.clear()
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True


def stop() -> None:
    """Let everything through again."""
    global _store
    _store = None


def programs() -> tuple[str, ...]:
    """Programs that the script started: they see, and may change, the real files."""
    return tuple(_programs)
