from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.launch import Exit
from flatout.launch.outcome import failure_from_crash
from flatout.recording.schema import Assumption, Ending, Failure, Peak, Place, Run, Step, Wait
from flatout.virtual.judging import judge
from flatout.virtual.prediction import GOOD_NEWS, SCHEMA, Prediction, Result, gather

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
    run: Run = RUN

    def peak(self) -> Peak | None:
        if self.reserved_bytes is None:
            return None
        upper = self.reserved_bytes if self.upper_bound_bytes is None else self.upper_bound_bytes
        kinds = {"parameters": self.reserved_bytes // 2, "activations": self.reserved_bytes // 4}
        return Peak(sum(kinds.values()), self.reserved_bytes, upper, 0, "backward", PLACE, kinds)

    def steps(self) -> list[Step]:
        return [Step(index, 100, 10 * index, GIB, PLACE) for index in (0, 1, 2)]

    def waits(self) -> list[Wait]:
        return [Wait(PLACE, ".item()", 3, True, False)]

    def assumptions(self) -> list[Assumption]:
        return [Assumption("the loss was taken as 2.3", PLACE, 3), Assumption("cuDNN is deterministic")]

    def facts(self) -> dict[str, Any]:
        return {"attention": "flash"}


def of(
    recording: FakeRecording,
    exit: Exit | None = None,
    unlimited: FakeRecording | None = None,
    gpu: FakeGPU | None = None,
) -> Result:
    return judge(cast(Any, recording), cast(Any, gpu or FakeGPU()), exit or ended(), cast(Any, unlimited))


def test_fits_when_reserved_and_context_are_within_usable_memory() -> None:
    gpu = FakeGPU()
    edge = gpu.usable_bytes - gpu.context_bytes
    result = of(FakeRecording(edge))
    assert result.outcome == "fits"
    assert result.memory is not None
    assert result.memory.free_bytes == 0
    assert of(FakeRecording(edge + 1)).outcome == "out_of_memory"


def test_may_not_fit_when_only_the_upper_bound_does_not() -> None:
    result = of(FakeRecording(8 * GIB, upper_bound_bytes=15 * GIB))
    assert result.outcome == "may_not_fit"
    assert result.outcome in GOOD_NEWS


@given(st.integers(0, 1 << 36), st.integers(0, 1 << 36), st.integers(1, 1 << 36), st.integers(0, 1 << 30))
def test_outcome_is_the_definition(reserved: int, unsure: int, usable: int, context: int) -> None:
    gpu = FakeGPU(usable_bytes=usable, context_bytes=context)
    result = of(FakeRecording(reserved, upper_bound_bytes=reserved + unsure), gpu=gpu)
    if reserved + unsure + context <= usable:
        assert result.outcome == "fits"
    elif reserved + context <= usable:
        assert result.outcome == "may_not_fit"
    else:
        assert result.outcome == "out_of_memory"


def test_out_of_memory_says_how_much_is_needed() -> None:
    limited = FakeRecording(14 * GIB, ending=Ending("out_of_memory", 1, OOM))
    result = of(limited, ended(1), FakeRecording(30 * GIB))
    assert result.outcome == "out_of_memory"
    assert result.exit_code == 1
    assert result.error is not None
    assert (result.error.file, result.error.line) == ("train.py", 31)
    assert result.needed_bytes == 30 * GIB + FakeGPU().context_bytes
    assert result.memory is not None
    assert result.memory.peak_reserved_bytes == 14 * GIB
    assert result.unlimited is not None
    assert result.unlimited.free_bytes < 0


@pytest.mark.parametrize(
    "second",
    [
        FakeRecording(30 * GIB, ending=None),
        FakeRecording(30 * GIB, ending=Ending("error", 1)),
        FakeRecording(30 * GIB, ending=Ending("completed", 3)),
        FakeRecording(None),
    ],
)
def test_need_is_unknown_when_the_second_run_failed(second: FakeRecording) -> None:
    limited = FakeRecording(14 * GIB, ending=Ending("out_of_memory", 1, OOM))
    assert of(limited, ended(1), second).needed_bytes is None


@pytest.mark.parametrize("name", ["torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError", "OutOfMemoryError"])
def test_out_of_memory_is_told_from_the_exception_alone(name: str) -> None:
    limited = FakeRecording(ending=Ending("error", 1, Failure(name, "CUDA out of memory.")))
    assert of(limited, ended(1)).outcome == "out_of_memory"


def test_error_keeps_message_and_place() -> None:
    failure = Failure("RuntimeError", "mat1 and mat2 must have the same dtype", Place("model.py", 7), ("in batch 3",))
    result = of(FakeRecording(ending=Ending("error", 1, failure)), ended(1))
    assert result.outcome == "error"
    assert msgspec.to_builtins(result.error) == {
        "type": "RuntimeError",
        "message": "mat1 and mat2 must have the same dtype",
        "file": "model.py",
        "line": 7,
        "notes": ("in batch 3",),
    }


@pytest.mark.parametrize(
    ("recording", "exit", "kind", "words"),
    [
        (FakeRecording(ending=None, doing="step 2"), crashed(6), "SIGABRT", ["C++", "step 2"]),
        (FakeRecording(ending=None, doing="step 2"), crashed(9), "SIGKILL", ["out of memory", "step 2"]),
        (FakeRecording(ending=None), crashed(11), "SIGSEGV", ["SIGSEGV"]),
        (FakeRecording(ending=None), ended(137, signal=9), "killed", ["SIGKILL"]),
        (FakeRecording(doing="load"), ended(-2, timed_out=True, seconds=600), "timeout", ["--timeout", "load"]),
        (FakeRecording(ending=Ending("timeout", 1, doing="load")), ended(1), "timeout", ["--timeout", "load"]),
        (FakeRecording(), ended(130, interrupted=True), "interrupted", ["Ctrl-C"]),
        (FakeRecording(ending=Ending("completed", 3)), ended(3), "SystemExit", ["exit code 3"]),
        (FakeRecording(ending=None), ended(70), "killed", ["exit code 70", "os._exit"]),
        (
            FakeRecording(ending=None),
            ended(0, trouble="OSError: full"),
            "flatout",
            ["mistake of flatout's own", "full"],
        ),
        (
            FakeRecording(ending=Ending("interrupted", 130, Failure("KeyboardInterrupt", "", PLACE))),
            ended(130),
            "KeyboardInterrupt",
            [],
        ),
        (
            FakeRecording(ending=Ending("error", 2, EXIT)),
            ended(2, failure=EXIT),
            "SystemExit",
            ["exit code 2: no data"],
        ),
    ],
)
def test_a_run_that_was_ended_is_an_error(recording: FakeRecording, exit: Exit, kind: str, words: list[str]) -> None:
    result = of(recording, exit)
    assert result.outcome == "error"
    assert result.error is not None
    assert result.error.type == kind
    assert all(word in result.error.message for word in words), result.error.message


def test_a_failure_of_flatouts_own_is_told_beside_the_scripts() -> None:
    result = of(FakeRecording(ending=Ending("error", 1, EXIT)), ended(1, failure=EXIT, trouble="OSError: full"))
    assert result.error is not None
    assert result.error.type == "SystemExit"
    assert "flatout failed" in result.assumptions[-1]


def test_an_exit_with_code_0_is_no_error() -> None:
    assert of(FakeRecording(ending=Ending("completed", 0, Failure("SystemExit", "0")))).outcome == "fits"


def test_a_script_without_the_gpu_says_so() -> None:
    result = of(FakeRecording(None))
    assert not result.used_gpu
    assert result.outcome == "fits"
    assert result.memory is not None
    assert (result.memory.peak_allocated_bytes, result.memory.peak_at) == (0, None)


def test_json_has_the_documented_shape() -> None:
    prediction = gather(RUN, [of(FakeRecording())])
    data = msgspec.json.decode(msgspec.json.encode(prediction))
    assert {key: data[key] for key in ("schema", "torch", "script", "findings")} == {
        "schema": SCHEMA,
        "torch": "2.13.0",
        "script": "train.py",
        "findings": [],
    }
    assert data["assumptions"] == ["the loss was taken as 2.3 (train.py:42, 3 times)", "cuDNN is deterministic"]
    result = data["results"][0]
    assert result["gpu"] == "NVIDIA Test"
    assert result["time"] is None
    assert result["largest_batch"] is None
    assert result["error"] is None
    assert (result["steps"], result["operations"]) == (3, 300)
    memory = result["memory"]
    assert memory["capacity_bytes"] == 16 * GIB
    assert memory["peak_at"] == {"step": 1, "phase": "backward", "file": "train.py", "line": 42}
    assert memory["by_category"] == {"parameters": 4 * GIB, "activations": 2 * GIB}
    assert msgspec.json.decode(msgspec.json.encode(prediction), type=Prediction) == prediction


def test_an_estimated_gpu_is_an_assumption() -> None:
    assert "Test 16 GB" in of(FakeRecording(), gpu=FakeGPU(usable_is_estimated=True)).assumptions[-1]


def test_assumptions_of_several_gpus_are_said_once_and_bad_news_wins() -> None:
    bad = of(FakeRecording(ending=Ending("out_of_memory", 1, OOM)), ended(1))
    good = of(FakeRecording())
    prediction = gather(RUN, [good, bad])
    assert len(prediction.assumptions) == 2
    assert prediction.is_bad_news
    assert not gather(RUN, [good]).is_bad_news
