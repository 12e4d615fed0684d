"""Writes checkpoints in processes that are killed at every line of checkpoint.py, and at many bytes of the file.

    python killed_writing.py FOLDER

What is there after each kill goes to stdout as JSON. A limit on the size of files kills at an exact byte: the kernel
sends SIGXFSZ when it is crossed.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from flatout.loop.checkpoints import checkpoint

VALUES = 2000  # float32: the file has about 10 KiB


def content(steps: int) -> dict[str, Any]:
    return {"run": "a run", "steps": steps, "values": torch.full((VALUES,), float(steps))}


class KillAtLine:
    """Kills this process before it executes the `count`-th line of checkpoint.py."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != checkpoint.__file__:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def write_and_die(folder: Path, line: int | None = None, size_bytes: int | None = None) -> bool:
    """Write version 3 in a process of its own. Whether it was killed."""
    if not (child := os.fork()):
        if size_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))
        if line is not None:
            sys.settrace(KillAtLine(line))
        checkpoint.write(folder, content(3), keep=2)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def state(folder: Path) -> dict[str, Any]:
    whole = [
        torch.equal(checkpoint.read(path)["values"], content(int(path.stem[5:]))["values"])
        for path in checkpoint.versions(folder)
    ]
    names = [path.name for path in checkpoint.versions(folder)]
    left = sum(name.endswith(".unfinished") for name in os.listdir(folder))
    return {"names": names, "whole": whole, "unfinished": left}


def main(root: Path) -> None:
    ready = root / "ready"
    for steps in (1, 2):
        checkpoint.write(ready, content(steps))
    reports = []
    size_bytes = (ready / "step-00000001.pt").stat().st_size
    places: list[dict[str, int]] = [{"size_bytes": size_bytes * part // 20} for part in range(20)]
    places += [{"line": line} for line in range(1, 1000)]
    for place in places:
        folder = root / "folder"
        shutil.copytree(ready, folder)
        killed = write_and_die(folder, **place)
        report = {"place": place, "killed": killed, "after": state(folder)}
        checkpoint.write(folder, content(3), keep=2)
        reports.append({**report, "again": state(folder)})
        shutil.rmtree(folder)
        if not killed:
            break  # beyond the last line
    print(json.dumps(reports))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
