"""The time of an operation on a GPU: the larger of its arithmetic and its traffic, over what kernels reach of either.

For each kernel::

    compute = tiled operations / (sustained rate * how well this kind uses it)
    memory  = bytes / (bandwidth * how well this kind uses it), the part that the L2 cache serves at the cache's speed
    seconds = max(compute, memory) + launch
"""

from __future__ import annotations

from math import log2
from typing import Literal, NamedTuple, TypeAlias

from flatout.costs.cost import ALIGNMENT_BYTES, Cost, Kernel
from flatout.costs.efficiency import Efficiency, fitted
from flatout.costs.engine import engine, highest_rate, sustained_rate
from flatout.costs.tiles import tiled_operations
from flatout.gpu import GPU

BoundBy: TypeAlias = Literal["compute", "memory", "launch"]

WINOGRAD_SAVING = 2.25
"""A 3 x 3 convolution can be done with that much less multiplications (Winograd's F(2 x 2, 3 x 3), Lavin and Gray 2015,
arXiv:1509.09308); cuDNN does so on ordinary cores. Only the lower bound allows for it."""


class Limits(NamedTuple):
    """What a kernel takes at least by its arithmetic, by its traffic, and for its launches, in seconds."""

    compute_seconds: float
    memory_seconds: float
    launch_seconds: float

    @property
    def seconds(self) -> float:
        """The time of the kernel."""
        return max(self.compute_seconds, self.memory_seconds) + self.launch_seconds


def kernel_limits(kernel: Kernel, gpu: GPU, efficiency: Efficiency | None = None) -> Limits:
    """The limits of one kernel on that GPU."""
    e = fitted() if efficiency is None else efficiency
    if kernel.for_tensor_cores and engine(gpu, kernel.datapath).name != "tensor":
        return Limits(0.0, 0.0, 0.0)
    compute = ideal_compute_seconds(kernel, gpu, e) / e.of_compute(kernel.kind)
    memory = ideal_memory_seconds(kernel, gpu, e) / e.of_memory(kernel.kind)
    return Limits(compute, memory, kernel.launches * e.launch_seconds)


def ideal_compute_seconds(kernel: Kernel, gpu: GPU, e: Efficiency) -> float:
    """Its arithmetic, if its kind used the datapath as well as large products do."""
    if not kernel.flops:
        return 0.0
    which = engine(gpu, kernel.datapath)
    rate = sustained_rate(gpu, which, e.datapath[which.name], e.energy[which.name])
    operations = float(kernel.flops)
    if kernel.product is not None:
        operations = tiled_operations(
            kernel.product, gpu.multiprocessors, e.tile_half[which.name], e.prologue_depth[which.name]
        )
    if not kernel.aligned and which.name == "tensor":
        rate *= e.unaligned ** log2(ALIGNMENT_BYTES / kernel.alignment_bytes)
    return operations / rate


def ideal_memory_seconds(kernel: Kernel, gpu: GPU, e: Efficiency) -> float:
    """Its traffic at the full bandwidth of the memory, and of the cache for what the cache still has.

    What was moved just before is still in the cache as far as all of this kernel's data fit there.
    """
    total = float(kernel.bytes)
    bandwidth = gpu.memory_bandwidth_bytes_per_second
    if not gpu.l2_bytes or not total:
        return total / bandwidth
    fresh = total - kernel.reused_bytes
    kept = max(0.0, 1.0 - fresh / gpu.l2_bytes)
    return total * (1.0 - kept + kept / e.cache_speed) / bandwidth


def operation_seconds(cost: Cost, gpu: GPU, efficiency: Efficiency | None = None) -> float:
    """The time of an operation on a GPU whose queue is never empty."""
    return sum(kernel_limits(kernel, gpu, efficiency).seconds for kernel in cost.kernels)


def lower_bound_seconds(cost: Cost, gpu: GPU) -> float:
    """The speed of light: no kernel on this GPU can do that operation faster.

    The arithmetic at the highest clock, and each tensor moved once, less what the L2 cache may have kept from before
    and may write back later (its size, twice).
    """
    if not cost.kernels:
        return 0.0
    compute = 0.0
    for kernel in cost.kernels:
        flops = kernel.flops / WINOGRAD_SAVING if _winograd(kernel) else kernel.flops
        compute += flops / highest_rate(gpu, kernel.datapath)
    moved = cost.least_bytes - 2 * (gpu.l2_bytes or 0)
    return max(compute, moved / gpu.memory_bandwidth_bytes_per_second, 0.0)


def _winograd(kernel: Kernel) -> bool:
    return kernel.datapath == "fp32" and kernel.kind.startswith("convolution") and "1x1" not in kernel.kind


def bound_by(cost: Cost, gpu: GPU, efficiency: Efficiency | None = None) -> BoundBy | None:
    """What most of the operation's time is spent on; None where it launches nothing."""
    spent: dict[BoundBy, float] = {}
    for kernel in cost.kernels:
        limits = kernel_limits(kernel, gpu, efficiency)
        larger: BoundBy = "compute" if limits.compute_seconds > limits.memory_seconds else "memory"
        work = max(limits.compute_seconds, limits.memory_seconds)
        spent[larger] = spent.get(larger, 0.0) + work
        spent["launch"] = spent.get("launch", 0.0) + limits.launch_seconds
    return max(spent.items(), key=lambda item: item[1])[0] if spent else None
