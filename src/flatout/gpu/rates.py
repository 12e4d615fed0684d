"""Dense rates from multiprocessors and clock, for the boards whose data sheets leave them out.

Each capability has one number of fused multiply-adds that a multiprocessor does per clock and data type. They are read
off the data sheets that do give rates, and tests hold that they give those rates back: V100 125, T4 65, A100 312, A30
165, A10 125, A40 149.7, RTX 4090 165.2 (fp16) and RTX 5090 838 (int8) TFLOP/s. That workstation boards of capability
12.0 are not halved follows from a measurement: a public log has 401 TFLOP/s in bf16 on an RTX PRO 6000, where half the
rate would be 252.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from flatout.gpu.specification import ComputeCapability, Rates

Fp32Accumulate: TypeAlias = Literal["full", "half", "none"]
"""Tensor cores with FP32 accumulation: `full` rate (data centre, workstation), `half` (GeForce), or `none` at all."""

# FMA per multiprocessor and clock. GA10x, Ada and the 12.0 Blackwells share their tensor cores' rates.
_GRAPHICS = {"fp64": 2, "fp32": 128, "tf32": 256, "fp16": 512, "bf16": 512, "int8": 1024}
_FMA_PER_CLOCK: dict[ComputeCapability, dict[str, int]] = {
    (6, 0): {"fp64": 32, "fp32": 64},
    (6, 1): {"fp64": 4, "fp32": 128, "int8": 512},
    (7, 0): {"fp64": 32, "fp32": 64, "fp16": 512},
    (7, 5): {"fp64": 2, "fp32": 64, "fp16": 512, "int8": 1024},
    (8, 0): {"fp64": 32, "fp64_tensor": 64, "fp32": 64, "tf32": 512, "fp16": 1024, "bf16": 1024, "int8": 2048},
    (8, 6): _GRAPHICS,
    (8, 9): {**_GRAPHICS, "fp8": 1024},
    (12, 0): {**_GRAPHICS, "fp8": 1024},
}
# int8 accumulates in int32 and is never halved.
_ACCUMULATING_IN_FP32 = frozenset({"tf32", "fp16", "bf16", "fp8"})


def from_clock(
    capability: ComputeCapability, multiprocessors: int, boost_hz: float, fp32_accumulate: Fp32Accumulate
) -> Rates:
    """Dense rates in operations per second at the boost clock in Hz.

    Raises `KeyError` for a capability without a known rate.
    """
    fmas = _FMA_PER_CLOCK[capability]
    fma_per_second = multiprocessors * boost_hz
    rates: dict[str, float] = {}
    for dtype, per_clock in fmas.items():
        halved = fp32_accumulate == "half" and dtype in _ACCUMULATING_IN_FP32
        rates[dtype] = 2 * per_clock * fma_per_second / (2 if halved else 1)
    return Rates(**rates)


def has_clock_rates(capability: ComputeCapability) -> bool:
    """Whether `from_clock` knows this compute capability."""
    return capability in _FMA_PER_CLOCK
