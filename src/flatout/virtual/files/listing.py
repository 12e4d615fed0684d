"""Directory entries of the overlay, in the shape of `os.scandir`'s."""

from __future__ import annotations

import os
import stat as stat_bits
from collections.abc import Iterator
from typing import Any

from flatout.virtual.files import native
from flatout.virtual.files.overlay import Overlay


class Entry:
    """Stands in for `os.DirEntry`, which Python code cannot make."""

    def __init__(self, overlay: Overlay, key: str, name: Any, path: Any) -> None:
        self.name = name
        self.path = path
        self._overlay = overlay
        self._key = key

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """The status of the file that the script sees."""
        if not follow_symlinks:
            return native.lstat(self._overlay.physical(self._key))
        return native.stat(self._overlay.physical(self._overlay.key(self._key)))

    def _mode(self, follow_symlinks: bool) -> int:
        try:
            return self.stat(follow_symlinks=follow_symlinks).st_mode
        except FileNotFoundError:
            return 0

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory, or a link to one."""
        return stat_bits.S_ISDIR(self._mode(follow_symlinks))

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file, or a link to one."""
        return stat_bits.S_ISREG(self._mode(follow_symlinks))

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return stat_bits.S_ISLNK(self._mode(False))

    def is_junction(self) -> bool:
        """Whether it is a Windows junction: never, in the store."""
        return False

    def inode(self) -> int:
        """The inode of the file that holds the content."""
        return self.stat(follow_symlinks=False).st_ino


class Scan:
    """An iterator and context manager over entries, as `os.scandir` returns."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries: Iterator[Entry] = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the iteration."""
        self._entries = iter(())


def scan(overlay: Overlay, key: str, given: Any) -> Scan:
    """The entries of a directory. `given` is the path as the caller wrote it (str, bytes, PathLike or descriptor)."""
    prefix = "" if isinstance(given, int) else os.fspath(given)
    found = []
    for name in overlay.names(key):
        shown: Any = os.fsencode(name) if isinstance(prefix, bytes) else name
        found.append(Entry(overlay, os.path.join(key, name), shown, os.path.join(prefix, shown) if prefix else shown))
    return Scan(found)
