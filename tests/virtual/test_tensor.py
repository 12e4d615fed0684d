"""What a virtual tensor is, and how long its memory lives."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from flatout.virtual.tensor import allocation_of, contiguous_stride, is_virtual, native_device, span_bytes

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

pytestmark = pytest.mark.usefixtures("machine")


def test_a_virtual_tensor_is_a_plain_tensor() -> None:
    x = torch.randn(2, 3, device="cuda")
    assert type(x) is torch.Tensor
    assert x.device == torch.device("cuda", 0)
    assert x.is_cuda
    assert not x.is_cpu
    assert not x.is_meta


def test_a_parameter_stays_a_parameter_when_it_moves() -> None:
    model = nn.Linear(3, 4)
    before = model.weight
    model.cuda()
    assert model.weight is before
    assert type(model.weight) is nn.Parameter
    assert model.weight.is_cuda


def test_a_scripts_own_meta_tensor_is_not_gpu_memory(machine: Machine) -> None:
    before = machine.gpus[0].memory.allocator.allocated_bytes
    x = torch.empty(1024, 1024, device="meta")
    assert x.is_meta
    assert not is_virtual(x)
    assert x.device.type == "meta"
    assert (x + 1).is_meta
    assert machine.gpus[0].memory.allocator.allocated_bytes == before


def test_memory_lives_as_long_as_any_view(machine: Machine) -> None:
    allocator = machine.gpus[0].memory.allocator
    start = allocator.allocated_bytes
    x = torch.zeros(1024, device="cuda")
    view = x[10:20].detach()
    del x
    assert allocator.allocated_bytes == start + 4096
    del view
    assert allocator.allocated_bytes == start


def test_memory_lives_as_long_as_the_graph(machine: Machine) -> None:
    allocator = machine.gpus[0].memory.allocator
    start = allocator.allocated_bytes
    weight = torch.zeros(1024, device="cuda", requires_grad=True)
    result = weight.exp().exp()
    assert allocator.allocated_bytes == start + 3 * 4096
    result = result.detach()
    assert allocator.allocated_bytes == start + 2 * 4096  # the first exp went with the graph
    del result, weight
    gc.collect()
    assert allocator.allocated_bytes == start


def test_the_allocation_survives_the_python_object() -> None:
    weight = torch.zeros(8, device="cuda", requires_grad=True)
    result = weight.exp()
    noted = weakref.ref(allocation_of(result))
    final = result.sum()
    del result
    assert noted() is not None, "exp's result is saved for backward"
    final.backward()
    assert noted() is None


def test_a_new_tensor_made_in_cpp_with_options_of_a_virtual_one_is_virtual() -> None:
    x = torch.randn(4, 4, device="cuda")
    for made in (torch.zeros_like(x), x.new_ones(3), torch.empty_like(x), nn.functional.one_hot(x.argmax(1), 4)):
        assert made.is_cuda
        assert is_virtual(made)


def test_storage_is_shared_by_views_and_has_an_address() -> None:
    x = torch.zeros(4, 4, device="cuda")
    y = torch.zeros(4, 4, device="cuda")
    assert x[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr()


def test_resizing_a_storage_gives_its_memory_back(machine: Machine) -> None:
    allocator = machine.gpus[0].memory.allocator
    start = allocator.allocated_bytes
    x = torch.empty(1 << 20, device="cuda")
    x.untyped_storage().resize_(0)
    assert allocator.allocated_bytes == start
    x.resize_(1 << 22)
    assert allocator.allocated_bytes == start + (1 << 24)


def test_deepcopy_takes_memory_of_its_own(machine: Machine) -> None:
    allocator = machine.gpus[0].memory.allocator
    model = nn.Linear(256, 256, bias=False).cuda()
    start = allocator.allocated_bytes
    twin = copy.deepcopy(model)
    assert type(twin.weight) is nn.Parameter
    assert twin.weight.is_cuda
    assert twin.weight is not model.weight
    assert allocator.allocated_bytes == start + 256 * 256 * 4


def test_cpp_sees_meta_with_an_index() -> None:
    x = torch.zeros(2, device="cuda")
    assert native_device(x) == torch.device("meta", 1)
    assert native_device(x[0]) == torch.device("meta", 1)


@given(st.lists(st.integers(0, 6), max_size=4))
def test_strides_are_pytorchs(size: list[int]) -> None:
    assert contiguous_stride(size) == torch.empty(size).stride()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.permutations(range(4)))
def test_span_is_what_pytorch_allocates(size: list[int], order: list[int]) -> None:
    base = torch.empty(size)
    permuted = base.permute([d for d in order if d < len(size)])
    expected = base.untyped_storage().nbytes()
    assert span_bytes(permuted.shape, permuted.stride(), 4) == expected
