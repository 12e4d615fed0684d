"""``torch.distributed`` over NCCL in a world of one: collectives that have nobody to talk to.

The group is PyTorch's own do-nothing process group, under NCCL's name. Larger worlds are refused by name.
"""

from __future__ import annotations

from datetime import timedelta
from types import ModuleType
from typing import Any

import torch

from flatout.errors import UnsupportedError
from flatout.steps.imports import when_imported
from flatout.virtual.face.patches import Patches


def _refuse_world(size: int) -> None:
    if size > 1:
        raise UnsupportedError(
            f"a process group of {size} ranks over NCCL is not supported on the virtual GPU "
            "(--gpus is not supported yet): run the script as one process (WORLD_SIZE=1, or without torchrun)"
        )


def _silent_group(rank: int, size: int) -> Any:
    group: Any = torch._C._distributed_c10d.FakeProcessGroup
    if hasattr(group, "_create_internal"):
        return group._create_internal(rank, size)
    return group(rank, size)


class Options:
    """``ProcessGroupNCCL.Options``: kept, and without effect."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = timedelta(minutes=10)
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""
        self.split_from: Any = None
        self.split_color = 0
        self.config: Any = type("NCCLConfig", (), {})()


class _GroupType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C._distributed_c10d.FakeProcessGroup)


class ProcessGroupNCCL(metaclass=_GroupType):
    """In place of the class in C that CPU builds do not have."""

    Options = Options

    def __new__(cls, store: Any, rank: int, size: int, options: Any = None) -> Any:
        _refuse_world(size)
        torch.cuda._lazy_init()
        return _silent_group(rank, size)


def _all_reduce(tensors: Any, group: Any, *options: Any, **more: Any) -> Any:
    """A sum over one rank. Done here because gradients' hooks want the result from the work's future."""
    future: Any = torch.futures.Future()
    future.set_result(list(tensors))
    c10d: Any = torch._C._distributed_c10d
    work = c10d._create_work_from_future(future)
    return tensors, work.boxed()


_libraries: list[Any] = []


def _register_kernels() -> None:
    if not _libraries:
        library: Any = torch.library.Library("c10d", "IMPL")
        library.impl("allreduce_", _all_reduce, "CUDA")
        _libraries.append(library)


def _patch(patches: Patches, module: Any) -> None:
    # A build with CUDA has the real class, which wants a driver; one without has no such name.
    patches.set(module, "ProcessGroupNCCL", ProcessGroupNCCL)
    patches.set(module, "_NCCL_AVAILABLE", True)
    if hasattr(module, "default_pg_nccl_timeout"):
        patches.set(module, "default_pg_nccl_timeout", timedelta(minutes=10))  # source: kProcessGroupNCCLDefaultTimeout
    patches.set(module, "is_nccl_available", lambda: True)


def install(patches: Patches) -> None:
    """Make NCCL available, where ``torch.distributed`` is."""
    distributed: Any = torch.distributed
    if not distributed.is_available():
        return
    patches.set(distributed, "is_nccl_available", lambda: True)
    silent: Any = torch._C._distributed_c10d.FakeProcessGroup
    # What NCCL's group can and this one does not, because nothing is ever out of step in a world of one.
    patches.set(silent, "_set_sequence_number_for_group", lambda self: None)
    patches.set(silent, "_get_sequence_number_for_group", lambda self: 0)
    for name in ("_shutdown", "shutdown", "_abort", "abort"):
        if not hasattr(silent, name):
            patches.set(silent, name, lambda self, *args: None)
    patches.set(torch.cuda.nccl, "is_available", lambda tensors: True)
    patches.set(torch.cuda.nccl, "version", lambda: (2, 27, 3))

    _register_kernels()

    def patch(module: ModuleType) -> None:
        _patch(patches, module)

    when_imported("torch.distributed.distributed_c10d", patch)
