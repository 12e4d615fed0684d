"""After the script's end: what other ways of its optimizers would have taken, tried on copies."""

from __future__ import annotations

from flatout.watch.notes import Notes
from flatout.watch.recorder import Recorder
from flatout.watch.trials import optimizer_trial


def try_optimizers(recorder: Recorder, notes: Notes) -> None:
    """Note for each optimizer that goes from tensor to tensor what its fastest other way saves of a step."""
    took = recorder.optimizer_seconds()
    if not took:
        return
    for reference, place in recorder.optimizers.values():
        optimizer = reference()
        found = None if optimizer is None else optimizer_trial(optimizer)
        if optimizer is None or found is None:
            continue
        seconds = took / len(recorder.optimizers)
        note = notes.of("optimizer_alone", place)
        note.add(recorder.steps)
        middle, low, high = found.ratio
        note.saved = seconds * (1 - middle), seconds * (1 - high), seconds * (1 - low)
        note.evidence = {
            "class": type(optimizer).__name__,
            "option": found.option,
            "tensors": sum(len(group["params"]) for group in optimizer.param_groups),
            "seconds_now": seconds,
        }
