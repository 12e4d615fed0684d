"""PyTorch's own table of operators: which have a kernel on CUDA, whether it checks devices, under what name.

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


class Entry(NamedTuple):
    """What the table says of one operator.

    `kernels`: the dispatch keys that have a kernel, as ``SparseCUDA``. `structured`: its shape rules are shared by all
    devices, and there is a CUDA kernel. `checked`: its tensors must be on one device.
    """

    kernels: frozenset[str]
    structured: bool
    checked: bool


class CudaKernel(NamedTuple):
    """How the kernel of one operator is wrapped.

    `checked`: all tensors among its positional arguments must be on one device. `structured`: its shape rules are
    shared with the CPU. `wrapper`: the function that PyTorch names in the message.
    """

    checked: bool
    structured: bool
    wrapper: str


def find_table() -> Path | None:
    """The table of the installed PyTorch; None where it was not brought along."""
    found = importlib.util.find_spec("torchgen")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / TABLE
    return path if path.exists() else None


def read(path: Path) -> dict[str, Entry]:
    """The table by operator, named as ``add.Tensor``."""
    table = {}
    for entry in re.finditer(
        r"^- func: ([^(]+)\(.*\n((?:[ #].*\n|\n)*)", path.read_text(encoding="utf-8"), re.MULTILINE
    ):
        body = entry[2]
        keys = (line[1].split(",") for line in re.finditer(r"^    (\w+(?:, \w+)*):", body, re.MULTILINE))
        table[entry[1]] = Entry(
            kernels=frozenset(key.strip() for line in keys for key in line),
            structured="structured_delegate:" in body or "structured: True" in body,
            checked="device_check: NoCheck" not in body,
        )
    return table


@cache
def _table() -> dict[str, Entry]:
    path = find_table()
    return {} if path is None else read(path)


@cache
def cuda_kernel(name: str) -> CudaKernel:
    """The CUDA kernel of an operator named as ``aten::add.Tensor``. Unknown operators count as unchecked."""
    short = name.removeprefix("aten::")
    entry = _table().get(short, Entry(frozenset(), structured=False, checked=False))
    base, _, overload = short.partition(".")
    if entry.structured:
        wrapper = f"wrapper_CUDA_{base}{'_' if overload else ''}{overload}"
    else:
        wrapper = f"wrapper_CUDA_{overload}_{base}{'_out' if 'out' in overload or 'grad_input' in overload else ''}"
    on_cuda = entry.structured or "CUDA" in entry.kernels
    return CudaKernel(on_cuda and entry.checked, entry.structured, wrapper)


def with_kernel_for(key: str, table: dict[str, Entry] | None = None) -> set[str]:
    """Operators that have a kernel of their own at that dispatch key, as ``SparseCUDA``; of the installed PyTorch."""
    return {name for name, entry in (_table() if table is None else table).items() if key in entry.kernels}
