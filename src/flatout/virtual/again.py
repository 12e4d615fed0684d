"""A prediction from a recording that an earlier dry run kept: nothing is run, and nothing measured anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flatout.errors import UsageError
from flatout.gpu import all_gpus
from flatout.launch import Exit
from flatout.recording import Recording, open_recording
from flatout.recording.layout import is_recording
from flatout.virtual.choosing import shared_result
from flatout.virtual.judging import judge
from flatout.virtual.prediction import Prediction, Result, gather
from flatout.virtual.timing import Timing

if TYPE_CHECKING:
    from flatout.gpu import GPU


def is_kept(path: Path) -> bool:
    """Whether this is a file that `-o` of an earlier prediction wrote."""
    try:
        return path.is_file() and is_recording(path)
    except OSError:
        return False


def predict_again(path: Path, wanted: Sequence[GPU], timing: Timing, gpus_file: Path | None = None) -> Prediction:
    """What the recording at `path` says of the GPU that it is of, or of the `wanted` ones.

    Raises UsageError for a GPU of another compute capability, on which the script would launch other kernels, and for
    a recording that is of no dry run.
    """
    with open_recording(path) as recording:
        of = _gpu_of(recording, path, all_gpus(gpus_file))
        ending = recording.ending
        judged = judge(recording, of, Exit(1 if ending is None else ending.exit_code, 0.0), timing=timing)
        tape, run = recording.tape(), recording.run
        results = []
        for gpu in wanted or [of]:
            result: Result | None = judged if gpu.label == of.label else None
            if result is None and gpu.compute_capability == of.compute_capability:
                result = shared_result(judged, tape, gpu, timing)
            if result is None:
                raise UsageError(
                    f"{path}: was recorded for the {of.label}, and the {gpu.label} would take another path; run the "
                    f"script itself with --gpu"
                )
            results.append(result)
        return gather(run, results)


def _gpu_of(recording: Recording, path: Path, known: Sequence[GPU]) -> GPU:
    device = recording.run.device
    if recording.run.maker != "virtual" or device is None:
        raise UsageError(f"{path}: is no recording of a dry run; give one that flatout predict -o wrote, or a script")
    for gpu in known:
        if (gpu.name, gpu.memory_bytes) == (device.name, device.capacity_bytes):
            return gpu
    raise UsageError(f"{path}: was recorded for {device.name}, which is not known here; give its --gpus-file")
