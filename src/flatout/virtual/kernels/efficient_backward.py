"""Which CUTLASS kernel the backward of memory-efficient attention runs, and the workspace that it asks for.

Source: the headers in PyTorch's wheel, ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h and
kernels/cutlassB.h (the kernels are tried in that order; the first that fits is run).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from flatout.gpu.capability import limits

LARGEST_HEAD = 65536
FLOAT_BYTES = 4
LOCK_BYTES = 16
LITTLE_SHARED_BYTES = 99 << 10
"""What a block can have on small GPUs (8.6, 8.9, 12.0), where a tile of 128 rows is taken not to fit (an estimate)."""


class Kernel(NamedTuple):
    """One compiled kernel: its tile of queries and keys, and the largest head size that it takes."""

    queries: int
    keys: int
    head_size: int
    half: bool
    computes_delta: bool

    @property
    def keeps_gradients_in_registers(self) -> bool:
        """Whether the gradients of keys and values are summed in registers and not in the workspace."""
        return self.half and self.head_size <= self.queries

    def workspace_bytes(self, batch: int, heads: int, length: int, key_length: int, size: int, value_size: int) -> int:
        """Memory in bytes for partial gradients of the whole problem."""
        splits = self._splits(batch, heads, key_length)
        elements = 0
        if self.half and not self.keeps_gradients_in_registers:
            for columns in (size, value_size):
                elements += splits * self.keys * -(-columns // self.queries) * self.queries
        blocks = -(-length // self.queries) * -(-size // self.keys)
        elements += blocks * (LOCK_BYTES + self.queries * self.keys * FLOAT_BYTES) // FLOAT_BYTES
        return batch * heads * (-(-elements // 4) * 4) * FLOAT_BYTES

    def _splits(self, batch: int, heads: int, key_length: int) -> int:
        if torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled():
            return 1
        splits = -(-key_length // self.keys)
        if batch * heads >= 256 and key_length <= 2 * self.keys:
            splits = 1
        if self.half and not self.keeps_gradients_in_registers:
            splits = min(splits, 200 // max(batch * heads, 1))
        return max(splits, 1)


def kernel_for(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: bool, capability: tuple[int, int]
) -> Kernel:
    """The kernel that CUDA runs for tensors of shape (batch, heads, length, head size)."""
    half = query.dtype is not torch.float32
    size = max(query.shape[3], value.shape[3])
    shared = limits(capability).shared_memory_per_block_optin_bytes
    roomy = shared > LITTLE_SHARED_BYTES or capability == (7, 0)

    def made(queries: int, keys: int, head_size: int) -> Kernel:
        in_registers = half and head_size <= queries
        computes_delta = half and (in_registers or capability[0] != 7 or capability == (7, 5))
        return Kernel(queries, keys, head_size, half, computes_delta)

    for head_size in (32, 64):
        if size <= head_size:
            return made(64, 64, head_size)
    if half and size <= 96 and capability in ((8, 6), (8, 9)) and not dropout:
        return made(128, 64, 96)
    head_size = 128 if size <= 128 else LARGEST_HEAD
    if half and capability >= (8, 0) and roomy and size <= 128:
        return made(128, 128, 128)
    # A float32 tile of 128 rows is only built for compute capability 8.0 and up.
    if roomy and (half or capability >= (8, 0)):
        return made(128, 64, head_size)
    return made(64, 64, head_size)
