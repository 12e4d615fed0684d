"""Python's own file functions, asking the shadow store first.

While the store is empty a reading function costs one more Python call. Functions that are written in Python upon these
(`os.makedirs`, `os.walk`, `glob`, `pathlib`, `shutil`, `tempfile`, `zipfile`) need no replacement of their own.
"""

from __future__ import annotations

import builtins
import glob
import io
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

from flatout.virtual.files import native
from flatout.virtual.files.listing import scan
from flatout.virtual.files.patches import Patches
from flatout.virtual.files.shadow import ShadowStore

_READING = ("stat", "access", "statvfs", "getxattr", "listxattr", "pathconf", "chdir")
_READING_LINKS = ("lstat", "readlink")
_LINK_ITSELF = ("lchown", "lchmod", "lchflags")
_ALTERING = ("utime", "chmod", "chown", "truncate", "setxattr", "removexattr", "chflags", *_LINK_ITSELF)
_CREATING = ("mkfifo", "mknod")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _reading(store: ShadowStore, function: Any, follow: bool) -> Callable[..., Any]:
    def read(path: Any = ".", *args: Any, **options: Any) -> Any:
        if not store.active or isinstance(path, int):
            return function(path, *args, **options)
        links = follow and options.get("follow_symlinks", True)
        place = store.place_to_read(path, options.get("dir_fd"), links)
        if place is None:
            return function(path, *args, **options)
        options.pop("dir_fd", None)
        try:
            return function(place, *args, **options)
        except OSError as error:
            error.filename = path
            raise

    return read


def _altering(store: ShadowStore, function: Any, follow: bool) -> Callable[..., Any]:
    def alter(path: Any, *args: Any, **options: Any) -> Any:
        if isinstance(path, int):
            return function(path, *args, **options)
        links = follow and options.get("follow_symlinks", True)
        with store.lock, native.exemption():
            key = store.key(store.text(path, options.get("dir_fd")), links)
            if not store.diverts(key):
                return function(path, *args, **options)
            status = store.look(key)
            options.pop("dir_fd", None)
            if native.is_directory(status):
                if store.physical(key) == key:
                    return None  # the mode or time of a real directory: nothing that a script reads back
                return function(store.shadow(key), *args, **options)
            if status is None:
                return function(path if native.look(store.text(path)) is None else store.shadow(key), *args, **options)
            return function(store.copy_up(key), *args, **options)

    return alter


def _creating(store: ShadowStore, function: Any) -> Callable[..., Any]:
    def create(path: Any, *args: Any, **options: Any) -> Any:
        key = store.key(store.text(path, options.get("dir_fd")), follow=False)
        if not store.diverts(key):
            return function(path, *args, **options)
        options.pop("dir_fd", None)
        return function(store.prepare(key, path, os.O_CREAT | os.O_EXCL), *args, **options)

    return create


def make_open(store: ShadowStore) -> Callable[..., Any]:
    """The replacement of `open`. The file object keeps the name that the script gave."""

    def descend(path: Any, flags: int) -> int:
        return store.open(path, flags, 0o666)

    def open(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        rest = (buffering, encoding, errors, newline, closefd)
        if isinstance(file, int):
            return native.open_file(file, mode, *rest, opener)
        if opener is not None:
            with native.exemption():  # the opener's own calls are looked at when it makes them
                return native.open_file(file, mode, *rest, opener)
        if _writes(mode):
            with native.exemption():
                return native.open_file(file, mode, *rest, descend)
        if store.active:
            place = store.place_to_read(file)
            if place is not None:
                return _open_elsewhere(file, place, mode, rest)
        return native.open_file(file, mode, *rest)

    return open


def _writes(mode: Any) -> bool:
    return isinstance(mode, str) and any(letter in mode for letter in "wax+")


def _open_elsewhere(file: Any, place: str, mode: str, rest: tuple[Any, ...]) -> Any:
    def descend(_: Any, flags: int) -> int:
        try:
            return native.open_descriptor(place, flags)
        except OSError as error:
            error.filename = file
            raise

    return native.open_file(file, mode, *rest, descend)


def _make_os(store: ShadowStore) -> dict[str, Callable[..., Any]]:
    def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & _WRITE_FLAGS:
            return store.open(path, flags, mode, dir_fd=dir_fd)
        place = store.place_to_read(path, dir_fd) if store.active else None
        if place is None:
            return native.open_descriptor(path, flags, mode, dir_fd=dir_fd)
        return native.open_descriptor(place, flags, mode)

    def directory_key(path: Any) -> str | None:
        if not store.active:
            return None
        try:
            key = store.key(store.directory_of(path) if isinstance(path, int) else store.text(path))
        except (OSError, TypeError):
            return None
        if store.stored(key) or store.hidden(key) or any(os.path.dirname(other) == key for other in store.hidden_keys):
            return key
        return None if isinstance(path, int) or store.place_to_read(path) is None else key

    def listdir(path: Any = ".") -> Any:
        path = "." if path is None else path
        key = directory_key(path)
        if key is None:
            return native.listdir(path)
        try:
            names = store.names(key)
        except OSError as error:
            error.filename = path
            raise
        as_bytes = not isinstance(path, int) and isinstance(os.fspath(path), bytes)
        return [os.fsencode(name) for name in names] if as_bytes else names

    def scandir(path: Any = ".") -> Any:
        path = "." if path is None else path
        key = directory_key(path)
        if key is None:
            return native.scandir(path)
        try:
            return scan(store, key, path)
        except OSError as error:
            error.filename = path
            raise

    def rename(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        store.rename(src, dst, from_fd=src_dir_fd, to_fd=dst_dir_fd, replace=False)

    def replace(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        store.rename(src, dst, from_fd=src_dir_fd, to_fd=dst_dir_fd, replace=True)

    def unlink(path: Any, *, dir_fd: int | None = None) -> None:
        store.unlink(path, dir_fd=dir_fd)

    def rmdir(path: Any, *, dir_fd: int | None = None) -> None:
        store.rmdir(path, dir_fd=dir_fd)

    def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        store.mkdir(path, mode, dir_fd=dir_fd)

    def symlink(src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
        store.symlink(src, dst, target_is_directory, dir_fd=dir_fd)

    def link(
        src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None, **options: Any
    ) -> None:
        store.link(src, dst, from_fd=src_dir_fd, to_fd=dst_dir_fd, **options)

    def getcwd() -> str:
        return store.working_directory()

    def getcwdb() -> bytes:
        return os.fsencode(store.working_directory())

    made = dict(locals())
    del made["store"], made["directory_key"]
    made["remove"] = unlink
    return made


def install_os(store: ShadowStore, patches: Patches, package: str) -> None:
    """Replace the file functions of `os`, `builtins`, `io` and what took them by name."""
    replacements: dict[str, Callable[..., Any]] = _make_os(store)
    for name in (*_READING, *_READING_LINKS):
        if hasattr(os, name):
            replacements[name] = _reading(store, getattr(os, name), name not in _READING_LINKS)
    for name in _ALTERING:
        if hasattr(os, name):
            replacements[name] = _altering(store, getattr(os, name), name not in _LINK_ITSELF)
    for name in _CREATING:
        if hasattr(os, name):
            replacements[name] = _creating(store, getattr(os, name))
    new_open = make_open(store)
    pairs: list[tuple[Any, Any]] = [(builtins.open, new_open)]
    for name, function in replacements.items():
        if not hasattr(os, name):
            continue
        original = getattr(os, name)
        function.__name__ = function.__qualname__ = name
        pairs.append((original, function))
        patches.put(os, name, function)
    patches.put(builtins, "open", new_open)
    patches.put(io, "open", new_open)
    by_identity = {id(original): new for original, new in pairs}
    for members in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        patches.extend(members, pairs)
    patches.rebind(pairs, package)
    for owner, name in ((pathlib, "_NormalAccessor"), (glob, "_StringGlobber"), (glob, "_PathGlobber")):
        found = getattr(owner, name, None)
        if isinstance(found, type):
            patches.rebind_class(found, by_identity)
    if hasattr(shutil, "_use_fd_functions"):
        patches.put(shutil, "_use_fd_functions", False)  # rmtree by path: descriptors do not see the store
