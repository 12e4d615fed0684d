"""Files one after the other, in this process.

check_jobs(jobs) -> Iterator[FileResult]
"""

from __future__ import annotations

import gc
import hashlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from flatout.check.asking import check_data
from flatout.check.jobs import Job
from flatout.check.result import FileResult

# CPython's default. Its C stack is made for this, so where it is exceeded there is an exception, not a dead process.
RECURSION_LIMIT = 1000
# Syntax trees are many objects that live until their file is done, and collecting among them is what costs.
_COLLECT_AFTER = 200_000


def check_jobs(jobs: Iterable[Job]) -> Iterator[FileResult]:
    """The results of `jobs`, in their order."""
    with steady_interpreter():
        for job in jobs:
            try:
                with open(job.path, "rb") as file:
                    data = file.read()
            except OSError as error:
                yield FileResult(job.shown, error=f"cannot be read: {error.strerror or error}")
                continue
            yield check_data(job, data, digest(job, data))


@contextmanager
def steady_interpreter() -> Iterator[None]:
    """Recursion bounded and garbage seldom collected, for the time of a check."""
    limit, thresholds = sys.getrecursionlimit(), gc.get_threshold()
    sys.setrecursionlimit(max(RECURSION_LIMIT, _depth() + RECURSION_LIMIT // 2))
    gc.set_threshold(_COLLECT_AFTER, *thresholds[1:])
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        gc.set_threshold(*thresholds)


def _depth() -> int:
    """How deep the caller's stack is by now."""
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def digest(job: Job, data: bytes) -> bytes:
    """What tells that a result may be used again: the content, and everything that was asked of it."""
    asked = msgspec.msgpack.encode(job)
    return hashlib.blake2b(asked + data, digest_size=16).digest()
