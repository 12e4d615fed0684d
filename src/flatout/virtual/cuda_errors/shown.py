"""Messages of PyTorch's C++ that name the native device of a virtual tensor, in the words of a GPU.

C++ puts a message together where Python cannot reach it, so it is put right behind: by `shown_for` around operators
that are known to name devices, which a script that catches the exception sees too, and by `put_right` in whatever ends
a script uncaught.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch

from flatout.launch.tracebacks import without_flatout
from flatout.virtual.cuda_errors.wording import WITH_LEGACY_TYPE
from flatout.virtual.tensor import HOST_INDEX, native_device, shown_device

_DEVICE = re.compile(r"\bmeta:(\d+)\b")
_TYPE = re.compile(r"\bMeta(\w+)Type\b")
# What pybind11 makes of an exception from Python that C++ prints: its type, its text, and the frames that it came from.
_FROM_PYTHON = re.compile(r"\b(\w+: )\1(.*?)\n\nAt:\n(?:  .*\(\d+\): .*\n)+", re.DOTALL)


def as_shown(text: str) -> str:
    """A message of PyTorch's C++ with the native devices of virtual tensors replaced by those that a script sees."""
    text = _DEVICE.sub(lambda found: str(shown_device(torch.device("meta", int(found[1])))), text)
    return _TYPE.sub(_shown_type, text)


def _shown_type(found: re.Match[str]) -> str:
    return f"torch.cuda.{found[1]}Tensor" if found[1] in WITH_LEGACY_TYPE else f"CUDA{found[1]}Type"


def shown_for(text: str, tensors: Iterable[torch.Tensor]) -> str:
    """The same for a message about these tensors, which may also name a type of device without an index.

    ``meta`` is the GPU there, unless one of the tensors is the script's own on ``meta`` or is in host memory that is
    not there.
    """
    text = as_shown(text)
    indices = {device.index for tensor in tensors if (device := native_device(tensor)).type == "meta"}
    if not indices or not all(index is not None and index <= HOST_INDEX for index in indices):
        return text
    return re.sub(r"\bmeta\b", "cuda", text)


def put_right(error: BaseException) -> None:
    """Put the messages of an exception that nobody caught right, in place, and of those that it came from."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
        if one.args and isinstance(one.args[0], str):
            text = without_flatout(_FROM_PYTHON.sub(r"\1\2\n", as_shown(one.args[0])))
            if text != one.args[0]:
                one.args = (text, *one.args[1:])
