"""How fast this machine issues operations, beside the one that the constants of `flatout.timeline.Host` are of.

A small network on tiny CPU tensors is nearly all Python, dispatcher and autograd, as issuing work to a GPU is. It is
timed once, in a third of a second, by itself and before the virtual GPU is there; what came out is
kept in the user's cache, so that two runs give the same prediction.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import torch

REFERENCE_SECONDS = (7.3e-6, 9.9e-6, 1.85e-6)
"""What an operation of `measured` takes on the machine of the constants: forward, backward, and in an optimizer's loop.
Measured with `python -m flatout.virtual.calibration` on a cloud machine: AMD EPYC 9004 (Zen 4, 2.6 GHz), Python 3.11,
PyTorch 2.13, 2026-12-01. Its kernels take next to nothing; a launch of CUDA comes on top in the constants."""

_BLOCKS = 12
_ROUNDS = 120


class Calibration(msgspec.Struct, frozen=True):
    """`issue_ratio`: how many times as long as the reference this machine takes to issue operations."""

    issue_ratio: float
    processor: str
    torch_version: str
    python_version: str


class _Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.relu = torch.nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.relu(self.norm(self.linear(x))) + x
        return found


def tiny_network() -> torch.nn.Module:
    """A network whose kernels take next to nothing."""
    return torch.nn.Sequential(*(_Block() for _ in range(_BLOCKS)))


def calibration() -> Calibration:
    """This machine's, from the cache where it has been measured before with this PyTorch and this Python."""
    path = _path()
    kept = _kept(path)
    return kept if kept is not None else _keep(path, _of(measured()))


def measured() -> tuple[float, float, float]:
    """Seconds an operation takes to issue here: in a forward pass, in a backward pass, in an optimizer's loop.

    The least of many rounds by the processor time of this thread, so that other programs matter little. The script's
    random numbers stay what they are.
    """
    forward = backward = update = math.inf
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        network = tiny_network()
        weights = list(network.parameters())
        x = torch.ones(2, 4)
        for _ in range(_ROUNDS):
            began = time.thread_time()
            loss = network(x).sum()
            issued = time.thread_time()
            gradients = torch.autograd.grad(loss, weights)
            returned = time.thread_time()
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients):
                    gradient.mul_(0.9).add_(weight, alpha=0.1)
                    weight.add_(gradient, alpha=-0.1)
            ended = time.thread_time()
            forward = min(forward, issued - began)
            backward = min(backward, returned - issued)
            update = min(update, ended - returned)
    return forward / (4 * _BLOCKS), backward / (4 * _BLOCKS), update / (3 * len(weights))


def _of(seconds: tuple[float, float, float]) -> Calibration:
    ratio = math.prod(here / there for here, there in zip(seconds, REFERENCE_SECONDS)) ** (1 / len(seconds))
    return Calibration(ratio, _processor(), str(torch.__version__), platform.python_version())


def _path() -> Path:
    """One file a processor, PyTorch and Python: `$XDG_CACHE_HOME/flatout` or what stands for it on this system."""
    home = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None)
    base = Path(home) if home else Path(os.path.expanduser("~")) / ".cache"
    what = f"{_processor()}\n{torch.__version__}\n{platform.python_version()}\n{REFERENCE_SECONDS}"
    return base / "flatout" / f"issuing-{hashlib.sha256(what.encode()).hexdigest()[:16]}.json"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _kept(path: Path) -> Calibration | None:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if 0 < found.issue_ratio < math.inf else None


def _keep(path: Path, new: Calibration) -> Calibration:
    """Write it where nobody has meanwhile; who came first is right, as several runs may begin at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix="issuing-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(new))
        # A second run that measured meanwhile replaces nothing that can be read.
        if _kept(path) is None:
            os.replace(draft, path)
        else:
            os.unlink(draft)
    except OSError:
        return new
    return _kept(path) or new


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("forward, backward, optimizer: microseconds an operation:", *(f"{s * 1e6:.2f}" for s in measured()))
