"""The file functions as Python ships them, captured before anything is replaced.

Everything in this package that must see the real file system calls these; ``os.path`` helpers that ask the file system
(``exists``, ``realpath``) would come back through the replaced functions.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat as stat_bits
import threading
from collections.abc import Iterator
from typing import Any

open_file: Any = io.open
open_descriptor = os.open
stat = os.stat
lstat = os.lstat
access = os.access
listdir = os.listdir
scandir = os.scandir
readlink = os.readlink
rename = os.rename
replace = os.replace
unlink = os.unlink
rmdir = os.rmdir
mkdir = os.mkdir
link: Any = getattr(os, "link", None)
symlink = os.symlink
chdir = os.chdir
getcwd = os.getcwd
getcwdb = os.getcwdb

_inside = threading.local()


def exempt() -> bool:
    """Whether this thread is inside a call of ours, which the audit hook must let through."""
    return bool(getattr(_inside, "depth", 0))


@contextlib.contextmanager
def exemption() -> Iterator[None]:
    """Let this thread's calls through the audit hook while the block runs."""
    _inside.depth = getattr(_inside, "depth", 0) + 1
    try:
        yield
    finally:
        _inside.depth -= 1


def look(path: str) -> os.stat_result | None:
    """`lstat`, or None where there is nothing (or nothing that may be looked at)."""
    try:
        return lstat(path)
    except (OSError, ValueError):
        return None


def is_directory(status: os.stat_result | None) -> bool:
    """Whether this is a directory itself, not a link to one."""
    return status is not None and stat_bits.S_ISDIR(status.st_mode)


def make_directories(path: str) -> None:
    """`os.makedirs(path, exist_ok=True)` on the real file system."""
    try:
        mkdir(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directories(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            mkdir(path)


def copy_file(source: str, target: str) -> None:
    """Copy content, permission bits and times of a regular file."""
    status = stat(source)
    with open_file(source, "rb") as reader, open_file(target, "wb") as writer:
        while piece := reader.read(8 << 20):
            writer.write(piece)
    os_chmod(target, stat_bits.S_IMODE(status.st_mode) | stat_bits.S_IWUSR)
    os_utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


os_chmod = os.chmod
os_utime = os.utime


def remove_tree(path: str) -> None:
    """Delete a directory of ours and all that is in it, ignoring what is gone already."""
    with contextlib.suppress(OSError):
        for name in listdir(path):
            child = os.path.join(path, name)
            if is_directory(look(child)):
                remove_tree(child)
            else:
                unlink(child)
        rmdir(path)
