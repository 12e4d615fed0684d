"""Which loops become one kernel, and what that moves."""

from __future__ import annotations

from compiled_region import Region, moved
from hypothesis import given
from hypothesis import strategies as st

from flatout.costs import cost
from flatout.recording.operation import tensor

N = 1 << 20
ROWS, WIDTH = 1024, 768
FULL = tensor((ROWS, WIDTH))
SIZE = FULL.bytes


def test_a_chain_of_loops_is_one_kernel_that_reads_and_writes_once() -> None:
    region = Region()
    x, y = region.tensor((ROWS, WIDTH)), region.tensor((ROWS, WIDTH))
    total = region.run("add", x, y, out=FULL)
    region.run("relu_", total, written=(0,))
    result = region.run("mul", total, y, out=FULL)
    (kernel,) = region.kernels(result)
    assert moved(kernel) == (2 * SIZE, SIZE)


def test_what_nobody_uses_is_not_computed() -> None:
    region = Region()
    region.run("relu", region.tensor((ROWS, WIDTH)), out=FULL)
    assert region.kernels() == []


def test_products_stay_and_part_kernels() -> None:
    region = Region()
    x, weight = region.tensor((ROWS, WIDTH)), region.tensor((WIDTH, WIDTH))
    a = region.run("gelu", x, out=FULL)
    b = region.run("mm", a, weight, out=FULL)
    c = region.run("add", b, x, out=FULL)
    kernels = region.kernels(c)
    assert [kernel.base for kernel in kernels] == ["compiled::pointwise", "aten::mm", "compiled::pointwise"]
    assert kernels[1] == region.operations[1]
    assert moved(kernels[2]) == (2 * SIZE, SIZE)


def test_layer_norm_takes_what_comes_before_and_after_into_its_kernel() -> None:
    region = Region()
    x, y, w = region.tensor((ROWS, WIDTH)), region.tensor((ROWS, WIDTH)), region.tensor((WIDTH,))
    total = region.run("add", x, y, out=FULL)
    scores = region.run("_softmax", total, -1, False, out=FULL)
    half = region.run("_to_copy", scores, out=tensor((ROWS, WIDTH), "float16"))
    result = region.run("mul", half, w, out=tensor((ROWS, WIDTH), "float16"))
    (kernel,) = region.kernels(result)
    assert kernel.base == "compiled::reduction"
    assert moved(kernel) == (2 * SIZE + WIDTH * 4, SIZE // 2)


def test_long_rows_are_read_again_from_what_the_cache_keeps() -> None:
    region = Region()
    x = region.tensor((ROWS, 50304))
    scores = region.run("_softmax", x, -1, False, out=x[1])
    (kernel,) = region.kernels(scores)
    (launched,) = cost(kernel).kernels
    assert launched.reused_bytes == x[1].bytes
    assert launched.bytes_read == 2 * x[1].bytes


def test_a_sum_over_everything_takes_two_launches() -> None:
    region = Region()
    loss = region.run("sum", region.tensor((N,)), out=tensor(()))
    (kernel,) = region.kernels(loss)
    assert cost(kernel).launches == 2


def test_reductions_over_other_dimensions_are_kernels_of_their_own() -> None:
    region = Region()
    x = region.tensor((4096, 4096))
    rows = region.run("sum", x, out=tensor((4096,)))
    again = region.run("mul", x, rows, out=x[1])
    whole = region.run("sum", again, out=tensor(()))
    assert len(region.kernels(rows, whole)) == 2


def test_halves_of_one_tensor_are_one_reading_of_it() -> None:
    region = Region()
    x = region.tensor((ROWS, WIDTH))
    result = region.run("mul", x, x, out=FULL)
    (kernel,) = region.kernels(result)
    assert moved(kernel) == (SIZE, SIZE)


def test_random_numbers_are_drawn_once() -> None:
    region = Region()
    x, weight = region.tensor((ROWS, WIDTH)), region.tensor((WIDTH, WIDTH))
    mask = region.run("bernoulli_", region.tensor((ROWS, WIDTH)), written=(0,))
    a = region.run("mul", x, mask, out=FULL)
    b = region.run("mm", a, weight, out=FULL)
    c = region.run("mul", b, mask, out=FULL)
    first, _, last = region.kernels(c)
    assert moved(first) == (SIZE, 2 * SIZE)
    assert moved(last) == (2 * SIZE, SIZE)


def test_backward_computes_cheap_results_again() -> None:
    region = Region()
    x, weight, grad = region.tensor((ROWS, WIDTH)), region.tensor((WIDTH, WIDTH)), region.tensor((ROWS, WIDTH))
    a = region.run("mm", x, weight, out=FULL)
    b = region.run("sigmoid", a, out=FULL)
    c = region.run("mul", b, x, out=FULL)
    gone = region.run("sigmoid_backward", grad, b, out=FULL, backward=True)
    kernels = region.kernels(c, gone)
    assert [kernel.base for kernel in kernels] == ["aten::mm", "compiled::pointwise", "compiled::pointwise"]
    assert moved(kernels[1]) == (2 * SIZE, SIZE)  # b is not written
    assert moved(kernels[2]) == (2 * SIZE, SIZE)  # grad and a


def test_backward_reads_what_was_written_anyway() -> None:
    region = Region()
    x, weight, grad = region.tensor((ROWS, WIDTH)), region.tensor((WIDTH, WIDTH)), region.tensor((ROWS, WIDTH))
    a = region.run("relu", x, out=FULL)
    b = region.run("mm", a, weight, out=FULL)
    gone = region.run("threshold_backward", grad, a, 0, out=FULL, backward=True)
    kernels = region.kernels(b, gone)
    assert [moved(kernels[at]) for at in (0, 2)] == [(SIZE, SIZE), (2 * SIZE, SIZE)]


def test_writing_into_what_the_region_found_is_kept() -> None:
    region = Region()
    weights, grads = region.tensor((N,)), region.tensor((N,))
    region.run("mul_", weights, 0.9, written=(0,))
    region.run("add_", weights, grads, written=(0,))
    (kernel,) = region.kernels(weights)
    assert moved(kernel) == (8 * N, 4 * N)


_UNARY = ("relu", "gelu", "sigmoid", "tanh")


@given(
    st.lists(st.tuples(st.sampled_from(("unary", "binary", "mm", "softmax", "sum")), st.integers(0, 50)), max_size=25)
)
def test_fused_kernels_never_move_or_launch_more(steps: list[tuple[str, int]]) -> None:
    region = Region()
    values = [region.tensor((256, 256))]
    side = tensor((256, 256))
    for kind, pick in steps:
        one, other = values[pick % len(values)], values[pick // 3 % len(values)]
        if kind == "unary":
            values.append(region.run(_UNARY[pick % 4], one, out=side))
        elif kind == "softmax":
            values.append(region.run("_softmax", one, -1, False, out=side))
        elif kind == "sum":
            region.run("sum", one, out=tensor((256, 1)))
        else:
            values.append(region.run("add" if kind == "binary" else "mm", one, other, out=side))
    kernels = region.kernels(values[-1])
    before = [cost(operation) for operation in region.operations]
    after = [cost(operation) for operation in kernels]
    assert sum(one.launches for one in after) <= sum(one.launches for one in before)
    products = [operation for operation in region.operations if operation.base == "aten::mm"]
    assert [operation for operation in kernels if operation.base == "aten::mm"] == products
