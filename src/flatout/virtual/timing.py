"""The time of a step on a GPU, from a recording's tape. No torch here."""

from __future__ import annotations

import msgspec

from flatout.costs import cost
from flatout.gpu import GPU
from flatout.recording.tape import Compiled, Fetch, Launch, Replay, Tape, operations_of, with_workers
from flatout.timeline import Host, Timeline, play
from flatout.timeline.compiled import compiled
from flatout.timeline.uncertainty import HOST_UNCERTAINTY, KERNELS_UNCERTAINTY
from flatout.virtual.prediction import Dearest, Time

MOST_DEAREST = 20


class Timing(msgspec.Struct, frozen=True):
    """Under what conditions a step is timed: the host, and other `workers` in the loaders than the script's, if any."""

    host: Host = Host()
    workers: int | None = None

    def tape(self, tape: Tape) -> Tape:
        """The tape under these conditions."""
        return tape if self.workers is None else with_workers(tape, self.workers)


def predicted_time(tape: Tape | None, gpu: GPU, timing: Timing | None = None) -> Time | None:
    """What a step of that tape takes on that GPU; None without a tape, or where nothing was ever launched."""
    if tape is None or not any(operations_of(event) for event in tape.events):
        return None
    timing = timing or Timing()
    tape = compiled(timing.tape(tape))
    middle = play(tape, gpu, timing.host)
    low, high = _range(middle)
    return Time(
        step_seconds=middle.step_seconds,
        low_seconds=low,
        high_seconds=high,
        lower_bound_seconds=middle.lower_bound_seconds,
        kernels_seconds=middle.kernels_seconds,
        host_seconds=middle.host_seconds,
        bound_by={name: seconds for name, seconds in middle.bound_by.items() if seconds > 0},
        flops=middle.flops,
        flops_utilization_ratio=_utilization(tape, gpu, middle),
        samples_per_second=_samples(tape, middle),
        unknown_operators=middle.unknown,
        dearest=_dearest(tape, middle),
    )


def _dearest(tape: Tape, timeline: Timeline) -> tuple[Dearest, ...]:
    """The operators and lines that the GPU is busy with longest, in the last round of steps."""
    found: dict[tuple[str, int | None], list[float]] = {}
    for span in timeline.gpu:
        event = tape.events[span.event]
        if isinstance(event, (Launch, Compiled, Replay)):
            # Kernels that a compiler issues in place of one operation go by the last one.
            last = operations_of(event)[-1]
            name = "a CUDA graph" if isinstance(event, Replay) else tape.operations[last].base
            key = name, tape.lines[last]
            sums = found.setdefault(key, [0.0, 0.0])
            sums[0] += 1
            sums[1] += span.end - span.start
    ordered = sorted(found.items(), key=lambda item: -item[1][1])[:MOST_DEAREST]
    steps = timeline.steps
    return tuple(
        Dearest(
            name,
            calls / steps,
            seconds / steps,
            None if line is None else tape.places[line].file,
            None if line is None else tape.places[line].line,
        )
        for (name, line), (calls, seconds) in ordered
    )


def _range(middle: Timeline) -> tuple[float, float]:
    """The step if the kernels, or the host, are faster or slower than they are taken to be."""
    kernels = sum(middle.bound_by[bound] for bound in ("compute", "memory", "communication"))
    other = middle.step_seconds - kernels
    low = kernels / KERNELS_UNCERTAINTY + other / HOST_UNCERTAINTY
    high = kernels * KERNELS_UNCERTAINTY + other * HOST_UNCERTAINTY
    return low, high


def _utilization(tape: Tape, gpu: GPU, timeline: Timeline) -> float | None:
    """Operations of matrix products over the dense rate of the datapath that does most of them, and the step."""
    by_datapath: dict[str, float] = {}
    costs = [cost(operation) for operation in tape.operations]
    for event in tape.events:
        for number in operations_of(event):
            for kernel in costs[number].kernels:
                if kernel.product is not None or kernel.datapath != "memory":
                    by_datapath[kernel.datapath] = by_datapath.get(kernel.datapath, 0.0) + kernel.flops
    if not by_datapath:
        return None
    most = max(by_datapath, key=lambda datapath: by_datapath[datapath])
    rate = getattr(gpu.rates, most, None) or gpu.rates.fp32
    return sum(by_datapath.values()) / tape.steps / (rate * timeline.step_seconds)


def _samples(tape: Tape, timeline: Timeline) -> float | None:
    sizes = [tape.loaders[event.loader].samples for event in tape.events if isinstance(event, Fetch)]
    known = [size for size in sizes if size is not None]
    return sum(known) / tape.steps / timeline.step_seconds if known else None
