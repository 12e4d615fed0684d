"""Matrix products, and the workspaces of cuBLAS and cuBLASLt that they take from the caching allocator.

cuBLAS has one handle a thread, and PyTorch gives each pair of handle and stream a workspace at its first use, which is
never given back. The thread that runs the script has one, and so has autograd's thread for each GPU.

Sources: aten/src/ATen/cuda/CublasHandlePool.cpp and CUDABlas.cpp, aten/src/ATen/native/cuda/Blas.cpp. The default
``:4096:2:16:8`` makes 8,519,680 bytes, as recorded in memory snapshots of PyTorch 2.11.
"""

from __future__ import annotations

import os
import re
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import generic
from flatout.virtual.kernels.target import decided, torch_version
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import HOST_INDEX, native_index

KIB = 1024
DEFAULT_BYTES = (4096 * 2 + 16 * 8) * KIB
HOPPER_BYTES = 4096 * 8 * KIB
LT_BYTES = 1024 * KIB
_in_backward: Any = getattr(torch._C, "_current_graph_task_id", None)


def workspace_bytes(capability: tuple[int, int]) -> int:
    """Size of one cuBLAS workspace, in bytes, as ``CUBLAS_WORKSPACE_CONFIG`` (sizes in KiB) or the default says."""
    chosen = re.findall(r":(\d+):(\d+)", os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if chosen:
        return sum(int(size) * int(count) * KIB for size, count in chosen)
    # 32 MiB came with sm_90; sm_100, 110 and 120 followed in 2026 (pull request 175344).
    large = capability == (9, 0) or (capability[0] >= 10 and torch_version() >= (2, 12))
    return HOPPER_BYTES if large else DEFAULT_BYTES


def lt_workspace(capability: tuple[int, int]) -> tuple[int, bool]:
    """The workspace of cuBLASLt: its size in bytes, and whether it is kept once taken.

    Up to 2.7 each call takes and gives back its own; from 2.8 it is kept beside cuBLAS's own; from 2.11
    it is the same memory as cuBLAS's (pull requests 151163, 168175), so nothing more is taken.
    """
    unified = os.environ.get("TORCH_CUBLASLT_UNIFIED_WORKSPACE")
    version = torch_version()
    if unified != "0" and (version >= (2, 11) or (version >= (2, 8) and unified == "1")):
        return 0, True
    size = int(os.environ.get("CUBLASLT_WORKSPACE_SIZE", LT_BYTES // KIB)) * KIB
    return size, version >= (2, 8)


def on_backward_thread() -> bool:
    """Whether autograd's own thread would run this on CUDA (here the calling thread does)."""
    return _in_backward is not None and _in_backward() != -1


def use_handle(index: int, kind: str = "cublas") -> None:
    """A kernel of cuBLAS (or, with `kind` ``lt``, of cuBLASLt) is about to run on that native device."""
    if not 0 < index <= HOST_INDEX:
        return
    machine = machines.current()
    known = machine.workspaces
    key = (index, machine.thread.stream, on_backward_thread(), kind)
    if key in known:
        return
    if machine.steps is not None:
        machine.steps.work_begins()
    memory = machine.gpus[index - 1].memory
    if kind == "lt":
        use_handle(index)
        nbytes, kept = decided(index, lt_workspace)
        if not kept:
            memory.scratch(nbytes)
            return
    else:
        nbytes = decided(index, workspace_bytes)
    known[key] = memory.allocate(nbytes, "workspace") if nbytes else True


def _device(args: tuple[Any, ...]) -> int:
    for argument in args:
        if isinstance(argument, torch.Tensor):
            index = native_index(argument)
            if index:
                return index
    return 0


@stands_in(
    "mm", "mm.out", "bmm", "bmm.out", "baddbmm", "baddbmm.out", "baddbmm_", "addbmm", "addbmm_", "mv", "addmv",
    "addmv_", "addmv.out", "dot", "vdot", "_int_mm", "mm.dtype", "bmm.dtype", "_scaled_mm", "addmm_",
)  # fmt: skip
def product(op: Operator, *args: Any, **kwargs: Any) -> Any:
    machine = machines.current()
    machine.operations += 1
    machine.count("matmul_dtypes", str(args[1].dtype)[6:])
    result = generic(op, args, kwargs)
    if not (isinstance(result, torch.Tensor) and result.numel() == 0):
        use_handle(_device(args))
    return result


@stands_in("addmm", "addmm.out", "_addmm_activation")
def addmm(op: Operator, *args: Any, **kwargs: Any) -> Any:
    """With a one-dimensional bias the product goes to cuBLASLt, which adds the bias itself."""
    machine = machines.current()
    machine.operations += 1
    machine.count("matmul_dtypes", str(args[2].dtype)[6:])
    result = generic(op, args, kwargs)
    if result.numel():
        use_handle(_device(args), "lt" if uses_lt(args[0], args[2], kwargs) else "cublas")
    return result


_LT_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def uses_lt(bias: torch.Tensor, mat2: torch.Tensor, kwargs: dict[str, Any]) -> bool:
    """Whether ``addmm`` fuses the bias by cuBLASLt. Source: aten/src/ATen/native/cuda/Blas.cpp."""
    return (
        bias.dim() == 1
        and bias.shape[0] == mat2.shape[1]
        and bias.is_contiguous()
        and kwargs.get("beta", 1) == 1
        and bias.dtype in _LT_DTYPES
        and mat2.shape[0] > 1
        and mat2.shape[1] > 1
    )
