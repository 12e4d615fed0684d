"""Cross-entropy as PyTorch launches it, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flatout.explain.rules import loss_passes
from flatout.explain.subject import Subject
from flatout.recording.operation import Operation, TensorType, tensor
from flatout.recording.tape import Enter, Event, Launch, Tape
from flatout.timeline import play

Make = Callable[..., Subject]
ROWS, CLASSES = 8192, 50304


def logits(dtype: str = "float32") -> TensorType:
    return tensor((ROWS, CLASSES), dtype)


ONE, TARGET = tensor(()), tensor((ROWS,), "int64")
HEAD = Operation(
    "aten::mm", (tensor((ROWS, 256), "bfloat16"), tensor((256, CLASSES), "bfloat16")), outputs=(logits("bfloat16"),)
)
SOFTMAX = Operation("aten::_log_softmax", (logits(), 1, False), outputs=(logits(),))
PICK = Operation("aten::nll_loss_forward", (logits(), TARGET, None, 1, -100), outputs=(ONE, ONE))
PICK_BACK = Operation("aten::nll_loss_backward", (ONE, logits(), TARGET, None, 1, -100, ONE), outputs=(logits(),))
SOFTMAX_BACK = Operation("aten::_log_softmax_backward_data", (logits(), logits(), 1, "float32"), outputs=(logits(),))
WIDER = Operation("aten::copy_", (logits(), logits("bfloat16")), written=(0,))
NARROWER = Operation("aten::copy_", (logits("bfloat16"), logits()), written=(0,))
OPERATIONS = (HEAD, SOFTMAX, PICK, PICK_BACK, SOFTMAX_BACK, WIDER, NARROWER)


def of(*operations: Operation | str) -> list[Event]:
    """Launches; a word is a phase that begins."""
    return [Enter(one) if isinstance(one, str) else Launch(OPERATIONS.index(one)) for one in operations]  # type: ignore[arg-type]


FORWARD, BACKWARD = (HEAD, SOFTMAX, PICK), ("backward", PICK_BACK, SOFTMAX_BACK, HEAD, HEAD, "forward")
UNDER_AUTOCAST = (HEAD, WIDER, SOFTMAX, PICK, "backward", PICK_BACK, SOFTMAX_BACK, NARROWER, HEAD, HEAD, "forward")


def losses_seconds(subject: Subject, names: tuple[Operation, ...]) -> float:
    """What the step is without these operations is the rest; the difference is theirs."""
    gone = {OPERATIONS.index(one) for one in names}
    kept = [e for e in subject.tape.events if not (isinstance(e, Launch) and e.operation in gone)]
    rest = play(Tape(tuple(kept), operations=OPERATIONS), subject.gpu, subject.host)
    return subject.timeline.step_seconds - rest.step_seconds


def test_a_loss_over_many_classes(subject: Make) -> None:
    """By hand: eager moves each logit 9 times; compiled it is read twice and once, and written once."""
    one = subject(*of(*FORWARD, *BACKWARD), operations=OPERATIONS, gpu="a100")
    (finding,) = loss_passes.find(one)
    assert (finding.code, finding.evidence["logits_shape"]) == ("FO611", [ROWS, CLASSES])
    assert finding.saving is not None
    all_of_it = losses_seconds(one, (SOFTMAX, PICK, PICK_BACK, SOFTMAX_BACK))
    left = all_of_it - (finding.saving.seconds_per_step or 0)
    moved = 4 * ROWS * CLASSES * 4
    assert left == pytest.approx(moved / one.gpu.memory_bandwidth_bytes_per_second, rel=0.35)


def test_with_its_copies_in_float32_it_saves_more(subject: Make) -> None:
    (plain,) = loss_passes.find(subject(*of(*FORWARD, *BACKWARD), operations=OPERATIONS, gpu="a100"))
    (cast,) = loss_passes.find(subject(*of(*UNDER_AUTOCAST), operations=OPERATIONS, gpu="a100"))
    assert plain.saving is not None
    assert cast.saving is not None
    assert (cast.saving.seconds_per_step or 0) > 1.3 * (plain.saving.seconds_per_step or 0)


def test_two_losses_before_one_backward_pass(subject: Make) -> None:
    back = (PICK_BACK, SOFTMAX_BACK, HEAD, HEAD)
    events = of(*FORWARD, *FORWARD, "backward", *back, *back, "forward")
    (both,) = loss_passes.find(subject(*events, operations=OPERATIONS, gpu="a100"))
    (single,) = loss_passes.find(subject(*of(*FORWARD, *BACKWARD), operations=OPERATIONS, gpu="a100"))
    assert both.saving is not None
    assert single.saving is not None
    assert both.saving.seconds_per_step == pytest.approx(2 * (single.saving.seconds_per_step or 0), rel=0.1)


@pytest.mark.parametrize(
    "step",
    [
        (HEAD, SOFTMAX, PICK),  # evaluation: nothing comes back
        (HEAD, SOFTMAX, HEAD, PICK, "backward", PICK_BACK, SOFTMAX_BACK),  # something else looks at it too
        (HEAD, SOFTMAX, PICK, "backward", PICK_BACK, HEAD, SOFTMAX_BACK),
        (HEAD, HEAD),
    ],
)
def test_what_is_not_just_a_loss_is_left_alone(subject: Make, step: tuple[Operation | str, ...]) -> None:
    assert list(loss_passes.find(subject(*of(*step), operations=OPERATIONS, gpu="a100"))) == []
