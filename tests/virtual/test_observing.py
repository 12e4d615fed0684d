from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import torch

from flatout.costs import Operation, cost
from flatout.recording.operation import tensor
from flatout.virtual import observing

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine


@pytest.fixture
def seen(machine: Machine) -> Iterator[list[Operation]]:
    found: list[Operation] = []
    before = observing.listen(
        lambda op, args, kwargs, result, began: found.append(observing.describe(op, args, kwargs, result))
    )
    yield found
    observing.listen(before)


def test_a_product_is_told_with_its_shapes(seen: list[Operation]) -> None:
    a, b = torch.empty(4, 5, device="cuda"), torch.empty(5, 6, device="cuda")
    seen.clear()
    a @ b
    assert seen == [Operation("aten::mm", (tensor((4, 5)), tensor((5, 6))), outputs=(tensor((4, 6)),))]


def test_what_is_written_in_place_is_no_output(seen: list[Operation]) -> None:
    a = torch.zeros(3, device="cuda")
    seen.clear()
    a.add_(a)
    (told,) = seen
    assert (told.base, told.outputs, told.written, told.repeated) == ("aten::add_", (), (0,), True)


def test_the_same_call_is_the_same_object(seen: list[Operation]) -> None:
    a = torch.zeros(3, 7, device="cuda")
    seen.clear()
    a + 1, a + 1
    assert seen[0] is seen[1]


def test_attention_is_told_as_the_kernel_that_runs(seen: list[Operation]) -> None:
    q = torch.empty(2, 4, 128, 64, device="cuda", dtype=torch.float16)
    seen.clear()
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
    names = [told.base for told in seen if cost(told).kernels]
    assert names == ["aten::_scaled_dot_product_flash_attention"]


def test_both_directions_of_a_layer_are_told(seen: list[Operation]) -> None:
    layer = torch.nn.Conv2d(8, 8, 3, device="cuda")
    seen.clear()
    layer(torch.empty(2, 8, 9, 9, device="cuda")).sum().backward()
    bases = {told.base for told in seen}
    assert {"aten::convolution", "aten::convolution_backward", "aten::sum"} <= bases
    assert all(cost(told).known for told in seen)


def test_the_switch_of_tf32_is_told(seen: list[Operation]) -> None:
    a = torch.empty(4, 4, device="cuda")
    seen.clear()
    a @ a
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        a @ a
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    assert [told.tf32 for told in seen] == [False, True]


def test_a_copy_from_the_host_says_where_it_comes_from(seen: list[Operation]) -> None:
    torch.zeros(5).to("cuda")
    copies = [told for told in seen if told.base == "aten::copy_"]
    assert [t.host for t in copies[-1].inputs()] == [False, True]


def test_nobody_is_told_when_nobody_listens(machine: Machine) -> None:
    assert observing.listener is None


def test_a_lookup_of_rows_is_told_once(seen: list[Operation]) -> None:
    table, indices = torch.empty(50, 8, device="cuda"), torch.zeros(4, 6, dtype=torch.int64, device="cuda")
    seen.clear()
    torch.nn.functional.embedding(indices, table)
    assert [told.base for told in seen if cost(told).kernels] == ["aten::index_select"]
