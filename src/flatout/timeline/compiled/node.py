"""What a compiler sees of one operation: values that are read, a loop over elements, values that are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from flatout.recording.operation import Operation

if TYPE_CHECKING:
    from flatout.timeline.compiled.kernel import Kernel

Kind: TypeAlias = Literal["pointwise", "reduction", "window", "extern"]
"""`pointwise` and `reduction` are loops that can be put into one another. `window` reads neighbours, so what it reads
has to be in memory. `extern` is a library's kernel."""

Pieces: TypeAlias = dict[object, float]
"""Distinct parts of one value that are read, and the bytes of each."""


class Value:
    """The content of a storage between two writes to it.

    Attributes:
        storage: its number on the tape; -1 for what has none.
        size_bytes: of all of it; 0 where that is not known (what a region finds there).
        maker: the node that makes it, None for what a region finds.
        kernel: what writes it, or would; None while no kernel does.
        users: how many nodes of the call that makes it read it.
        written: whether it has to be in memory.
    """

    __slots__ = ("kernel", "maker", "size_bytes", "storage", "users", "written")

    def __init__(self, storage: int, size_bytes: float = 0, maker: Node | None = None) -> None:
        self.storage = storage
        self.size_bytes = size_bytes
        self.maker = maker
        self.kernel: Kernel | None = None
        self.users = 0
        self.written = False


class Node:
    """A loop, or a library's kernel.

    Attributes:
        call: the call that it belongs to.
        position: of its event on the tape.
        total: how many elements the loop runs over.
        rows: of a reduction: how many results it has; 0 for any other loop.
        inner: of a reduction: whether it runs along the last dimension.
        reads: the values that it reads.
        makes: the values that it makes.
        repeatable: whether computing it twice gives the same, at the price of reading again.
        alone: its result goes to memory (what many are written into).
        most_bytes: the most that it reads of any one value, for loops that pick elements by number; None for all of it.
        operation: of a library's kernel: what it does.
    """

    __slots__ = (
        "alone", "call", "inner", "kind", "makes", "most_bytes", "operation", "position", "reads", "repeatable", "rows",
        "total",
    )  # fmt: skip

    def __init__(self, kind: Kind, call: int, position: int, total: int, rows: int = 0, *, inner: bool = True) -> None:
        self.kind: Kind = kind
        self.call = call
        self.position = position
        self.total = total
        self.rows = rows
        self.inner = inner
        self.reads: dict[Value, Pieces] = {}
        self.makes: list[Value] = []
        self.repeatable = kind == "pointwise"
        self.alone = False
        self.most_bytes: float | None = None
        self.operation: Operation | None = None

    def read(self, value: Value, piece: object, size_bytes: float) -> None:
        """It reads that part of a value."""
        pieces = self.reads.get(value)
        if pieces is None:
            pieces = self.reads[value] = {}
            if value.maker is not None and value.maker.call == self.call:
                value.users += 1
        pieces[piece] = size_bytes

    def make(self, storage: int, size_bytes: float) -> Value:
        """It makes a value of that size."""
        value = Value(storage, size_bytes, self)
        self.makes.append(value)
        return value


def read_bytes(value: Value, pieces: Pieces) -> float:
    """What reading these parts of a value moves: never more than there is of it."""
    total = sum(pieces.values())
    return min(total, value.size_bytes) if value.size_bytes else total
