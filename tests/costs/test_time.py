from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.costs import (
    Cost,
    Kernel,
    Operation,
    Product,
    bound_by,
    cost,
    fitted,
    kernel_limits,
    lower_bound_seconds,
    operation_seconds,
)
from flatout.costs.engine import engine, highest_rate, sustained_rate
from flatout.costs.tiles import tiled_operations
from flatout.gpu import all_gpus, find
from flatout.recording.operation import tensor

sizes = st.integers(1, 5000)
products = st.builds(Product, st.integers(1, 64), sizes, sizes, sizes)
gpus = st.sampled_from(all_gpus())


def matmul(rows: int, columns: int, depth: int, dtype: str = "float32") -> Cost:
    sides = tensor((rows, depth), dtype), tensor((depth, columns), dtype)
    return cost(Operation("aten::mm", sides, outputs=(tensor((rows, columns), dtype),)))


@given(products, st.integers(1, 200), st.floats(0, 64), st.floats(0, 128))
def test_tiles_never_do_less_than_the_product(product: Product, processors: int, half: float, prologue: float) -> None:
    assert tiled_operations(product, processors, half, prologue) >= product.flops * (1 - 1e-9)


def test_one_tile_too_many_costs_a_wave() -> None:
    full = tiled_operations(Product(1, 128 * 100, 128, 512), 100, 64, 0)
    assert tiled_operations(Product(1, 128 * 101, 128, 512), 100, 64, 0) > full * 1.2


def test_a_deep_narrow_product_is_split() -> None:
    # One tile alone would keep one of 100 multiprocessors busy.
    product = Product(1, 64, 64, 1 << 20)
    assert tiled_operations(product, 100, 0, 0) < 5 * product.flops


@given(gpus, st.integers(1, 4000), st.integers(1, 4000), st.sampled_from(["float32", "float16", "bfloat16"]))
def test_the_lower_bound_is_lower(gpu, rows, columns, dtype) -> None:  # type: ignore[no-untyped-def]
    found = matmul(rows, columns, 256, dtype)
    assert lower_bound_seconds(found, gpu) <= operation_seconds(found, gpu)


@given(gpus, st.integers(0, 1 << 32), st.sampled_from(["pointwise", "reduction", "batch_norm", "never heard of"]))
def test_the_lower_bound_of_traffic(gpu, size, kind) -> None:  # type: ignore[no-untyped-def]
    found = Cost((Kernel(kind, bytes_read=size, bytes_written=size),), 2 * size)
    assert lower_bound_seconds(found, gpu) <= operation_seconds(found, gpu)


@given(gpus, st.integers(1, 1 << 30), st.integers(1, 1 << 30))
def test_more_bytes_take_no_less_time(gpu, size, more) -> None:  # type: ignore[no-untyped-def]
    small = Cost((Kernel("pointwise", bytes_read=size),), size)
    large = Cost((Kernel("pointwise", bytes_read=size + more),), size + more)
    assert operation_seconds(small, gpu) <= operation_seconds(large, gpu) * (1 + 1e-12)


def test_what_binds() -> None:
    a100 = find("a100")
    assert bound_by(matmul(8192, 8192, 8192, "float16"), a100) == "compute"
    large, small = tensor((1 << 28,)), tensor((16,))
    assert bound_by(cost(Operation("aten::relu", (large,), outputs=(large,))), a100) == "memory"
    assert bound_by(cost(Operation("aten::relu", (small,), outputs=(small,))), a100) == "launch"
    assert bound_by(cost(Operation("aten::view", (large,), outputs=(large,))), a100) is None


def test_half_precision_runs_on_tensor_cores_where_there_are_some() -> None:
    assert engine(find("a100"), "fp16") == ("tensor", 312e12)
    assert engine(find("a100"), "fp32") == ("cores64", 19.5e12)
    assert engine(find("rtx 3090"), "fp32").name == "cores128"
    assert engine(find("p100"), "fp16").name != "tensor"
    assert engine(find("t4"), "tf32").rate == find("t4").rates.fp32


def test_tf32_is_a_switch() -> None:
    sides = tensor((512, 512)), tensor((512, 512))
    off = Operation("aten::mm", sides, outputs=(sides[0],))
    on = Operation("aten::mm", sides, outputs=(sides[0],), tf32=True)
    assert (cost(off).datapath, cost(on).datapath) == ("fp32", "tf32")


def test_few_watts_hold_many_units_back() -> None:
    l4, e = find("l4"), fitted()
    which = engine(l4, "fp32")
    assert sustained_rate(l4, which, e.datapath[which.name], e.energy[which.name]) < 0.5 * which.rate


@pytest.mark.parametrize("name", ["rtx 3090", "rtx 4090"])
def test_geforce_boards_clock_above_their_sheet(name: str) -> None:
    gpu = find(name)
    assert highest_rate(gpu, "fp16") > 1.2 * engine(gpu, "fp16").rate


def test_rows_that_start_off_16_bytes_are_slower() -> None:
    a100 = find("a100")
    aligned = kernel_limits(matmul(4096, 4096, 4096, "float16").kernels[0], a100)
    odd = kernel_limits(matmul(4096, 4095, 4096, "float16").kernels[0], a100)
    assert odd.compute_seconds > 1.2 * aligned.compute_seconds


def test_a_kind_without_a_constant_has_a_default() -> None:
    assert fitted().of_memory("never heard of") == fitted().memory["other"]
    assert fitted().of_compute("never heard of") == 1.0


def test_constants_mean_what_they_say() -> None:
    e = fitted()
    assert 0 < e.launch_seconds < 1e-5
    assert all(0 < share <= 1.05 for share in (*e.datapath.values(), *e.memory.values()))
    assert all(0 < share <= 1.2 for share in e.compute.values())


def test_images_are_turned_around_for_tensor_cores_alone() -> None:
    """A float32 convolution that may run as TF32: where there is no TF32, cuDNN does not prepare for it."""
    image, weight = tensor((32, 64, 56, 56)), tensor((64, 64, 3, 3))
    arguments = (image, weight, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    found = cost(Operation("aten::convolution", arguments, outputs=(image,), tf32=True))
    turning = [kernel for kernel in found.kernels if kernel.for_tensor_cores]
    assert len(turning) == 2
    assert all(kernel_limits(kernel, find("v100")).seconds == 0 for kernel in turning)
    assert all(kernel_limits(kernel, find("a100")).seconds > 0 for kernel in turning)
