"""What is known of the value of an expression."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from flatout.check.torch_api import GPU_DEVICES


@dataclass(frozen=True)
class Fact:
    """What a value surely is; None is "not known", and a rule that needs to know stays silent.

    kind: "Tensor", "Module", "Optimizer", "Scheduler", "DataLoader", "Dataset", "GradScaler", "device", "dtype",
    "list", "tuple", "dict", "ndarray", "number", "int", "float", "bool", "str", "None", "size", "iterator".
    device: where a tensor or module lives, or which one a device is: "cpu", "cuda" (also a device chosen by what
    the machine has), another type, or None.
    """

    kind: str | None = None
    device: str | None = None
    dtype: str | None = None  # "torch.float16"
    class_name: str | None = None  # of a Module, Optimizer, Scheduler or Dataset: its qualified class
    constant: Any = None  # of a number, string, bool
    pinned: bool | None = None  # of a tensor on the CPU, or what a DataLoader gives
    element: Fact | None = None  # of what is iterated over or indexed
    items: tuple[Fact, ...] | None = None  # of a tuple whose length is known
    call: ast.Call | None = None  # of a DataLoader: what makes it
    has_graph: bool = False  # a tensor that surely hangs on a graph of operations

    @property
    def is_tensor(self) -> bool:
        return self.kind == "Tensor"

    @property
    def is_gpu_tensor(self) -> bool:
        """A tensor on the GPU; also what was moved there and is a tensor if it is used as one."""
        return self.on_gpu and self.kind in ("Tensor", None)

    @property
    def on_gpu(self) -> bool:
        return self.device in GPU_DEVICES

    @property
    def on_cpu(self) -> bool:
        return self.device == "cpu"


UNKNOWN = Fact()
NUMBERS = frozenset({"number", "int", "float", "bool"})


def join(facts: list[Fact]) -> Fact:
    """What is true of all of `facts`."""
    if not facts:
        return UNKNOWN
    first = facts[0]
    if all(fact == first for fact in facts):
        return first

    def common(values: list[Any]) -> Any:
        return values[0] if all(value == values[0] and type(value) is type(values[0]) for value in values) else None

    kind = common([fact.kind for fact in facts])
    if kind is None and all(fact.kind in NUMBERS for fact in facts):
        kind = "number"
    elements = [fact.element for fact in facts if fact.element is not None]
    return Fact(
        kind=kind,
        device=common([fact.device for fact in facts]),
        dtype=common([fact.dtype for fact in facts]),
        class_name=common([fact.class_name for fact in facts]),
        constant=common([fact.constant for fact in facts]),
        pinned=common([fact.pinned for fact in facts]),
        element=join(elements) if len(elements) == len(facts) else None,
        items=common([fact.items for fact in facts]),
        call=common([fact.call for fact in facts]),
        has_graph=all(fact.has_graph for fact in facts),
    )
