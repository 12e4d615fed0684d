"""A kernel that a compiler makes of several loops, and what it moves."""

from __future__ import annotations

from flatout.costs.cost import Kernel as Cost
from flatout.costs.table import formulas
from flatout.recording.operation import Operation, TensorType
from flatout.timeline.compiled.node import Node, Pieces, Value, read_bytes

SPLIT_LENGTH, SPLIT_ROWS = 8192, 216
"""A reduction of longer rows than that, with fewer rows, is done in two kernels, and nothing that needs its result fits
into the first. Source: torch/_inductor/choices.py, `reduction_split_factor`: 8192 elements, and 2 rows for each of the
GPU's multiprocessors; 108 of them are assumed."""

KEPT_LENGTH = 1024
"""A row of at most that many elements stays on the chip until all loops over it are done; a longer one is read again.
Source: torch/_inductor/choices.py, `should_use_persistent_reduction`."""


class Kernel:
    """Loops that run as one, or one kernel of a library.

    `level` orders kernels: whoever reads what another makes has a higher one.
    """

    __slots__ = ("again", "inner", "level", "makes", "node", "position", "reads", "rows", "total")

    def __init__(self, node: Node, level: int) -> None:
        self.level = level
        self.total = node.total
        self.rows = node.rows
        self.inner = node.inner
        self.node = node
        self.position = node.position
        self.reads: dict[Value, Pieces] = {}
        self.makes: list[Value] = []
        self.again = False

    @property
    def splits(self) -> bool:
        """Whether it ends with sums of parts that a second kernel adds up."""
        return bool(self.rows) and self.rows < SPLIT_ROWS and self.total > SPLIT_LENGTH * self.rows

    def takes(self, node: Node, reads: dict[Value, Pieces]) -> bool:
        """Whether that loop, which reads these, can run inside."""
        if self.node.kind == "extern" or node.kind == "extern":
            return False
        if node.total != self.total and not (node.kind == "pointwise" and node.total == self.rows):
            return False
        if node.rows and self.rows and (node.rows, node.inner) != (self.rows, self.inner):
            return False
        needs = any(value.kernel is self for value in reads)
        # Where neighbours are read, what was made in the same kernel is not there yet.
        return not (needs and (self.splits or node.kind == "window"))

    def add(self, node: Node, reads: dict[Value, Pieces]) -> None:
        """That loop runs inside."""
        own = [value for value in reads if value.kernel is self]
        if node.total == self.total and any(value.maker is not None and value.maker.rows for value in own):
            self.again = True
        for value, pieces in reads.items():
            if value.kernel is not self:
                self.reads.setdefault(value, {}).update(pieces)
        if node.rows and not self.rows:
            self.rows, self.inner = node.rows, node.inner
        self.makes += node.makes
        for value in node.makes:
            value.kernel = self
        self.position = max(self.position, node.position)

    def operation(self) -> Operation | None:
        """What it moves; None where nothing that it makes is wanted."""
        written = sum(value.size_bytes for value in self.makes if value.written)
        if not written:
            return None
        read = sum(read_bytes(value, pieces) for value, pieces in self.reads.items())
        again = 0.0
        if self.again and self.total > KEPT_LENGTH * self.rows:
            largest = max((read_bytes(value, pieces) for value, pieces in self.reads.items()), default=0)
            again = sum(
                size for value, pieces in self.reads.items() if (size := read_bytes(value, pieces)) * 2 > largest
            )
        name = "compiled::reduction" if self.rows else "compiled::pointwise"
        return Operation(name, (_bytes(read), int(again), 1 + self.splits), outputs=(_bytes(written),))


def copied(size_bytes: int) -> Operation:
    """A copy of that many bytes."""
    return Operation("compiled::pointwise", (_bytes(size_bytes), 0, 1), outputs=(_bytes(size_bytes),))


def _bytes(size: float) -> TensorType:
    return TensorType((int(size),), (1,), "uint8")


def _fused(operation: Operation) -> tuple[Cost, ...]:
    again, launches = (operation.argument(at, 0) for at in (1, 2))
    assert isinstance(again, int)
    assert isinstance(launches, int)
    return (
        Cost(
            "fused",
            bytes_read=operation.tensor(0).bytes + again,
            bytes_written=operation.outputs[0].bytes,
            reused_bytes=again,
            launches=launches,
        ),
    )


for _name in ("compiled::pointwise", "compiled::reduction"):
    formulas[_name] = _fused
