"""Which loops of a call run as one kernel, by the rules of inductor that decide most.

- A loop whose result is read by other loops only is put into each of them, as long as that reads little: up to
  `MOST_READS_SHARED` values where several loops read the result, up to `MOST_READS` where one does. Otherwise it is
  written to memory, as is what a library's kernel reads and what the region's surroundings use.
- A loop that is written joins a kernel over the same elements which makes or reads something that it reads, unless a
  kernel in between has to be finished first. So does a reduction, if it has the same rows.
- A value that no kernel but its own reads is never written.
- Backward, what a loop of the forward pass made is computed again from what is in memory, unless it was written anyway
  or that would keep more bytes than the value itself. (Inductor looks for the smallest set of saved bytes in the whole
  graph; here each value is looked at alone.)
"""

from __future__ import annotations

from collections.abc import Iterable

from flatout.timeline.compiled.kernel import Kernel
from flatout.timeline.compiled.node import Node, Pieces, Value, read_bytes

MOST_READS_SHARED, MOST_READS = 4, 8
"""Source: torch/_inductor/config.py, `realize_reads_threshold` and `realize_acc_reads_threshold`."""

MOST_LOOKED_AT = 16
"""Of the kernels that read the same value, the last ones are candidates to be joined: something small may be read by
all of them."""


class Fuser:
    """The kernels of one call. `backward`: values of other calls may be computed again."""

    def __init__(self, nodes: list[Node], *, backward: bool) -> None:
        self.kernels: list[Kernel] = []
        self._backward = backward
        self._readers: dict[Value, list[Kernel]] = {}
        self._own: set[Value] = {value for node in nodes for value in node.makes}
        self._needed: set[Value] = {
            value for node in nodes for value in node.reads if value not in self._own and not _repeatable(value)
        }
        self._again: dict[Value, bool] = {}
        self._flat: dict[Value, dict[Value, Pieces]] = {}
        for node in nodes:
            self._place(node)

    def finish(self, kept: Iterable[Value]) -> None:
        """All nodes are placed; these values are used outside of the region."""
        for value in kept:
            if value in self._own:
                self._realize(value)
                value.written = True
        for kernel in self.kernels:
            for value in kernel.reads:
                value.written = True

    def _place(self, node: Node) -> None:
        lazy = node.kind == "pointwise" and not node.alone
        reads = self._expanded(node, into_memory=node.kind in ("extern", "window"))
        if lazy:
            users = max((value.users for value in node.makes), default=0)
            limit = MOST_READS_SHARED if users > 1 else MOST_READS
            if len(reads) <= limit and (node.repeatable or users <= 1) and len(node.makes) == 1:
                self._flat[node.makes[0]] = reads
                return
        self._kernel(node, reads)

    def _expanded(self, node: Node, *, into_memory: bool) -> dict[Value, Pieces]:
        """What the node reads from memory."""
        found: dict[Value, Pieces] = {}
        for value, pieces in node.reads.items():
            if value.kernel is None and value in self._flat and into_memory:
                self._realize(value)
            if value.kernel is None and value in self._flat:
                share = _share(value, pieces)
                for leaf, of_leaf in self._flat[value].items():
                    into = found.setdefault(leaf, {})
                    for key, size in of_leaf.items():
                        capped = min(size * share, node.most_bytes or size)
                        into[key] = max(into.get(key, 0.0), capped)
            elif self._backward and value not in self._own and self._recomputed(value):
                if into_memory:
                    self._remade(value)
                    found.setdefault(value, {}).update(pieces)
                else:
                    for leaf, of_leaf in self._leaves(value).items():
                        found.setdefault(leaf, {}).update(of_leaf)
            else:
                found.setdefault(value, {}).update(pieces)
        return found

    def _realize(self, value: Value) -> None:
        """Write it, if nothing does yet."""
        if value.kernel is None and value in self._flat and value.maker is not None:
            self._kernel(value.maker, self._flat.pop(value))

    def _kernel(self, node: Node, reads: dict[Value, Pieces]) -> None:
        ready = {value: value.kernel.level + 1 if self._mine(value) else 0 for value in reads}  # type: ignore[union-attr]
        best: Kernel | None = None
        if node.kind != "extern" and not node.alone:
            scores: dict[Kernel, float] = {}
            for value, pieces in reads.items():
                size = read_bytes(value, pieces)
                near = [*self._readers.get(value, [])[-MOST_LOOKED_AT:], *([value.kernel] if self._mine(value) else ())]
                for kernel in near:
                    if kernel is not None:
                        scores[kernel] = scores.get(kernel, 0.0) + size
            for kernel in sorted(scores, key=lambda kernel: -scores[kernel]):
                in_time = all(level <= kernel.level or value.kernel is kernel for value, level in ready.items())
                if in_time and kernel.takes(node, reads):
                    best = kernel
                    break
        if best is None:
            best = Kernel(node, max(ready.values(), default=0))
            self.kernels.append(best)
        best.add(node, reads)
        if node.kind != "extern":
            for value in reads:
                self._readers.setdefault(value, []).append(best)

    def _mine(self, value: Value) -> bool:
        return value.kernel is not None and value in self._own

    # Backward: values of the forward pass.

    def _recomputed(self, value: Value) -> bool:
        """Whether a value of another call is computed again here."""
        found = self._again.get(value)
        if found is None:
            found = False
            if not value.written and _repeatable(value):
                more = sum(
                    read_bytes(leaf, pieces)
                    for leaf, pieces in self._leaves(value).items()
                    if leaf not in self._needed and not leaf.written
                )
                found = more <= value.size_bytes
            self._again[value] = found
            if not found:
                value.written = True
                if value.kernel is None and value.maker is not None:
                    self._late(value)
        return found

    def _late(self, value: Value) -> None:
        """Only the backward pass wants it, and wants it saved: a loop of the forward pass writes it on its way."""
        assert value.maker is not None
        kernel = Kernel(value.maker, 0)
        kernel.add(value.maker, {})
        self.kernels.append(kernel)

    def _leaves(self, value: Value) -> dict[Value, Pieces]:
        """What is in memory after the forward pass and is enough to compute a value."""
        found: dict[Value, Pieces] = {}
        assert value.maker is not None
        for read, pieces in value.maker.reads.items():
            if not read.written and _repeatable(read):
                for leaf, of_leaf in self._leaves(read).items():
                    found.setdefault(leaf, {}).update(of_leaf)
            else:
                found.setdefault(read, {}).update(pieces)
        return found

    def _remade(self, value: Value) -> None:
        """A library's kernel wants it in memory again."""
        if value in self._own:
            return
        assert value.maker is not None
        self._own.add(value)
        reads = self._leaves(value)
        value.kernel = None
        self._kernel(value.maker, reads)


def _repeatable(value: Value) -> bool:
    return value.maker is not None and value.maker.repeatable and not value.maker.alone


def _share(value: Value, pieces: Pieces) -> float:
    """How much of a value is read, between 0 and 1."""
    return min(1.0, read_bytes(value, pieces) / value.size_bytes) if value.size_bytes else 1.0
