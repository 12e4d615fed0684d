"""Scores predicted inference times of timm's models, eager and under torch.compile, on an RTX 3090 and an RTX 4090.

    python benchmarks/accuracy/inference.py [--seed N] [--count N] [--json FILE]      needs timm 1.0

Each row's script runs once on the virtual GPU, at its batch, image size and layout; the tape is kept (see `tapes`), and
played on the GPU of the row: as it is for rows measured under torch.compile, and as eager code for the others. No
constant is fitted here: those of `flatout.costs` come from *training* steps on an RTX 3090. Families of models that
these have seen are scored apart from those that they have not.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import statistics
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import inference_rows
import tapes
from dry import ROOT
from inference_rows import COMPILED_4090, EAGER_3090, EAGER_4090, NHWC_3090, TABLES, Row

sys.path.insert(0, str(ROOT / "src"))
from flatout.gpu import find
from flatout.timeline import Host, play

SCRIPT = "timm_inference.py"
ERROR_GOAL, SIGN_GOAL, NOTABLE = 0.15, 0.85, 0.05
GAINS = (
    ("compile, RTX 4090", EAGER_4090, COMPILED_4090),
    ("channels-last, RTX 3090", EAGER_3090, NHWC_3090),
)


@dataclass(frozen=True)
class Scored:
    """A row and what was predicted for it, in seconds for one batch."""

    row: Row
    predicted: float

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.row.seconds - 1

    @property
    def rate(self) -> float:
        """Predicted images per second."""
        return self.row.batch / self.predicted


def score(rows: Sequence[Row]) -> list[Scored]:
    """Those of the rows that ran."""
    scored = []
    for row in rows:
        tape = tapes.load(SCRIPT, row.arguments)
        if tape is None:
            continue
        tape = tape if row.table.compiled else tapes.eager(tape)
        scored.append(Scored(row, play(tape, find(row.table.gpu), Host()).step_seconds))
    return scored


def times(name: str, scored: Sequence[Scored]) -> dict[str, Any]:
    """One line of errors, printed and returned."""
    if not scored:
        return {"name": name, "rows": 0}
    sizes = [abs(one.error) for one in scored]
    middle = statistics.median(one.error for one in scored)
    beyond = sum(not 0.5 <= 1 + one.error <= 2 for one in scored)
    median = statistics.median(sizes)
    met = "yes" if median <= ERROR_GOAL else "no"
    print(
        f"{name:38s} n {len(scored):3d}  median {median:6.1%} (goal {ERROR_GOAL:.0%}: {met})  mean"
        f" {statistics.mean(sizes):6.1%}  middle {middle:+6.1%}  beyond 2x {beyond}"
    )
    worst = sorted(scored, key=lambda one: -abs(math.log1p(one.error)))[:5]
    return {
        "name": name, "rows": len(scored), "median": median, "mean": statistics.mean(sizes), "middle": middle,
        "beyond_2x": beyond, "worst": [[one.row.model, round(one.error, 3)] for one in worst],
    }  # fmt: skip


def gains(name: str, before: Sequence[Scored], after: Sequence[Scored]) -> dict[str, Any]:
    """How often the gain in images per second has the right sign, where what was measured is beyond `NOTABLE`."""
    old = {one.row.model: one for one in before}
    pairs = [(old[one.row.model], one) for one in after if one.row.model in old]
    measured = [b.row.batch / b.row.seconds / (a.row.batch / a.row.seconds) for a, b in pairs]
    predicted = [b.rate / a.rate for a, b in pairs]
    notable = [(m, p) for m, p in zip(measured, predicted) if abs(m - 1) > NOTABLE]
    right = sum((m > 1) == (p > 1) for m, p in notable)
    losses = [(m, p) for m, p in notable if m < 1]
    found = sum(p < 1 for _, p in losses)
    off = statistics.median(abs(p / m - 1) for m, p in zip(measured, predicted))
    met = "yes" if right >= SIGN_GOAL * len(notable) else "no"
    print(
        f"{name:38s} n {len(notable):3d}  sign right {right / len(notable):6.1%} (goal {SIGN_GOAL:.0%}: {met}; of"
        f" {len(losses)} losses {found})  measured {statistics.median(measured):.2f}x, predicted"
        f" {statistics.median(predicted):.2f}x, median error of the gain {off:.1%}"
    )
    return {
        "name": name, "pairs": len(pairs), "beyond_5_percent": len(notable), "right": right, "losses": len(losses),
        "losses_found": found, "measured_median": statistics.median(measured),
        "predicted_median": statistics.median(predicted), "median_error_of_gain": off,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=inference_rows.SEED)
    parser.add_argument("--count", type=int, default=inference_rows.COUNT)
    parser.add_argument("--json", type=Path, help="write the scores there")
    parser.add_argument("--no-runs", action="store_true", help="score only what is kept")
    options = parser.parse_args()
    rows = inference_rows.draw(options.seed, options.count)
    if not options.no_runs:
        warnings.simplefilter("ignore")
        for module in ("torch", "torch._dynamo", "timm"):
            __import__(module)
        tapes.collect(sorted({(SCRIPT, tuple(row.arguments)) for row in rows}))  # type: ignore[arg-type]
    scored = score(rows)
    known = inference_rows.seen({row.model for row in rows})
    print(f"{len(scored)} of {len(rows)} rows ran, of {len({row.model for row in rows})} models (seed {options.seed})")
    lines = []
    for table in TABLES:
        here = [one for one in scored if one.row.table is table]
        how = "compiled" if table.compiled else "eager"
        name = f"{table.gpu}, {table.layout}, {how}"
        lines.append(times(name, here))
        lines.append(times("   families not seen", [one for one in here if one.row.model not in known]))
        lines.append(times("   families seen", [one for one in here if one.row.model in known]))
    by_table = {table: [one for one in scored if one.row.table is table] for table in TABLES}
    signs = [gains(name, by_table[before], by_table[after]) for name, before, after in GAINS]
    if options.json:
        told = {"date": datetime.date.today().isoformat(), "seed": options.seed, "times": lines, "gains": signs}
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
