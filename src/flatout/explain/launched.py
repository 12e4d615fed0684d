"""The operations of a tape that launch kernels, in order: what a rule looks for patterns in."""

from __future__ import annotations

from typing import NamedTuple

from flatout.costs import cost
from flatout.recording.operation import Operation, TensorType
from flatout.recording.schema import Phase
from flatout.recording.tape import Enter, Launch, Tape

_COPIES = frozenset(("aten::copy_", "aten::_to_copy"))


class Launched(NamedTuple):
    """An operation, where its event is on the tape, and in which phase."""

    position: int
    number: int
    operation: Operation
    phase: Phase

    @property
    def name(self) -> str:
        """The operator without namespace and overload."""
        return self.operation.base.removeprefix("aten::")

    @property
    def cast(self) -> tuple[TensorType, TensorType] | None:
        """From what to what it is cast, for a copy between dtypes."""
        if self.operation.base not in _COPIES:
            return None
        inputs = list(self.operation.inputs())
        new, old = (inputs[0], inputs[-1]) if len(inputs) == 2 else (self.operation.outputs[0], inputs[0])
        return (old, new) if old.dtype != new.dtype and old.shape == new.shape else None


def launched(tape: Tape) -> list[Launched]:
    """Views, and what is part of a compiled region or a graph already, are left out."""
    phase: Phase = "forward"
    found = []
    for position, event in enumerate(tape.events):
        if isinstance(event, Enter):
            phase = event.phase
        elif isinstance(event, Launch):
            operation = tape.operations[event.operation]
            if cost(operation).kernels:
                found.append(Launched(position, event.operation, operation, phase))
    return found
