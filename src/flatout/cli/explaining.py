"""What the rules have to say of a prediction's first GPU."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flatout.errors import UsageError

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.recording.tape import Tape
    from flatout.virtual.prediction import Prediction
    from flatout.virtual.timing import Timing


def explained(
    prediction: Prediction, recording: Path, timing: Timing, gpus: Iterable[GPU], trace: Path | None
) -> Prediction:
    """The prediction with findings, if its first GPU, one of `gpus`, has a step that is timed; `recording` is of it.

    `trace`: where that step is to be written for Perfetto. Raises UsageError where there is none, or no room for it.
    """
    from flatout.explain import findings
    from flatout.recording import open_recording

    first = prediction.results[0]
    gpu = next((gpu for gpu in gpus if gpu.label == first.label), None)
    tape = None
    if first.time is not None and gpu is not None:
        with open_recording(recording) as kept:
            tape = kept.tape()
    if tape is None or gpu is None:
        if trace is not None and first.error is None:
            raise UsageError(f"--trace {trace}: no step of training was seen, so there is nothing to write")
        return prediction
    tape = timing.tape(tape)
    if trace is not None:
        _write_trace(tape, gpu, timing, trace)
    return msgspec.structs.replace(prediction, findings=tuple(findings(tape, gpu, timing.host)))


def _write_trace(tape: Tape, gpu: GPU, timing: Timing, path: Path) -> None:
    from flatout.timeline import play
    from flatout.timeline.trace import trace_events

    try:
        path.write_bytes(msgspec.json.encode(trace_events(tape, play(tape, gpu, timing.host))))
    except OSError as error:
        raise UsageError(f"--trace {path}: cannot be written ({error.strerror}); give another file") from None
