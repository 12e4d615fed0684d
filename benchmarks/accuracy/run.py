"""Scores the virtual GPU against what real GPUs did.

    python benchmarks/accuracy/run.py [--all] [--draws N] [--only SET] [--timm-folder FOLDER] [--reuse] [--json FILE]

Sets: amp, bert, peft, timm (see the module of each for its source). The measurements are read from
$FLATOUT_ORACLES, or from ../shared/oracles beside the repository; a set that is not there is left out and said so.
Needs torch, transformers, peft and timm. Prints one table, writes ``benchmarks/results/accuracy.json``. Exit code 1
where a goal is missed.

`--timm-folder` is where timm 0.6.7 lies unpacked (``pip install --no-deps --target FOLDER timm==0.6.7``): the
models as they were measured. Without it the installed timm is used, whose models have changed, and which knows
fewer of them.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import platform
import sys
from pathlib import Path
from typing import Any

import amp_rows
import bert_rows
import peft_rows
import timm_brackets
import timm_score
from dry import ORACLES, ROOT, Runner
from score import Line, table

RESULT = ROOT / "benchmarks/results/accuracy.json"
PACKAGES = ("torch", "transformers", "peft", "accelerate", "timm")


def say(text: str) -> None:
    """Progress, beside the table."""
    print(text, file=sys.stderr, flush=True)


def score_amp(options: argparse.Namespace) -> tuple[list[Line], dict[str, Any]]:
    """The AMP recipe: exact in float32, within 0.6 % under autocast."""
    runner = amp_rows.runner(reuse=options.reuse)
    lines, rows = amp_rows.score(runner)
    runner.close()
    return lines, {"rows": rows}


def score_bert(options: argparse.Namespace) -> tuple[list[Line], dict[str, Any]]:
    """Each row within 5 %."""
    runner = bert_rows.runner(reuse=options.reuse)
    rows, errors = [], []
    for row in bert_rows.ROWS:
        told = runner.run("bert_trainer.py", row.script_arguments, bert_rows.GPU)
        if told["outcome"] != "fits":
            rows.append({"row": row.name, "measured_mib": row.measured_mib, "error": told["message"]})
            errors.append(100.0)
            continue
        said = told["peak_reserved_bytes"] + bert_rows.CONTEXT_BYTES
        errors.append(100 * (said / row.measured_bytes - 1))
        rows.append({"row": row.name, "measured_mib": row.measured_mib, "predicted_mib": said >> 20,
                     "error_percent": round(errors[-1], 2)})  # fmt: skip
        say(f"bert  {row.name}: {said >> 20} MiB, measured {row.measured_mib} ({errors[-1]:+.1f} %)")
    runner.close()
    inside = sum(abs(error) <= 5 for error in errors)
    got = f"{inside} of {len(errors)}, worst {max(errors, key=abs):+.1f} %"
    line = Line("BERT-large, V100", len(errors), "nvidia-smi within 5 %, each row", got, inside == len(errors))
    return [line], {"rows": rows, "left_out": bert_rows.LEFT_OUT}


def score_peft(options: argparse.Namespace) -> tuple[list[Line], dict[str, Any]]:
    """Reserved memory within 5 % median."""
    runner = peft_rows.runner(reuse=options.reuse)
    measured = peft_rows.measure(runner, say)
    runner.close()
    return peft_rows.score(measured), measured.as_json()


def score_timm(options: argparse.Namespace) -> tuple[list[Line], dict[str, Any]]:
    """Brackets, both halves of the model families; the context is fitted on the fitting half of all draws."""
    brackets = timm_brackets.read()
    halves = timm_brackets.halves(bracket.model for bracket in brackets)
    draws = {0: brackets} if options.all else timm_brackets.draws(brackets, timm_brackets.DRAWS[: options.draws])
    runner = timm_brackets.runner(options.timm_folder, reuse=options.reuse)
    left_out: dict[str, str] = {}
    tries = {seed: _tries(runner, draw, halves, left_out) for seed, draw in draws.items()}
    context_mib, counts = timm_score.fit_context(runner, [one for half in tries.values() for one in half["fitting"]])

    def verdict(one: timm_score.Try) -> timm_score.Verdict:
        return one.verdict(runner, context_mib)

    lines, wrong = [], []
    for number, (seed, half) in enumerate(tries.items()):
        of = f"timm, seed {seed}" if number else "timm"
        lines += timm_score.score_half(f"{of}, scoring half", half["scoring"], verdict, counts=True)
        lines += timm_score.score_half(f"{of}, fitting half", half["fitting"], verdict, counts=False)
        wrong += timm_score.misses(half["fitting"] + half["scoring"], verdict)
    scoring = [one for half in tries.values() for one in half["scoring"]]
    everything = scoring + [one for half in tries.values() for one in half["fitting"]]
    undisputed = timm_score.undisputed(everything)
    if len(tries) > 1:
        lines += timm_score.score_half("timm, all draws, scoring half", scoring, verdict, counts=True)
    figures = {"scoring half, undisputed": timm_score.undisputed(scoring), "both halves": everything}
    for of, some in {**figures, "both halves, undisputed": undisputed}.items():
        lines += timm_score.score_half(f"timm, all draws, {of}", some, verdict, counts=False)
    runner.close()
    details = {
        "timm": _timm_version(options.timm_folder),
        "models": {str(seed): len(draw) for seed, draw in draws.items()},
        "context_mib": context_mib,
        "right_on_fitting_half_by_context_mib": counts,
        "fitting_families": sorted(name for name, half in halves.items() if half == "fitting"),
        "scoring_families": sorted(name for name, half in halves.items() if half == "scoring"),
        "misses": wrong,
        "left_out": left_out,
        "disputed": sorted(
            f"{one.bracket.model} {one.bracket.layout} {one.batch}" for one in set(everything) - set(undisputed)
        ),
    }
    return lines, details


def _tries(
    runner: Runner, draw: list[timm_brackets.Bracket], halves: dict[str, str], left_out: dict[str, str]
) -> dict[str, list[timm_score.Try]]:
    """The tries of a draw by half of the model families; rows that do not run go to `left_out`, with the reason."""
    tries: dict[str, list[timm_score.Try]] = {"fitting": [], "scoring": []}
    for number, bracket in enumerate(draw, 1):
        told = timm_score.measure(runner, bracket)
        if isinstance(told, str):
            left_out[f"{bracket.model} {bracket.layout}"] = told
        else:
            tries[halves[timm_brackets.family(bracket.model)]] += told
        if number % 20 == 0:
            say(f"timm  {number} of {len(draw)} rows")
    return tries


def _timm_version(folder: Path | None) -> str:
    if folder is None:
        return importlib.metadata.version("timm")
    return (folder / "timm/version.py").read_text().partition("=")[2].strip().strip("'\"")


SETS = {"amp": score_amp, "bert": score_bert, "peft": score_peft, "timm": score_timm}
NEEDS = {"amp": None, "bert": None, "peft": "peft", "timm": "timm"}


def main() -> int:
    """Run the sets that were asked for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every timm row, not a draw")
    parser.add_argument("--draws", type=int, default=3, choices=(1, 2, 3), help="how many draws of timm models")
    parser.add_argument("--only", choices=sorted(SETS), action="append", help="only this set; may be repeated")
    parser.add_argument("--timm-folder", type=Path, help="a folder with timm 0.6.7")
    parser.add_argument("--reuse", action="store_true", help="keep earlier outcomes though flatout changed since")
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    lines: list[Line] = []
    details: dict[str, Any] = {}
    for name in options.only or SETS:
        needed = NEEDS[name]
        if needed is not None and not (ORACLES / needed).is_dir():
            say(f"{name}: left out, {ORACLES / needed} is not there (set FLATOUT_ORACLES)")
            continue
        more, details[name] = SETS[name](options)
        lines += more
    print(table(lines))
    report = {
        "schema": "flatout.accuracy/1",
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "lines": [line.as_json() for line in lines],
        "details": details,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(line.met is not False for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
