"""Gradients of indexing and embeddings sort their indices: results, and memory while they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from hypothesis import given
from hypothesis import strategies as st

from flatout.virtual.kernels.index_sorting import ONE_TILE, sort_pairs_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from flatout.virtual.machine import Machine


def peak_bytes(machine: Machine, call: Callable[[], object]) -> int:
    """The most that a call had allocated at once, above the start."""
    allocator = machine.gpus[0].memory.allocator
    allocator.reset_peaks()
    before: int = allocator.allocated_bytes
    kept = call()
    del kept
    return int(allocator.peak_allocated_bytes) - before


def test_one_block_sorts_without_memory() -> None:
    assert sort_pairs_bytes(ONE_TILE, 50_257) == 1


@given(st.integers(ONE_TILE + 1, 1 << 22), st.integers(257, 1 << 20))
def test_longer_sorts_copy_keys_and_values(count: int, largest: int) -> None:
    assert 16 * count <= sort_pairs_bytes(count, largest) <= 17 * count + (1 << 14)


def test_gradient_of_indexing(machine: Machine) -> None:
    table = torch.zeros(1000, 64, device="cuda")
    indices = torch.zeros(512, dtype=torch.int64, device="cuda")
    values = torch.zeros(512, 64, device="cuda")
    # The index, two results of the sort, the numbers 0, 1, 2 ... and the sort's own block.
    assert peak_bytes(machine, lambda: table.index_put_((indices,), values, accumulate=True)) == 4 * 4096 + 512
    assert peak_bytes(machine, lambda: table.index_put_((indices,), values)) == 0


def test_masks_and_indices_of_the_host_can_be_put(machine: Machine) -> None:
    table = torch.zeros(4, 2, device="cuda")
    table[torch.tensor([True, False, True, False], device="cuda")] = 1
    table.index_put_((torch.tensor([1, 1]),), torch.ones(2, 2, device="cuda"), accumulate=True)
    assert table.tolist() == [[1, 1], [2, 2], [1, 1], [0, 0]]


def test_gradient_of_an_embedding_adds_up_parts_in_float32(machine: Machine) -> None:
    count, width, rows = 8192, 256, 32_000

    def backward() -> torch.Tensor:
        gradient = torch.zeros(count, width, dtype=torch.bfloat16, device="cuda")
        indices = torch.zeros(count, dtype=torch.int64, device="cuda")
        return torch.ops.aten.embedding_dense_backward(gradient, indices, rows, -1, False)

    parts = count // 10 + count
    large = count * width * 2 + rows * width * 2 + parts * width * 4
    assert large < peak_bytes(machine, backward) < large + 16 * 8 * count
