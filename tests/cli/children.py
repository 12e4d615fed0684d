"""`flatout predict` with the child replaced: what the command line made of its arguments, without a virtual GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flatout.launch import Exit, Target
from flatout.recording import Writer
from flatout.recording.schema import Device, Ending, Failure, Peak, Place, Run, Step
from flatout.virtual import dry_run

GIB = 1 << 30
OUT_OF_MEMORY = Failure(
    "torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB.", Place("train.py", 1)
)


@dataclass(frozen=True)
class Call:
    """One child that would have been started."""

    target: Target
    options: dict[str, Any]
    timeout_seconds: float | None
    stdout_to_stderr: bool
    quiet: bool


@dataclass
class FakeChildren:
    """Stands for `supervise`: a script that needs `reserved_bytes`, and ends as `ending` says when there is room."""

    reserved_bytes: int = 4 * GIB
    ending: Ending = field(default_factory=lambda: Ending("stopped", 0))
    usable_bytes: Callable[[str], int] = lambda label: 80 * GIB
    ending_on: Callable[[str], Ending | None] = lambda label: None
    steps: int = 1
    alike: Callable[[str, str], bool] = lambda gpu, other: True
    calls: list[Call] = field(default_factory=list)

    def __call__(self, target: Target, *, hook: str, options: dict[str, Any], **how: Any) -> Exit:
        assert hook == dry_run.HOOK
        self.calls.append(
            Call(target, options, how["timeout_seconds"], how["stdout_to_stderr"], how["quiet"]),
        )
        fits = options.get("unlimited") or self.reserved_bytes < self.usable_bytes(options["gpu"])
        ending = (self.ending_on(options["gpu"]) or self.ending) if fits else Ending("out_of_memory", 1, OUT_OF_MEMORY)
        run = Run("virtual", target.name, tuple(target.arguments), "2.13.0", time.time(), Device("Test", 1, 1, 1))
        writer = Writer(options["recording"], run)
        half = self.reserved_bytes // 2
        if half:
            kinds = {"parameters": half}
            place = Place("train.py", 1)
            writer.peak(Peak(half, self.reserved_bytes, self.reserved_bytes, 0, "forward", place, kinds))
        for index in range(self.steps):
            writer.step(Step(index, 10, 0, half))
        if "alike" in options:
            same = [other for other in options["alike"] if self.alike(options["gpu"], other)]
            writer.fact("alike", same)
        writer.close(ending)
        return Exit(code=ending.exit_code, seconds=0.1, failure=ending.failure)
