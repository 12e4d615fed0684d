from __future__ import annotations

import pytest
from fakes import EXIT, OOM, PLACE, FakeRecording, crashed, ended, of

from flatout.launch import Exit
from flatout.recording.schema import Ending, Failure


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
            ["SIGINT"],
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
    assert "flatout failed" in result.assumptions[-1].text


def test_an_exit_with_code_0_is_no_error() -> None:
    assert of(FakeRecording(ending=Ending("completed", 0, Failure("SystemExit", "0")))).outcome == "fits"


REFUSED = Failure("flatout.errors.UnsupportedError", "no Triton here", PLACE)
ASSERTED = Failure("RuntimeError", "x INTERNAL ASSERT FAILED at y", PLACE)
NO_INPUT = Failure("EOFError", "EOF when reading a line", PLACE)
SHORT_FILE = Failure("EOFError", "Ran out of input", PLACE)
CTRL_C = Failure("KeyboardInterrupt", "", PLACE)


@pytest.mark.parametrize(
    ("ending", "exit", "steps", "cause", "says_nothing", "ended_itself"),
    [
        (Ending("error", 1, OOM), ended(1), 0, "exception", False, False),
        (Ending("error", 1, SHORT_FILE), ended(1), 0, "exception", False, False),
        (Ending("error", 2, EXIT), ended(2, failure=EXIT), 0, "script", True, True),
        (Ending("error", 2, EXIT), ended(2, failure=EXIT), 3, "script", False, False),
        (Ending("completed", 0), ended(2), 0, "script", True, True),
        (Ending("error", 1, NO_INPUT), ended(1), 0, "script", True, True),
        (Ending("interrupted", 130, CTRL_C), crashed(2), 0, "script", True, True),
        (Ending("interrupted", 130, CTRL_C), ended(130, interrupted=True), 0, "interrupted", True, False),
        (Ending("error", 1, REFUSED), ended(1), 0, "refused", True, False),
        (Ending("error", 1, ASSERTED), ended(1), 2, "refused", True, False),
        (None, ended(-2, timed_out=True), 0, "timeout", True, False),
        (None, ended(-2, timed_out=True), 2, "timeout", True, False),
        (None, crashed(11), 0, "process", False, False),
        (None, ended(70), 0, "process", False, False),
        (None, ended(0, trouble="OSError: full"), 0, "flatout", True, False),
    ],
)
def test_whose_end_it_was(
    ending: Ending | None, exit: Exit, steps: int, cause: str, says_nothing: bool, ended_itself: bool
) -> None:
    result = of(FakeRecording(ending=ending, step_count=steps), exit)
    assert result.error is not None
    assert (result.error.cause, result.says_nothing, result.ended_itself) == (cause, says_nothing, ended_itself)


def test_a_script_that_ends_itself_after_running_out_of_memory_tells_something() -> None:
    recording = FakeRecording(ending=Ending("completed", 0), step_count=0, out_of_memory_caught=1)
    result = of(recording, ended(1))
    assert result.outcome == "error"
    assert not result.says_nothing
    assert not result.ended_itself


def test_the_end_knows_what_the_run_was_doing() -> None:
    result = of(FakeRecording(ending=Ending("out_of_memory", 1, OOM), doing="forward, step 2"), ended(1))
    assert result.error is not None
    assert result.error.doing == "forward, step 2"
