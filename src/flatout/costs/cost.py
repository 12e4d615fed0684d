"""What an operation costs, on any GPU: the kernels that it launches, and what each of them computes and moves."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Datapath: TypeAlias = Literal["fp16", "bf16", "fp8", "int8", "tf32", "fp32", "fp64", "fp64_tensor", "memory"]
"""What a kernel's arithmetic runs on: tensor cores by dtype, the ordinary cores, or none that matters (memory)."""

TENSOR_CORES: frozenset[Datapath] = frozenset(("fp16", "bf16", "fp8", "int8", "tf32", "fp64_tensor"))


ALIGNMENT_BYTES = 16
"""Tensor cores are fed 16 bytes at a time; rows that start elsewhere fall to slower kernels.

Source: NVIDIA, Matrix Multiplication Background User's Guide, section on tensor core requirements.
"""


class Product(msgspec.Struct, frozen=True):
    """The matrix product inside a kernel: `batch` products of (rows x depth) and (depth x columns)."""

    batch: int
    rows: int
    columns: int
    depth: int

    @property
    def flops(self) -> int:
        """Operations of the product, a fused multiply-add counting as two."""
        return 2 * self.batch * self.rows * self.columns * self.depth


class Kernel(msgspec.Struct, frozen=True):
    """One kernel, or `launches` alike of which one operation's work consists.

    `kind` names the efficiency that it reaches (see `flatout.costs.efficiency`). Bytes are those that really move,
    passes over the same data counted as often as they are made, as long as no cache keeps them. `reused_bytes` is the
    part of `bytes_read` that the same kernel has read before: a cache that is large enough serves it. All rows start on
    multiples of `alignment_bytes`, a power of two up to 16. `for_tensor_cores`: it only prepares data for the tensor
    cores of `datapath`, and is not launched on a GPU that has none for it.
    """

    kind: str
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    datapath: Datapath = "memory"
    product: Product | None = None
    launches: int = 1
    reused_bytes: int = 0
    alignment_bytes: int = ALIGNMENT_BYTES
    for_tensor_cores: bool = False

    @property
    def aligned(self) -> bool:
        """Whether tensor cores get what they are fed in whole pieces."""
        return self.alignment_bytes >= ALIGNMENT_BYTES

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written


class Cost(msgspec.Struct, frozen=True):
    """What an operation costs.

    `least_bytes` is the fewest that must move: each tensor once. `known` is False where no formula was found and the
    cost is that of reading what goes in and writing what comes out.
    """

    kernels: tuple[Kernel, ...] = ()
    least_bytes: int = 0
    known: bool = True

    @property
    def flops(self) -> int:
        """Operations of all kernels."""
        return sum(kernel.flops for kernel in self.kernels)

    @property
    def bytes_read(self) -> int:
        """Bytes read by all kernels."""
        return sum(kernel.bytes_read for kernel in self.kernels)

    @property
    def bytes_written(self) -> int:
        """Bytes written by all kernels."""
        return sum(kernel.bytes_written for kernel in self.kernels)

    @property
    def launches(self) -> int:
        """How many kernels are launched."""
        return sum(kernel.launches for kernel in self.kernels)

    @property
    def datapath(self) -> Datapath:
        """Where most of the arithmetic runs."""
        most = max(self.kernels, key=lambda kernel: kernel.flops, default=None)
        return "memory" if most is None else most.datapath


FREE = Cost()
"""Nothing is launched: views, allocations, what only the host does."""
