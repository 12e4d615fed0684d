"""The functions of ``torch._C`` beneath ``torch.cuda.memory``, answered by the allocator model."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from flatout.errors import UnsupportedError
from flatout.virtual import machine as machines
from flatout.virtual.face.patches import remake
from flatout.virtual.tensor import Allocation

_pool_numbers = itertools.count(1)
_raw: dict[int, Allocation] = {}
_fraction: dict[int, float] = {}
_history: list[Any] = [None]
_metadata = [""]
# Source: the defaults of aten/src/ATen/cuda/CublasHandlePool.cpp, in bytes.
_CUBLAS_WORKSPACE_BYTES = 8_519_680


def _memory(number: int) -> Any:
    return machines.current().gpu(number).memory


def _empty_cache(*pool: Any) -> None:
    machine = machines.current()
    for gpu in machine.gpus:
        if pool and pool[0] is not None and tuple(pool[0]) != (0, 0):
            gpu.memory.allocator.empty_cache(tuple(pool[0]))
        else:
            gpu.memory.allocator.empty_cache()


def _snapshot(*pool: Any) -> dict[str, Any]:
    machine = machines.current()
    segments = [entry for gpu in machine.gpus for entry in gpu.memory.allocator.segments(gpu.number)]
    wanted = tuple(pool[0][:2]) if pool and isinstance(pool[0], tuple) else (0, 0)
    if wanted != (0, 0):
        segments = [entry for entry in segments if tuple(entry["segment_pool_id"]) == wanted]
    return {
        "segments": segments,
        "device_traces": [[] for _ in machine.gpus],
        "external_annotations": [],
        "allocator_settings": _settings(),
    }


def _settings() -> dict[str, Any]:
    configuration = machines.current().gpu().memory.allocator.configuration
    return {
        "PYTORCH_CUDA_ALLOC_CONF": "",
        "max_split_size": configuration.max_split_size_bytes or -1,
        "garbage_collection_threshold": configuration.garbage_collection_threshold,
        "expandable_segments": configuration.expandable_segments,
    }


def _raw_alloc(size_bytes: int, stream: Any) -> int:
    allocation = machines.current().gpu().memory.allocate(size_bytes)
    address = int(allocation.block.address) if allocation.block is not None else 0
    _raw[address] = allocation
    return address


def _raw_delete(address: int) -> None:
    if _raw.pop(address, None) is None:
        raise RuntimeError("invalid device pointer: " + hex(address))


def _set_fraction(fraction: float, number: int) -> None:
    _fraction[number] = fraction
    _memory(number).allocator.set_memory_fraction(fraction)


def _record_history(enabled: Any = "all", *args: Any, **kwargs: Any) -> None:
    _history[0] = enabled


def _host_stats() -> dict[str, Any]:
    empty = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    timing = {"total": 0, "max": 0, "min": 0, "count": 0, "avg": 0}
    return {
        "num_host_alloc": 0,
        "num_host_free": 0,
        **{name: dict(empty) for name in ("allocations", "segment", "allocated_bytes", "reserved_bytes")},
        **{name: dict(empty) for name in ("active_requests", "active_bytes")},
        **{name: dict(timing) for name in ("host_alloc_time", "host_free_time")},
    }


def _custom_allocator(*args: Any) -> Any:
    raise UnsupportedError(
        "torch.cuda.memory.CUDAPluggableAllocator is not supported on the virtual GPU: it would call code of a CUDA "
        "library; run the script with PyTorch's own allocator"
    )


def _begin_pool(number: int, pool: tuple[int, int]) -> None:
    _memory(number).allocator.begin_allocate_to_pool(tuple(pool))


def _begin_pool_this_stream(number: int, pool: tuple[int, int]) -> None:
    mine = machines.current().thread.stream
    _memory(number).allocator.begin_allocate_to_pool(tuple(pool), lambda stream: stream == mine)


def _end_pool(number: int, pool: tuple[int, int]) -> None:
    _memory(number).allocator.end_allocate_to_pool(tuple(pool))


def _release_pool(number: int, pool: tuple[int, int]) -> None:
    _memory(number).allocator.release_pool(tuple(pool))


def new_pool_handle() -> tuple[int, int]:
    """An identifier that no other private pool has."""
    return 0, next(_pool_numbers)


class MemPool:
    """Base of ``torch.cuda.MemPool``: a private pool that lives as long as this object."""

    def __init__(
        self,
        allocator: Any = None,
        is_user_created: bool = True,
        use_on_oom: bool = False,
        symmetric: bool = False,
        no_split: bool = False,
        **options: Any,
    ) -> None:
        if allocator is not None:
            _custom_allocator()
        self._id = (next(_pool_numbers), 0)
        self._device = machines.current().gpu().number

    @property
    def id(self) -> tuple[int, int]:
        """The pool's identifier."""
        return self._id

    @property
    def device(self) -> int:
        """The number of its GPU."""
        return self._device

    @property
    def allocator(self) -> None:
        """It has none of its own."""
        return None

    def use_count(self) -> int:
        """How often the pool is in use: by this object alone."""
        return 1


class _PoolContext:
    """Base of ``torch.cuda.memory.MemPoolContext`` (PyTorch 2.6 to 2.8): names the pool that is in use."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    @staticmethod
    def active_pool() -> Any:
        """The pool in use: not told."""
        return None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_cuda_memoryStats": lambda number: _memory(number).allocator.stats(),
    "_cuda_resetPeakMemoryStats": lambda number: _memory(number).reset_peaks(),
    "_cuda_resetAccumulatedMemoryStats": lambda number: _memory(number).allocator.reset_accumulated(),
    "_cuda_emptyCache": _empty_cache,
    "_cuda_memorySnapshot": _snapshot,
    "_cuda_setMemoryFraction": _set_fraction,
    "_cuda_getMemoryFraction": lambda number: _fraction.get(number, 1.0),
    "_cuda_cudaCachingAllocator_raw_alloc": _raw_alloc,
    "_cuda_cudaCachingAllocator_raw_delete": _raw_delete,
    "_cuda_cudaCachingAllocator_enable": lambda value: None,
    "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
    "_cuda_cudaCachingAllocator_set_allocator_settings": lambda text: None,
    "_cuda_getAllocatorBackend": lambda: "native",
    "_cuda_getAllocator": lambda: None,
    "_cuda_customAllocator": _custom_allocator,
    "_cuda_changeCurrentAllocator": _custom_allocator,
    "_cuda_record_memory_history": _record_history,
    "_cuda_record_memory_history_legacy": _record_history,
    "_cuda_isHistoryEnabled": lambda: _history[0] not in (None, False),
    "_cuda_attach_out_of_memory_observer": lambda observer: None,
    "_cuda_allocationTraceback": lambda address: None,
    "_cuda_setMemoryMetadata": lambda text: _metadata.__setitem__(0, text),
    "_cuda_getMemoryMetadata": lambda: _metadata[0],
    "_cuda_hostMemoryStats": _host_stats,
    "_cuda_resetPeakHostMemoryStats": lambda: None,
    "_cuda_resetAccumulatedHostMemoryStats": lambda: None,
    "_cuda_beginAllocateToPool": _begin_pool,
    "_cuda_beginAllocateCurrentStreamToPool": _begin_pool_this_stream,
    "_cuda_beginAllocateCurrentThreadToPool": _begin_pool,
    "_cuda_endAllocateToPool": _end_pool,
    "_cuda_endAllocateCurrentStreamToPool": _end_pool,
    "_cuda_releasePool": _release_pool,
    "_cuda_clearCublasWorkspaces": lambda: None,
    "_cuda_getCublasWorkspaceSize": lambda: _CUBLAS_WORKSPACE_BYTES,
    "_cuda_setCublasWorkspaceSize": lambda size: None,
    "_cuda_resetCublasWorkspaceSize": lambda: None,
    "_cuda_getCublasLtWorkspaceSize": lambda: _CUBLAS_WORKSPACE_BYTES,
    "_cuda_setCublasLtWorkspaceSize": lambda size: None,
    "_cuda_resetCublasLtWorkspaceSize": lambda: None,
    "_graph_pool_handle": new_pool_handle,
    "_host_emptyCache": lambda: None,
}


def install(patches: Any) -> None:
    """Put these functions under ``torch.cuda.memory``."""
    import torch

    patches.set_all(torch._C, FUNCTIONS)
    patches.set(torch._C, "_MemPool", MemPool)
    # The module took some of them by name when it was imported.
    module = torch.cuda.memory
    for name in list(module.__dict__):
        if name in FUNCTIONS:
            patches.set(module, name, FUNCTIONS[name])
    remake(patches, module, "MemPool", MemPool)
    if hasattr(module, "MemPoolContext"):
        remake(patches, module, "MemPoolContext", _PoolContext)
