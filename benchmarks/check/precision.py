"""How many of the findings of `flatout check` are true: the default rules over fifteen packages, each finding judged.

    python benchmarks/check/precision.py [--folder FOLDER] [--json OUT] [--todo OUT]

Fetches the packages of corpora.toml (five named ones, and ten chosen before a rule had been run on them) into FOLDER
and checks them with the default rules, no settings and no suppressions of theirs read. The verdict on each
finding stands in verdicts.json: "true", "false" or "taste" with one line why, given by a reader who saw code and
message, not the rule. A finding is known by package, file, code and the text of its line, so that moving it does not
lose its verdict. `--todo` writes the findings that have none yet, with their code around them, for a reader.

Goals: at least 80 % of the findings true; no default rule with more than 3 false ones; at least 60 true ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import corpora

from flatout import __version__
from flatout.check.run import Request, check_paths

HERE = Path(__file__).parent
VERDICTS = HERE / "verdicts.json"
LINES_AROUND = 18


class Judged(NamedTuple):
    """A finding in a package, and its verdict if it has one."""

    package: str
    file: str
    line: int
    code: str
    message: str
    text: str  # the line it is on
    verdict: str | None
    why: str | None

    @property
    def key(self) -> str:
        mark = hashlib.sha256(self.text.encode()).hexdigest()[:12]  # nothing of the packages is kept here, not a line
        return " | ".join((self.package, self.file, self.code, mark))


def findings(folder: Path) -> tuple[list[Judged], list[tuple[str, str]]]:
    """All findings in all packages, and the files that could not be read."""
    verdicts = json.loads(VERDICTS.read_text(encoding="utf-8")) if VERDICTS.exists() else {}
    found, unreadable = [], []
    for package in corpora.packages():
        root = corpora.unpacked(package, folder)
        result = check_paths(Request(paths=(str(root),), isolated=True, use_cache=False)).result
        unreadable += result.errors
        for diagnosis in result.diagnoses:
            finding = diagnosis.finding
            path = Path(finding.file)
            text = path.read_text(encoding="utf-8").splitlines()[finding.line - 1].strip()
            place = path.resolve().relative_to(root.resolve()).as_posix()
            one = Judged(package, place, finding.line, finding.code, finding.message, text, None, None)
            verdict = verdicts.get(one.key)
            found.append(one._replace(verdict=verdict["verdict"], why=verdict["why"]) if verdict else one)
    return found, unreadable


def table(found: list[Judged]) -> list[dict[str, Any]]:
    """One row a rule, and one for all."""
    by_code: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        by_code[one.code][one.verdict or "unjudged"] += 1
        by_code["all"][one.verdict or "unjudged"] += 1
    return [
        {
            "code": code,
            "findings": counts.total(),
            **{word: counts[word] for word in ("true", "false", "taste", "unjudged")},
        }
        for code, counts in sorted(by_code.items())
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=HERE / ".corpora")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--todo", type=Path)
    arguments = parser.parse_args()
    found, unreadable = findings(arguments.folder)
    rows = table(found)
    print(f"{'rule':8}{'findings':>9}{'true':>7}{'false':>7}{'taste':>7}{'unjudged':>10}")
    for row in rows:
        print(f"{row['code']:8}{row['findings']:>9}", end="")
        print(f"{row['true']:>7}{row['false']:>7}{row['taste']:>7}{row['unjudged']:>10}")
    for file, reason in unreadable:
        print(f"not read: {file}: {reason}")
    total = next((row for row in rows if row["code"] == "all"), None)
    goals = {}
    if total:
        judged = total["findings"] - total["unjudged"]
        goals = {
            "true_ratio": round(total["true"] / max(1, judged), 4),
            "true_ratio_goal": 0.8,
            "most_false_of_a_rule": max(row["false"] for row in rows if row["code"] != "all"),
            "most_false_of_a_rule_goal": 3,
            "true": total["true"],
            "true_goal": 60,
            "unjudged": total["unjudged"],
        }
        print(json.dumps(goals, indent=2))
    if arguments.json:
        report = {"flatout": __version__, "packages": corpora.packages(), "rules": rows, "goals": goals}
        kept = ("package", "file", "line", "code", "verdict", "why")
        report["findings"] = [{name: getattr(one, name) for name in kept} for one in found]
        arguments.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if arguments.todo:
        write_todo([one for one in found if one.verdict is None], arguments.folder, arguments.todo)
    return 0


def write_todo(found: list[Judged], folder: Path, out: Path) -> None:
    """What a reader is given: the message and the code around it, nothing of the rule."""
    with out.open("w", encoding="utf-8") as file:
        for number, one in enumerate(found):
            lines = (folder / one.package / one.file).read_text(encoding="utf-8").splitlines()
            first = max(0, one.line - LINES_AROUND)
            around = lines[first : one.line + LINES_AROUND]
            shown = "\n".join(f"{first + i + 1:6} {line}" for i, line in enumerate(around))
            file.write(
                f"#### {number}\nkey: {json.dumps(one.key, ensure_ascii=False)}\n{one.package} {one.file}:{one.line}\n"
            )
            file.write(f"{one.message}\n{shown}\n\n")


if __name__ == "__main__":
    sys.exit(main())
