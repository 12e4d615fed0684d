"""The temporary folder of one process's run, and what became of those of processes that were killed."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time

from flatout.virtual.files import native

PREFIX = "flatout-files-"
STALE_SECONDS = 24 * 3600  # longer than a dry run: a process in another container may look dead from here


def make_folder() -> str:
    """A new folder named after this process; folders that killed processes left behind a day ago are removed."""
    base = os.path.realpath(tempfile.gettempdir())
    with contextlib.suppress(OSError):
        for name in native.listdir(base):
            if name.startswith(PREFIX) and _left_behind(os.path.join(base, name)):
                native.remove_tree(os.path.join(base, name))
    return tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base)


def _left_behind(folder: str) -> bool:
    import psutil

    status = native.look(folder)
    process = os.path.basename(folder)[len(PREFIX) :].split("-")[0]
    if status is None or not process.isdigit() or time.time() - status.st_mtime < STALE_SECONDS:
        return False
    ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return ours and not psutil.pid_exists(int(process))
