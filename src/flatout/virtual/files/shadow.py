"""The shadow store: where a dry run's changes to real files go, so that the script sees them and the disk does not."""

from __future__ import annotations

import errno
import os
import shutil
import stat as stat_bits
from typing import Any

from flatout.virtual.files import native
from flatout.virtual.files.layout import Layout, below
from flatout.virtual.files.overlay import Overlay, failure

_TMPFILE: int = getattr(os, "O_TMPFILE", 0)
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
SPARE_BYTES = 1 << 30  # left free on the store's disk by a copy: a full /tmp breaks more than this run


class ShadowStore(Overlay):
    """An overlay that can be changed. Raises the same `OSError`s as the calls that it answers."""

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
        status = self.look(os.path.dirname(key))
        if status is None:
            raise failure(errno.ENOENT, *paths)
        if not native.is_directory(status):
            raise failure(errno.ENOTDIR, *paths)

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

    # Directories

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """`os.mkdir`."""
        with self.lock, native.exemption():
            key = self.key(self.text(path, dir_fd), follow=False)
            if not self.diverts(key):
                native.mkdir(self._real(path, key), mode, dir_fd=self._fd(dir_fd))
                self.made.add(key)
                return
            if self.look(key) is not None:
                raise failure(errno.EEXIST, path)
            self._ready_parent(key, path)
            native.mkdir(self.shadow(key), mode)
            self.forget_directories()

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        """`os.rmdir`."""
        with self.lock, native.exemption():
            key = self.key(self.text(path, dir_fd), follow=False)
            if not self.diverts(key) and not self.touched_below(key):
                native.rmdir(self._real(path, key), dir_fd=self._fd(dir_fd))
                self.forget_made(key)
            else:
                self._remove_directory(key, path)
            self.forget_directories()

    def _remove_directory(self, key: str, path: Any) -> None:
        self._check_parent(key, path)
        status = self.look(key)
        if status is None:
            raise failure(errno.ENOENT, path)
        if not native.is_directory(status):
            raise failure(errno.ENOTDIR, path)
        if self.names(key):
            raise failure(errno.ENOTEMPTY, path)
        if self.stored(key):
            native.rmdir(self.shadow(key))
        if native.look(key) is not None and not self.hidden(key):
            self.spare(key)

    # Files

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        """`os.unlink`."""
        with self.lock, native.exemption():
            key = self.key(self.text(path, dir_fd), follow=False)
            if not self.diverts(key):
                native.unlink(self._real(path, key), dir_fd=self._fd(dir_fd))
                self.forget_made(key)
            else:
                self._check_parent(key, path)
                status = self.look(key)
                if status is None:
                    raise failure(errno.ENOENT, path)
                if native.is_directory(status):
                    raise failure(errno.EISDIR, path)
                self._remove_file(key)
            self.forget_directories()

    def _remove_file(self, key: str) -> None:
        if self.stored(key):
            native.unlink(self.shadow(key))
            self.moved.pop(key, None)
        if native.look(key) is not None and not self.hidden(key):
            self.spare(key)

    def symlink(self, source: Any, path: Any, directory: bool = False, *, dir_fd: int | None = None) -> None:
        """`os.symlink`: `path` becomes a link to `source`."""
        with self.lock, native.exemption():
            key = self.key(self.text(path, dir_fd), follow=False)
            if not self.diverts(key):
                native.symlink(source, self._real(path, key), directory, dir_fd=self._fd(dir_fd))
                self.made.add(key)
            else:
                if self.look(key) is not None:
                    raise failure(errno.EEXIST, source, path)
                self._ready_parent(key, path)
                native.symlink(os.fsdecode(source), self.shadow(key), directory)
                self._note(key)
            self.forget_directories()

    def link(
        self, source: Any, path: Any, *, from_fd: int | None = None, to_fd: int | None = None, **options: Any
    ) -> None:
        """`os.link`. In the store the two names do not share later changes."""
        with self.lock, native.exemption():
            name = self.text(source, from_fd)
            key = self.key(self.text(path, to_fd), follow=False)
            unnamed = name.startswith("/proc/self/fd/")
            origin = name if unnamed else self.key(name, follow=False)
            place = name if unnamed else self.physical(origin)
            if not self.diverts(key) and place == origin and not (self.diverts(origin) and not unnamed):
                places = self._real(source, origin), self._real(path, key)
                native.link(*places, src_dir_fd=self._fd(from_fd), dst_dir_fd=self._fd(to_fd), **options)
                self.made.add(key)
                return
            if native.look(place) is None:
                raise failure(errno.ENOENT, source, path)
            if self.look(key) is not None:
                raise failure(errno.EEXIST, source, path)
            self._ready_parent(key, path)
            if unnamed or below(place, self.store):
                native.copy_file(place, self.shadow(key))
            else:
                self._stand_in(key, place)
            self._note(key)

    def _stand_in(self, key: str, place: str) -> None:
        os.close(native.open_descriptor(self.shadow(key), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o666))
        self.moved[key] = place
        self.active = True

    # Moving

    def rename(self, source: Any, target: Any, *, from_fd: int | None, to_fd: int | None, replace: bool) -> None:
        """`os.rename` and `os.replace`."""
        with self.lock, native.exemption():
            old = self.key(self.text(source, from_fd), follow=False)
            new = self.key(self.text(target, to_fd), follow=False)
            if not (self.diverts(old) or self.diverts(new) or self.touched_below(old)):
                move = native.replace if replace else native.rename
                places = self._real(source, old), self._real(target, new)
                move(*places, src_dir_fd=self._fd(from_fd), dst_dir_fd=self._fd(to_fd))
                self._rename_made(old, new)
            else:
                self._check_rename(old, new, source, target, replace)
                if old != new:
                    if self.look(new) is not None:
                        self._clear(new)
                    self._ready_parent(new, target)
                    self._move(old, new)
            self.forget_directories()

    def _check_rename(self, old: str, new: str, source: Any, target: Any, replace: bool) -> None:
        for key in (old, new):
            self._check_parent(key, source, target)
        status = self.look(old)
        present = self.look(new)
        if status is None:
            raise failure(errno.ENOENT, source, target)
        if old != new and below(new, old):
            raise failure(errno.EINVAL, source, target)
        if old != new and below(old, new):
            raise failure(errno.ENOTEMPTY, source, target)
        if present is None or old == new:
            return
        if os.name == "nt" and not replace:
            raise failure(errno.EEXIST, source, target)
        if native.is_directory(present):
            if not native.is_directory(status):
                raise failure(errno.EISDIR, source, target)
            if self.names(new):
                raise failure(errno.ENOTEMPTY, source, target)
        elif native.is_directory(status):
            raise failure(errno.ENOTDIR, source, target)

    def _clear(self, key: str) -> None:
        if native.is_directory(self.look(key)):
            self._remove_directory(key, key)
        else:
            self._remove_file(key)

    def _rename_made(self, old: str, new: str) -> None:
        for key in [key for key in self.made if below(key, old)]:
            self.made.discard(key)
            self.made.add(new + key[len(old) :])

    def _move(self, old: str, new: str) -> None:
        status = self.look(old)
        if native.is_directory(status):
            native.make_directories(self.shadow(new))
            self.active = True
            for name in self.names(old):
                self._move(os.path.join(old, name), os.path.join(new, name))
            if self.stored(old):
                native.rmdir(self.shadow(old))
            if native.look(old) is not None and not self.hidden(old):
                self.spare(old)
            return
        place = self.physical(old)
        if self.stored(old):
            native.rename(self.shadow(old), self.shadow(new))
            if old in self.moved:
                self.moved[new] = self.moved.pop(old)
            if native.look(old) is not None and not self.hidden(old):
                self.spare(old)
        elif self.diverts(old):
            if status is not None and stat_bits.S_ISLNK(status.st_mode):
                native.symlink(native.readlink(place), self.shadow(new))
            else:
                self._stand_in(new, place)
            self.spare(old)
        else:  # a scratch file of this run: it may really move
            try:
                native.rename(old, self.shadow(new))
            except OSError:
                native.copy_file(old, self.shadow(new))
                native.unlink(old)
            self.forget_made(old)
        self._note(new)
        self.written.pop(old, None)

    def adopt(self, path: Any) -> None:
        """Take a file that this run has just created into the store: its content turned out to be invented."""
        with self.lock, native.exemption():
            key = self.key(self.text(path))
            if key not in self.made or self.layout.is_temporary(key) or native.look(key) is None:
                return
            if not self.stored(key):
                native.make_directories(os.path.dirname(self.shadow(key)))
                native.copy_file(key, self.shadow(key))
                self._note(key)
            native.unlink(key)
            self.forget_made(key)
