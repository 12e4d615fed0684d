"""What a reduction takes between thread blocks, as the simulated GPU meets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from metering import Meter, blocks

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine


def test_the_same_sum_is_divided_anew_on_another_gpu(machine: Machine, meter: Meter, on: Callable[[str], None]) -> None:
    # A norm's weight gradient of a published row: what an A100 makes of this shape was once taken for an H100's.
    peaks: dict[str, set[int]] = {}
    for name in ("a100-80gb", "h100", "a100-80gb"):
        on(name)
        x = torch.randn(2048, 8192, device="cuda")
        meter(lambda x=x: x.sum(0))
        peaks.setdefault(name, set()).add(meter.peak_bytes)
        machine.gpus[0].memory.allocator.empty_cache()
    assert all(len(found) == 1 for found in peaks.values())
    assert peaks["h100"] == {blocks(4 * 8192, 128 << 20, 256)}
    assert peaks["a100-80gb"] != peaks["h100"]


def test_a_sum_over_more_than_32_bits_takes_what_its_half_does(machine: Machine, meter: Meter) -> None:
    needed = set()
    for bits in (29, 30):  # 2^29 float32 are the most whose bytes 31 bits can count
        x = torch.empty(1 << bits, device="cuda")
        meter(x.sum)
        needed.add(meter.peak_bytes)
    assert needed == {blocks(4 * 4096, 4, 4)}
