"""What a dry run tells about one script on some GPUs, as data. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from flatout.findings import Finding
from flatout.recording.schema import Assumption, Holder, Place, Run, Step, Wait

SCHEMA = "flatout.prediction/1"

PredictedOutcome: TypeAlias = Literal["fits", "may_not_fit", "out_of_memory", "error"]
Cause: TypeAlias = Literal["exception", "process", "script", "refused", "timeout", "interrupted", "flatout"]
GOOD_NEWS: tuple[PredictedOutcome, ...] = ("fits", "may_not_fit")


class PeakAt(msgspec.Struct, frozen=True):
    """When and where memory was highest. `step` counts from 1.

    `file` and `line` are None where no line of the script is known.
    """

    step: int
    phase: str
    file: str | None = None
    line: int | None = None


class Memory(msgspec.Struct, frozen=True):
    """Memory of one run, in bytes.

    `capacity_bytes` is what the maker prints on the box, `usable_bytes` what CUDA reports as total, `context_bytes`
    what CUDA itself takes outside PyTorch. `free_bytes` is `usable - context - peak reserved`: negative when memory is
    missing.
    """

    capacity_bytes: int
    usable_bytes: int
    context_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    upper_bound_bytes: int
    free_bytes: int
    peak_at: PeakAt | None
    by_category: dict[str, int]

    @property
    def needed_bytes(self) -> int:
        """All of the GPU that the run takes: peak reserved and CUDA's context."""
        return self.peak_reserved_bytes + self.context_bytes

    @property
    def needed_at_most_bytes(self) -> int:
        """The same if every workspace of unknown size took the most that it may take."""
        return max(self.upper_bound_bytes, self.peak_reserved_bytes) + self.context_bytes


class Dearest(msgspec.Struct, frozen=True):
    """What one operator takes in a step on the GPU, issued from one line: `calls` of it, `seconds` together."""

    operator: str
    calls: float
    seconds: float
    file: str | None = None
    line: int | None = None


class Time(msgspec.Struct, frozen=True):
    """What one training step takes, simulated, in seconds.

    `step_seconds` lies between `low_seconds` and `high_seconds` for four steps in five (see docs/costs.md);
    `lower_bound_seconds` is the speed of light of the same operations. `kernels_seconds` is the GPU's work and
    `host_seconds` the host's, each as if it never waited for the other; `bound_by` adds up to the step.
    `flops_utilization_ratio` (MFU) is the operations of products and convolutions over what the GPU's dense rate for
    them allows in a step. `samples_per_second` is None where no loader told how many samples a step takes.
    `unknown_operators` are costed by their bytes alone; `dearest` are the operators that take the GPU longest.
    """

    step_seconds: float
    low_seconds: float
    high_seconds: float
    lower_bound_seconds: float
    kernels_seconds: float
    host_seconds: float
    bound_by: dict[str, float]
    flops: float
    flops_utilization_ratio: float | None = None
    samples_per_second: float | None = None
    unknown_operators: dict[str, float] = {}
    dearest: tuple[Dearest, ...] = ()


class PredictedError(msgspec.Struct, frozen=True):
    """Why the script ended early: its exception, or what ended its process (`timeout`, `interrupted`, a signal).

    `message` is the exception's own, word for word; `notes` say more of it, as which index was out of range.

    `cause` says whose end it was: an `exception` that nobody caught, an end of the `process` (a signal, `os._exit`),
    the `script` itself (`sys.exit`, a Ctrl-C of its own, `input()` without input), something that the virtual GPU
    `refused`, the `timeout`, a Ctrl-C (`interrupted`), a mistake of `flatout`. `doing` is what the run was last seen
    at.
    """

    type: str
    message: str
    file: str | None = None
    line: int | None = None
    notes: tuple[str, ...] = ()
    cause: Cause = "exception"
    doing: str = ""


class Tried(msgspec.Struct, frozen=True):
    """What was predicted with one value of an argument. `value_per_second` is the value over the step's time."""

    value: int
    outcome: PredictedOutcome
    needed_bytes: int | None = None
    usable_bytes: int | None = None
    step_seconds: float | None = None
    value_per_second: float | None = None
    samples_per_second: float | None = None


class LargestBatch(msgspec.Struct, frozen=True):
    """One of the script's arguments at several values: the `largest` that fits, and the `fastest`.

    Fastest by samples a second, where loaders tell how many samples a step takes; else by the value a second. Either is
    None where no value is it.
    """

    argument: str
    largest: int | None
    fastest: int | None
    tried: tuple[Tried, ...]


class Result(msgspec.Struct, frozen=True):
    """What was predicted for one GPU.

    `needed_bytes` is known when there was no room: the memory that the same run takes on a GPU without a limit, taken
    apart in `unlimited`. `holders` and `per_step` belong to `unlimited` then, else to `memory`; `steps` are always
    those of the run with the limit. `judged_from`: the script ran on that GPU instead, whose path this one shares.
    `dollars_per_million_samples` and `dollars_per_million_steps` are known where a price was given, the former where
    loaders count samples. `used_gpu` is False when the script never put anything on the GPU. `stopped`: flatout ended
    the script after the steps asked for, so what comes after them (validation, saving) was not seen.
    """

    gpu: str
    label: str
    outcome: PredictedOutcome
    memory: Memory | None
    error: PredictedError | None
    exit_code: int
    used_gpu: bool
    steps: int
    operations: int
    stopped: bool = False
    judged_from: str | None = None
    time: Time | None = None
    dollars_per_million_samples: float | None = None
    dollars_per_million_steps: float | None = None
    largest_batch: LargestBatch | None = None
    needed_bytes: int | None = None
    unlimited: Memory | None = None
    holders: tuple[Holder, ...] = ()
    waits: tuple[Wait, ...] = ()
    per_step: tuple[Step, ...] = ()
    facts: dict[str, Any] = {}
    assumptions: tuple[Assumption, ...] = ()

    @property
    def out_of_memory_caught(self) -> int:
        """How often memory ran out on the way and the script caught that."""
        return int(self.facts.get("out_of_memory_caught", 0))

    @property
    def ended_itself(self) -> bool:
        """The script gave up before its first step, for a reason of its own: wrong arguments, no data, no input."""
        mine = self.error is not None and self.error.cause == "script"
        return mine and not self.steps and not self.out_of_memory_caught

    @property
    def says_nothing(self) -> bool:
        """The run ended early, in a way that tells nothing of the GPU."""
        unanswered = ("refused", "timeout", "interrupted", "flatout")
        return self.error is not None and (self.ended_itself or self.error.cause in unanswered)


class Prediction(msgspec.Struct, frozen=True):
    """One script on one or more GPUs: the JSON of `flatout predict`."""

    schema: str
    torch: str
    script: str
    arguments: tuple[str, ...]
    results: tuple[Result, ...]
    assumptions: tuple[str, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def is_bad_news(self) -> bool:
        """Whether some GPU does not fit, or the script fails on it."""
        return any(result.outcome not in GOOD_NEWS for result in self.results)


def gather(run: Run, results: Sequence[Result]) -> Prediction:
    """The prediction for one script from its results, one a GPU. `run` is what was run, on any of them."""
    return Prediction(
        schema=SCHEMA,
        # Which build of PyTorch the dry run had (`+cpu`, `+cu128`) says nothing about the GPU's.
        torch=run.torch_version.partition("+")[0],
        script=run.script,
        arguments=run.arguments,
        results=tuple(results),
        assumptions=tuple(_grouped(results)),
    )


def with_results(prediction: Prediction, results: Sequence[Result]) -> Prediction:
    """The same script on other GPUs."""
    return msgspec.structs.replace(prediction, results=tuple(results), assumptions=tuple(_grouped(results)))


SECONDS_PER_HOUR = 3600.0


def priced(prediction: Prediction, dollars_per_hour: Mapping[str, float]) -> Prediction:
    """With the cost of a million steps, and of samples if loaders count them, by prices of GPUs' labels."""
    results = []
    for result in prediction.results:
        price, time = dollars_per_hour.get(result.label), result.time
        if price is not None and time is not None:
            million_seconds = price / SECONDS_PER_HOUR * 1e6
            rate = time.samples_per_second
            result = msgspec.structs.replace(
                result,
                dollars_per_million_samples=None if not rate else million_seconds / rate,
                dollars_per_million_steps=million_seconds * time.step_seconds,
            )
        results.append(result)
    return msgspec.structs.replace(prediction, results=tuple(results))


_MOST_PLACES = 3


def _grouped(results: Sequence[Result]) -> list[str]:
    """Each assumption once, with its places and how often: on the GPU where that was most often."""
    places: dict[str, dict[Place, None]] = {}
    counts: dict[str, int] = {}
    for result in results:
        here: dict[str, int] = {}
        for one in result.assumptions:
            here[one.text] = here.get(one.text, 0) + one.count
            places.setdefault(one.text, {}).update({} if one.place is None else {one.place: None})
        counts.update({text: max(count, counts.get(text, 0)) for text, count in here.items()})
    return [_sentence(text, list(dict.fromkeys(map(_line, places[text]))), count) for text, count in counts.items()]


def _line(place: Place) -> str:
    return f"{place.file}:{place.line}"


def _sentence(text: str, lines: list[str], count: int) -> str:
    """One assumption as one line: what, where, how often."""
    more = len(lines) - _MOST_PLACES
    shown = lines if more <= 1 else [*lines[:_MOST_PLACES], f"{more} more lines"]
    times = [f"{count} times"] if count > 1 else []
    detail = "; ".join([", ".join(shown), *times] if shown else times)
    return f"{text} ({detail})" if detail else text
