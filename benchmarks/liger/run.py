"""Peak memory of single operators: the virtual GPU against rows that were measured on real ones.

    python benchmarks/liger/run.py [--since DATE] [--until DATE] [--kernel NAME]... [--alone] [--json FILE] [-v]

The rows are those of Liger-Kernel's published benchmarks (benchmark/data/all_benchmark_data.csv of
linkedin/Liger-Kernel, BSD-2-Clause) whose provider is plain PyTorch or Hugging Face. Each is run here as that project's
script of the row's own date runs it: inputs made first, then the operator forward and backward ten times, the peak of
each time, their median. A row is exact when it agrees in every digit that was stored (MiB in float32). It is measured
alone and in its script's order (see `process`).

A prediction is for the PyTorch that is installed, and the rows are of two years: those before August 2025 (PyTorch 2.7
and older) are for 2.6, later ones for a new one. `--until 2025-07` and `--since 2025-08` choose; FILE keeps one run of
each version.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from operators import HELD, NOT_EXPRESSED, OPERATORS
from process import Process
from rows import Row, oracle, read


def grouped(rows: Iterable[Row], key: str) -> list[list[Row]]:
    """Rows with the same value of that property together, in order of appearance."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(getattr(row, key), []).append(row)
    return list(groups.values())


def compared(row: Row, alone: int, in_order: int | None) -> dict[str, Any]:
    """One row as JSON. Bytes; a difference is predicted minus measured."""
    entry = {
        "kernel": row.kernel,
        "mode": row.mode,
        "gpu": row.gpu,
        "x": f"{row.x_name}={row.x_value}",
        "settings": json.loads(row.settings),
        "measured_bytes": round(row.mib * (1 << 20)),
        "alone_bytes": alone,
        "alone_exact": row.is_exact(alone),
    }
    if in_order is not None:
        entry |= {"in_order_bytes": in_order, "in_order_exact": row.is_exact(in_order)}
    return entry


def held_bytes(sweep: Iterable[tuple[Row, int]]) -> tuple[float, float] | None:
    """The least and most bytes that, added to each prediction, give each stored figure; None where no number does."""
    ranges = [row.missing_bytes(predicted) for row, predicted in sweep]
    least, most = max(low for low, _ in ranges), min(high for _, high in ranges)
    return (least, most) if least <= most else None


def beside(sweep: list[Row], ways: dict[str, dict[Row, int]]) -> dict[str, Any]:
    """What a sweep's process held beside its operator, as JSON; by the first way in which one number explains it."""
    found = {way: held_bytes((row, predicted[row]) for row in sweep) for way, predicted in ways.items()}
    way = next((way for way in found if found[way]), "alone")
    span = found[way]
    return {
        "kernel": sweep[0].kernel,
        "gpu": sweep[0].gpu,
        "rows": len(sweep),
        "settings": json.loads(sweep[0].settings),
        "way": way,
        "held_bytes": None if span is None else [round(number) for number in span],
        "missing_bytes": [round(sum(row.missing_bytes(ways[way][row])) / 2) for row in sweep],
        "reason": HELD[sweep[0].kernel][1],
    }


def compare(rows: list[Row], *, in_order: bool = True) -> dict[str, Any]:
    """Run every row that is expressed. Bytes throughout."""
    process = Process(OPERATORS | {name: setup for name, (setup, _) in HELD.items()})
    exact: list[dict[str, Any]] = []
    held: list[dict[str, Any]] = []
    for script in grouped((row for row in rows if row.kernel in OPERATORS), "script"):
        alone = [process.alone(row) for row in script]
        ordered = list(process.in_order(script)) if in_order else [None] * len(script)
        exact += map(compared, script, alone, ordered)
        say(script)
    for script in grouped((row for row in rows if row.kernel in HELD), "script"):
        ways = {"alone": {row: process.alone(row) for row in script}}
        if in_order:
            ways["in_order"] = dict(zip(script, process.in_order(script)))
        for sweep in grouped(script, "sweep"):
            held.append(beside(sweep, ways))
        say(script)
    left = [row for row in rows if row.kernel in NOT_EXPRESSED]
    return {
        "torch": torch.__version__,
        "rows": len(rows),
        "compared": len(exact),
        "exact_alone": sum(entry["alone_exact"] for entry in exact),
        "exact_in_order": sum(entry.get("in_order_exact", False) for entry in exact),
        "exact": sum(entry["alone_exact"] or entry.get("in_order_exact", False) for entry in exact),
        "held": sum(entry["rows"] for entry in held),
        "held_explained": sum(entry["rows"] for entry in held if entry["held_bytes"] is not None),
        "not_expressed": {row.kernel: NOT_EXPRESSED[row.kernel] for row in left},
        "not_expressed_rows": len(left),
        "compared_rows": exact,
        "held_sweeps": held,
    }


def say(script: list[Row]) -> None:
    """Progress, beside the table."""
    print(f"liger: {script[0].kernel} of {script[0].date}: {len(script)} rows", file=sys.stderr, flush=True)


def report(result: dict[str, Any], *, verbose: bool) -> None:
    """The table: one line a kernel, and each row that is not exact."""
    kernels: dict[str, list[dict[str, Any]]] = {}
    for entry in result["compared_rows"]:
        kernels.setdefault(entry["kernel"], []).append(entry)
    for name, entries in kernels.items():
        alone, ordered = (sum(e.get(f"{way}_exact", False) for e in entries) for way in ("alone", "in_order"))
        print(f"{name:32} {len(entries):3} rows, exact alone {alone:3}, in order {ordered:3}")
        for entry in entries:
            ways = [way for way in ("alone", "in_order") if f"{way}_bytes" in entry]
            if verbose or not any(entry[f"{way}_exact"] for way in ways):
                off = ", ".join(f"{way} {entry[f'{way}_bytes'] - entry['measured_bytes']:+,}" for way in ways)
                print(f"    {entry['mode']} {entry['gpu'][7:]} {entry['x']} {entry['measured_bytes']:,}: {off}")
    for sweep in result["held_sweeps"]:
        missing = ", ".join(f"{number:,}" for number in sweep["missing_bytes"])
        verdict = "one number explains all" if sweep["held_bytes"] else "not explained by one number"
        print(f"{sweep['kernel']:32} {sweep['rows']:3} rows, held beside: {missing} ({verdict})")
    for name, reason in result["not_expressed"].items():
        print(f"{name:32} not expressed: {reason}")
    print(
        f"{result['exact']} of {result['compared']} rows exact ({result['exact_alone']} alone, "
        f"{result['exact_in_order']} in order); {result['held_explained']} of {result['held']} exact but for one "
        f"number a sweep; {result['not_expressed_rows']} of {result['rows']} not expressed; PyTorch {result['torch']}"
    )


def main() -> int:
    """0 if every compared row is exact, 1 if not, 2 without the file of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--kernel", action="append", help="only this one; may be given again")
    parser.add_argument("--since", default="", help="rows of this date (YYYY-MM-DD, or a part of it) and later")
    parser.add_argument("--until", default="9", help="rows up to this date, its whole month where only that is given")
    parser.add_argument("--alone", action="store_true", help="not in order as well: half the time")
    parser.add_argument("-v", action="store_true", help="every row, not only those that differ")
    options = parser.parse_args()
    path = oracle()
    if not path.exists():
        print(f"liger: no {path}; set FLATOUT_ORACLES to the folder that holds liger/", file=sys.stderr)
        return 2
    rows = [
        row
        for row in read(path)
        if (not options.kernel or row.kernel in options.kernel)
        and options.since <= row.date
        and row.date[: len(options.until)] <= options.until
    ]
    result = compare(rows, in_order=not options.alone)
    report(result, verbose=options.v)
    if options.json:
        runs = json.loads(options.json.read_text()) if options.json.exists() else {}
        options.json.write_text(json.dumps(runs | {result["torch"]: result}, indent=1) + "\n")
    return 0 if result["exact"] == result["compared"] else 1


if __name__ == "__main__":
    sys.exit(main())
