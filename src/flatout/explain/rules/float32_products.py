"""FO413: products in float32 on ordinary cores, where the GPU has tensor cores for them (TF32)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flatout.costs import cost
from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy
from flatout.recording.operation import Operation

_REMEDY = Remedy(
    text='torch.set_float32_matmul_precision("high"), and torch.backends.cudnn.allow_tf32 for convolutions; products '
    "keep 10 bits of their inputs' digits",
    speedup="tf32",
)


def find(subject: Subject) -> Iterator[Finding]:
    """One finding for the step, at the line whose products take longest."""
    if subject.gpu.rates.tf32 is None:
        return
    slow = {number for number, one in enumerate(subject.tape.operations) if _could_be_tf32(one)}
    if not slow:
        return
    saving = subject.saving(subject.with_operations(slow, _in_tf32))
    if saving is None:
        return
    per_step = subject.per_step(slow)
    flops = sum(cost(subject.tape.operations[number]).flops for number, _ in subject.issued if number in slow)
    yield subject.finding(
        "FO413",
        f"{per_step:g} products and convolutions a step run in float32 on ordinary cores",
        saving,
        _REMEDY,
        subject.dearest_line(slow),
        {"products_per_step": per_step, "flops_per_step": flops / subject.tape.steps},
    )


def _in_tf32(operation: Operation) -> Operation:
    return msgspec.structs.replace(operation, tf32=True)


def _could_be_tf32(operation: Operation) -> bool:
    return not operation.tf32 and any(
        kernel.product is not None and kernel.datapath == "fp32" for kernel in cost(operation).kernels
    )
