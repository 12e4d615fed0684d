"""The GPU that this machine has, as its driver names it."""

from __future__ import annotations

import shutil
import subprocess

from flatout.errors import UnknownGPUError
from flatout.gpu import GPU, find

_TIMEOUT_SECONDS = 5.0


def own_gpu() -> GPU | None:
    """The machine's first GPU; None without one, without its driver, or when it is not in the table.

    The same as `nvidia-smi --query-gpu=name --format=csv,noheader`: no PyTorch, which may be absent or broken.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    name = answer.stdout.strip().partition("\n")[0]
    try:
        return find(name)
    except UnknownGPUError:
        return None
