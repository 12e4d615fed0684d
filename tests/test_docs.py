"""The pages are true: their Python blocks run, their console blocks print what they show, their links lead somewhere.

The convention for authors is in CONTRIBUTING.md ("Pages that run").
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*/*.md")]
)
# A rule's page holds wrong code and pieces of right code: tests/check/test_rule_pages.py asks the rule about both.
PROGRAMS = [page for page in PAGES if not (page.parent.name == "rules" and page.name.startswith("FO"))]
TIMEOUT_SECONDS = 240

_MARK = re.compile(r"<!--\s*docs:\s*(.*?)\s*-->")
_FENCE = re.compile(r"^(```+|~~~+)\s*(\w*)\s*$")
_NUMBER = re.compile(r"\d[\d.,]*")
_BAR = re.compile(r"([^\w\s.])\1+")
_CELLS = re.compile(r"[█▉▊▋▌▍▎▏]+")
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str
    skip: str = ""  # the reason
    exit_code: int = 0
    numbers_vary: bool = False

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.line}"


class Command(NamedTuple):
    arguments: list[str]
    output: str


def blocks(page: Path, text: str) -> list[Block]:
    """The fenced blocks of a page with the marks that stand on the line above the fence."""
    found: list[Block] = []
    body: list[str] = []
    fence = language = marks = ""
    start = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if fence:
            if line.strip() == fence:
                found.append(_marked(Block(page, start, language, "".join(body)), marks))
                fence, marks = "", ""
            else:
                body.append(line + "\n")
        elif opened := _FENCE.match(line):
            fence, language = opened.groups()
            start, body = number, []
        elif mark := _MARK.search(line):
            marks = mark.group(1)
        elif line.strip():
            marks = ""
    return found


def _marked(block: Block, marks: str) -> Block:
    for mark in filter(None, (m.strip() for m in marks.split(";"))):
        if mark.startswith("skip "):
            block = block._replace(skip=mark.removeprefix("skip "))
        elif code := re.fullmatch(r"exit (\d+)", mark):
            block = block._replace(exit_code=int(code.group(1)))
        elif mark == "numbers vary":
            block = block._replace(numbers_vary=True)
        else:
            raise ValueError(f"{block.name}: `{mark}` is no mark; they are: skip REASON, exit N, numbers vary")
    return block


def commands(block: Block) -> list[Command]:
    """The `$ ` lines of a console block with the output shown under each. A line may go on after a backslash."""
    found: list[Command] = []
    for chunk in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, output = re.sub(r"\\\n\s*", "", chunk).partition("\n")
        found.append(Command(shlex.split(line, comments=True), output))
    return found


def same(shown: str, printed: str, *, numbers_vary: bool = False) -> bool:
    """Whether `printed` is what the page shows: spaces and blank lines aside, `...` standing for anything."""

    def plain(text: str) -> str:
        if numbers_vary:
            text = _BAR.sub(r"\1", _CELLS.sub("█", _NUMBER.sub("0", text)))
        return "".join(" ".join(line.split()) + "\n" for line in text.splitlines() if line.strip())

    pattern = ""
    for line in plain(shown.replace("...", "\0")).splitlines():
        if line == "\0":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("\0")) + r"\n"
    return re.fullmatch(pattern, plain(printed)) is not None


def _run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    quiet = {"NO_COLOR": "1", "COLUMNS": "100", "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **quiet, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        text=True,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )


def _check(block: Block, folder: Path) -> None:
    if block.language == "python":
        ran = _run([sys.executable, "-c", block.text], folder)
        assert ran.returncode == block.exit_code, f"{block.name}\n{ran.stdout}"
        return
    for command in commands(block):
        assert command.arguments[0] == "flatout", f"{block.name}: only flatout is run; mark the block `skip REASON`"
        ran = _run([sys.executable, "-m", *command.arguments], folder)
        assert ran.returncode == block.exit_code, f"{block.name}\n{ran.stdout}"
        if command.output.strip():
            assert same(command.output, ran.stdout, numbers_vary=block.numbers_vary), f"{block.name}\n{ran.stdout}"


@pytest.mark.integration
@pytest.mark.parametrize("page", PROGRAMS, ids=lambda p: str(p.relative_to(ROOT)))
def test_blocks_of_a_page_are_true(page: Path, tmp_path: Path) -> None:
    run = [b for b in blocks(page, page.read_text("utf-8")) if b.language in ("python", "console")]
    if run and all(block.skip for block in run):
        pytest.skip("; ".join(f"{b.name}: {b.skip}" for b in run))
    # A folder as a reader has it who cloned the project and types what the page says, in order.
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", "*.pt"))
    for block in run:
        if not block.skip:
            _check(block, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = [t for t in _LINK.findall(page.read_text("utf-8")) if "://" not in t and not t.startswith("mailto:")]
    assert [t for t in targets if not (page.parent / t).exists()] == []


# --- the convention itself ------------------------------------------------------------------------------------------

PAGE = """
# Title
<!-- docs: exit 1; numbers vary -->
```console
$ flatout predict --gpu t4 \\
    train.py
needs 1.5 GiB
...
$ flatout gpus
```
text
```python
1 + 1
```
<!-- docs: skip needs a GPU -->

```python
boom
```
"""


def test_blocks_and_marks_are_read() -> None:
    console, plain, marked = blocks(Path("page.md"), PAGE)
    assert (console.language, console.line, console.exit_code, console.numbers_vary) == ("console", 4, 1, True)
    assert (plain.text, plain.skip, marked.skip) == ("1 + 1\n", "", "needs a GPU")
    first, second = commands(console)
    assert first == Command(["flatout", "predict", "--gpu", "t4", "train.py"], "needs 1.5 GiB\n...\n")
    assert second.arguments == ["flatout", "gpus"]


def test_a_misspelt_mark_is_an_error() -> None:
    with pytest.raises(ValueError, match="is no mark"):
        blocks(Path("page.md"), "<!-- docs: numbers wary -->\n```python\n```\n")


@pytest.mark.parametrize(
    ("shown", "printed", "numbers_vary", "equal"),
    [
        ("a  b\n\nc", "a b\nc", False, True),
        ("a b", "a c", False, False),
        ("a\n...\nz", "a\nb\nc\nz", False, True),
        ("a\n...\nz", "a\nb\nc", False, False),
        ("peak ... GiB", "peak 12.5 GiB", False, True),
        ("peak 12.4 GiB", "peak 12.5 GiB", False, False),
        ("peak 12.4 GiB", "peak 2 GiB", True, True),
        ("peak 12.4 GiB", "peak 2 MiB", True, False),
        ("weights ###### 3", "weights ## 1", True, True),
        ("fits ████▎··· 53%", "fits ██▏····· 26%", True, True),
    ],
)
def test_how_output_is_compared(shown: str, printed: str, numbers_vary: bool, equal: bool) -> None:
    assert same(shown, printed, numbers_vary=numbers_vary) is equal
