from __future__ import annotations

import msgspec
import pytest
from fakes import GIB, OOM, RUN, FakeGPU, FakeRecording, ended, of
from hypothesis import given
from hypothesis import strategies as st

from flatout.recording.schema import Assumption, Ending, Failure, Place
from flatout.virtual.prediction import GOOD_NEWS, SCHEMA, Prediction, Result, gather


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
        "cause": "exception",
        "doing": "",
    }


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
    assert data["assumptions"] == ["the loss was taken as 2.3 (train.py:42; 3 times)", "cuDNN is deterministic"]
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
    assert "Test 16 GB" in of(FakeRecording(), gpu=FakeGPU(usable_is_estimated=True)).assumptions[-1].text


def test_assumptions_of_several_gpus_are_said_once_and_bad_news_wins() -> None:
    bad = of(FakeRecording(ending=Ending("out_of_memory", 1, OOM)), ended(1))
    good = of(FakeRecording())
    prediction = gather(RUN, [good, bad])
    assert len(prediction.assumptions) == 2
    assert prediction.is_bad_news
    assert not gather(RUN, [good]).is_bad_news


def test_assumptions_are_grouped_by_their_words() -> None:
    def assuming(*assumptions: Assumption) -> Result:
        recording = FakeRecording()
        recording.assumptions = lambda: list(assumptions)  # type: ignore[method-assign]
        return of(recording)

    t4 = assuming(
        Assumption("values were made up", None, 2),
        Assumption("half were selected", Place("a.py", 3, "f"), 4),
        Assumption("half were selected", Place("b.py", 9), 5),
        Assumption("half were selected", Place("a.py", 3, "g")),
    )
    lines = [Assumption("everywhere", Place("c.py", line)) for line in range(1, 8)]
    a100 = assuming(Assumption("values were made up", None, 7), *lines)
    assert gather(RUN, [t4, a100]).assumptions == (
        "values were made up (7 times)",
        "half were selected (a.py:3, b.py:9; 10 times)",
        "everywhere (c.py:1, c.py:2, c.py:3, 4 more lines; 7 times)",
    )
