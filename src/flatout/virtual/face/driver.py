"""The functions of ``torch._C`` beneath ``torch.cuda``: which GPUs there are, which is current, waiting for them.

PyTorch's own ``torch.cuda`` runs unchanged on top of these, so it answers, checks and warns as on a real machine.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from flatout.errors import UnsupportedError
from flatout.virtual import machine as machines
from flatout.virtual.face import forks
from flatout.virtual.face.devices import device_argument
from flatout.virtual.face.properties import compiled_architectures, device_properties


def _device_count() -> int:
    return machines.current().device_count


def _get_device() -> int:
    return machines.current().thread.device_number


def _set_device(number: int) -> None:
    machine = machines.current()
    machine.thread.device_number = machine.gpu(int(number)).number


def _exchange_device(number: int) -> int:
    before = _get_device()
    if number < 0:
        return -1
    _set_device(number)
    return before


def _maybe_exchange_device(number: int) -> int:
    return _exchange_device(number)


def _init() -> None:
    import torch

    forks.refuse_in_child()
    machine = machines.current()
    machine.initialized = True
    torch._C.default_generators = torch.cuda.default_generators  # type: ignore[attr-defined]
    torch.cuda._get_device_properties = _properties  # type: ignore[attr-defined]


def _properties(number: int) -> Any:
    gpu = machines.current().gpu(number)
    return device_properties(gpu.specification, gpu.number)


def _synchronize() -> None:
    machine = machines.current()
    machine.wait("synchronize")


_sync_debug_mode = 0


def _set_sync_debug_mode(mode: int) -> None:
    global _sync_debug_mode
    _sync_debug_mode = int(mode)
    machines.current().sync_debug_mode = _sync_debug_mode


def _arch_flags() -> str:
    return compiled_architectures(machines.current().gpu().specification)


def _handle() -> int:
    return 0x7F0000000000 + 4096 * (_get_device() + 1)


def _cpu_only(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"{name} is not supported on the virtual GPU: it runs code on a real CUDA device")

    return refuse


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_cuda_init": _init,
    "_cuda_isInBadFork": forks.in_bad_fork,
    "_cuda_getDeviceCount": _device_count,
    "_cuda_getDevice": _get_device,
    "_cuda_setDevice": _set_device,
    "_cuda_exchangeDevice": _exchange_device,
    "_cuda_maybeExchangeDevice": _maybe_exchange_device,
    "_cuda_canDeviceAccessPeer": lambda device, peer: device != peer,
    "_cuda_hasPrimaryContext": lambda number: machines.current().initialized,
    "_cuda_synchronize": _synchronize,
    "_cuda_sleep": lambda cycles: None,
    "_cuda_ipc_collect": lambda: None,
    "_cuda_set_sync_debug_mode": _set_sync_debug_mode,
    "_cuda_get_sync_debug_mode": lambda: _sync_debug_mode,
    "_cuda_getArchFlags": _arch_flags,
    "_cuda_getCurrentBlasHandle": _handle,
    "_cuda_getCurrentSolverHandle": _handle,
    "_cuda_jiterator_compile_and_launch_kernel": _cpu_only("torch.cuda.jiterator"),
}


# What PyTorch's compiler imports by name where there is CUDA. Nothing of it is called as long as nothing is compiled.
_REFUSED = (
    "_cuda_CUDAAllocator_AllocatorState",
    "_set_cached_tensors_enabled",
    "_cuda_getCheckpointState",
    "_cuda_setCheckpointPoolState",
    "_cuda_checkPoolLiveAllocations",
)


def runtime_library() -> types.ModuleType:
    """What ``torch.cuda.cudart()`` returns: the few CUDA run-time functions that PyTorch binds."""
    library = types.ModuleType("torch._C._cudart")

    class cudaError(int):
        success = 0

    def host_register(pointer: int, size: int, flags: int) -> int:
        return 0

    def mem_get_info(number: int) -> tuple[int, int]:
        machines.current().facts["asked_for_free_memory"] = True
        memory = machines.current().gpu(number).memory
        device = memory.allocator.device
        return device.free_bytes, device.usable_bytes

    library.__dict__.update(
        cudaError=cudaError,
        cudaGetErrorString=lambda error: "no error" if int(error) == 0 else f"CUDA error {int(error)}",
        cudaProfilerStart=lambda: 0,
        cudaProfilerStop=lambda: 0,
        cudaHostRegister=host_register,
        cudaHostUnregister=lambda pointer: 0,
        cudaStreamCreate=_cpu_only("cudaStreamCreate"),
        cudaStreamDestroy=_cpu_only("cudaStreamDestroy"),
        cudaMemGetInfo=mem_get_info,
    )
    return library


def ranges() -> Any:
    """``torch._C._nvtx``: markers for a profiler that is not there."""
    depth = [0]

    def push(message: str) -> int:
        depth[0] += 1
        return depth[0] - 1

    def pop() -> int:
        depth[0] = max(0, depth[0] - 1)
        return depth[0]

    return types.SimpleNamespace(
        rangePushA=push,
        rangePop=pop,
        rangeStartA=lambda message: 0,
        rangeEnd=lambda identifier: None,
        markA=lambda message: None,
        deviceRangeStart=lambda message, stream: None,
        deviceRangeEnd=lambda identifier, stream: None,
    )


def _list_processes(device: Any = None) -> str:
    """``torch.cuda.list_gpu_processes``: nobody else is there."""
    number = machines.current().thread.device_number if device is None else device_argument(device).index
    return f"GPU:{number}\nno processes are running"


def install(patches: Any) -> None:
    """Put these functions under ``torch.cuda``."""
    import torch

    patches.set_all(torch._C, FUNCTIONS)
    for name in _REFUSED:
        if not hasattr(torch._C, name):
            patches.set(torch._C, name, type(name, (), {"__init__": _cpu_only(f"torch._C.{name}")}))
    library = runtime_library()
    patches.set(torch._C, "_cudart", library)
    cuda = torch.cuda
    for name in ("_device_count_nvml", "_raw_device_count_nvml", "_device_count_amdsmi"):
        if hasattr(cuda, name):
            patches.set(cuda, name, lambda: -1)
    values: dict[str, Any] = {
        "_cudart": library,
        "_is_in_bad_fork": forks.in_bad_fork,
        "_exchange_device": _exchange_device,
        "_maybe_exchange_device": _maybe_exchange_device,
        "_cached_device_count": None,
        "_initialized": False,
        "has_magma": True,
    }
    patches.set_all(cuda, values)
    if hasattr(cuda, "_nvml_based_avail"):
        patches.set(cuda, "_nvml_based_avail", lambda: False)
    patches.set(cuda, "_HAS_PYNVML", False)  # there is no driver to ask for load, temperature and power
    patches.set(cuda.memory, "list_gpu_processes", _list_processes)
    patches.set(cuda, "list_gpu_processes", _list_processes)
    patches.set(sys.modules["torch.cuda.nvtx"], "_nvtx", ranges())
