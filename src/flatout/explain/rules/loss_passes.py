"""FO611: a cross-entropy that goes over its logits many times.

It is written as a softmax and the choice of one number a row, and back again the same; under autocast with copies in
float32 between. Replayed is the step with the loss alone compiled. A loss that has more to it is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod

from flatout.costs import cost
from flatout.explain.launched import Launched, launched
from flatout.explain.region import Part, Region, with_regions
from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy

_REMEDY = Remedy(
    text="loss_fn = torch.compile(torch.nn.functional.cross_entropy): fewer passes, and no copies of the logits",
    speedup="compiled-loss",
)


def find(subject: Subject) -> Iterator[Finding]:
    """One finding for the step, at the line of the loss that takes longest."""
    steps = launched(subject.tape)
    regions = []
    taken: set[int] = set()
    # The loss that was computed last is the first of which the gradient is computed.
    for index in reversed(range(len(steps))):
        if steps[index].name == "_log_softmax":
            region = _region(steps, index, taken)
            if region is not None:
                regions.append(region)
                taken.update(part.position for part in (*region.forward, *region.backward))
    if not regions:
        return
    saving = subject.saving(with_regions(subject.tape, regions))
    if saving is None:
        return
    numbers = {one.number for one in steps if one.position in taken}
    kernels = sum(cost(one.operation).launches for one in steps if one.position in taken) / subject.tape.steps
    shape = next(one.operation.tensor(0).shape for one in steps if one.position in taken and one.name == "_log_softmax")
    yield subject.finding(
        "FO611",
        f"the loss over {shape[1]:,} classes takes {kernels:g} kernels a step, most of which go over all logits",
        saving,
        _REMEDY,
        subject.dearest_line(numbers),
        {"kernels_per_step": kernels, "logits_shape": list(shape)},
    )


def _region(steps: Sequence[Launched], at: int, taken: Collection[int]) -> Region | None:
    """The loss whose softmax is there: it, its backward pass, and the casts next to both."""
    softmax = steps[at].operation
    shape = softmax.tensor(0).shape
    if len(shape) < 2 or softmax.argument(1) not in (1, 1 - len(shape)):
        return None
    forward: list[Part] = []
    widened = at > 0 and _casts(steps[at - 1], shape)
    if widened:
        forward.append(_cast(steps[at - 1], "narrow logits", "logits"))
    forward.append(Part(steps[at].position, ("logits",), ("log",)))
    picked_from = "log"
    after = at + 1
    if after < len(steps) and _casts(steps[after], shape):
        forward.append(_cast(steps[after], "log", "wide log"))
        picked_from = "wide log"
        after += 1
    if after >= len(steps) or steps[after].name not in ("nll_loss_forward", "nll_loss2d_forward"):
        return None
    inputs = list(steps[after].operation.inputs())
    if inputs[0].shape != shape or len(inputs) > 2:
        return None
    forward.append(Part(steps[after].position, (picked_from, "target"), ("loss", "weight")))
    free = [one for one in steps[after + 1 :] if one.position not in taken]
    backward = _backward(free, shape, picked_from, widened=widened)
    return None if backward is None else Region(tuple(forward), backward, ("loss", "weight", "gradient"))


def _backward(
    steps: Sequence[Launched], shape: tuple[int, ...], picked_from: str, *, widened: bool
) -> tuple[Part, ...] | None:
    at = next((n for n in range(len(steps)) if _picks_backward(steps[n], shape)), None)
    if at is None:
        return None
    parts = [Part(steps[at].position, ("d loss", picked_from, "target", "weight"), ("d log",))]
    gradient = "d log"
    at += 1
    if at < len(steps) and _casts(steps[at], shape):
        parts.append(_cast(steps[at], "d log", "d narrow log"))
        gradient = "d narrow log"
        at += 1
    if (
        at >= len(steps)
        or steps[at].name != "_log_softmax_backward_data"
        or steps[at].operation.tensor(0).shape != shape
    ):
        return None
    last = widened and at + 1 < len(steps) and steps[at + 1].cast is not None
    parts.append(Part(steps[at].position, (gradient, "log"), ("d logits" if last else "gradient",)))
    if last:
        parts.append(_cast(steps[at + 1], "d logits", "gradient"))
    return tuple(parts)


def _picks_backward(one: Launched, shape: tuple[int, ...]) -> bool:
    if one.name not in ("nll_loss_backward", "nll_loss2d_backward"):
        return False
    return one.operation.tensor(1).shape == shape and len(list(one.operation.inputs())) == 4


def _casts(one: Launched, shape: tuple[int, ...]) -> bool:
    return one.cast is not None and one.cast[0].count == prod(shape)


def _cast(one: Launched, old: str, new: str) -> Part:
    if one.operation.outputs:
        return Part(one.position, (old,), (new,))
    return Part(one.position, (new, old))
