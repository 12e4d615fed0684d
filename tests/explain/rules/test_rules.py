"""Each rule on a step that has its mistake, and on one that has not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from flatout.explain.rules import (
    bfloat16_emulated,
    copies,
    float32_products,
    half_products,
    launches,
    misaligned_products,
    optimizer_launches,
)
from flatout.explain.subject import Subject
from flatout.recording.operation import Operation, tensor
from flatout.recording.tape import Call, Enter, Inside, Launch, Replay, Transfer, Work
from flatout.timeline import Host, play

Make = Callable[..., Subject]


def product(rows: int, columns: int, depth: int, dtype: str = "float32", *, tf32: bool = False) -> Operation:
    sides = tensor((rows, depth), dtype), tensor((depth, columns), dtype)
    return Operation("aten::mm", sides, outputs=(tensor((rows, columns), dtype),), tf32=tf32)


def test_float32_products_are_told_where_there_are_tensor_cores_for_them(subject: Make) -> None:
    one = subject(*[Launch(0)] * 4, gpu="a100")
    (finding,) = float32_products.find(one)
    assert finding.code == "FO413"
    assert finding.saving is not None
    assert finding.saving.seconds_per_step is not None
    assert finding.saving.seconds_per_step > 0.5 * one.timeline.step_seconds


def inside(count: int) -> tuple[Inside, ...]:
    return tuple(Inside(0, 0, 0, ((1, 0), (2, 0)), ((3 + number, 0),)) for number in range(count))


def test_products_of_a_compiled_region_are_counted_too(subject: Make) -> None:
    one = subject(*inside(4), gpu="a100")
    tape = msgspec.structs.replace(one.tape, calls=(Call(0),))
    (finding,) = float32_products.find(Subject(tape, one.gpu, one.host))
    assert finding.evidence["products_per_step"] == 4
    assert finding.line == 1


def test_products_of_a_captured_graph_are_counted_too(subject: Make) -> None:
    (finding,) = float32_products.find(subject(Replay((0, 0, 0)), gpu="a100"))
    assert finding.evidence["products_per_step"] == 3


def test_the_line_is_one_of_the_forward_pass(subject: Make) -> None:
    large, larger = product(4096, 4096, 4096), product(8192, 4096, 4096)
    one = subject(Launch(0), Enter("backward"), Launch(1), operations=(large, larger), gpu="a100")
    tape = msgspec.structs.replace(one.tape, lines=(2, 5))
    (finding,) = float32_products.find(Subject(tape, one.gpu, one.host))
    assert finding.line == 3


@pytest.mark.parametrize("gpu", ["v100", "t4"])
def test_float32_products_are_left_alone_where_there_are_none(subject: Make, gpu: str) -> None:
    assert list(float32_products.find(subject(*[Launch(0)] * 4, gpu=gpu))) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_products_on_tensor_cores_are_left_alone(subject: Make, dtype: str) -> None:
    operations = (product(4096, 4096, 4096, dtype, tf32=True),)
    assert list(float32_products.find(subject(*[Launch(0)] * 4, operations=operations, gpu="a100"))) == []


def test_a_vocabulary_that_is_no_multiple_of_8(subject: Make) -> None:
    one = subject(Launch(0), operations=(product(8192, 50257, 768, "bfloat16"),), gpu="a100")
    (finding,) = misaligned_products.find(one)
    assert (finding.code, finding.evidence["width"]) == ("FO606", 50257)
    assert finding.remedy is not None
    assert "50264" in finding.remedy.text


def test_four_numbers_of_32_bits_are_16_bytes(subject: Make) -> None:
    fits = product(8192, 50260, 768, tf32=True)
    assert list(misaligned_products.find(subject(Launch(0), operations=(fits,), gpu="a100"))) == []
    one = subject(Launch(0), operations=(product(8192, 50257, 768, tf32=True),), gpu="a100")
    (finding,) = misaligned_products.find(one)
    assert finding.evidence["width_proposed"] == 50260


def test_a_width_is_told_at_the_line_that_makes_it(subject: Make) -> None:
    rows, columns = tensor((8192, 768), "bfloat16"), tensor((768, 50257), "bfloat16", (1, 768))
    wide = tensor((8192, 50257), "bfloat16")
    forward = Operation("aten::mm", (rows, columns), outputs=(wide,))
    words = tensor((50257, 768), "bfloat16")
    backward = Operation("aten::mm", (wide, words), outputs=(rows,))
    one = subject(Launch(0), Enter("backward"), Launch(1), operations=(forward, backward), gpu="a100")
    tape = msgspec.structs.replace(one.tape, lines=(2, 5))
    (finding,) = misaligned_products.find(Subject(tape, one.gpu, one.host))
    assert (finding.evidence["products_per_step"], finding.line) == (2, 3)


def test_channels_of_images_are_no_widths_of_a_product(subject: Make) -> None:
    images, filters = tensor((64, 20, 14, 14), "float16"), tensor((20, 20, 3, 3), "float16")
    arguments = (images, filters, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    layer = Operation("aten::convolution", arguments, outputs=(images,))
    assert list(misaligned_products.find(subject(*[Launch(0)] * 9, operations=(layer,), gpu="a100"))) == []


def test_an_aligned_vocabulary_is_left_alone(subject: Make) -> None:
    one = subject(Launch(0), operations=(product(8192, 50304, 768, "bfloat16"),), gpu="a100")
    assert list(misaligned_products.find(one)) == []


def test_bfloat16_where_tensor_cores_do_not_know_it(subject: Make) -> None:
    one = subject(*[Launch(0)] * 4, operations=(product(4096, 4096, 4096, "bfloat16"),), gpu="t4")
    (finding,) = bfloat16_emulated.find(one)
    assert finding.code == "FO414"
    assert finding.saving is not None
    assert (finding.saving.seconds_per_step or 0) > 0.5 * one.timeline.step_seconds


@pytest.mark.parametrize(("gpu", "dtype"), [("a100", "bfloat16"), ("t4", "float16"), ("p100", "bfloat16")])
def test_half_precision_that_the_gpu_has_or_none_is_left_alone(subject: Make, gpu: str, dtype: str) -> None:
    one = subject(*[Launch(0)] * 4, operations=(product(4096, 4096, 4096, dtype),), gpu=gpu)
    assert list(bfloat16_emulated.find(one)) == []


@pytest.mark.parametrize(("gpu", "dtype"), [("a100", "bfloat16"), ("v100", "float16"), ("t4", "float16")])
def test_products_in_32_bits_are_replayed_in_16_with_their_casts(subject: Make, gpu: str, dtype: str) -> None:
    one = subject(*[Launch(0)] * 4, operations=(product(4096, 4096, 4096, tf32=True),), gpu=gpu)
    (finding,) = half_products.find(one)
    assert (finding.code, finding.evidence["dtype_proposed"]) == ("FO415", dtype)
    assert finding.saving is not None
    bare = msgspec.structs.replace(one.tape, operations=(product(4096, 4096, 4096, dtype),))
    without_casts = one.timeline.step_seconds - play(bare, one.gpu, one.host).step_seconds
    assert 0.5 * without_casts < (finding.saving.seconds_per_step or 0) < 0.99 * without_casts


def test_products_whose_casts_take_longer_are_left_alone(subject: Make) -> None:
    """A product of few columns reads its large side once; so does the cast."""
    one = subject(*[Launch(0)] * 4, operations=(product(65536, 8, 4096, tf32=True),), gpu="a100")
    assert list(half_products.find(one)) == []


@pytest.mark.parametrize(("gpu", "dtype"), [("a100", "bfloat16"), ("p100", "float32")])
def test_products_that_no_tensor_core_would_make_faster_are_left_alone(subject: Make, gpu: str, dtype: str) -> None:
    operations = (product(4096, 4096, 4096, dtype),)
    assert list(half_products.find(subject(*[Launch(0)] * 4, operations=operations, gpu=gpu))) == []


def test_float16_pays_for_its_scaler(subject: Make) -> None:
    """The scaler's pass over the gradients of a large embedding takes what the small product saves."""
    large = (tensor((500_000, 1024)),)
    update = Operation("aten::_foreach_add_.List", (large, large), written=(0,))
    step = (Launch(0), Enter("optimizer"), Launch(1), Enter("forward"))
    operations = (product(2048, 2048, 1024), update)
    assert list(half_products.find(subject(*step, operations=operations, gpu="v100"))) == []


WEIGHT = tensor((256, 256))
WEIGHTS = (tensor((1024, 1024)),) * 50
ADD = Operation("aten::add_", (WEIGHT, WEIGHT), written=(0,))


def listed(name: str, *arguments: object, written: bool = True) -> Operation:
    return Operation(
        f"aten::_foreach_{name}",
        arguments,  # type: ignore[arg-type]
        outputs=() if written else WEIGHTS,
        written=(0,) if written else (),
    )


ADAM = (
    listed("mul_.Scalar", WEIGHTS, 0.99),
    listed("lerp_.Scalar", WEIGHTS, WEIGHTS, 0.1),
    listed("mul_.Scalar", WEIGHTS, 0.999),
    listed("addcmul_.Scalar", WEIGHTS, WEIGHTS, WEIGHTS, 0.001),
    listed("sqrt", WEIGHTS, written=False),
    listed("div_.Scalar", WEIGHTS, 0.1),
    listed("add_.Scalar", WEIGHTS, 1e-8),
    listed("addcdiv_.Scalar", WEIGHTS, WEIGHTS, WEIGHTS, 1e-3),
)
MOMENTUM = (
    listed("mul_.Scalar", WEIGHTS, 0.9),
    listed("add_.List", WEIGHTS, WEIGHTS),
    listed("add_.List", WEIGHTS, WEIGHTS, -0.1),
)


def updating(subject: Make, operations: tuple[Operation, ...]) -> Subject:
    return subject(Enter("optimizer"), *[Launch(n) for n in range(len(operations))], operations=operations, gpu="a100")


def test_an_optimizer_that_goes_one_by_one(subject: Make) -> None:
    one = subject(Enter("optimizer"), *[Launch(0)] * 300, operations=(ADD,))
    (finding,) = optimizer_launches.find(one)
    assert finding.code == "FO605"
    assert finding.evidence["operations_per_step"] == 300
    assert finding.saving is not None
    assert (finding.saving.seconds_per_step or 0) > 0.5 * one.timeline.step_seconds


@pytest.mark.parametrize(("update", "bytes_each"), [(ADAM, 28), (MOMENTUM, 20)])
def test_an_update_that_is_fused_moves_each_number_once(
    subject: Make, update: tuple[Operation, ...], bytes_each: int
) -> None:
    one = updating(subject, update)
    (finding,) = optimizer_launches.find(one)
    assert (finding.code, finding.evidence["passes_per_step"]) == ("FO610", len(update))
    assert finding.saving is not None
    fused = one.timeline.step_seconds - (finding.saving.seconds_per_step or 0)
    moved = bytes_each * sum(weight.count for weight in WEIGHTS)
    assert fused == pytest.approx(moved / one.gpu.memory_bandwidth_bytes_per_second, rel=0.35)


@pytest.mark.parametrize(
    "update",
    [
        (listed("add_.List", WEIGHTS, WEIGHTS, -0.1),),  # plain SGD
        (listed("mul_.Scalar", WEIGHTS, 0.9), listed("add_.List", WEIGHTS, WEIGHTS)),  # decay without momentum
        (*ADAM, listed("maximum_", WEIGHTS, WEIGHTS)),  # no kernel is known to do that
        (Operation("aten::_fused_adamw_", (WEIGHTS,) * 4, written=(0, 2, 3)),),
    ],
)
def test_an_update_without_a_fused_kernel_of_its_own_is_left_alone(
    subject: Make, update: tuple[Operation, ...]
) -> None:
    assert list(optimizer_launches.find(updating(subject, update))) == []


def test_many_small_kernels_are_launch_bound(subject: Make) -> None:
    one = subject(*[Launch(1)] * 500)
    (finding,) = launches.find(one)
    assert finding.code == "FO609"
    assert finding.saving is not None
    assert finding.saving.low == 0


def test_few_large_kernels_are_not(subject: Make) -> None:
    assert list(launches.find(subject(*[Launch(0)] * 5, host=Host()))) == []


NUMBER = Transfer("to_gpu", 4, pinned=False, blocking=True, place=3)


def test_a_number_sent_while_the_gpu_is_at_work_is_told_as_such(subject: Make) -> None:
    (finding,) = copies.find(subject(Launch(0), NUMBER, Work(8e-3)))
    assert (finding.code, finding.line) == ("FO107", 4)
    assert finding.saving is not None
    assert finding.saving.seconds_per_step == pytest.approx(8e-3, rel=0.2)


def test_a_number_sent_while_nothing_is_at_work_is_none(subject: Make) -> None:
    assert list(copies.find(subject(NUMBER, *[Launch(0)] * 4))) == []


def test_a_batch_beside_the_number_is_a_copy_like_others(subject: Make) -> None:
    batch = msgspec.structs.replace(NUMBER, size_bytes=10**7)
    (finding,) = copies.find(subject(Launch(0), NUMBER, batch, Work(8e-3)))
    assert finding.code == "FO203"
