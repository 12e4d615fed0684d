"""Writing to the store: what `open` means in it, and the steps that all other changes consist of."""

from __future__ import annotations

import errno
import os
import shutil
import stat as stat_bits
from typing import Any

from flatout.virtual.files import native
from flatout.virtual.files.layout import Layout
from flatout.virtual.files.overlay import Overlay, failure

_TMPFILE: int = getattr(os, "O_TMPFILE", 0)
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
SPARE_BYTES = 1 << 30  # left free on the store's disk by a copy: a full /tmp breaks more than this run


class Changes(Overlay):
    """An overlay in which files can be opened for writing. Raises the same `OSError`s as the calls that it answers."""

    def __init__(self, layout: Layout, store: str) -> None:
        super().__init__(layout, store)
        self.written: dict[str, None] = {}  # keys whose content went to the store, in order
        self.spared: dict[str, None] = {}  # real files that would have been replaced, changed or deleted

    # Opening

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """`os.open` for writing or creating. Returns a file descriptor."""
        with self.lock, native.exemption():
            if _TMPFILE and flags & _TMPFILE == _TMPFILE:
                return self._open_unnamed(path, flags, mode, dir_fd)
            exclusive = bool(flags & os.O_CREAT and flags & os.O_EXCL)
            key = self.key(self.text(path, dir_fd), follow=not exclusive and not flags & _NOFOLLOW)
            if not self.diverts(key):
                new = native.look(key) is None
                descriptor = native.open_descriptor(self._real(path, key), flags, mode, dir_fd=self._fd(dir_fd))
                if new:
                    self.made.add(key)
                return descriptor
            place = self.prepare(key, path, flags)
            return native.open_descriptor(place, flags, mode)

    def _open_unnamed(self, path: Any, flags: int, mode: int, dir_fd: int | None) -> int:
        key = self.key(self.text(path, dir_fd))
        if not self.diverts(os.path.join(key, "unnamed")):
            return native.open_descriptor(path, flags, mode, dir_fd=dir_fd)
        place = self.shadow(key)
        native.make_directories(place)
        return native.open_descriptor(place, flags, mode)

    def prepare(self, key: str, path: Any, flags: int) -> str:
        """Make the store ready for an `open` with these flags; returns the path to open. `path` is for messages."""
        status = self.look(key)
        place = self.shadow(key)
        if status is None:
            self._check_parent(key, path)
            if not flags & os.O_CREAT:
                raise failure(errno.ENOENT, path)
            self._ready_parent(key, path)
        else:
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise failure(errno.EEXIST, path)
            if native.is_directory(status):
                raise failure(errno.EISDIR, path)
            if not native.access(self.physical(key), os.W_OK):
                raise failure(errno.EACCES, path)
            if flags & os.O_TRUNC:
                self._blank(key, status)
            else:
                self.copy_up(key)
        self._note(key)
        return place

    def place_to_write(self, path: Any, *, keep: bool = False, long_lived: bool = False) -> str:
        """Where a library that opens files by itself shall write `path`.

        `keep` says that it changes the present content instead of replacing it. `long_lived` says that it writes later
        by ways that cannot be diverted then (a map, a database), so that new files go to the store at once. Else a new
        real file counts as this run's.
        """
        with self.lock, native.exemption():
            key = self.key(self.text(path))
            later = long_lived and not (self.layout.is_allowed(key) or self.layout.is_temporary(key))
            if later or self.diverts(key):
                return self.prepare(key, path, os.O_CREAT | os.O_RDWR | (0 if keep else os.O_TRUNC))
            if native.look(key) is None:
                self.made.add(key)
            return self.physical(key)

    def _real(self, path: Any, key: str) -> Any:
        """What to give the operating system for a change that is not diverted: links on the way may be stored ones."""
        return key if self.active else path

    def _fd(self, dir_fd: int | None) -> int | None:
        return None if self.active else dir_fd

    def _note(self, key: str) -> None:
        self.active = True
        self.written[key] = None

    def spare(self, key: str) -> None:
        """Hide the real file of this key, which the script deleted or replaced."""
        self.hidden_keys.add(key)
        self.spared[key] = None
        self.active = True

    def _check_parent(self, key: str, *paths: Any) -> None:
        """Raise as a disk does where `key` has no folder to be in: the nearest thing on the way decides which error."""
        parent = above = os.path.dirname(key)
        while (status := self.look(above)) is None and above != os.path.dirname(above):
            above = os.path.dirname(above)
        if status is not None and not native.is_directory(status):
            raise failure(errno.ENOTDIR, *paths)
        if above != parent:
            raise failure(errno.ENOENT, *paths)

    def _ready_parent(self, key: str, path: Any) -> None:
        self._check_parent(key, path)
        parent = os.path.dirname(key)
        if not native.access(self.physical(parent), os.W_OK):
            raise failure(errno.EACCES, path)
        self.active = True
        native.make_directories(self.shadow(parent))

    def _blank(self, key: str, status: os.stat_result) -> None:
        place = self.shadow(key)
        if self.stored(key):
            self.moved.pop(key, None)
            return
        native.make_directories(os.path.dirname(place))
        os.close(native.open_descriptor(place, os.O_CREAT | os.O_WRONLY, stat_bits.S_IMODE(status.st_mode) | 0o200))
        self.active = True
        self.spared[key] = None

    def copy_up(self, key: str) -> str:
        """Have the content of this key in the store, copied if it is not there yet; returns its place."""
        place = self.shadow(key)
        source = self.physical(key)
        if source == place:
            return place
        size_bytes = native.stat(source).st_size
        free_bytes = shutil.disk_usage(self.store).free
        if size_bytes > free_bytes - SPARE_BYTES:
            raise PermissionError(
                errno.EPERM,
                f"the dry run would change this file in a copy of its {size_bytes / 1e9:.1f} GB, and the temporary "
                f"disk has {free_bytes / 1e9:.1f} GB free; set TMPDIR to a larger disk, or use --allow-writes",
                key,
            )
        native.make_directories(os.path.dirname(place))
        native.copy_file(source, place)
        self.active = True
        self.moved.pop(key, None)
        if native.look(key) is not None:
            self.spared[key] = None
        return place
