"""What PyTorch's own table of operators says about a CUDA kernel: whether devices are checked, under what name.

The table (``native_functions.yaml``) comes with every PyTorch, inside ``torchgen``; the wrappers with the checks are
generated from it (torchgen/dest/register_dispatch_key.py). It is read once, at the first question (some 6 ms).
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = "packaged/ATen/native/native_functions.yaml"


class CudaKernel(NamedTuple):
    """How the kernel of one operator is wrapped.

    `checked`: all tensors among its positional arguments must be on one device. `structured`: its shape rules are
    shared with the CPU. `wrapper`: the function that PyTorch names in the message.
    """

    checked: bool
    structured: bool
    wrapper: str


@cache
def _table() -> dict[str, tuple[bool, bool, bool]]:
    found = importlib.util.find_spec("torchgen")
    if found is None or not found.submodule_search_locations:
        return {}
    path = Path(found.submodule_search_locations[0]) / TABLE
    if not path.exists():
        return {}
    table = {}
    for entry in re.finditer(
        r"^- func: ([^(]+)\(.*\n((?:[ #].*\n|\n)*)", path.read_text(encoding="utf-8"), re.MULTILINE
    ):
        body = entry[2]
        structured = "structured_delegate:" in body or "structured: True" in body
        on_cuda = structured or re.search(r"^    (?:\w+, )*CUDA(?:, \w+)*:", body, re.MULTILINE) is not None
        table[entry[1]] = (on_cuda, structured, "device_check: NoCheck" in body)
    return table


@cache
def cuda_kernel(name: str) -> CudaKernel:
    """The CUDA kernel of an operator named as ``aten::add.Tensor``. Unknown operators count as unchecked."""
    short = name.removeprefix("aten::")
    on_cuda, structured, unchecked = _table().get(short, (False, False, True))
    base, _, overload = short.partition(".")
    if structured:
        wrapper = f"wrapper_CUDA_{base}{'_' if overload else ''}{overload}"
    else:
        wrapper = f"wrapper_CUDA_{overload}_{base}{'_out' if 'out' in overload or 'grad_input' in overload else ''}"
    return CudaKernel(on_cuda and not unchecked, structured, wrapper)
