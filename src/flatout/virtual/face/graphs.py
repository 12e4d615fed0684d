"""CUDA graphs: a capture allocates from a private pool that lives as long as the graph; a replay costs no memory.

What is captured runs only when the graph is replayed: the tape gets it then, as one launch.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.face.memory_functions import new_pool_handle
from flatout.virtual.face.patches import Patches, remake

_capturing: dict[int, Any] = {}


class GraphBase:
    """Base of ``torch.cuda.CUDAGraph``."""

    def __new__(cls, keep_graph: bool = False) -> Any:
        self = super().__new__(cls)
        self._pool = None
        self._captured_operations = 0
        self._launched = ()
        return self

    _pool: tuple[int, int] | None
    _captured_operations: int
    _launched: tuple[int, ...]

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Begin a capture on this thread's current stream."""
        machine = machines.current()
        if machine.thread.stream == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
                "them on the default stream.)"
            )
        if self._pool is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        self._pool = new_pool_handle() if pool is None else tuple(pool)
        stream = machine.thread.stream
        machine.gpu().memory.allocator.begin_allocate_to_pool(self._pool, lambda other: other == stream)
        machine.thread.capturing = True
        _capturing[threading.get_ident()] = self
        self._captured_operations = machine.operations
        if machine.clock is not None:
            machine.clock.capture_begins()

    def capture_end_pre(self) -> None:
        """End the capture, the first half as PyTorch 2.14 splits it."""
        GraphBase.capture_end(self)

    def capture_end_post(self) -> None:
        """The second half: nothing is left to do."""

    def capture_end(self) -> None:
        """End the capture."""
        machine = machines.current()
        if self._pool is None or not machine.thread.capturing:
            raise RuntimeError("capture_end called without a capture")
        machine.thread.capturing = False
        _capturing.pop(threading.get_ident(), None)
        machine.gpu().memory.allocator.end_allocate_to_pool(self._pool)
        self._captured_operations = machine.operations - self._captured_operations
        if machine.clock is not None:
            self._launched = machine.clock.capture_ends()

    def instantiate(self) -> None:
        """Make the captured graph ready."""

    def replay(self) -> None:
        """Run the captured operations again, on the same memory."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        machine = machines.current()
        machine.operations += self._captured_operations
        if machine.clock is not None:
            machine.clock.replayed(self._launched)

    def reset(self) -> None:
        """Forget the graph; its pool is given back."""
        if self._pool is not None:
            machines.current().gpu().memory.allocator.release_pool(self._pool)
            self._pool = None

    def pool(self) -> tuple[int, int]:
        """The private pool, for another graph to share."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def pools(self) -> list[tuple[int, int]]:
        """All private pools of the graph."""
        return [GraphBase.pool(self)]

    def _retain_pool(self, pool: Any) -> None:
        """Keep another pool as long as the graph."""

    @property
    def _has_graph_exec(self) -> bool:
        return self._pool is not None

    @staticmethod
    def get_currently_capturing_graph() -> Any:
        """The graph that this thread captures now, or None."""
        return _capturing.get(threading.get_ident())

    def register_generator_state(self, generator: Any) -> None:
        """Random numbers of this generator are drawn anew at each replay."""

    def enable_debug_mode(self) -> None:
        """Keep what `debug_dump` prints: nothing here."""

    def debug_dump(self, path: str) -> None:
        """Write the graph to a file: nothing here."""

    def raw_cuda_graph(self) -> int:
        """A handle."""
        return 0x5700000000

    def __del__(self) -> None:
        if self._pool is not None and machines.installed() is not None:
            self.reset()


def _is_capturing() -> bool:
    return machines.current().thread.capturing


def install(patches: Patches) -> None:
    """Give ``torch.cuda`` these graphs."""
    patches.set(torch._C, "_CUDAGraph", GraphBase)
    patches.set(torch._C, "_cuda_isCurrentStreamCapturing", _is_capturing)
    module = torch.cuda.graphs
    patches.set(module, "_cuda_isCurrentStreamCapturing", _is_capturing)
    patches.set(module, "_graph_pool_handle", new_pool_handle)
    remake(patches, module, "CUDAGraph", GraphBase)
