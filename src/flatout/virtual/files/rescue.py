"""Files that were open for writing when the first invented value appeared.

They are new files of this run (existing ones were diverted when they were opened). What comes next may be invented, so
the open descriptors are pointed at a copy in the store, and the beginnings on the real disk are removed.
"""

from __future__ import annotations

import contextlib
import os
import stat as stat_bits

from flatout.virtual.files import native
from flatout.virtual.files.shadow import ShadowStore


def _writable_files() -> dict[int, tuple[int, int]]:
    """Descriptors (not 0, 1, 2) that write to regular files, with device and inode."""
    import fcntl

    found: dict[int, tuple[int, int]] = {}
    for name in native.listdir("/dev/fd"):
        descriptor = int(name)
        with contextlib.suppress(OSError):
            status = native.stat(descriptor)
            mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR)
            if descriptor > 2 and mode and stat_bits.S_ISREG(status.st_mode):
                found[descriptor] = (status.st_dev, status.st_ino)
    return found


def rescue_open_files(store: ShadowStore) -> None:
    """Move every open new file of this run into the store, without the script noticing. POSIX only."""
    if os.name != "posix":
        return
    with store.lock, native.exemption():
        descriptors = _writable_files()
        if not descriptors:
            return
        places = {}
        for key in store.made:
            status = native.look(key)
            if status is not None and stat_bits.S_ISREG(status.st_mode) and not store.layout.is_temporary(key):
                places[(status.st_dev, status.st_ino)] = key
        for descriptor, identity in descriptors.items():
            if identity in places:
                _divert(store, descriptor, places[identity])
        for key in {places[identity] for identity in descriptors.values() if identity in places}:
            native.unlink(key)
            store.forget_made(key)


def _divert(store: ShadowStore, descriptor: int, key: str) -> None:
    import fcntl

    place = store.shadow(key)
    if native.look(place) is None:
        native.make_directories(os.path.dirname(place))
        native.copy_file(key, place)
        store.active = True
        store.written[key] = None
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    inheritable = os.get_inheritable(descriptor)
    new = native.open_descriptor(place, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
    os.lseek(new, position, os.SEEK_SET)
    os.dup2(new, descriptor, inheritable=inheritable)
    os.close(new)
