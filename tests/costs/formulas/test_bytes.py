"""Bytes are those that a hand counts."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.costs import Cost, Operation, TensorType, cost
from flatout.costs.formulas.optimizers import launches
from flatout.recording.operation import contiguous_strides, tensor


def channels_last(shape: tuple[int, int, int, int], dtype: str = "float16") -> TensorType:
    _, c, h, w = shape
    return TensorType(shape, (c * h * w, 1, c * w, c), dtype)


def moved(found: Cost) -> tuple[int, int]:
    return found.bytes_read, found.bytes_written


X = tensor((8, 16, 32), "float32")
N = 8 * 16 * 32


def test_sum_of_two() -> None:
    assert moved(cost(Operation("aten::add.Tensor", (X, X), outputs=(X,)))) == (2 * 4 * N, 4 * N)


def test_one_tensor_with_itself_is_read_once() -> None:
    assert moved(cost(Operation("aten::mul.Tensor", (X, X), outputs=(X,), repeated=True))) == (4 * N, 4 * N)


def test_in_place() -> None:
    assert moved(cost(Operation("aten::add_.Tensor", (X, X), written=(0,)))) == (8 * N, 4 * N)


def test_a_broadcast_bias_is_read_once() -> None:
    bias = TensorType((8, 16, 32), (0, 0, 1), "float32")
    assert moved(cost(Operation("aten::add.Tensor", (X, bias), outputs=(X,)))) == (4 * N + 4 * 32, 4 * N)


@pytest.mark.parametrize("name", ["aten::zero_", "aten::fill_.Scalar"])
def test_what_is_overwritten_is_not_read(name: str) -> None:
    assert moved(cost(Operation(name, (X, 0), written=(0,)))) == (0, 4 * N)


def test_a_cast_reads_one_and_writes_the_other() -> None:
    half = tensor(X.shape, "float16")
    assert moved(cost(Operation("aten::copy_", (half, X), written=(0,)))) == (4 * N, 2 * N)


def test_a_copy_from_the_host_is_no_kernel() -> None:
    host = TensorType(X.shape, X.strides, X.dtype, host=True)
    assert cost(Operation("aten::copy_", (X, host), written=(0,))).kernels == ()


def test_a_turned_copy_is_told_from_a_straight_one() -> None:
    turned = TensorType((8, 16), (1, 8), "float32")
    straight = tensor((8, 16))
    kinds = [
        cost(Operation("aten::copy_", (straight, source), written=(0,))).kernels[0].kind
        for source in (straight, turned)
    ]
    assert kinds == ["copy", "strided"]


def test_a_product_reads_its_sides_and_writes_its_result() -> None:
    found = cost(Operation("aten::mm", (tensor((5, 7)), tensor((7, 3))), outputs=(tensor((5, 3)),)))
    assert moved(found) == (4 * (35 + 21), 4 * 15)


def test_batch_norm_in_training_passes_twice_over_its_input() -> None:
    x = channels_last((4, 8, 6, 6))
    scale = tensor((8,))
    arguments = (x, scale, scale, scale, scale, True, 0.1, 1e-5)
    found = cost(Operation("aten::cudnn_batch_norm", arguments, outputs=(x, scale, scale)))
    n = 2 * 4 * 8 * 36
    assert moved(found) == (2 * n + 4 * 8 * 4, n + 2 * 8 * 4)
    assert found.least_bytes == 2 * n + 6 * 8 * 4


def test_layer_norm_backward_passes_twice() -> None:
    statistics, scale = tensor((8, 16, 1)), tensor((32,))
    found = cost(
        Operation(
            "aten::native_layer_norm_backward",
            (X, X, (32,), statistics, statistics, scale, scale, (True, True, True)),
            outputs=(X, scale, scale),
        )
    )
    assert moved(found) == (4 * 4 * N, 4 * N + 2 * 4 * 32)


def test_an_embedding_moves_the_rows_that_are_picked() -> None:
    table, indices = tensor((50_000, 64)), tensor((10,), "int64")
    found = cost(Operation("aten::embedding", (table, indices), outputs=(tensor((10, 64)),)))
    assert moved(found) == (4 * 640 + 80, 4 * 640)
    assert found.least_bytes == 2 * 4 * 640


def test_its_gradient_writes_the_whole_table() -> None:
    grad, indices, table = tensor((10, 64)), tensor((10,), "int64"), tensor((50_000, 64))
    found = cost(Operation("aten::embedding_dense_backward", (grad, indices, 50_000, -1, False), outputs=(table,)))
    assert found.bytes_written == table.bytes + grad.bytes


def test_fused_adamw_reads_16_and_writes_12_bytes_a_parameter() -> None:
    parameters = tuple(tensor((1000 + i,)) for i in range(3))
    steps = (tensor(()),) * 3
    arguments = (parameters, parameters, parameters, parameters, (), steps)
    found = cost(Operation("aten::_fused_adamw_", arguments, written=(0, 1, 2, 3, 4)))
    count = sum(t.count for t in parameters)
    assert moved(found) == (16 * count + 12, 12 * count)
    assert found.launches == 1


def test_foreach_add() -> None:
    parameters = tuple(tensor((1000,)) for _ in range(130))
    found = cost(Operation("aten::_foreach_add_.List", (parameters, parameters), written=(0,)))
    assert moved(found) == (8 * 130_000, 4 * 130_000)
    assert found.launches == 3  # 64 tensors of two lists in each


def test_large_tensors_take_a_launch_for_320_chunks() -> None:
    assert launches([(tensor((320 * 65_536,)),)]) == 1
    assert launches([(tensor((321 * 65_536,)),)]) == 2


def test_nchw_convolutions_on_tensor_cores_are_turned_around() -> None:
    weight = tensor((8, 8, 3, 3), "float16")
    rest = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1)

    def kinds(x: TensorType) -> list[str]:
        return [k.kind for k in cost(Operation("aten::convolution", (x, weight, *rest), outputs=(x,))).kernels]

    assert kinds(channels_last((2, 8, 6, 6))) == ["convolution"]
    assert kinds(tensor((2, 8, 6, 6), "float16")) == ["convolution_turn", "convolution_turn", "convolution"]
    assert kinds(tensor((2, 8, 6, 6), "float32")) == ["convolution"]


def test_views_cost_nothing() -> None:
    assert cost(Operation("aten::view", (X, (8, 512)), outputs=(tensor((8, 512)),))).kernels == ()


def test_an_unknown_operator_is_costed_by_bytes_and_says_so() -> None:
    found = cost(Operation("mine::thing", (X,), outputs=(X,)))
    assert moved(found) == (4 * N, 4 * N)
    assert not found.known


shapes = st.lists(st.integers(0, 9), max_size=4).map(tuple)


@given(shapes)
def test_contiguous_tensors(shape: tuple[int, ...]) -> None:
    made = tensor(shape)
    assert made.contiguous
    assert made.strides == contiguous_strides(shape)
    assert made.bytes == 4 * prod(shape)


@given(shapes, shapes)
def test_least_bytes_are_no_more_than_those_that_move(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    x, y = tensor(shape), tensor(other)
    for name in ("aten::add", "aten::_softmax", "aten::cat", "aten::sum", "aten::native_dropout", "mine::thing"):
        found = cost(Operation(name, (x, y), outputs=(x,)))
        if name != "aten::cat":
            assert found.least_bytes <= found.bytes_read + found.bytes_written
