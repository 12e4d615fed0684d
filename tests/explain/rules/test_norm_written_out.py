"""An RMS norm as PyTorch launches it when it is written out, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flatout.explain.rules import norm_written_out
from flatout.explain.subject import Subject
from flatout.recording.operation import Operation, TensorType, tensor
from flatout.recording.tape import Enter, Event, Launch

Make = Callable[..., Subject]
FULL, ROWS, WEIGHT = (16384, 4096), (16384, 1), (4096,)
X, HALF, ROW, SCALE = tensor(FULL), tensor(FULL, "bfloat16"), tensor(ROWS), tensor(WEIGHT, "bfloat16")
EXPANDED = tensor(FULL, strides=(1, 0))


def op(name: str, *inputs: TensorType | float, made: TensorType) -> Operation:
    return Operation(f"aten::{name}", inputs, outputs=(made,))


def cast(new: TensorType, old: TensorType) -> Operation:
    return Operation("aten::copy_", (new, old), written=(0,))


# Llama's: in float32 inside, weighted in bfloat16.
FORWARD = (
    cast(X, HALF), op("pow.Tensor_Scalar", X, 2, made=X), op("mean.dim", X, made=ROW),
    op("add.Tensor", ROW, 1e-6, made=ROW), op("rsqrt", ROW, made=ROW), op("mul.Tensor", X, ROW, made=X),
    cast(HALF, X), op("mul.Tensor", SCALE, HALF, made=HALF),
)  # fmt: skip
BACKWARD = (
    op("mul.Tensor", HALF, SCALE, made=HALF), op("mul.Tensor", HALF, HALF, made=HALF),
    op("sum.dim_IntList", HALF, made=tensor((1, 4096), "bfloat16")), cast(X, HALF),
    op("mul.Tensor", X, X, made=X), op("mul.Tensor", X, ROW, made=X), op("sum.dim_IntList", X, made=ROW),
    op("pow.Tensor_Scalar", ROW, 3, made=ROW), op("mul.Scalar", ROW, -0.5, made=ROW),
    op("mul.Tensor", ROW, ROW, made=ROW),
    op("div.Scalar", EXPANDED, 4096, made=X), op("pow.Tensor_Scalar", X, 1.0, made=X),
    op("mul.Scalar", X, 2.0, made=X),
    op("mul.Tensor", X, X, made=X), op("add.Tensor", X, X, made=X), cast(HALF, X),
)  # fmt: skip
LAYER = op("mm", HALF, tensor((4096, 4096), "bfloat16"), made=HALF)


def step(*operations: Operation | str) -> tuple[list[Event], tuple[Operation, ...]]:
    distinct = tuple(dict.fromkeys(one for one in operations if not isinstance(one, str)))
    events: list[Event] = [
        Enter(one) if isinstance(one, str) else Launch(distinct.index(one))  # type: ignore[arg-type]
        for one in operations
    ]
    return events, distinct


def found(subject: Make, *operations: Operation | str) -> list[object]:
    events, distinct = step(*operations)
    return list(norm_written_out.find(subject(*events, operations=distinct, gpu="a100")))


def test_a_norm_that_is_written_out(subject: Make) -> None:
    """By hand: eager moves each number some 40 times in two bytes; compiled, forward 2 and backward 3 to 5 times."""
    events, distinct = step(LAYER, *FORWARD, LAYER, "backward", LAYER, *BACKWARD, LAYER, "forward")
    one = subject(*events, operations=distinct, gpu="a100")
    (finding,) = norm_written_out.find(one)
    assert (finding.code, finding.evidence["norms_per_step"]) == ("FO612", 1)
    assert finding.evidence["kernels_per_norm"] == len(FORWARD) + len(BACKWARD)
    events, distinct = step(LAYER, LAYER, "backward", LAYER, LAYER, "forward")
    rest = subject(*events, operations=distinct, gpu="a100").timeline.step_seconds
    assert finding.saving is not None
    left = one.timeline.step_seconds - (finding.saving.seconds_per_step or 0) - rest
    pass_seconds = HALF.bytes / one.gpu.memory_bandwidth_bytes_per_second
    assert 5 * pass_seconds < left < 12 * pass_seconds
    assert (finding.saving.seconds_per_step or 0) > 30 * pass_seconds


def test_older_versions_add_gradients_in_place(subject: Make) -> None:
    in_place = Operation("aten::add_.Tensor", (X, X), written=(0,))
    older = (*BACKWARD[:7], in_place, *BACKWARD[7:-2], in_place, BACKWARD[-1])
    (finding,) = found(subject, LAYER, *FORWARD, "backward", *older, LAYER)
    assert finding.evidence["kernels_per_norm"] == len(FORWARD) + len(older)  # type: ignore[attr-defined]


def test_norms_are_told_apart_in_their_order(subject: Make) -> None:
    twice = (LAYER, *FORWARD, LAYER, *FORWARD, "backward", *BACKWARD, LAYER, *BACKWARD, LAYER, "forward")
    (finding,) = found(subject, *twice)
    assert finding.evidence["norms_per_step"] == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "operations",
    [
        (LAYER, *FORWARD, LAYER),  # evaluation
        (LAYER, *FORWARD, "backward", *BACKWARD[:-2], LAYER),  # its backward pass is another
        (LAYER, *FORWARD[:-1], "backward", *BACKWARD, LAYER),  # no weight forward
        (LAYER, "backward", *BACKWARD, LAYER),
        (LAYER, *FORWARD[:1], op("pow.Tensor_Scalar", X, 3, made=X), *FORWARD[2:], "backward", *BACKWARD),
    ],
)
def test_what_is_no_whole_norm_is_left_alone(subject: Make, operations: tuple[Operation | str, ...]) -> None:
    assert found(subject, *operations) == []
