"""FO605, FO610: an optimizer that goes over its parameters with more kernels, or more often, than it has to.

Replayed is PyTorch's fused kernel where the update is one that it has (Adam, AdamW, SGD with momentum), which reads and
writes each number once. Elsewhere one that goes parameter by parameter is replayed as `foreach` does it: each kind of
operation over lists of all parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatout.explain.edited import Edited
from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy
from flatout.recording.operation import Argument, Operation, TensorType, tensor
from flatout.recording.tape import Enter, Event, Launch, Tape

_ALIKE = frozenset(
    f"aten::{name}" for name in ("add_", "mul_", "addcmul_", "addcdiv_", "lerp_", "div_", "sqrt", "div", "add", "zero_")
)
_FOREACH = "aten::_foreach_"
_ADAM = frozenset(f"{_FOREACH}{name}" for name in ("lerp_", "addcmul_", "addcdiv_", "sqrt"))
_ADAM_TOO = frozenset(f"{_FOREACH}{name}" for name in ("mul_", "add", "add_", "div", "div_"))
_MOMENTUM = frozenset(f"{_FOREACH}{name}" for name in ("mul_", "add_"))
_MOMENTUM_TOO = frozenset((f"{_FOREACH}add",))

_FUSED = Remedy(
    text="fused=True of torch.optim: the same update in one pass over all parameters", speedup="fused-optimizer"
)
_LISTS = Remedy(
    text="leave foreach=False out: the same update, a few kernels for all parameters", speedup="foreach-optimizer"
)


def find(subject: Subject) -> Iterator[Finding]:
    """One finding for the step, at the line of the optimizer's step."""
    edited = Edited(subject.tape)
    gathered = _gathered(subject.tape, edited)
    listed = edited.tape(gathered.events)
    fused, passes = _fused(listed, Edited(listed))
    if not gathered.single and not passes:
        return
    saving = subject.saving(fused)
    if saving is None:
        return
    place = subject.place(gathered.line)
    remedy = _FUSED if passes else _LISTS
    if gathered.single:
        per_step = gathered.single / subject.tape.steps
        message = f"the optimizer issues {per_step:,.0f} small operations a step, one after another for each parameter"
        evidence: dict[str, object] = {"operations_per_step": per_step}
        yield subject.finding("FO605", message, saving, remedy, place, evidence)
    else:
        per_step = passes / subject.tape.steps
        message = f"the optimizer passes over all parameters and their state {per_step:g} times a step, not once"
        yield subject.finding("FO610", message, saving, remedy, place, {"passes_per_step": per_step})


class _Gathered:
    """Events in which what an optimizer did one by one is done over lists."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.single = 0
        self.line: int | None = None


def _gathered(tape: Tape, edited: Edited) -> _Gathered:
    found = _Gathered()
    for phase, stretch in _stretches(tape.events):
        groups: dict[str, list[Operation]] = {}
        rest: list[Event] = []
        for event in stretch if phase == "optimizer" else ():
            operation = tape.operations[event.operation] if isinstance(event, Launch) else None
            if found.line is None and isinstance(event, Launch) and tape.lines:
                found.line = tape.lines[event.operation]
            if operation is not None and operation.base in _ALIKE and not _is_number(operation):
                groups.setdefault(operation.base, []).append(operation)
            else:
                rest.append(event)
        single = sum(map(len, groups.values()))
        if single > 2 * len(groups):
            found.single += single
            lists = [Launch(edited.number(_as_list(base, group))) for base, group in groups.items()]
            found.events += [*rest, *lists]
        else:
            found.events += stretch
    return found


def _fused(tape: Tape, edited: Edited) -> tuple[Tape, int]:
    """The tape with each update over lists fused, and how many operations that does away with."""
    events: list[Event] = []
    passes = 0
    for phase, stretch in _stretches(tape.events):
        lists = [
            tape.operations[event.operation]
            for event in stretch
            if isinstance(event, Launch) and tape.operations[event.operation].base.startswith(_FOREACH)
        ]
        fused = _fused_update(lists) if phase == "optimizer" else []
        if fused:
            passes += len(lists)
            events += [
                event
                for event in stretch
                if not (isinstance(event, Launch) and tape.operations[event.operation].base.startswith(_FOREACH))
            ]
            events += [Launch(edited.number(operation)) for operation in fused]
        else:
            events += stretch
    return edited.tape(events), passes


def _fused_update(lists: Sequence[Operation]) -> list[Operation]:
    """The fused operations that do the same, one for each group of parameters; none where there is no such kernel."""
    bases = {operation.base for operation in lists}
    of = {base: [operation for operation in lists if operation.base == base] for base in bases}
    if _ADAM <= bases <= _ADAM | _ADAM_TOO:
        first, second, last = (of[f"{_FOREACH}{name}"] for name in ("lerp_", "addcmul_", "addcdiv_"))
        if not len(first) == len(second) == len(last):
            return []
        fused = []
        for moment, square, update in zip(first, second, last):
            parameters = _list(update, 0)
            steps = (tensor(()),) * len(parameters)
            fused.append(Operation(f"{_FOREACH}add_.Scalar", (steps, 1), written=(0,)))
            arguments = (parameters, _list(moment, 1), _list(moment, 0), _list(square, 0), (), steps)
            fused.append(Operation("aten::_fused_adamw_", arguments, written=(0, 2, 3)))
        return fused
    if _MOMENTUM <= bases <= _MOMENTUM | _MOMENTUM_TOO:
        updates = of[f"{_FOREACH}mul_"]
        if len(of[f"{_FOREACH}add_"]) < 2 * len(updates):
            return []  # the momentum is added to, then the parameters; one addition alone is another update
        return [
            Operation("aten::_fused_sgd_", (buffers, buffers, buffers), written=(0, 2))
            for buffers in (_list(update, 0) for update in updates)
        ]
    return []


def _list(operation: Operation, position: int) -> tuple[TensorType, ...]:
    argument = operation.argument(position)
    items = argument if isinstance(argument, tuple) else ()
    return tuple(item for item in items if isinstance(item, TensorType))


def _stretches(events: tuple[Event, ...]) -> Iterator[tuple[str, list[Event]]]:
    phase = "forward"
    stretch: list[Event] = []
    for event in events:
        if isinstance(event, Enter):
            yield phase, stretch
            phase, stretch = event.phase, []
        stretch.append(event)
    yield phase, stretch


def _is_number(operation: Operation) -> bool:
    """Counters of steps are no parameters."""
    return all(one.count == 1 for one in operation.inputs())


def _as_list(base: str, group: list[Operation]) -> Operation:
    """One operation over lists: the arguments of all, position by position."""
    count = max(len(operation.arguments) for operation in group)
    lists: list[Argument] = []
    for position in range(count):
        values = [operation.argument(position) for operation in group]
        tensors = tuple(value for value in values if isinstance(value, TensorType))
        first = values[0]
        lists.append(tensors if tensors else first)
    return Operation(
        base.replace("aten::", _FOREACH),
        tuple(lists),
        outputs=tuple(output for operation in group for output in operation.outputs),
        written=(0,) if base.endswith("_") else (),
    )
