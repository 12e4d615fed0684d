"""The simulated process in which rows are measured: each alone, or all of a script in their order."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence

from modes import Setup
from rows import GPUS, Row

REPETITIONS = 3  # for the ten of the project's scripts: nothing changes after the second
UNLIMITED_BYTES = 1 << 42


class Process:
    """One virtual machine for all rows; `start` makes it a new process on that GPU."""

    def __init__(self, operators: Mapping[str, Setup]) -> None:
        from flatout.gpu import find
        from flatout.virtual.boot import boot

        self._find = find
        self._operators = operators
        self._machine = boot(find("h100"), usable_bytes=UNLIMITED_BYTES)

    def start(self, gpu_name: str, *, real_size: bool) -> None:
        """Nothing allocated, nothing cached, no workspaces."""
        gpu = self._machine.gpus[0]
        gpu.specification = self._find(GPUS[gpu_name])
        self._machine.workspaces.clear()
        gc.collect()
        allocator = gpu.memory.allocator
        allocator.empty_cache()
        allocator.device.usable_bytes = gpu.specification.usable_bytes if real_size else UNLIMITED_BYTES
        allocator.device.outside_bytes = gpu.specification.context_bytes

    def measure(self, row: Row) -> int:
        """Peak allocated bytes of the last of some repetitions."""
        allocator = self._machine.gpus[0].memory.allocator
        step = self._operators[row.kernel](row.config, row.mode)
        try:
            for _ in range(REPETITIONS):
                allocator.reset_peaks()
                step()
            return int(allocator.peak_allocated_bytes)
        finally:
            step = None  # type: ignore[assignment]
            gc.collect()

    def alone(self, row: Row) -> int:
        """The row as the only one of its process."""
        self.start(row.gpu, real_size=False)
        return self.measure(row)

    def in_order(self, script: Sequence[Row]) -> Iterator[int]:
        """A script's rows one after the other on a card of the real size, after all of them ran once before.

        That first time stands for the measurements of speed, which the scripts make before those of memory: what they
        leave in the cache decides by how much too large the blocks are that tensors get (up to 1 MiB each). The runs of
        the other providers are left out, as their kernels are not PyTorch's.
        """
        self.start(script[0].gpu, real_size=True)
        for row in script:
            self.measure(row)
        for row in script:
            yield self.measure(row)
