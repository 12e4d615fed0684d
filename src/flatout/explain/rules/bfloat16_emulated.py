"""FO414: bfloat16 on a GPU whose tensor cores do not know it (Volta, Turing): it is computed by ordinary cores.

A script gets there by asking ``torch.cuda.is_bf16_supported()``, which counts emulation unless it is told not to.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flatout.costs import cost
from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy
from flatout.recording.operation import Argument, Operation, TensorType

_REMEDY = Remedy(
    text="float16 with torch.amp.GradScaler on this GPU; torch.cuda.is_bf16_supported(including_emulation=False) tells "
    "which GPUs have bfloat16",
    speedup="autocast-float16",
)


def find(subject: Subject) -> Iterator[Finding]:
    """One finding for the step: the same operations in float16."""
    rates = subject.gpu.rates
    if rates.bf16 is not None or rates.fp16 is None:
        return
    slow = {number for number, one in enumerate(subject.tape.operations) if _is_product(one)}
    if not slow:
        return
    saving = subject.saving(subject.with_operations(range(len(subject.tape.operations)), _in_float16))
    if saving is None:
        return
    per_step = subject.per_step(slow)
    yield subject.finding(
        "FO414",
        f"{per_step:g} products a step run in bfloat16, which this GPU's tensor cores do not know",
        saving,
        _REMEDY,
        subject.dearest_line(slow),
        {"products_per_step": per_step},
    )


def _is_product(operation: Operation) -> bool:
    return any(kernel.product is not None and kernel.datapath == "bf16" for kernel in cost(operation).kernels)


def _in_float16(operation: Operation) -> Operation:
    return msgspec.structs.replace(
        operation,
        arguments=tuple(_changed(argument) for argument in operation.arguments),
        outputs=tuple(_half(output) for output in operation.outputs),
    )


def _changed(argument: Argument) -> Argument:
    if isinstance(argument, TensorType):
        return _half(argument)
    if isinstance(argument, tuple):
        return tuple(_half(item) if isinstance(item, TensorType) else item for item in argument)
    return "float16" if argument == "bfloat16" else argument


def _half(tensor: TensorType) -> TensorType:
    return msgspec.structs.replace(tensor, dtype="float16") if tensor.dtype == "bfloat16" else tensor
