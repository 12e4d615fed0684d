"""FO605: an optimizer that goes through the parameters one by one, each with kernels of its own."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy
from flatout.recording.operation import Operation
from flatout.recording.tape import Enter, Event, Launch

_ALIKE = frozenset(
    f"aten::{name}" for name in ("add_", "mul_", "addcmul_", "addcdiv_", "lerp_", "div_", "sqrt", "div", "add", "zero_")
)
_REMEDY = Remedy(
    text="leave foreach=False out, or give fused=True: the same update, a few kernels for all parameters",
    speedup="fused-optimizer",
    safe=True,
)


def find(subject: Subject) -> Iterator[Finding]:
    """The optimizer's launches gathered, each kind into lists over all parameters, as `foreach` does."""
    operations = list(subject.tape.operations)
    events: list[Event] = []
    single = gathered = 0
    line: int | None = None
    for phase, stretch in _stretches(subject.tape.events):
        if phase != "optimizer":
            events.extend(stretch)
            continue
        groups: dict[str, list[Operation]] = {}
        for event in stretch:
            operation = operations[event.operation] if isinstance(event, Launch) else None
            if operation is not None and operation.base in _ALIKE and not _is_number(operation):
                groups.setdefault(operation.base, []).append(operation)
                if line is None and subject.tape.lines:
                    line = subject.tape.lines[event.operation]  # type: ignore[union-attr]
            else:
                events.append(event)
        for base, group in groups.items():
            single += len(group)
            gathered += 1
            events.append(Launch(len(operations)))
            operations.append(_as_list(base, group))
    if single <= 2 * gathered:
        return
    lines = (*subject.tape.lines, *[None] * (len(operations) - len(subject.tape.lines)))
    changed = msgspec.structs.replace(subject.tape, events=tuple(events), operations=tuple(operations), lines=lines)
    saving = subject.saving(changed)
    if saving is not None:
        per_step = single / subject.tape.steps
        yield subject.finding(
            "FO605",
            "optimizer-one-by-one",
            f"the optimizer issues {per_step:,.0f} small operations a step, one after another for each parameter",
            saving,
            _REMEDY,
            subject.place(line),
            {"operations_per_step": per_step},
        )


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
    return all(tensor.count == 1 for tensor in operation.inputs())


def _as_list(base: str, group: list[Operation]) -> Operation:
    """One operation over lists: the arguments of all, position by position."""
    count = max(len(operation.arguments) for operation in group)
    lists = []
    for position in range(count):
        values = [operation.argument(position) for operation in group]
        lists.append(tuple(values) if any(hasattr(value, "shape") for value in values) else values[0])
    name = base.replace("aten::", "aten::_foreach_")
    return Operation(
        name,
        tuple(lists),  # type: ignore[arg-type]
        outputs=tuple(output for operation in group for output in operation.outputs),
        written=(0,) if base.endswith("_") else (),
    )
