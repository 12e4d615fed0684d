"""Which PyTorch, which GPU and which cuDNN a stand-in answers for."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import torch

from flatout.virtual import machine as machines
from flatout.virtual.tensor import HOST_INDEX

T = TypeVar("T")
DEFAULT_CAPABILITY = (8, 0)
DEFAULT_MULTIPROCESSORS = 108


@cache
def torch_version() -> tuple[int, int]:
    """Major and minor version of the installed PyTorch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


@cache
def cuda_version() -> tuple[int, int]:
    """The CUDA of the wheel on PyPI for this PyTorch (a CPU build says nothing itself).

    Source: PyTorch's release compatibility matrix (RELEASE.md).
    """
    if torch.version.cuda:
        major, minor = torch.version.cuda.split(".")[:2]
        return int(major), int(minor)
    if torch_version() >= (2, 11):
        return (13, 0)
    return (12, 8) if torch_version() >= (2, 8) else (12, 6) if torch_version() >= (2, 7) else (12, 4)


@cache
def cudnn_version() -> int:
    """cuDNN's version as ``torch.backends.cudnn.version()`` numbers it (91002 is 9.10.2).

    Source: the pin on ``nvidia-cudnn-cu12`` or ``-cu13`` of this PyTorch's wheel; of the one on PyPI for a CPU build.
    """
    for pin in _pins():
        numbers = [int(n) for n in pin.split(".")[:3]]
        return numbers[0] * 10000 + numbers[1] * 100 + numbers[2]
    table = {(2, 6): 90100, (2, 7): 90501, (2, 8): 91002, (2, 9): 91002, (2, 10): 91002, (2, 11): 91900, (2, 12): 92000}
    return table.get(torch_version(), 92400)


def _pins() -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires

    try:
        needed = requires("torch") or []
    except PackageNotFoundError:
        return []
    return [found[1] for line in needed if (found := re.match(r"nvidia-cudnn-cu\d+\s*\(?==\s*([\d.]+)", line))]


def specification(index: int | None = None) -> Any:
    """What the simulated GPU is; None where a test left it open. `index` is a native device index."""
    machine = machines.current()
    if index is None or index > HOST_INDEX:  # host memory that is not there: whatever runs on it needs no GPU
        return machine.gpu().specification
    return machine.gpu(index - 1).specification


def compute_capability(index: int | None = None) -> tuple[int, int]:
    """The GPU's compute capability, as (8, 0)."""
    known = specification(index)
    if known is None or known.compute_capability is None:
        return DEFAULT_CAPABILITY
    capability = known.compute_capability
    return int(capability[0]), int(capability[1])


def decided(index: int | None, answer: Callable[[tuple[int, int]], T]) -> T:
    """What hangs on the GPU's compute capability: `answer` for this one, compared with that for others alike."""
    return machines.current().alike.by_capability(answer, answer(compute_capability(index)))


def multiprocessors(index: int | None = None) -> int:
    """How many streaming multiprocessors the GPU has."""
    known = specification(index)
    return DEFAULT_MULTIPROCESSORS if known is None else int(known.multiprocessors)


def scratch(index: int, nbytes: int, upper_bytes: int | None = None) -> None:
    """Memory that an operation on that native device takes and gives back before it ends."""
    if 0 < index <= HOST_INDEX:
        machines.current().gpus[index - 1].memory.scratch(nbytes, upper_bytes)


class Temporaries:
    """Temporary memory inside one operation: held until the block ends, so that the pieces count together."""

    __slots__ = ("_held", "_index")

    def __init__(self, index: int) -> None:
        self._index = index
        self._held: list[Any] = []

    def __enter__(self) -> Temporaries:
        return self

    def __exit__(self, *exception: object) -> None:
        self._held.clear()

    def take(self, nbytes: int) -> None:
        """Take `nbytes` more (nothing on host memory)."""
        if nbytes and 0 < self._index <= HOST_INDEX:
            self._held.append(machines.current().gpus[self._index - 1].memory.allocate(nbytes, "workspace"))
