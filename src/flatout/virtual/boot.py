"""Putting the virtual machine together and under PyTorch: the one list of what is installed, in order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flatout.virtual import autocast, host, kernels, registration
from flatout.virtual import machine as machines
from flatout.virtual.allocator import AllocatorConfiguration, CachingAllocator
from flatout.virtual.face import cudnn, flex
from flatout.virtual.face import install as face
from flatout.virtual.kernels import accumulation
from flatout.virtual.machine import Machine, VirtualGPU
from flatout.virtual.memory import DeviceMemory

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.recording import Writer


def boot(
    specification: GPU,
    *,
    writer: Writer | None = None,
    assume: dict[str, float] | None = None,
    usable_bytes: int | None = None,
    calibrated: bool = True,
) -> Machine:
    """One simulated GPU under this process's PyTorch. `usable_bytes` overrides what the GPU has.

    Without `calibrated`, sums of gradients are not added in place where CUDA would: for a process whose memory nobody
    asks for. The calibration loads PyTorch's compiler, which takes longer than all the rest together.
    """
    allocator = CachingAllocator(
        specification.usable_bytes if usable_bytes is None else usable_bytes,
        outside_bytes=specification.context_bytes,
        configuration=AllocatorConfiguration.from_environment(os.environ),
    )
    memory = DeviceMemory(1, allocator)
    machine = Machine([VirtualGPU(0, specification, memory)], writer, assume)
    memory.machine = machine
    machines.install(machine)
    kernels.load()
    registration.register()
    if calibrated:
        accumulation.calibrate()
    autocast.install()
    machine.face = face.install(machine)
    host.install()
    cudnn.install()
    flex.install()
    return machine
