"""FO606: products whose rows do not start on 16 bytes, which tensor cores do slowly."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flatout.costs import cost
from flatout.costs.cost import ALIGNMENT_BYTES
from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy
from flatout.recording.operation import Argument, Operation, TensorType, contiguous_strides


def find(subject: Subject) -> Iterator[Finding]:
    """One finding a width that is off, as a vocabulary of 50257 words."""
    off: dict[tuple[int, int], set[int]] = {}
    for number, operation in enumerate(subject.tape.operations):
        for key in _widths_off(operation):
            off.setdefault(key, set()).add(number)
    for (width, multiple), numbers in off.items():
        proposed = -(-width // multiple) * multiple
        saving = subject.saving(subject.with_operations(numbers, _Padding(width, proposed)))
        if saving is None:
            continue
        per_step = subject.per_step(numbers)
        yield subject.finding(
            "FO606",
            f"{per_step:g} products a step have a side of {width}, which is no multiple of {multiple}",
            saving,
            Remedy(text=f"make it {proposed}"),
            subject.dearest_line(_having(subject, width)),
            {"width": width, "width_proposed": proposed, "products_per_step": per_step},
        )


def _widths_off(operation: Operation) -> set[tuple[int, int]]:
    """The sides that are off, with what they should be a multiple of."""
    if all(kernel.aligned or kernel.kind != "matmul" for kernel in cost(operation).kernels):
        return set()
    found = set()
    for one in (*operation.inputs(), *operation.outputs):
        multiple = max(1, ALIGNMENT_BYTES // one.item_bytes)
        if len(one.shape) >= 2:
            found |= {(n, multiple) for n in one.shape[-2:] if n > multiple and n % multiple}
    return found


def _having(subject: Subject, width: int) -> set[int]:
    """Products with that side, the aligned ones too."""
    return {
        number
        for number, operation in enumerate(subject.tape.operations)
        if any(kernel.product is not None for kernel in cost(operation).kernels)
        and any(width in one.shape[-2:] for one in (*operation.inputs(), *operation.outputs))
    }


class _Padding:
    """Makes a side of an operation's tensors longer, and their rows with it; a transposed tensor stays one."""

    def __init__(self, width: int, padded: int) -> None:
        self._width = width
        self._padded = padded

    def __call__(self, operation: Operation) -> Operation:
        return msgspec.structs.replace(
            operation,
            arguments=tuple(self._argument(argument) for argument in operation.arguments),
            outputs=tuple(self._tensor(output) for output in operation.outputs),
        )

    def _argument(self, argument: Argument) -> Argument:
        if isinstance(argument, TensorType):
            return self._tensor(argument)
        if isinstance(argument, tuple):
            return tuple(self._tensor(item) if isinstance(item, TensorType) else item for item in argument)
        return argument

    def _tensor(self, tensor: TensorType) -> TensorType:
        if self._width not in tensor.shape:
            return tensor
        shape = tuple(self._padded if n == self._width else n for n in tensor.shape)
        if tensor.contiguous:
            return msgspec.structs.replace(tensor, shape=shape, strides=contiguous_strides(shape))
        strides = tuple(self._padded if stride == self._width else stride for stride in tensor.strides)
        return msgspec.structs.replace(tensor, shape=shape, strides=strides)
