"""Why a run did not reach its end: what happened to the process comes before what the script made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatout.recording.schema import Failure, Place
from flatout.virtual.prediction import Cause, PredictedError

if TYPE_CHECKING:
    from flatout.launch import Exit
    from flatout.recording import Recording

# What PyTorch says where its own assumptions do not hold: here that is because the GPU is virtual.
_PYTORCHS_OWN_MISTAKE = ("INTERNAL ASSERT FAILED", "report a bug to PyTorch", "Please file an issue", "Internal error:")
_NO_INPUT = "EOF when reading a line"  # what Python's `input` says at the end of standard input
_REFUSED = "flatout.errors.UnsupportedError"


def early_end(recording: Recording, exit: Exit) -> PredictedError | None:
    """What ended the run before its time; None where it ended well, or was stopped after the steps asked for."""
    ending = recording.ending
    outcome = None if ending is None else ending.outcome
    doing = recording.doing or ("" if ending is None else ending.doing)
    failure = exit.failure if ending is None or ending.failure is None else ending.failure
    code = exit_code(recording, exit)

    def error(cause: Cause, type: str, message: str, at: Failure | None = failure) -> PredictedError:
        file, line = position(None if at is None else at.place)
        notes = () if at is None else at.notes
        return PredictedError(type, message, file, line, notes, cause, doing)

    last_words = f" It was last seen: {doing}." if doing else ""
    if exit.timed_out or outcome == "timeout":
        message = "stopped by --timeout without reaching the steps asked for (raise --timeout)."
        return error("timeout", "timeout", message + last_words)
    if exit.interrupted or (outcome == "interrupted" and failure is None):
        return error("interrupted", "interrupted", "stopped by Ctrl-C." + last_words, None)
    if failure is not None and failure.type == "SystemExit" and exit.code == 0:
        failure = None
    if failure is not None and failure.type == "KeyboardInterrupt":
        # No Ctrl-C came through flatout. Python ends itself by SIGINT then, as after a real one.
        return error("script", failure.type, "the script raised it, or was sent a SIGINT.", failure)
    if exit.signal is not None:
        name = "killed" if failure is None else failure.type
        return error("process", name, f"the process was {exit.explanation}." + last_words, failure)
    if failure is not None and failure.type == "SystemExit":
        said = "" if failure.message in ("", str(code)) else f": {failure.message}"
        return error("script", "SystemExit", f"the script ended itself with exit code {code}{said}", failure)
    if failure is not None and any(words in failure.message for words in _PYTORCHS_OWN_MISTAKE):
        message = f"PyTorch cannot do this on a virtual GPU, which says nothing of a real one: {failure.message}"
        return error("refused", _REFUSED, message, failure)
    if failure is not None:
        return error(_cause_of(failure), failure.type, failure.message, failure)
    if exit.trouble and outcome in (None, "killed"):
        return error("flatout", "flatout", f"a mistake of flatout's own at the end of the run: {exit.trouble}", None)
    if outcome == "killed" or (ending is None and exit.code != 0):
        message = f"the process ended without a word (exit code {exit.code}), as by os._exit."
        return error("process", "killed", message + last_words, None)
    if code != 0:
        return error("script", "SystemExit", f"the script ended itself with exit code {code}", None)
    return None


def exit_code(recording: Recording, exit: Exit) -> int:
    """What a shell would show for the script."""
    ending = recording.ending
    return exit.code if ending is None or exit.code != 0 else ending.exit_code


def position(place: Place | None) -> tuple[str | None, int | None]:
    """File and line of a place, each None where it is not known."""
    if place is None:
        return None, None
    return place.file, place.line or None


def _cause_of(failure: Failure) -> Cause:
    if failure.type.endswith("UnsupportedError"):
        return "refused"
    return "script" if failure.type == "EOFError" and failure.message.startswith(_NO_INPUT) else "exception"
