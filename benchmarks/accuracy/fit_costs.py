"""Fits the constants of `flatout.costs.efficiency` to published measurements, and scores them on what was not fitted.

    python benchmarks/accuracy/operations.py timm --timm-folder DIR     # once
    python benchmarks/accuracy/operations.py language                   # once
    python benchmarks/accuracy/fit_costs.py [--write] [--json FILE]     # needs scipy

What is fitted: see `Efficiency`. Each constant has a prior and is held near it where the data say nothing of it. The
data: timm's training steps on an RTX 3090 (one half of the model families), NeuSight's single operators and its models
end to end (five GPUs, float32). Scores: timm on the other half, in both directions; NeuSight leaving out one model, and
one GPU, at a time, with all its rows. `--write` fits once more, on everything but timm's scoring half, and writes the
constants that flatout ships.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import neusight
import numpy as np
import operations
import timm_brackets
from dry import ORACLES, ROOT

sys.path.insert(0, str(ROOT / "src"))
import fitting

from flatout import costs
from flatout.costs import Cost, Kernel
from flatout.costs.efficiency import FILE, Efficiency
from flatout.gpu import GPU, find


@dataclass(frozen=True)
class Sample:
    """One measurement: kernels with how often they ran, on a GPU, and the seconds that they took together."""

    source: str
    name: str
    group: str
    gpu: GPU
    kernels: tuple[tuple[Kernel, int], ...]
    seconds: float
    lower_seconds: float


def _sample(
    source: str, name: str, group: str, gpu: GPU, counted: Iterable[tuple[Cost, int]], seconds: float
) -> Sample:
    kernels: Counter[Kernel] = Counter()
    lower = 0.0
    for cost, times in counted:
        lower += times * costs.lower_bound_seconds(cost, gpu)
        for kernel in cost.kernels:
            kernels[kernel] += times
    return Sample(source, name, group, gpu, tuple(kernels.items()), seconds, lower)


def timm_samples(wanted: Sequence[tuple[int, int]] = timm_brackets.DRAWS) -> list[Sample]:
    """timm's training steps of these draws; the group is the half of the model's family."""
    measured = {}
    for layout in timm_brackets.LAYOUTS:
        path = ORACLES / "timm" / f"benchmark-train-amp-{layout}-pt112-cu113-rtx3090.csv"
        with path.open(newline="") as file:
            for line in csv.DictReader(file):
                measured[layout, line["model"]] = float(line["train_step_time"]) / 1e3
    halves = timm_brackets.halves(model for _, model in measured)
    gpu = find("rtx 3090")
    samples = []
    drawn = timm_brackets.draws(timm_brackets.read(), wanted)
    for row in (row for rows in drawn.values() for row in rows):
        step = operations.load("timm_step.py", operations.timm_arguments(row))
        if step is None:
            continue
        counted = [(costs.cost(operation), times) for operation, times in step.counts()]
        half = halves[timm_brackets.family(row.model)]
        name = f"{row.model} {row.layout}"
        samples.append(_sample("timm", name, half, gpu, counted, measured[row.layout, row.model]))
    return samples


def neusight_samples() -> list[Sample]:
    """NeuSight's models end to end; the group is the model."""
    samples = []
    for row in neusight.end_to_end():
        step = operations.load("language_step.py", row.arguments())
        if step is None:
            continue
        counted = [(costs.cost(operation), times) for operation, times in step.counts()]
        name = f"{row.model} {row.length} x {row.batch} {'train' if row.train else 'inference'}"
        samples.append(_sample("neusight", name, row.model, find(neusight.GPUS[row.device]), counted, row.seconds))
    return samples


def single_samples() -> list[Sample]:
    """NeuSight's single operators; equal ones of one GPU are one sample with their mean."""
    same: dict[tuple[object, str, str], list[float]] = {}
    for single in neusight.single_operators():
        same.setdefault((single.operations, single.device, single.model), []).append(single.seconds)
    samples = []
    for (made, device, model), seconds in same.items():
        counted = [(costs.cost(operation), 1) for operation in made]  # type: ignore[attr-defined]
        name = "+".join(operation.name for operation in made)  # type: ignore[attr-defined]
        samples.append(_sample("single", name, model, find(neusight.GPUS[device]), counted, float(np.mean(seconds))))
    return samples


def errors(samples: list[Sample], constants: Efficiency) -> np.ndarray:
    """Predicted over measured, less one."""
    return np.array([predicted(sample, constants) / sample.seconds - 1 for sample in samples])


def predicted(sample: Sample, constants: Efficiency) -> float:
    """The seconds that the shipped code says."""
    return sum(times * costs.kernel_limits(kernel, sample.gpu, constants).seconds for kernel, times in sample.kernels)


def describe(name: str, found: np.ndarray) -> dict[str, object]:
    """One line of scores, printed and returned."""
    size = np.abs(found)
    beyond = int(np.sum((1 + found > 2) | (1 + found < 0.5)))
    print(f"{name:44s} n {len(found):3d}  median {np.median(size):6.1%}  mean {np.mean(size):6.1%}  beyond 2x {beyond}")
    return {
        "name": name, "rows": len(found), "median": float(np.median(size)), "mean": float(np.mean(size)),
        "beyond_2x": beyond,
    }  # fmt: skip


def worst(samples: list[Sample], found: np.ndarray, count: int = 6) -> list[tuple[str, float]]:
    order = np.argsort(-np.abs(np.log1p(found)))[:count]
    rows = [(f"{samples[i].name} on {samples[i].gpu.label}", float(found[i])) for i in order]
    for name, error in rows:
        print(f"      {name}: {error:+.0%}")
    return rows


def lower_bounds(name: str, samples: list[Sample]) -> dict[str, object]:
    ratio = np.array([sample.seconds / sample.lower_seconds for sample in samples if sample.lower_seconds])
    above = int(np.sum(ratio < 1))
    print(f"{name:44s} n {len(ratio):3d}  above the measured: {above}  median measured / lower {np.median(ratio):.2f}")
    return {"name": name, "rows": len(ratio), "above_measured": above, "median_ratio": float(np.median(ratio))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the constants that flatout ships")
    parser.add_argument("--json", type=Path, help="write the scores there")
    parser.add_argument("--only", choices=("timm", "neusight", "none"), help="score only this set")
    options = parser.parse_args()
    timm, models, singles = timm_samples(), neusight_samples(), single_samples()
    print(f"{len(timm)} steps of timm, {len(models)} models and {len(singles)} single operators of NeuSight")
    scores: list[dict[str, object]] = [
        lower_bounds("lower bound, NeuSight end to end", models),
        lower_bounds("lower bound, NeuSight single operators", singles),
        lower_bounds("lower bound, timm training", timm),
    ]
    if options.only in (None, "timm"):
        for half, other in (("fitting", "scoring"), ("scoring", "fitting")):
            constants = fitting.fit([s for s in timm if s.group == half], models, singles)
            held = [s for s in timm if s.group == other]
            found = errors(held, constants)
            scores.append(describe(f"timm, fitted on the {half} half", found) | {"worst": worst(held, found)})
    if options.only in (None, "neusight"):
        fitting_half = [s for s in timm if s.group == "fitting"]
        for what in ("model", "GPU"):

            def key(sample: Sample, what: str = what) -> str:
                return sample.group if what == "model" else sample.gpu.label

            held_rows: list[Sample] = []
            held_errors: list[float] = []
            for left_out in sorted({key(sample) for sample in models}):
                constants = fitting.fit(
                    fitting_half,
                    [s for s in models if key(s) != left_out],
                    [s for s in singles if key(s) != left_out],
                )
                held = [s for s in models if key(s) == left_out]
                found = errors(held, constants)
                describe(f"   without {left_out}", found)
                held_rows += held
                held_errors += list(found)
            errors_of_all = np.array(held_errors)
            told = describe(f"NeuSight, one {what} left out", errors_of_all)
            scores.append(told | {"worst": worst(held_rows, errors_of_all)})
    shipped = fitting.fit([s for s in timm if s.group == "fitting"], models, singles)
    describe("shipped, timm fitting half (fitted)", errors([s for s in timm if s.group == "fitting"], shipped))
    describe("shipped, NeuSight end to end (fitted)", errors(models, shipped))
    describe("shipped, NeuSight single operators (fitted)", errors(singles, shipped))
    if options.write:
        today = datetime.date.today().isoformat()
        FILE.write_text(fitting.as_toml(shipped, today))
    if options.json:
        found_on = {"date": datetime.date.today().isoformat(), "scores": scores}
        options.json.write_text(json.dumps(found_on, indent=1) + "\n")


if __name__ == "__main__":
    main()
