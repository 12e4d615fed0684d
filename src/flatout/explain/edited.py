"""A tape with other operations: new ones get numbers of their own, and the lines of those that they stand for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from flatout.recording.operation import Operation
from flatout.recording.tape import Event, Tape


class Edited:
    """The operations of a tape while a rule writes another tape from it."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._operations = list(tape.operations)
        self._lines = list(tape.lines)
        self._numbers: dict[tuple[Operation, int | None], int] = {}

    def number(self, operation: Operation, like: int | None = None) -> int:
        """The number of an operation; its line is that of the operation of number `like`."""
        line = self._tape.lines[like] if like is not None and like < len(self._tape.lines) else None
        number = self._numbers.get((operation, line))
        if number is None:
            number = self._numbers[operation, line] = len(self._operations)
            self._operations.append(operation)
            self._lines.extend([None] * (number - len(self._lines)))
            self._lines.append(line)
        return number

    def tape(self, events: Iterable[Event]) -> Tape:
        """The tape with these events."""
        return msgspec.structs.replace(
            self._tape, events=tuple(events), operations=tuple(self._operations), lines=tuple(self._lines)
        )
