"""A GPU and a recording as the judge reads them, without files and without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from flatout.launch import Exit
from flatout.launch.outcome import failure_from_crash
from flatout.recording.schema import Assumption, Ending, Failure, Peak, Place, Run, Step, Wait
from flatout.virtual.judging import judge
from flatout.virtual.prediction import Result

MIB = 1 << 20
GIB = 1 << 30
PLACE = Place("train.py", 42, "main")
RUN = Run("virtual", "train.py", ("--lr", "1"), "2.13.0+cpu", 0.0)
EXIT = Failure("SystemExit", "no data", PLACE)
OOM = Failure("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB.", Place("train.py", 31))


def ended(code: int = 0, seconds: float = 1.5, **how: Any) -> Exit:
    return Exit(code=code, seconds=seconds, **how)


def crashed(number: int) -> Exit:
    return ended(128 + number, signal=number, failure=failure_from_crash(number, ""))


@dataclass
class FakeGPU:
    name: str = "NVIDIA Test"
    label: str = "Test 16 GB"
    memory_bytes: int = 16 * GIB
    usable_bytes: int = 15 * GIB
    context_bytes: int = 500 * MIB
    usable_is_estimated: bool = False


@dataclass
class FakeRecording:
    reserved_bytes: int | None = 8 * GIB
    upper_bound_bytes: int | None = None
    ending: Ending | None = field(default_factory=lambda: Ending("stopped", 0))
    doing: str = ""
    step_count: int = 3
    out_of_memory_caught: int = 0
    run: Run = RUN

    def peak(self) -> Peak | None:
        if self.reserved_bytes is None:
            return None
        upper = self.reserved_bytes if self.upper_bound_bytes is None else self.upper_bound_bytes
        kinds = {"parameters": self.reserved_bytes // 2, "activations": self.reserved_bytes // 4}
        return Peak(sum(kinds.values()), self.reserved_bytes, upper, 0, "backward", PLACE, kinds)

    def steps(self) -> list[Step]:
        return [Step(index, 100, 10 * index, GIB, PLACE) for index in range(self.step_count)]

    def tape(self) -> None:
        return None

    def waits(self) -> list[Wait]:
        return [Wait(PLACE, ".item()", 3, True, False)]

    def assumptions(self) -> list[Assumption]:
        return [Assumption("the loss was taken as 2.3", PLACE, 3), Assumption("cuDNN is deterministic")]

    def facts(self) -> dict[str, Any]:
        return {"attention": "flash", "out_of_memory_caught": self.out_of_memory_caught}


def of(
    recording: FakeRecording,
    exit: Exit | None = None,
    unlimited: FakeRecording | None = None,
    gpu: FakeGPU | None = None,
) -> Result:
    return judge(cast(Any, recording), cast(Any, gpu or FakeGPU()), exit or ended(), cast(Any, unlimited))
