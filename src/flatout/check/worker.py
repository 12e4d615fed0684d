"""A helper process that checks a share of the files: jobs come in on standard input, results go out as they are made.

A process of our own rather than `multiprocessing`: it needs no fork, no semaphores, no importable `__main__`, starts
without `site`, and where one dies it is known on which file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO

import msgspec

from flatout.check import registry
from flatout.check.jobs import Job
from flatout.check.result import FileResult

_LENGTH_BYTES = 8
_READY = b"ready"
_START = "import sys; sys.path[:] = {path!r}; from flatout.check.worker import main; main({package!r})"


class Worker:
    """A helper process with its share, which lives until `end`."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = tuple(jobs)
        self.ready = False  # whether it has started well: then it is a file's fault where it dies
        code = _START.format(path=[os.path.abspath(entry) for entry in sys.path], package=registry.PACKAGE)
        self._process = subprocess.Popen(
            [sys.executable, "-E", "-S", "-s", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def end(self) -> None:
        """Whatever it is doing, it is gone afterwards."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was not sent any more
                pipe.close()

    def results(self) -> Iterator[FileResult]:
        """The results in the order of the jobs: fewer than there are jobs where the process died."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(msgspec.msgpack.encode(self.jobs))
            stdin.close()
        except OSError:
            return  # it died at once
        self.ready = stdout.read(len(_READY)) == _READY
        decoder = msgspec.msgpack.Decoder(FileResult)
        while len(head := stdout.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            size = int.from_bytes(head, "little")
            body = stdout.read(size)
            if len(body) < size:
                return
            yield decoder.decode(body)


def main(package: str) -> None:
    """Check the jobs on standard input; rules come from `package`."""
    from flatout.check.batch import check_jobs

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this process
    registry.PACKAGE = package
    jobs = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=tuple[Job, ...])
    out: BinaryIO = sys.stdout.buffer
    out.write(_READY)
    out.flush()
    for result in check_jobs(jobs):
        body = msgspec.msgpack.encode(result)
        out.write(len(body).to_bytes(_LENGTH_BYTES, "little") + body)
        out.flush()
