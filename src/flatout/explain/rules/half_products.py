"""FO415: products in float32 or TF32, where the GPU's tensor cores do twice as many and more in 16 bits.

Replayed is what autocast would do to products, convolutions and attention alone: forward, each of their inputs is cast
first; backward, each of their results is cast back. All else stays as it was recorded, so autocast, which also makes
what follows a product smaller and keeps the casts of weights, saves at least this. Float16 pays for its GradScaler too.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flatout.costs import cost
from flatout.explain.edited import Edited
from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy
from flatout.recording.operation import Argument, Operation, TensorType
from flatout.recording.schema import Phase
from flatout.recording.tape import Enter, Event, Inside, Launch, Replay, Tape, Transfer

_BFLOAT16 = Remedy(
    text='torch.autocast("cuda", dtype=torch.bfloat16) around the forward pass and the loss; products keep 8 bits of '
    "their inputs' digits",
    speedup="autocast-bfloat16",
)
_FLOAT16 = Remedy(
    text='torch.autocast("cuda", dtype=torch.float16) around the forward pass and the loss, with torch.amp.GradScaler; '
    "products keep 11 bits of their inputs' digits",
    speedup="autocast-float16",
)


def find(subject: Subject) -> Iterator[Finding]:
    """One finding for the step, at the line whose products take longest."""
    rates = subject.gpu.rates
    dtype = "bfloat16" if rates.bf16 is not None else "float16" if rates.fp16 is not None else None
    wide = {number for number, one in enumerate(subject.tape.operations) if _is_wide_product(one)}
    if dtype is None or not wide:
        return
    saving = subject.saving(_autocast(subject.tape, wide, dtype))
    if saving is None:
        return
    per_step = subject.per_step(wide)
    yield subject.finding(
        "FO415",
        f"{per_step:g} products and convolutions a step take 32 bits, and this GPU has tensor cores for {dtype}",
        saving,
        _BFLOAT16 if dtype == "bfloat16" else _FLOAT16,
        subject.dearest_line(wide),
        {"products_per_step": per_step, "dtype_proposed": dtype},
    )


def _is_wide_product(operation: Operation) -> bool:
    kernels = cost(operation).kernels
    return any(kernel.product is not None and kernel.datapath in ("fp32", "tf32") for kernel in kernels)


def _autocast(tape: Tape, wide: set[int], dtype: str) -> Tape:
    edited = Edited(tape)
    phase: Phase = "forward"
    events: list[Event] = []
    for event in tape.events:
        if isinstance(event, Enter):
            phase = event.phase
            if phase == "optimizer" and dtype == "float16":
                events += _scaler(tape, edited)
        if isinstance(event, Launch) and event.operation in wide:
            numbers = _with_casts(tape, edited, event.operation, dtype, phase)
            events += [Launch(number, event.stream) for number in numbers]
        elif isinstance(event, Inside) and event.operation in wide:
            # A compiler makes the casts part of the loops around the product.
            changed = _in_half(tape.operations[event.operation], dtype)
            events.append(msgspec.structs.replace(event, operation=edited.number(changed, event.operation)))
        elif isinstance(event, Replay):
            inner = [
                number
                for one in event.operations
                for number in (_with_casts(tape, edited, one, dtype, phase) if one in wide else (one,))
            ]
            events.append(Replay(tuple(inner), event.stream))
        else:
            events.append(event)
    return edited.tape(events)


def _with_casts(tape: Tape, edited: Edited, number: int, dtype: str, phase: Phase) -> list[int]:
    operation = tape.operations[number]
    changed = _in_half(operation, dtype)
    product = edited.number(changed, number)
    wide = [
        one
        for one in (operation.outputs if phase == "backward" else operation.inputs())
        if one.dtype == "float32" and not one.host
    ]
    if phase == "backward":
        return [product, *(edited.number(_cast(_half(one, dtype), one), number) for one in wide)]
    return [*(edited.number(_cast(one, _half(one, dtype)), number) for one in wide), product]


def _cast(old: TensorType, new: TensorType) -> Operation:
    return Operation("aten::_to_copy", (old,), outputs=(new,))


def _in_half(operation: Operation, dtype: str) -> Operation:
    return msgspec.structs.replace(
        operation,
        arguments=tuple(_changed(argument, dtype) for argument in operation.arguments),
        outputs=tuple(_half(output, dtype) for output in operation.outputs),
    )


def _changed(argument: Argument, dtype: str) -> Argument:
    if isinstance(argument, TensorType):
        return _half(argument, dtype)
    if isinstance(argument, tuple):
        return tuple(_half(item, dtype) if isinstance(item, TensorType) else item for item in argument)
    return argument


def _half(tensor: TensorType, dtype: str) -> TensorType:
    return msgspec.structs.replace(tensor, dtype=dtype) if tensor.dtype == "float32" else tensor


def _scaler(tape: Tape, edited: Edited) -> list[Event]:
    """Before a step the scaler looks at all gradients, and the host reads whether one is not finite."""
    gradients = _updated(tape)
    if not gradients:
        return []
    unscale = Operation("aten::_amp_foreach_non_finite_check_and_unscale_", (gradients,), written=(0,))
    return [Launch(edited.number(unscale)), Transfer("to_host", 4, pinned=False, blocking=True)]


def _updated(tape: Tape) -> tuple[TensorType, ...]:
    """What the optimizer of the first step updates, by the kind of operation that writes most."""
    found: dict[str, list[TensorType]] = {}
    phase: Phase = "forward"
    for event in tape.events:
        if isinstance(event, Enter):
            if phase == "optimizer" and found:
                break
            phase = event.phase
        elif isinstance(event, Launch) and phase == "optimizer":
            operation = tape.operations[event.operation]
            found.setdefault(operation.name, []).extend(_first_written(operation))
    return tuple(max(found.values(), key=lambda tensors: sum(one.bytes for one in tensors), default=()))


def _first_written(operation: Operation) -> tuple[TensorType, ...]:
    argument = operation.argument(operation.written[0]) if operation.written else None
    items = argument if isinstance(argument, tuple) else (argument,)
    return tuple(item for item in items if isinstance(item, TensorType) and not item.host)
