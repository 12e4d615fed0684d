"""The file system as the script believes it to be: a store laid over the real one.

A *key* is an absolute path whose directories contain no symbolic link, as the script sees it. A key is either in the
store, or hidden (the script deleted or replaced it; the real file is still there), or the real file itself. A file that
was renamed is not copied: the store has an empty stand-in and `moved` remembers where the content lies.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_bits
import sys
import threading
from typing import Any

from flatout.virtual.files import native
from flatout.virtual.files.layout import Layout, below
from flatout.virtual.files.tainting import tainted

MAX_LINKS = 40  # Linux's own limit, path_resolution(7)


def failure(code: int, path: Any, other: Any = None) -> OSError:
    """The exception that the operating system would raise with this `errno` code."""
    if other is None:
        return OSError(code, os.strerror(code), path)
    return OSError(code, os.strerror(code), path, None, other)


class Overlay:
    """Answers where a path's content is. Changes are in `ShadowStore`."""

    def __init__(self, layout: Layout, store: str) -> None:
        self.layout = layout
        self.store = store
        self.tree = os.path.join(store, "tree")
        self.active = False  # False until something is stored or hidden: until then every read is native
        self.hidden_keys: set[str] = set()
        self.moved: dict[str, str] = {}
        self.made: set[str] = set()  # real files and directories that this run created before the taint
        self.lock = threading.RLock()
        self._directories: dict[str, str] = {}
        native.make_directories(self.tree)

    # Names

    def text(self, path: Any, dir_fd: int | None = None) -> str:
        """`path` (str, bytes or PathLike) as an absolute str; not normalised."""
        name = os.fsdecode(os.fspath(path))
        if os.path.isabs(name):
            return self.unshadow(name)
        base = self.working_directory() if dir_fd is None else self.directory_of(dir_fd)
        return os.path.join(base, name)

    def working_directory(self) -> str:
        """The working directory as the script believes it to be."""
        return self.unshadow(native.getcwd())

    def directory_of(self, descriptor: int) -> str:
        """The path of an open directory, as the script knows it. Raises OSError where the system cannot tell."""
        if sys.platform == "darwin":
            import fcntl

            raw: bytes = fcntl.fcntl(descriptor, 50, b"\0" * 1024)  # F_GETPATH, sys/fcntl.h of macOS
            return self.unshadow(os.fsdecode(raw.rstrip(b"\0")))
        return self.unshadow(native.readlink(f"/proc/self/fd/{descriptor}"))

    def shadow(self, key: str) -> str:
        """Where the store keeps the file of this key."""
        drive, rest = os.path.splitdrive(key)
        return self.tree + (os.sep + drive.replace(":", "").strip("\\/") if drive else "") + rest

    def unshadow(self, path: str) -> str:
        """The inverse of `shadow`; other paths as they are."""
        if not path.startswith(self.tree + os.sep) or os.name == "nt":
            return path
        return path[len(self.tree) :]

    def key(self, path: str, follow: bool = True) -> str:
        """The key of an absolute path; the last component's link is followed unless `follow` is False."""
        bare = path.rstrip(os.sep) or os.sep
        head, tail = os.path.split(bare)
        if tail in ("", ".", ".."):
            return self._directory(bare, 0)
        parent = self._directory(head, 0)
        found = os.path.join(parent, tail)
        if not follow:
            return found
        return self._followed(found, parent, 0)

    def _followed(self, key: str, parent: str, depth: int) -> str:
        if key.startswith("/proc/"):
            return key  # /dev/stdout and the like: what they lead to is open already
        place = self.physical(key)
        status = native.look(place)
        if status is None or not stat_bits.S_ISLNK(status.st_mode):
            return key
        if depth > MAX_LINKS:
            raise failure(errno.ELOOP, key)
        target = os.path.join(parent, self.unshadow(native.readlink(place)))
        upper, name = os.path.split(target.rstrip(os.sep) or os.sep)
        if name in ("", ".", ".."):
            return self._directory(target, depth + 1)
        above = self._directory(upper, depth + 1)
        return self._followed(os.path.join(above, name), above, depth + 1)

    def _directory(self, path: str, depth: int) -> str:
        known = self._directories.get(path)
        if known is not None:
            return known
        head, tail = os.path.split(path)
        if head == path:
            return path
        parent = self._directory(head, depth)
        if tail in ("", "."):
            found = parent
        elif tail == "..":
            found = os.path.dirname(parent)
        else:
            found = self._followed(os.path.join(parent, tail), parent, depth)
        self._directories[path] = found
        return found

    def forget_directories(self) -> None:
        """Drop what is remembered of links: a directory or a link has changed."""
        self._directories.clear()

    # Places

    def hidden(self, key: str) -> bool:
        """Whether the real file of this key is out of the script's sight."""
        if not self.hidden_keys:
            return False
        while True:
            if key in self.hidden_keys:
                return True
            parent = os.path.dirname(key)
            if parent == key:
                return False
            key = parent

    def stored(self, key: str) -> bool:
        """Whether the store has this key."""
        return self.active and native.look(self.shadow(key)) is not None

    def physical(self, key: str) -> str:
        """The real path to read for this key. It may not exist; a hidden key's never does."""
        if not self.active:
            return key
        moved = self.moved.get(key)
        if moved is not None:
            return moved
        place = self.shadow(key)
        status = native.look(place)
        if status is None:
            return place if self.hidden(key) else key
        if native.is_directory(status) and not self.hidden(key) and native.is_directory(native.look(key)):
            return key
        return place

    def look(self, key: str) -> os.stat_result | None:
        """`lstat` of what the script sees, or None."""
        return native.look(self.physical(key))

    def place_to_read(self, path: Any, dir_fd: int | None = None, follow: bool = True) -> str | None:
        """Where to read `path` instead, or None when it is to be read as it is."""
        try:
            name = self.text(path, dir_fd)
        except (OSError, TypeError, ValueError):
            return None
        try:
            key = self.key(name, follow)
        except OSError:
            return None
        place = self.physical(key)
        if place == name and (os.path.isabs(os.fspath(path)) or not below(native.getcwd(), self.tree)):
            return None  # also where links are on the way: one of them may exist for the script only
        return place

    def names(self, key: str) -> list[str]:
        """What a directory contains for the script, in no order. Raises as `os.listdir` does."""
        found: dict[str, None] = {}
        real_is_directory = not self.hidden(key) and native.is_directory(native.look(key))
        place = self.shadow(key)
        stored_is_directory = native.is_directory(native.look(place))
        if real_is_directory:
            found = dict.fromkeys(
                name for name in native.listdir(key) if os.path.join(key, name) not in self.hidden_keys
            )
        if stored_is_directory:
            found.update(dict.fromkeys(native.listdir(place)))
        if not real_is_directory and not stored_is_directory:
            native.listdir(self.physical(key))
        return list(found)

    # Rules

    def owns(self, key: str) -> bool:
        """Whether this run created the file, or a directory that it is in."""
        while True:
            if key in self.made:
                return True
            parent = os.path.dirname(key)
            if parent == key:
                return False
            key = parent

    def diverts(self, key: str) -> bool:
        """Whether a change of this key goes to the store instead of the real file system."""
        if below(key, self.store):
            return False
        if self.layout.is_allowed(key):  # unless its directory is nowhere but in the store
            parent = os.path.dirname(key)
            return native.look(parent) is None and self.stored(parent)
        if self.active and (self.hidden(key) or self.stored(key)):
            return True
        status = native.look(key)
        scratch = self.layout.is_temporary(key)
        if status is None:
            return (tainted() and not scratch) or native.look(os.path.dirname(key)) is None
        mode = status.st_mode
        if not (stat_bits.S_ISREG(mode) or stat_bits.S_ISDIR(mode) or stat_bits.S_ISLNK(mode)):
            return False  # sockets, pipes, devices: nothing is kept in them
        return not self.owns(key) or (tainted() and not scratch)

    def touched_below(self, key: str) -> bool:
        """Whether the store has, hides or moved anything at or below this key."""
        if not self.active:
            return False
        return self.stored(key) or any(below(other, key) for other in (*self.hidden_keys, *self.moved))

    def forget_made(self, key: str) -> None:
        """The real file of this key is gone."""
        with contextlib.suppress(KeyError):
            self.made.remove(key)
