"""The simulated machine: its GPUs, what the program is doing on them, and who is told.

There is one machine a process (`current`), as there is one CUDA driver.
"""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any

import torch

from flatout.recording.schema import Phase
from flatout.steps.places import user_place
from flatout.virtual import files
from flatout.virtual.alike import Alike
from flatout.virtual.cuda_errors.driver import invalid_device_ordinal
from flatout.virtual.memory import DeviceMemory

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.recording import Writer


class VirtualGPU:
    """One simulated GPU: what it is, and its memory."""

    def __init__(self, number: int, specification: GPU, memory: DeviceMemory) -> None:
        self.number = number
        self.specification = specification
        self.memory = memory
        self.device = torch.device("cuda", number)


class _ThreadState(threading.local):
    """What is separate for each thread of the script, as in CUDA."""

    device_number = 0
    stream = 0
    capturing = False


class Machine:
    """The simulated machine.

    Attributes:
        gpus: the GPUs, in CUDA's order.
        phase: what the program is doing now.
        step: finished optimizer steps.
        operations: operations issued to a GPU since the start.
        out_of_memory_errors: how often memory ran out, also where the script caught that.
        facts: what the recording shall tell, as plain data.
        alike: other GPUs on which the script would have taken the same path so far.
        initialized: whether the script has used CUDA (what ``torch.cuda.is_initialized`` says).
        clock: who writes the tape (see `flatout.virtual.clock`), or None.
        workspaces: memory that libraries keep once taken, by device, stream, thread and library.
    """

    def __init__(
        self, gpus: list[VirtualGPU], writer: Writer | None = None, assume: dict[str, float] | None = None
    ) -> None:
        self.gpus = gpus
        self.device_count = len(gpus)
        self.writer = writer
        self.assume = assume or {}
        self.phase: Phase = "setup"
        self.step = 0
        self.operations = 0
        self.out_of_memory_errors = 0
        self.initialized = False
        self.thread = _ThreadState()
        self.facts: dict[str, Any] = {}
        self.alike = Alike()
        self.workspaces: dict[Any, Any] = {}
        self.steps: Any = None
        self.clock: Any = None
        self.tainted = False
        self.sync_debug_mode = 0
        self.face: Any = None

    def gpu(self, number: int | None = None) -> VirtualGPU:
        """The GPU of that number; the current one of this thread without a number."""
        number = self.thread.device_number if number is None else number
        if not 0 <= number < len(self.gpus):
            raise invalid_device_ordinal()
        return self.gpus[number]

    def wait(
        self,
        reason: str,
        *,
        invented: bool = False,
        steered: bool = False,
        stream: int | None = None,
        event: int | None = None,
    ) -> None:
        """The host waits for the GPU here: for a stream, an event, or all of it.

        Warns or raises where the script asked for that (sync debug mode).
        """
        if self.sync_debug_mode and reason != "synchronize":
            _warn_of_synchronization(self.sync_debug_mode)
        place = user_place()
        if self.writer is not None:
            self.writer.wait(place, reason, invented=invented, steered=steered)
        if self.clock is not None:
            self.clock.wait(reason, place, stream, event)

    def assume_that(self, text: str, *, anywhere: bool = False) -> None:
        """Note something that had to be assumed, with the line of the script where (unless it holds `anywhere`)."""
        if self.writer is not None:
            self.writer.assume(text, None if anywhere else user_place())

    def taint(self) -> None:
        """From now on, what the script computes on the host may come from invented values."""
        if not self.tainted:
            self.tainted = True
            files.taint()

    def count(self, fact: str, name: str) -> None:
        """Add one to a counted fact, such as ``attention_kernels`` / ``flash``."""
        counts = self.facts.setdefault(fact, {})
        counts[name] = counts.get(name, 0) + 1


def _warn_of_synchronization(mode: int) -> None:
    # Source: c10/cuda/CUDAFunctions.cpp, warn_or_error_on_sync.
    text = "called a synchronizing CUDA operation"
    if mode == 2:
        raise RuntimeError(text)
    warnings.warn(text, UserWarning, stacklevel=3)


_current: Machine | None = None


def current() -> Machine:
    """The machine of this process. An assertion error where none is installed."""
    assert _current is not None, "no virtual machine is installed"
    return _current


def installed() -> Machine | None:
    """The machine of this process, or None."""
    return _current


def install(machine: Machine) -> None:
    """Make `machine` the machine of this process."""
    global _current
    _current = machine
