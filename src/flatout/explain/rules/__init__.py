"""One rule a file: a `Subject` in, findings out. A rule that saves nothing says nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flatout.explain.rules import (
    batches,
    bfloat16_emulated,
    copies,
    float32_products,
    half_products,
    host_waits,
    launches,
    loss_passes,
    misaligned_products,
    norm_written_out,
    optimizer_launches,
)
from flatout.explain.subject import Subject
from flatout.findings import Finding

RULES: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    host_waits.find,
    copies.find,
    batches.find,
    float32_products.find,
    half_products.find,
    bfloat16_emulated.find,
    misaligned_products.find,
    optimizer_launches.find,
    loss_passes.find,
    norm_written_out.find,
    launches.find,
)
