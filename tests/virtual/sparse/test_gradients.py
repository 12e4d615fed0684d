"""Sparse gradients of embeddings: their parts, their bytes, and the optimizers that take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from metering import Meter, blocks
from torch import nn

from flatout.virtual.sparse.coalescing import merge_sort_bytes
from flatout.virtual.tensor import allocation_of

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

# PyTorch's own, about any sparse tensor that a script makes; on a real GPU too.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")

ROWS, WIDTH, COUNT = 20_000, 64, 4096
INDICES_BYTES, VALUES_BYTES, TABLE_BYTES = 8 * COUNT, 4 * COUNT * WIDTH, 4 * ROWS * WIDTH
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
    "sparse adam": lambda parameters: torch.optim.SparseAdam(list(parameters), lr=0.1),
}


@pytest.fixture
def indices(machine: Machine) -> torch.Tensor:
    """Each of `COUNT // 4` rows four times."""
    return torch.arange(COUNT, device="cuda").remainder(COUNT // 4) * 3


@pytest.fixture
def table(machine: Machine) -> nn.Embedding:
    return nn.Embedding(ROWS, WIDTH, sparse=True).cuda()


def gradient_of(table: nn.Module) -> torch.Tensor:
    (parameter,) = table.parameters()
    assert parameter.grad is not None
    return parameter.grad


def test_a_gradient_is_indices_and_values(table: nn.Embedding, indices: torch.Tensor, meter: Meter) -> None:
    loss = (table(indices) * 2).sum()
    meter(loss.backward)
    gradient = gradient_of(table)
    assert (gradient.layout, gradient.device, gradient.shape) == (torch.sparse_coo, table.weight.device, (ROWS, WIDTH))
    assert gradient._indices().tolist() == [indices.tolist()]
    assert gradient._values().shape == (COUNT, WIDTH)
    assert not gradient.is_coalesced()
    # The indices are the script's own, the values are the incoming gradient: autograd takes both over.
    assert meter.kept_bytes == blocks(VALUES_BYTES)
    assert meter.peak_bytes == blocks(4, VALUES_BYTES)


def test_a_gradient_with_gaps_is_cloned(table: nn.Embedding, indices: torch.Tensor, meter: Meter) -> None:
    loss = table(indices).sum()  # its gradient is one number, expanded
    meter(loss.backward)
    assert gradient_of(table)._values().is_contiguous()
    assert meter.kept_bytes == blocks(VALUES_BYTES, INDICES_BYTES)
    assert meter.peak_bytes == blocks(4, VALUES_BYTES, INDICES_BYTES)


def test_a_second_gradient_is_put_behind_the_first(table: nn.Embedding, indices: torch.Tensor, meter: Meter) -> None:
    table(indices).sum().backward()
    meter(lambda: table(indices[:100]).sum().backward())
    gradient = gradient_of(table)
    assert gradient._nnz() == COUNT + 100
    assert meter.kept_bytes == blocks(8 * gradient._nnz(), 4 * WIDTH * gradient._nnz()) - blocks(
        INDICES_BYTES, VALUES_BYTES
    )


@pytest.mark.parametrize("padding_idx", [0, 3])
def test_padding_is_left_out(machine: Machine, indices: torch.Tensor, padding_idx: int) -> None:
    table = nn.Embedding(ROWS, WIDTH, padding_idx=padding_idx, sparse=True).cuda()
    table(indices).sum().backward()
    assert gradient_of(table)._nnz() == COUNT - 4


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags(machine: Machine, indices: torch.Tensor, mode: str) -> None:
    bag = nn.EmbeddingBag(ROWS, WIDTH, mode=mode, sparse=True).cuda()
    bag(indices.view(-1, 8)).sum().backward()
    gradient = gradient_of(bag)
    assert gradient._indices().tolist() == [indices.tolist()]
    assert gradient._values().shape == (COUNT, WIDTH)


def test_a_dense_gradient_of_bags_sorts(machine: Machine, indices: torch.Tensor, meter: Meter) -> None:
    bag = nn.EmbeddingBag(ROWS, WIDTH, mode="sum").cuda()
    loss = bag(indices.view(-1, 8)).sum()
    meter(loss.backward)
    assert gradient_of(bag).layout is torch.strided
    assert meter.peak_bytes > blocks(TABLE_BYTES, VALUES_BYTES)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_optimizers_step(machine: Machine, indices: torch.Tensor, name: str, kind: Any) -> None:
    table = kind(ROWS, WIDTH, sparse=True).cuda()
    optimizer = OPTIMIZERS[name](table.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        table(indices.view(-1, 8)).sum().backward()
        optimizer.step()
    state = [value for held in optimizer.state.values() for value in held.values() if isinstance(value, torch.Tensor)]
    large = [value for value in state if value.dim()]
    assert len(large) == {"sgd": 0, "momentum": 1, "adagrad": 1, "sparse adam": 2}[name]
    assert all(value.shape == (ROWS, WIDTH) and value.device == table.weight.device for value in large)


def test_a_step_of_sgd_needs_no_memory(table: nn.Embedding, indices: torch.Tensor, meter: Meter) -> None:
    optimizer = OPTIMIZERS["sgd"](table.parameters())
    table(indices).sum().backward()
    meter(optimizer.step)
    assert (meter.kept_bytes, meter.peak_bytes) == (0, 0)


def test_equal_indices_become_one(table: nn.Embedding, indices: torch.Tensor, meter: Meter) -> None:
    table(indices).sum().backward()
    merged = meter(lambda: gradient_of(table).coalesce())
    assert merged.is_coalesced()
    assert merged.indices().tolist() == [sorted(set(indices.tolist()))]
    assert merged.values().shape == (COUNT // 4, WIDTH)
    # The indices keep the memory that they were sorted in.
    assert meter.kept_bytes == blocks(INDICES_BYTES, VALUES_BYTES // 4)
    sorting = blocks(INDICES_BYTES, INDICES_BYTES, INDICES_BYTES)
    assert meter.peak_bytes == max(sorting + blocks(merge_sort_bytes(COUNT)), sorting + blocks(VALUES_BYTES // 4))


def test_indices_that_nobody_knows_are_taken_to_be_different(machine: Machine) -> None:
    indices = torch.empty(1, 3 << 20, dtype=torch.int64, device="cuda")
    values = torch.empty(3 << 20, 2, device="cuda")
    assert allocation_of(indices).values is None
    few, many = (torch.sparse_coo_tensor(indices, values, (rows, 2)).coalesce() for rows in (1000, 4 << 20))
    assert (few._nnz(), many._nnz()) == (1000, 3 << 20)


def test_places_of_two_dimensions(machine: Machine) -> None:
    indices = torch.tensor([[0, 2, 0, 2], [1, 0, 1, 3]])
    values = torch.arange(4.0)
    real = torch.sparse_coo_tensor(indices, values, (3, 4)).coalesce()
    virtual = torch.sparse_coo_tensor(indices.cuda(), values.cuda(), (3, 4)).coalesce()
    assert virtual.indices().tolist() == real.indices().tolist()
    assert virtual.to_dense().shape == (3, 4)


def test_parts_on_two_devices_are_refused_as_on_cuda(machine: Machine) -> None:
    parts = torch.zeros(1, 3, dtype=torch.int64), torch.zeros(3, 2, device="cuda")
    with pytest.raises(RuntimeError, match=r"backend of indices \(CPU\) must match backend of values \(CUDA\)"):
        torch.ops.aten._sparse_coo_tensor_unsafe.default(*parts, (9, 2))


def test_loss_scaling(table: nn.Embedding, indices: torch.Tensor) -> None:
    scaler = torch.amp.GradScaler("cuda")
    optimizer = OPTIMIZERS["sgd"](table.parameters())
    with torch.autocast("cuda", dtype=torch.float16):
        loss = table(indices).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert gradient_of(table).is_sparse


def test_the_memory_counts_as_gradients(table: nn.Embedding, indices: torch.Tensor) -> None:
    from flatout.virtual.categories import mark_optimizer

    optimizer = OPTIMIZERS["sparse adam"](table.parameters())
    table(indices).sum().backward()
    optimizer.step()
    mark_optimizer(optimizer)
    gradient = gradient_of(table)
    for part in (gradient._indices(), gradient._values()):
        record = allocation_of(part).record
        assert record is not None
        assert record.category == "gradients"


def test_an_embedding_on_a_host_that_is_not_there(machine: Machine) -> None:
    table = nn.Embedding(1 << 16, 64, sparse=True)  # 16 MiB: virtual, though it is on the CPU
    table(torch.tensor([1, 2, 2])).sum().backward()
    gradient = gradient_of(table)
    assert gradient.device.type == "cpu"
    assert gradient.coalesce()._nnz() == 2
    OPTIMIZERS["adagrad"](table.parameters()).step()
