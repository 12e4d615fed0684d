"""The child's side of a dry run: puts the virtual machine under the script, and writes the recording.

`install` is called in the child process before the script starts (see `flatout.launch`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from flatout.launch.ending import ending_of
from flatout.recording.schema import Device, Phase, Run, Step

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.recording import Writer
    from flatout.virtual.calibration import Calibration
    from flatout.virtual.files import FileGuard

UNLIMITED_BYTES = 1 << 50
# What Python itself has loaded before any script: a file of that name hides nothing.
_LOADED_BY_PYTHON = frozenset(("abc", "codecs", "genericpath", "io", "os", "posixpath", "ntpath", "site", "stat"))


class Options(msgspec.Struct, frozen=True):
    """What the parent asks for.

    `assume` gives values for what would have to be invented; `unlimited` lifts the memory limit. `own_files` are
    written by flatout's launcher while the script runs. `alike`: GPUs that the run may stand for as well, by label.
    """

    gpu: str
    steps: int
    recording: str
    assume: dict[str, float] = {}
    gpus_file: str | None = None
    allow_writes: bool = False
    unlimited: bool = False
    launched_as: str = "script"
    script: str = ""
    own_files: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()


class DryRunHook:
    """Follows the script's steps, stops it after enough of them, and closes the recording at its end."""

    def __init__(self, options: Options, machine: Any, writer: Any, guard: FileGuard) -> None:
        self._options = options
        self._machine = machine
        self._writer = writer
        self._guard = guard
        self._operations = 0
        self._closed = False
        self._state_bytes: dict[int, int] = {}

    def phase_changed(self, phase: Phase) -> None:
        self._machine.phase = phase
        self._machine.clock.phase_changed(phase)
        self._writer.doing(f"{phase}, step {self._machine.step + 1}")

    def optimizer_stepped(self, optimizer: Any) -> None:
        from flatout.virtual.categories import mark_optimizer

        self._state_bytes[id(optimizer)] = mark_optimizer(optimizer)
        self._machine.clock.skip()

    def step_completed(self, steps: int) -> None:
        self._note_steps(steps)
        if steps >= self._options.steps:
            from flatout.launch import stop_run

            stop_run(f"{steps} steps done")

    def _note_steps(self, steps: int) -> None:
        from flatout.steps.places import user_place

        machine = self._machine
        memory = machine.gpus[0].memory
        operations = machine.operations - self._operations
        self._operations = machine.operations
        while machine.step < steps:
            self._writer.step(Step(machine.step, operations, memory.sequence, memory.peak_bytes, user_place()))
            machine.step += 1
            operations = 0
            machine.clock.step_completed()
        self.phase_changed(machine.phase)  # the same phase, of the next step
        self._write_peak()
        machine.clock.skip()

    def failing(self, error: BaseException) -> None:
        """C++ may have named the native device of a virtual tensor."""
        from flatout.virtual.cuda_errors import put_right

        put_right(error)

    def finished(self, error: BaseException | None) -> None:
        """The script ended: by itself (None), stopped by us, or with an exception."""
        if self._closed:
            return
        self._closed = True
        counter = self._machine.steps.counter
        if error is None and counter.program_ends():
            self._note_steps(counter.completed)
        self._machine.clock.stop()
        tape = self._machine.clock.tape()
        if tape is not None:
            self._writer.tape(tape)
        self._write_peak()
        self._write_facts(error)
        sentence = self._guard.report().sentence()
        if sentence:
            self._writer.assume(sentence)
        self._guard.uninstall()
        self._writer.close(ending_of(error))
        if any(thread.daemon and not thread.name.startswith("flatout") for thread in threading.enumerate()):
            from flatout.virtual.parking import park_other_threads

            park_other_threads()

    def forked(self) -> None:
        """In a forked child of the script: nothing more is recorded here."""
        self._closed = True

    def _write_peak(self) -> None:
        memory = self._machine.gpus[0].memory
        if memory.sequence:
            self._writer.peak(memory.peak())

    def _write_facts(self, error: BaseException | None) -> None:
        for name, value in self._machine.facts.items():
            self._writer.fact(name, value)
        if self._options.alike:
            self._writer.fact("alike", self._machine.alike.labels())
        self._writer.fact("optimizer_state_bytes", sum(self._state_bytes.values()))
        memory = self._machine.gpus[0].memory
        self._writer.fact("live_bytes_by_category", memory.live_by_category())
        caught = self._machine.out_of_memory_errors - (ending_of(error).outcome == "out_of_memory")
        self._writer.fact("out_of_memory_caught", max(caught, 0))
        self._writer.fact("allocation_retries", memory.allocator.stats().get("num_alloc_retries", 0))


def install(raw: dict[str, Any]) -> DryRunHook | None:
    """Put the virtual machine under this process. `raw` is `Options` as JSON.

    A fresh worker process of the script gets a machine too, but nothing of it is recorded.
    """
    options = msgspec.convert(raw, Options, strict=False)

    from flatout.gpu import all_gpus, find
    from flatout.virtual.alike import Alike
    from flatout.virtual.boot import boot

    specification = find(options.gpu, Path(options.gpus_file) if options.gpus_file else None)
    writer = _writer(options, specification) if options.launched_as == "script" else None
    if writer is not None:
        writer.doing("starting, before the script's first line")
    host = _calibration() if writer is not None else None
    machine = boot(
        specification,
        writer=writer,
        assume=options.assume,
        usable_bytes=UNLIMITED_BYTES if options.unlimited else specification.usable_bytes,
        calibrated=writer is not None,
    )
    guard = _guard_files(options)
    if writer is None or host is None:
        return None
    writer.fact("host", msgspec.structs.asdict(host))
    if options.alike:
        known = all_gpus(Path(options.gpus_file) if options.gpus_file else None)
        machine.alike = Alike(gpu for gpu in known if gpu.label in set(options.alike))

    from flatout.steps import watch_steps
    from flatout.virtual.clock import Clock

    machine.clock = Clock(machine, host.issue_ratio)
    hook = DryRunHook(options, machine, writer, guard)
    machine.steps = watch_steps(hook)
    writer.doing("setup, before the first step")
    writer.flush()  # what a script that dies at once was doing
    for name in hidden_modules(Path(sys.argv[0]).absolute().parent if sys.argv[0:1] else Path.cwd()):
        writer.assume(f"{name} beside the script hides the module of that name in a plain run: rename it")
    return hook


def _calibration() -> Calibration:
    from flatout.virtual.calibration import calibration

    return calibration()


def hidden_modules(folder: Path) -> list[str]:
    """Files beside the script that a plain run would load in place of modules which PyTorch needs, or of PyTorch.

    Here PyTorch is loaded before the script's folder is on the path.
    """
    loaded = ((sys.stdlib_module_names | {"torch", "numpy"}) & sys.modules.keys()) - _LOADED_BY_PYTHON
    try:
        return sorted(path.name for path in folder.glob("*.py") if path.stem in loaded)
    except OSError:
        return []


def _guard_files(options: Options) -> FileGuard:
    from flatout.virtual.files import FileOptions
    from flatout.virtual.files import install as install_guard
    from flatout.virtual.saving import tensor_ops

    recording = os.path.abspath(options.recording)
    allowed = (*(recording + suffix for suffix in ("", "-journal", "-wal", "-shm")), *options.own_files)
    return install_guard(FileOptions(allow_writes=options.allow_writes, allowed=allowed), tensor_ops())


def _writer(options: Options, specification: GPU) -> Writer:
    import torch

    from flatout.recording import Writer

    return Writer(
        options.recording,
        Run(
            maker="virtual",
            script=options.script or sys.argv[0],
            arguments=tuple(sys.argv[1:]),
            torch_version=str(torch.__version__),
            started_unix_seconds=time.time(),
            device=Device(
                specification.name,
                specification.memory_bytes,
                specification.usable_bytes,
                specification.context_bytes,
            ),
        ),
    )
