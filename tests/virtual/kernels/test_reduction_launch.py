"""How CUDA divides a reduction: recorded sizes, and what must hold for every shape."""

from __future__ import annotations

from math import prod

from hypothesis import assume, given
from hypothesis import strategies as st

from flatout.virtual.kernels.reduction_launch import MAX_OFFSET_BYTES, Dimension, Loop, global_bytes, loop_over, parts
from flatout.virtual.tensor import contiguous_stride

A100_THREADS = 108 * 2048


def bytes_for(size: tuple[int, ...], *reduced: int, threads: int = A100_THREADS) -> tuple[int, int]:
    return global_bytes(loop_over(size, contiguous_stride(size), frozenset(reduced)), 4, threads)


def test_sum_over_rows_takes_what_a_snapshot_recorded() -> None:
    # A gradient of a norm's weight: (4, 512, 1024) summed over batch and position, PyTorch 2.11.
    assert bytes_for((4, 512, 1024), 0, 1) == (16_777_216, 32)


def test_shorter_sum_takes_nothing_as_recorded() -> None:
    assert bytes_for((4, 128, 1024), 0, 1) == (0, 0)


def test_sums_along_rows_need_no_other_block() -> None:
    assert bytes_for((2048, 10_000), 1) == (0, 0)
    assert bytes_for((4, 16, 512, 512), 3) == (0, 0)


def test_sum_of_all_elements() -> None:
    # 512 threads for the one output; 2^24 values are 32,768 a thread, 432 blocks fill the GPU.
    assert bytes_for((1 << 24,), 0) == (4 * 432, 4)
    assert bytes_for((1 << 12, 1 << 12), 0, 1) == (4 * 432, 4)


def test_neighbours_that_lie_together_are_one_dimension() -> None:
    loop = loop_over((4, 1, 512, 1024), contiguous_stride((4, 1, 512, 1024)), frozenset({0, 1, 2}))
    assert loop.reduced == (Dimension(2048, 1024),)
    assert loop.kept == (Dimension(1024, 1),)


def test_what_32_bits_cannot_count_is_summed_in_parts() -> None:
    # 8192 x 128,256 float32: the kernel runs on two halves. On an H100 a published peak fits 16,032 bytes, not 32,064.
    loop = loop_over((8192, 128_256), contiguous_stride((8192, 128_256)), frozenset({0, 1}))
    pieces = list(parts(loop, 4))
    assert [piece.reduced[0].size for piece in pieces] == [4096 * 128_256] * 2
    assert {global_bytes(piece, 4, 132 * 2048) for piece in pieces} == {(16_032, 4)}


sizes = st.lists(st.integers(1, 400), min_size=1, max_size=4).map(tuple)


@given(sizes, st.data())
def test_a_buffer_holds_a_part_of_every_output(size: tuple[int, ...], data: st.DataObject) -> None:
    reduced = data.draw(st.sets(st.integers(0, len(size) - 1), min_size=1))
    buffer, semaphores = bytes_for(size, *reduced)
    outputs = prod(n for d, n in enumerate(size) if d not in reduced)
    assert (buffer == 0) == (semaphores == 0)
    assert buffer == 0 or buffer >= 2 * 4 * outputs


@given(sizes, st.data())
def test_dimensions_of_one_change_nothing(size: tuple[int, ...], data: st.DataObject) -> None:
    reduced = data.draw(st.sets(st.integers(0, len(size) - 1), min_size=1))
    place = data.draw(st.integers(0, len(size)))
    wider = (*size[:place], 1, *size[place:])
    moved = [d + (d >= place) for d in reduced]
    assert bytes_for(size, *reduced) == bytes_for(wider, *moved)


@given(st.lists(st.integers(1, 1 << 17), min_size=1, max_size=3).map(tuple), st.sampled_from([1, 2, 4, 8]), st.data())
def test_parts_are_small_enough_and_make_up_the_whole(
    size: tuple[int, ...], item_bytes: int, data: st.DataObject
) -> None:
    reduced = data.draw(st.sets(st.integers(0, len(size) - 1), min_size=1))
    assume(prod(size) * item_bytes <= 1 << 37)
    loop = loop_over(size, contiguous_stride(size), frozenset(reduced))
    pieces = list(parts(loop, item_bytes))

    def elements(piece: Loop) -> int:
        return prod(dimension.size for dimension in (*piece.reduced, *piece.kept))

    assert sum(elements(piece) for piece in pieces) == prod(size)
    for piece in pieces:
        reach = sum((dimension.size - 1) * dimension.stride for dimension in (*piece.reduced, *piece.kept))
        assert reach * item_bytes < MAX_OFFSET_BYTES
    if prod(size) * item_bytes <= MAX_OFFSET_BYTES:
        assert pieces == [loop]
