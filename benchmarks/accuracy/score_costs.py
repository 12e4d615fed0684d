"""The shipped constants of the costs on timm's training steps: errors by half of the families, and the interval.

    python benchmarks/accuracy/score_costs.py [--json OUT]

The operations come from `operations.py timm` (once). The constants were fitted on the fitting half; the scoring half
has other families of models. A fresh draw (seed 11) has models that neither constants nor formulas were chosen by. The
interval is `low..high` of a step whose host is never late: how often it holds the measured time, and how wide it is.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import operations
import timm_brackets
from fit_costs import Sample, timm_samples

from flatout.costs import fitted, kernel_limits
from flatout.virtual.timing import KERNELS_UNCERTAINTY


def predicted_seconds(sample: Sample) -> float:
    """What the kernels of that step take, one after another."""
    return sum(kernel_limits(kernel, sample.gpu, fitted()).seconds * times for kernel, times in sample.kernels)


def score(samples: Sequence[Sample]) -> dict[str, Any]:
    """Errors as shares of the measured time, and how the interval does."""
    errors = {sample.name: predicted_seconds(sample) / sample.seconds - 1 for sample in samples}
    sizes = [abs(error) for error in errors.values()]
    inside = [1 / KERNELS_UNCERTAINTY <= 1 + error <= KERNELS_UNCERTAINTY for error in errors.values()]
    return {
        "rows": len(sizes),
        "median_error": statistics.median(sizes),
        "mean_error": statistics.fmean(sizes),
        "beyond_a_factor_of_2": [name for name, error in errors.items() if not 0.5 <= 1 + error <= 2],
        "inside_interval": sum(inside) / len(inside),
        "half_width": (KERNELS_UNCERTAINTY - 1 / KERNELS_UNCERTAINTY) / 2,
        "errors": errors,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    samples = timm_samples()
    if not samples:
        raise SystemExit("no operations are kept; run operations.py timm first")
    halves = {half: score([s for s in samples if s.group == half]) for half in ("fitting", "scoring")}
    known = {sample.name for sample in samples}
    fresh = [s for s in timm_samples((*timm_brackets.DRAWS, operations.FRESH)) if s.name not in known]
    for half in ("fitting", "scoring"):
        rows = [sample for sample in fresh if sample.group == half]
        if rows:
            halves[f"fresh draw, {half} half"] = score(rows)
    for half, found in halves.items():
        beyond = len(found["beyond_a_factor_of_2"])
        print(
            f"{half:24} {found['rows']:4} rows  median {found['median_error']:.1%}  mean {found['mean_error']:.1%}",
            end="",
        )
        print(f"  beyond 2x {beyond}  inside low..high {found['inside_interval']:.0%}", end="")
        print(f" (half-width {found['half_width']:.0%})")
    if options.json is not None:
        result = {"schema": "flatout.benchmark.costs-timm/1", "date": time.strftime("%Y-%m-%d"), "halves": halves}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
