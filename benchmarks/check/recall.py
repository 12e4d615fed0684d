"""How many mistakes `flatout check` finds in forty small programs, and whether it leaves their repaired twins alone.

    python benchmarks/check/recall.py [--set recall|recall2|recall3] [--json OUT]

Each set holds forty programs with 48 mistakes in wrong/, the same programs repaired in right/, and the lines that a
reviewer would point at in expected.json. They were written from published symptoms by people who had not seen the
rules, each set by another. A mistake counts as found when any finding is on one of its lines. Goals:
85 % found; no finding in a twin. The first result of each set, before anything was changed for it, is what counts:
docs/commands/check.md has both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

from flatout.check.run import Request, check_paths

HERE = Path(__file__).parent


def findings(folder: Path) -> dict[str, list[tuple[int, int, str, str]]]:
    """First line, last line, code and message of all findings, by file name."""
    found: defaultdict[str, list[tuple[int, int, str, str]]] = defaultdict(list)
    result = check_paths(Request(paths=(str(folder),), isolated=True, use_cache=False)).result
    if result.errors:
        raise SystemExit(f"not read: {result.errors}")
    for diagnosis in result.diagnoses:
        finding = diagnosis.finding
        found[Path(finding.file).name].append((finding.line, finding.end_line, finding.code, finding.message))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="recall", choices=("recall", "recall2", "recall3"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = HERE / arguments.set
    wrong, right = findings(folder / "wrong"), findings(folder / "right")
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    missed, claimed = [], set()
    for mistake in expected:
        lines = mistake.get("lines") or [mistake["line"]]
        here = [one for one in wrong[mistake["file"]] if one[0] in lines]
        claimed.update((mistake["file"], *one) for one in here)
        if not here:
            missed.append(mistake)
    extra = [(file, *one) for file, several in wrong.items() for one in several if (file, *one) not in claimed]
    noise = [(file, *one) for file, several in right.items() for one in several]
    for mistake in missed:
        print(f"missed  {mistake['file']}:{mistake.get('lines') or mistake['line']}  {mistake['what']}")
    for file, line, _, code, message in sorted(extra):
        print(f"beside  {file}:{line}  {code} {message}")
    for file, line, _, code, message in sorted(noise):
        print(f"in twin {file}:{line}  {code} {message}")
    report = {
        "mistakes": len(expected),
        "found": len(expected) - len(missed),
        "found_ratio": round(1 - len(missed) / len(expected), 4),
        "found_ratio_goal": 0.85,
        "findings_in_twins": len(noise),
        "findings_beside_a_mistake": len(extra),
        "missed": missed,
        "in_twins": noise,
    }
    print(json.dumps({key: value for key, value in report.items() if not isinstance(value, list)}, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
