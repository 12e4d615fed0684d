"""The shadow store: where a dry run's changes to real files go, so that the script sees them and the disk does not."""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from typing import Any

from flatout.virtual.files import native
from flatout.virtual.files.changes import Changes
from flatout.virtual.files.layout import below
from flatout.virtual.files.overlay import failure


class ShadowStore(Changes):
    """The whole store: opening (see `Changes`), directories, links, moving, deleting."""

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
