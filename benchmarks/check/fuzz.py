"""Programs that nobody wrote, given to `flatout check` for some minutes: no rule may raise, no fix may break a program.

    python benchmarks/check/fuzz.py [--minutes 10] [--seed 0] [--folder FOLDER] [--json OUT]

A third of the programs is made up: what grammar.toml holds, put together at random in loops, classes, functions and
contexts. A third are files of the packages of corpora.toml, and a third the wrong code of the rules' own pages, with
random damage: lines swapped, dropped, doubled, cut, names exchanged, characters put in. Each is checked with all rules;
then every fix is applied, safe or not: the result must parse if the program did, and fixing again must change nothing.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import corpora
from corpora import tomllib

from flatout.check.fixing import fix_data
from flatout.check.registry import all_rules
from flatout.check.run import Request, check_text
from flatout.check.selection import Layer
from flatout.check.settings import Settings

HERE = Path(__file__).parent
OWN_MISTAKE = "a mistake of flatout's own"
GRAMMAR = tomllib.loads((HERE / "grammar.toml").read_text(encoding="utf-8"))
NAMES, EXPRESSIONS, STATEMENTS, BLOCKS = (GRAMMAR[key] for key in ("names", "expressions", "statements", "blocks"))
WRONG = re.compile(r"^Wrong[^\n]*:\n+```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def expression(draw: random.Random, depth: int = 3) -> str:
    text = draw.choice(EXPRESSIONS if depth else NAMES)
    while "{n}" in text:
        text = text.replace("{n}", draw.choice(NAMES), 1)
    while "{e}" in text:
        text = text.replace("{e}", expression(draw, depth - 1 if depth else 0), 1)
    return text


def statement(draw: random.Random, text: str) -> str:
    while "{n}" in text:
        text = text.replace("{n}", draw.choice(NAMES), 1)
    while "{e}" in text:
        text = text.replace("{e}", expression(draw), 1)
    return text


def block(draw: random.Random, indent: str, depth: int) -> list[str]:
    lines: list[str] = []
    for _ in range(draw.randint(1, 6)):
        if depth and draw.random() < 0.45:
            head = statement(draw, draw.choice(BLOCKS))
            if head.startswith("@"):
                lines.append(indent + head)
                head = "def step(x):"
            lines += [indent + head, *block(draw, indent + "    ", depth - 1)]
            if head == "try:":
                lines += [f"{indent}except RuntimeError as e:", *block(draw, indent + "    ", 0)]
        else:
            lines.append(indent + statement(draw, draw.choice(STATEMENTS)))
    return lines


def made_up(draw: random.Random) -> str:
    return GRAMMAR["imports"] + "\n".join(block(draw, "", 4)) + "\n"


def from_pages() -> list[str]:
    """The wrong code of every rule's page."""
    pages = sorted((HERE.parents[1] / "docs" / "rules").glob("FO*.md"))
    return [code for page in pages for code in WRONG.findall(page.read_text(encoding="utf-8"))]


def damaged(draw: random.Random, text: str, most: int) -> str:
    lines = text.splitlines(keepends=True)
    for _ in range(draw.randint(1, most)):
        if not lines:
            break
        i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
        match draw.randrange(6):
            case 0:
                lines[i], lines[j] = lines[j], lines[i]
            case 1:
                del lines[i]
            case 2:
                lines.insert(i, lines[j])
            case 3:
                lines = lines[: max(1, i)]
            case 4:
                lines[i] = lines[i].replace(draw.choice(NAMES), draw.choice(NAMES))
            case _:
                k = draw.randrange(len(lines[i]) + 1)
                lines[i] = lines[i][:k] + draw.choice(GRAMMAR["damage"]) + lines[i][k:]
    return "".join(lines)


def parses(data: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def faults(data: bytes) -> tuple[list[str], list[str]]:
    """What went wrong with one program, and the codes of what was found in it."""
    request = Request(overrides=Settings(layers=(Layer(("ALL",), (), ()),)), isolated=True)
    checked = check_text(request, data, "fuzzed.py")
    wrong = [reason for _, reason in checked.result.errors if OWN_MISTAKE in reason]
    codes = [diagnosis.finding.code for diagnosis in checked.result.diagnoses]
    for job in checked.jobs.values():
        fixed = fix_data(job, data, unsafe=True).data
        if fixed != data:
            if parses(data) and not parses(fixed):
                wrong.append("a fix left what does not parse")
            elif fix_data(job, fixed, unsafe=True).data != fixed:
                wrong.append("a second round of fixes changed something")
    return wrong, codes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=HERE / ".corpora")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    files = [
        path for package in corpora.packages() for path in corpora.unpacked(package, arguments.folder).rglob("*.py")
    ]
    files = sorted(path for path in files if 200 < path.stat().st_size < 60_000)
    wrong_code = from_pages()
    counts: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    examples: dict[str, str] = {}
    end = time.monotonic() + arguments.minutes * 60
    number = 0
    while time.monotonic() < end:
        draw = random.Random(f"{arguments.seed}/{number}")
        if number % 3 == 0:
            text = made_up(draw)
        elif number % 3 == 1:
            text = damaged(draw, draw.choice(files).read_text(encoding="utf-8", errors="replace"), most=8)
        else:
            text = damaged(draw, "".join(draw.sample(wrong_code, 3)), most=3)
        data = text.encode("utf-8", "surrogatepass")
        counts["programs"] += 1
        counts["that parse"] += parses(data)
        try:
            wrong, found = faults(data)
        except Exception:
            wrong, found = [traceback.format_exc().splitlines()[-1]], []
        codes.update(found)
        for one in wrong:
            counts["faults"] += 1
            examples.setdefault(one, f"seed {arguments.seed}/{number}")
        number += 1
    report = {
        "minutes": arguments.minutes,
        **counts,
        "findings": codes.total(),
        "rules_that_found_something": len(codes),
        "rules": len(all_rules()),
        "examples": examples,
    }
    print(json.dumps(report, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if counts["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
