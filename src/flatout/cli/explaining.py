"""What the rules have to say of a prediction's first GPU."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from flatout.gpu import GPU
    from flatout.virtual.prediction import Prediction
    from flatout.virtual.timing import Timing


def explained(prediction: Prediction, recording: Path, timing: Timing, gpus: Iterable[GPU]) -> Prediction:
    """The prediction with findings, if its first GPU, one of `gpus`, has a step that is timed; `recording` is of it."""
    from flatout.explain import findings
    from flatout.recording import open_recording

    first = prediction.results[0]
    gpu = next((gpu for gpu in gpus if gpu.label == first.label), None)
    if first.time is None or gpu is None:
        return prediction
    with open_recording(recording) as kept:
        tape = kept.tape()
    if tape is None:
        return prediction
    return msgspec.structs.replace(prediction, findings=tuple(findings(timing.tape(tape), gpu, timing.host)))
