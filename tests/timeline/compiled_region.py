"""Writes the tape of a compiled region by hand."""

from __future__ import annotations

from collections.abc import Sequence

from flatout.recording.operation import Argument, Operation, TensorType, tensor
from flatout.recording.tape import Call, Compiled, Event, Inside, Replay, Tape
from flatout.timeline.compiled import compiled

Named = tuple[int, TensorType]


class Region:
    """Operations of one region; tensors are a number of their storage and a type."""

    def __init__(self, *, graph: bool = False, fuses: bool = True, differentiable: bool = False) -> None:
        self.calls = [Call(0, None, graph, differentiable, 0, fuses), Call(0, 0, graph, True, 0, fuses)]
        self.operations: list[Operation] = []
        self.events: list[Event] = []
        self.storages = 0

    def tensor(self, shape: tuple[int, ...], dtype: str = "float32") -> Named:
        """One that the region finds."""
        self.storages += 1
        return self.storages, tensor(shape, dtype)

    def run(
        self,
        name: str,
        *arguments: Argument | Named,
        out: TensorType | None = None,
        written: Sequence[int] = (),
        backward: bool = False,
    ) -> Named:
        """An operation; the result is the first argument where `out` is None."""
        named: list[Named] = []
        plain: list[Argument] = []
        for argument in arguments:
            if isinstance(argument, tuple) and len(argument) == 2 and isinstance(argument[1], TensorType):
                named.append(argument)  # type: ignore[arg-type]
                plain.append(argument[1])
            else:
                plain.append(argument)  # type: ignore[arg-type]
        made = () if out is None else (out,)
        self.operations.append(Operation(f"aten::{name}", tuple(plain), outputs=made, written=tuple(written)))
        result = named[0] if out is None else (self.tensor(out.shape)[0], out)
        pieces = tuple((number, 0) for number, _ in named)
        outputs = () if out is None else ((result[0], 0),)
        self.events.append(Inside(len(self.operations) - 1, 0, int(backward), pieces, outputs))
        return result

    def tape(self, *kept: Named) -> Tape:
        """The tape, where these are used outside of the region."""
        return Tape(
            tuple(self.events),
            operations=tuple(self.operations),
            lines=(None,) * len(self.operations),
            calls=tuple(self.calls),
            kept=tuple(number for number, _ in kept),
        )

    def kernels(self, *kept: Named) -> list[Operation]:
        """What the compiler launches, in order."""
        new = compiled(self.tape(*kept))
        return [
            new.operations[number]
            for event in new.events
            if isinstance(event, (Compiled, Replay))
            for number in event.operations
        ]


def moved(operation: Operation) -> tuple[int, int]:
    """Bytes that a fused kernel reads and writes."""
    return operation.tensor(0).bytes, operation.outputs[0].bytes
