"""What an operation is, without PyTorch: its name, and what goes in and comes out as shapes, layouts and dtypes.

A dry run, a real run and a trace tell of operations in these words, so a cost can be computed where torch is absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TypeAlias

import msgspec

# Bytes of one element, by PyTorch's names of its dtypes.
ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4,
    "complex32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip


class TensorType(msgspec.Struct, frozen=True):
    """The shape, the strides (in elements) and the dtype of a tensor; never its content.

    `host` says that it lives in the memory of the host.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    host: bool = False

    @property
    def item_bytes(self) -> int:
        """Bytes of one element; 4 for a dtype that is not known."""
        return ITEM_BYTES.get(self.dtype, 4)

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes that a kernel reads to see every element, each memory cell once: expanded dimensions cost nothing."""
        cells = 1
        for n, stride in zip(self.shape, self.strides):
            if stride or not n:
                cells *= n
        return cells * self.item_bytes

    @property
    def channels_last(self) -> bool:
        """Whether dimension 1 is the innermost one, as ``torch.channels_last`` has it."""
        if len(self.shape) < 3 or self.shape[1] == 1:
            return False
        return self.strides[1] == 1 and self.strides != contiguous_strides(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether the elements follow each other row by row, as they do where there is none."""
        step = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides)):
            if n != 1:
                if stride != step:
                    return 0 in self.shape
                step *= n
        return True


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a tensor whose elements follow each other row by row."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def tensor(shape: tuple[int, ...], dtype: str = "float32", strides: tuple[int, ...] | None = None) -> TensorType:
    """A tensor on the GPU, row by row unless `strides` says otherwise."""
    return TensorType(shape, contiguous_strides(shape) if strides is None else strides, dtype)


Scalar: TypeAlias = bool | int | float | str | TensorType | None
Argument: TypeAlias = Scalar | tuple[Scalar, ...]


class Operation(msgspec.Struct, frozen=True):
    """One call of an operator.

    Attributes:
        name: the operator as ``aten::add.Tensor``.
        arguments: its positional arguments in the order of its schema; trailing ones with their default may be missing.
        keywords: its other arguments, as pairs.
        outputs: what it makes that was not there before (results written into an argument are not in it).
        written: positions of the arguments that it writes into.
        repeated: whether its first two arguments are one and the same tensor, as in ``x * x``.
        tf32: whether float32 products may run as TF32 on tensor cores here.
    """

    name: str
    arguments: tuple[Argument, ...] = ()
    keywords: tuple[tuple[str, Argument], ...] = ()
    outputs: tuple[TensorType, ...] = ()
    written: tuple[int, ...] = ()
    repeated: bool = False
    tf32: bool = False

    @property
    def base(self) -> str:
        """The name without its overload: ``aten::add`` of ``aten::add.Tensor``."""
        return self.name.partition(".")[0]

    def argument(self, position: int, default: Argument = None) -> Argument:
        """The argument at that position, or `default` where the call left it out."""
        return self.arguments[position] if position < len(self.arguments) else default

    def tensor(self, position: int) -> TensorType:
        """The argument at that position. Raises `TypeError` where it is no tensor."""
        found = self.argument(position)
        if not isinstance(found, TensorType):
            raise TypeError(f"argument {position} of {self.name} is {found!r}, not a tensor")
        return found

    def numbers(self, position: int) -> tuple[int, ...]:
        """The list of whole numbers at that position, empty where it is left out."""
        found = self.argument(position, ())
        values = found if isinstance(found, tuple) else (found,)
        return tuple(value for value in values if isinstance(value, int))

    def inputs(self) -> Iterator[TensorType]:
        """Every tensor among the arguments, those in lists and those written into included."""
        for argument in (*self.arguments, *(value for _, value in self.keywords)):
            if isinstance(argument, TensorType):
                yield argument
            elif isinstance(argument, tuple):
                yield from (item for item in argument if isinstance(item, TensorType))

    def targets(self) -> Iterator[TensorType]:
        """Every tensor that is written into in place, with ``out=`` among them."""
        for position in self.written:
            argument = self.argument(position)
            for item in argument if isinstance(argument, tuple) else (argument,):
                if isinstance(item, TensorType):
                    yield item
        for name, argument in self.keywords:
            if name == "out" and isinstance(argument, TensorType):
                yield argument
