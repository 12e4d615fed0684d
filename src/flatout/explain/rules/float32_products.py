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
    operations = [
        msgspec.structs.replace(one, tf32=True) if number in slow else one
        for number, one in enumerate(subject.tape.operations)
    ]
    saving = subject.saving(msgspec.structs.replace(subject.tape, operations=tuple(operations)))
    if saving is None:
        return
    launches = [number for number in subject.issued() if number in slow]
    flops = {number: cost(subject.tape.operations[number]).flops for number in slow}
    by_line: dict[int | None, int] = {}
    for number in launches:
        line = subject.tape.lines[number] if subject.tape.lines else None
        by_line[line] = by_line.get(line, 0) + flops[number]
    dearest = max(by_line, key=lambda line: by_line[line])
    yield subject.finding(
        "FO413",
        "float32-products-off-tensor-cores",
        f"{len(launches) / subject.tape.steps:g} products and convolutions a step run in float32 on ordinary cores",
        saving,
        _REMEDY,
        subject.place(dearest),
        {"products_per_step": len(launches) / subject.tape.steps, "flops": sum(flops[number] for number in launches)},
    )


def _could_be_tf32(operation: Operation) -> bool:
    return not operation.tf32 and any(
        kernel.product is not None and kernel.datapath == "fp32" for kernel in cost(operation).kernels
    )
