"""How fast the host issues work: a few constants, scaled to the processor at hand."""

from __future__ import annotations

import msgspec

from flatout.recording.schema import Phase

QUEUE_LAUNCHES = 1024
"""Kernels that the driver takes before a further launch waits. Source: measured by many, documented by none; 1024 for
CUDA up to 12 (NVIDIA developer forums, "kernel launch queue depth")."""


class Host(msgspec.Struct, frozen=True):
    """What the host takes for each thing that it does, in seconds.

    What issuing takes is the sum of two parts. Measured: Python, dispatcher and autograd for an operation of a small
    network on the CPU, 5.0, 4.2 and 2.0 us forward, backward and in an optimizer that goes one by one
    (benchmarks/issuing.py: AMD EPYC 9004, Python 3.11, PyTorch 2.13, 2026-12-01). Assumed: 4 us for a launch with
    PyTorch's allocator and guards around it, 3 us for the launch alone. Published traces give no better figures: in
    those of ResNet-50 on a V100 (pytorch/kineto, tb_plugin/samples) the medians are 89, 57 and 37 us from one operation
    to the next and 9 us a launch, but a profiler was at work, which makes a small network several times as slow.

    Attributes:
        forward_seconds: issuing one operation, with the Python and the bookkeeping of autograd that go with it.
        backward_seconds: the same in a backward pass, where no Python runs.
        optimizer_seconds: the same in an optimizer's step.
        kernel_seconds: each further kernel of the same operation.
        compiled_seconds: issuing one operation from a compiler's code: no dispatcher, no autograd. Assumed: inductor's
            wrapper calls Triton's launcher or an ``out=`` overload from Python.
        call_seconds: what a call of a compiled region takes before that: guards, and handing over arguments. Assumed.
        graph_seconds: launching a CUDA graph, of any length. Source: NVIDIA technical blog, "Constant-time launch for
            straight-line CUDA graphs" (2024), with PyTorch's call around it.
        wait_seconds: a wait that finds nothing left to wait for.
        pageable_bytes_per_second: copying memory that is not page-locked into the driver's own buffer.
        pinned_ratio: share of the bus's rate that copies from page-locked memory reach.
        queue_launches: kernels that may be issued and not yet begun.
        handover_seconds: taking a batch that a worker has made, ready as it is: tensors come as handles of shared
            memory that have to be opened. Measured on a cloud machine of two cores (PyTorch 2.13, batches of two
            tensors, 2026-12-01): 0.9 to 1.3 ms.
        cores: processors that loader workers share with the training process.
        scale: how much longer everything takes than on the machine that the tape is of.
        issue_ratio: how much longer that machine takes to issue work than the one that the constants are of; the tape
            tells (`Tape.issue_ratio`, measured by `flatout.virtual.calibration`).
    """

    forward_seconds: float = 9e-6
    backward_seconds: float = 8e-6
    optimizer_seconds: float = 6e-6
    kernel_seconds: float = 3e-6
    compiled_seconds: float = 4e-6
    call_seconds: float = 40e-6
    graph_seconds: float = 8e-6
    wait_seconds: float = 8e-6
    pageable_bytes_per_second: float = 6e9
    pinned_ratio: float = 0.8
    queue_launches: int = QUEUE_LAUNCHES
    handover_seconds: float = 1e-3
    cores: int = 8
    scale: float = 1.0
    issue_ratio: float = 1.0

    @property
    def issuing(self) -> float:
        """What the constants of issuing are to be multiplied by."""
        return self.scale * self.issue_ratio

    def issue_seconds(self, phase: Phase, kernels: int) -> float:
        """Issuing an operation of so many kernels (0 for a view, which is issued too, though nothing is launched)."""
        first = self.forward_seconds
        if phase == "backward":
            first = self.backward_seconds
        elif phase == "optimizer":
            first = self.optimizer_seconds
        if not kernels:
            return first * self.issuing / 3
        return (first + (kernels - 1) * self.kernel_seconds) * self.issuing
