"""FO606: products in half precision whose rows do not start on 16 bytes, which tensor cores do slowly."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flatout.costs import cost
from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy
from flatout.recording.operation import Argument, Operation, TensorType, contiguous_strides

_MULTIPLE = 8
"""Elements of two bytes in 16 bytes. Source: NVIDIA, Matrix Multiplication Background User's Guide, section 3.1."""


def find(subject: Subject) -> Iterator[Finding]:
    """One finding a width that is off, as a vocabulary of 50257 words."""
    off: dict[int, set[int]] = {}
    for number, operation in enumerate(subject.tape.operations):
        for width in _widths_off(operation):
            off.setdefault(width, set()).add(number)
    for width, numbers in off.items():
        operations = [
            _padded(operation, width) if number in numbers else operation
            for number, operation in enumerate(subject.tape.operations)
        ]
        saving = subject.saving(msgspec.structs.replace(subject.tape, operations=tuple(operations)))
        if saving is None:
            continue
        launches = sum(number in numbers for number in subject.issued())
        lines = [subject.tape.lines[number] for number in sorted(numbers) if subject.tape.lines]
        yield subject.finding(
            "FO606",
            "width-not-multiple-of-8",
            f"{launches / subject.tape.steps:g} products a step have a side of {width}, which is no multiple of 8",
            saving,
            Remedy(text=f"make it {_rounded(width)}"),
            subject.place(next((line for line in lines if line is not None), None)),
            {"width": width, "products_per_step": launches / subject.tape.steps},
        )


def _widths_off(operation: Operation) -> set[int]:
    if all(kernel.aligned for kernel in cost(operation).kernels):
        return set()
    tensors = [tensor for tensor in (*operation.inputs(), *operation.outputs) if len(tensor.shape) >= 2]
    return {n for tensor in tensors for n in tensor.shape[-2:] if n > _MULTIPLE and n % _MULTIPLE}


def _rounded(width: int) -> int:
    return -(-width // _MULTIPLE) * _MULTIPLE


def _padded(operation: Operation, width: int) -> Operation:
    return msgspec.structs.replace(
        operation,
        arguments=tuple(_padded_argument(argument, width) for argument in operation.arguments),
        outputs=tuple(_padded_tensor(output, width) for output in operation.outputs),
    )


def _padded_argument(argument: Argument, width: int) -> Argument:
    if isinstance(argument, TensorType):
        return _padded_tensor(argument, width)
    if isinstance(argument, tuple):
        return tuple(_padded_tensor(item, width) if isinstance(item, TensorType) else item for item in argument)
    return argument


def _padded_tensor(tensor: TensorType, width: int) -> TensorType:
    """With that side rounded up, and its rows so long; a transposed tensor stays one."""
    if width not in tensor.shape:
        return tensor
    shape = tuple(_rounded(n) if n == width else n for n in tensor.shape)
    if tensor.contiguous:
        return msgspec.structs.replace(tensor, shape=shape, strides=contiguous_strides(shape))
    strides = tuple(_rounded(stride) if stride == width else stride for stride in tensor.strides)
    return msgspec.structs.replace(tensor, shape=shape, strides=strides)
