"""FO612: a norm (RMS) that is written out: forward seven kernels that each go over memory, backward twice as many.

PyTorch issues its forward and backward pass in a fixed order, by which it is known here. Replayed is the step with the
norms alone compiled. One that is written in another way is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from flatout.explain.launched import Launched, launched
from flatout.explain.region import Part, Region, with_regions
from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy

_REMEDY = Remedy(
    text="torch.compile around the norm's forward, or torch.nn.RMSNorm where PyTorch has a kernel for it",
    speedup="compiled-norm",
)
# A letter an operation, x being the norm's input: p x ** 2, m its mean, e + epsilon, r 1 / sqrt, n the product of x
# with that, w that with the weight, c a cast. Backward: t the product of two of that size, W and Q sums for the weight
# and for each row, A a sum of two gradients; of one number a row: P power, k and K products; d the mean's, s and T
# those of the square.
_FORWARD = re.compile(r"(?P<widen>c)?(?P<power>p)mern(?P<narrow>c)?(?P<weight>w)?")
_WEIGHTED, _GRADIENT = "wtW", "tnQ(A)?PkKdpstA"


def find(subject: Subject) -> Iterator[Finding]:
    """One finding for the step, at the line of the norms that takes longest."""
    steps = launched(subject.tape)
    shapes = dict.fromkeys(one.operation.tensor(0).shape for one in steps if one.name == "pow" and _squares(one))
    regions: list[Region] = []
    for shape in shapes:
        if len(shape) >= 2 and shape[-1] > 1:
            regions += _regions(steps, shape)
    if not regions:
        return
    saving = subject.saving(with_regions(subject.tape, regions))
    if saving is None:
        return
    taken = {part.position for region in regions for part in (*region.forward, *region.backward)}
    norms = len(regions) / subject.tape.steps
    yield subject.finding(
        "FO612",
        f"{norms:g} norms a step are written out, {len(taken) / len(regions):.0f} kernels each, forward and backward",
        saving,
        _REMEDY,
        subject.dearest_line({one.number for one in steps if one.position in taken}),
        {"norms_per_step": norms, "kernels_per_norm": len(taken) / len(regions)},
    )


def _squares(one: Launched) -> bool:
    return one.operation.argument(1) == 2


def _regions(steps: Sequence[Launched], shape: tuple[int, ...]) -> list[Region]:
    word = "".join(_letter(one, shape) for one in steps)
    taken: set[int] = set()
    found = []
    # The norm that was computed last is the first of which the gradient is computed.
    for ahead in reversed(list(_FORWARD.finditer(word))):
        if not _squares(steps[ahead.start("power")]):
            continue
        parts = (_WEIGHTED if ahead["weight"] else "", "c" if ahead["narrow"] else "", _GRADIENT)
        pattern = re.compile("".join((*parts, "c" if ahead["widen"] else "")))
        back = next((one for one in pattern.finditer(word, ahead.end()) if one.start() not in taken), None)
        if back is not None:
            taken.add(back.start())
            here, there = steps[ahead.start() : ahead.end()], steps[back.start() : back.end()]
            found.append(_region(here, there, ahead, shape, shared=back[1] is not None))
    return found


def _letter(one: Launched, shape: tuple[int, ...]) -> str:
    """What the operation may be in the norm of an input of that shape; a point for what has no part in one."""
    rows = (*shape[:-1], 1)
    inputs = [tensor.shape for tensor in one.operation.inputs()]
    made = [tensor.shape for tensor in one.operation.outputs]
    if one.name == "add_":
        return "A" if inputs == [shape, shape] else "."
    if one.cast is not None:
        return "c" if one.cast[0].shape == shape else "."
    if one.name == "sum" and inputs == [shape] and made != [rows]:
        return "W" if made[0][-1:] == shape[-1:] else "."
    if made == [rows]:
        if one.name == "mul":
            return "kK"[len(inputs) - 1]
        return {"mean": "m", "add": "e", "rsqrt": "r", "pow": "P", "sum": "Q"}.get(one.name, ".")
    if made != [shape]:
        return "."
    if one.name == "mul":
        others = list(inputs)
        others.remove(shape)
        return {(): "s", (shape,): "t", (rows,): "n", (shape[-1:],): "w"}.get(tuple(others), ".")
    return {"pow": "p", "add": "A" if inputs == [shape, shape] else ".", "div": "d"}.get(one.name, ".")


def _region(
    ahead: Sequence[Launched], back: Sequence[Launched], match: re.Match[str], shape: tuple[int, ...], *, shared: bool
) -> Region:
    """How the tensors of a norm hang together: what each operation makes, and of what. Gradients begin with a d."""
    weight, narrow, widen = (bool(match[part]) for part in ("weight", "narrow", "widen"))
    normed = "narrow" if narrow else "normed"
    d_normed = "d normed" if narrow else "d narrow"
    d_first = "d shared" if shared else "d first"
    forward = [
        *([("x", "narrow x")] if widen else []),
        ("square", "x"), ("mean", "square"), ("mean + e", "mean"), ("root", "mean + e"), ("normed", "x", "root"),
        *([("narrow", "normed")] if narrow else []),
        *([("y", normed, "weight")] if weight else []),
    ]  # fmt: skip
    backward = [
        *([("d narrow", "d y", "weight"), ("rows", "d y", normed), ("d weight", "rows")] if weight else []),
        *([("d normed", "d narrow")] if narrow else []),
        ("d root x", d_normed, "x"), ("d first", d_normed, "root"), ("d root", "d root x"),
        *([("d shared", "d outside", "d first")] if shared else []),
        ("root^3", "root"), ("-root^3/2", "root^3"), ("d mean", "d root", "-root^3/2"), ("d square", "d mean"),
        ("x^1", "x"), ("2x", "x^1"), ("d second", "d square", "2x"), ("d x", d_first, "d second"),
        *([("d narrow x", "d x")] if widen else []),
    ]  # fmt: skip
    parts_forward, _ = _parts(ahead, forward, shape)
    parts_backward, gradient = _parts(back, backward, shape)
    return Region(parts_forward, parts_backward, (forward[-1][0], gradient, *(["d weight"] if weight else [])))


def _parts(
    steps: Sequence[Launched], chain: Sequence[tuple[str, ...]], shape: tuple[int, ...]
) -> tuple[tuple[Part, ...], str]:
    """The parts, and the name of what the last one makes."""
    stands_for: dict[str, str] = {}
    parts = []
    for one, (made, *names) in zip(steps, chain):
        reads = [stands_for.get(name, name) for name in names]
        if one.cast is not None and not one.operation.outputs:
            parts.append(Part(one.position, (made, *reads)))
        elif not one.operation.outputs:  # a sum of gradients in place, as older versions of PyTorch make it
            parts.append(Part(one.position, tuple(reads)))
            stands_for[made] = reads[0]
        else:
            first = next(one.operation.inputs())
            parts.append(Part(one.position, tuple(reads if first.shape == shape else reversed(reads)), (made,)))
    last = chain[-1][0]
    return tuple(parts), stands_for.get(last, last)
