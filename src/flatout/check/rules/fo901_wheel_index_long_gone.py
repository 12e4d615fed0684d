"""FO901: installing PyTorch from where it is no more: wheel pages of old CUDA versions, the name `pytorch`, conda."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from flatout.check.commands import Install, installs, logical_lines
from flatout.check.rule import Hit, Rule, TextFile
from flatout.check.versions import TorchVersion, lowest, parse_version
from flatout.check.wheels import (
    ADVICE,
    INDEXES,
    LAST_LONG_GONE,
    LAST_ON_CONDA,
    LAST_WITH_CUDATOOLKIT,
    Index,
    show,
)
from flatout.source import Span

_PAGE = re.compile(
    r"https?://download\.pytorch\.org/whl/(cu\d{2,3})(?:/(?:torch_stable\.html|torch/?))?(?![\w/.-]*\.whl)\b"
)
_TORCH = re.compile(
    r"(?<![\w./:-])torch(?![\w.-])(?:\[[^\]\s]*\])?[ \t]*(?P<asked>(?:[=<>~!]{1,3}[ \t]*[\w.*+!]+[ \t]*,?[ \t]*)*)"
)
_EXACT = re.compile(r"===?[ \t]*(\d[\w.]*)(?:\+(cu\d+))?")
_BESIDE_PYPI = re.compile(r"extra-index-url|EXTRA_INDEX_URL|find-links|(?<!\S)-f\b", re.I)
_WARNED = re.compile(r"\b(?:not|never|instead|wrong|avoid|fails?|error|old|legacy)\b|n't\b", re.I)
_REQUIREMENTS = re.compile(r"(?:.*requirements.*|constraints.*)\.(?:txt|in)", re.I)
_WRONG_NAME = re.compile(r"pytorch(?:$|\[|[=<>~!]{2}|[<>])")
_CONDA_STYLE = re.compile(r"^\s*(?:- )?(?:cudatoolkit|pytorch-cuda|python=|[\w-]+=[\d.]+=)|pytorch=(?!=)", re.M)


class _Torch(NamedTuple):
    """What is asked of torch: an exact version with the CUDA that its name has, or a lower bound; or nothing."""

    exact: TorchVersion | None
    built_for: str | None
    lower: TorchVersion | None
    bounded: bool  # from above


def find(file: TextFile) -> Iterator[Hit]:
    for line, offset in logical_lines(file.text.text):
        if not line.lstrip().startswith("#"):
            yield from _pages(file, line, offset)
    for command in installs(file.text.text):
        if command.tool == "pip":
            yield from _wrong_name(file, command)
        else:
            yield from _conda(command)
    if _REQUIREMENTS.fullmatch(os.path.basename(file.path)):
        yield from _wrong_requirement(file)


# --- wheel pages ------------------------------------------------------------------------------------------------------


def _pages(file: TextFile, line: str, offset: int) -> Iterator[Hit]:
    for match in _PAGE.finditer(line):
        name = match[1]
        index = INDEXES.get(name)
        asked = _asked(line) or (None if "install" in line else _asked(file.text.text))
        if index is None:
            continue
        if asked is None:
            if file.torch is None:
                continue  # torch is asked for elsewhere
            asked = _Torch(None, None, file.torch, False)
            if index.last is None or file.torch <= index.last:
                continue
        span = Span(offset + match.start(), offset + match.end())
        said = _said(name, index, asked, beside=bool(_BESIDE_PYPI.search(line[: match.start()])), uses_uv="uv " in line)
        if said is not None:
            yield Hit(span, said, ADVICE, evidence={"index": name})


def _asked(text: str) -> _Torch | None:
    """What is asked of torch in `text`; None where it is not named."""
    match = _TORCH.search(text)
    if match is None:
        return None
    conditions = match["asked"]
    exact = _EXACT.search(conditions)
    if exact is not None:
        return _Torch(parse_version(exact[1]), exact[2], None, True)
    return _Torch(None, None, lowest(conditions), "<" in conditions or "~" in conditions)


def _said(name: str, index: Index, asked: _Torch, *, beside: bool, uses_uv: bool) -> str | None:
    wanted = asked.exact or asked.lower
    if asked.exact is not None and asked.built_for not in (None, name):
        return f"the index `{name}` has no builds for `{asked.built_for}`, which the version that is asked for names"
    if asked.exact is not None and asked.exact < index.first:
        return f"the index `{name}` begins with PyTorch {show(index.first)}, and {show(asked.exact)} is asked for"
    if index.last is None:
        return None
    if wanted is not None and wanted > index.last:
        found = "pip takes PyPI's build, with another CUDA" if beside and not uses_uv else "pip finds none"
        return f"the index `{name}` ends at PyTorch {show(index.last)}, and {show(wanted)} is asked for: {found}"
    if asked.bounded or index.last > LAST_LONG_GONE:
        return None
    outcome = (
        "pip takes a newer one from PyPI, with another CUDA than asked for"
        if beside and not uses_uv
        else "that is what gets installed, or nothing at all under a newer Python"
    )
    return f"the index `{name}` ends at PyTorch {show(index.last)}: {outcome}"


# --- names and channels -----------------------------------------------------------------------------------------------


def _wrong_name(file: TextFile, command: Install) -> Iterator[Hit]:
    line_start = file.text.text.rfind("\n", 0, command.span.start) + 1
    if _WARNED.search(file.text.text[line_start : command.span.start]):
        return
    for word in command.packages:
        if _WRONG_NAME.match(word.text.lower()):
            yield _hit_of_name(word.span)


def _wrong_requirement(file: TextFile) -> Iterator[Hit]:
    if _CONDA_STYLE.search(file.text.text):
        return  # a list for conda
    for line, offset in logical_lines(file.text.text):
        if _WRONG_NAME.match(line.strip().lower().replace(" ", "")):
            start = offset + len(line) - len(line.lstrip())
            yield _hit_of_name(Span(start, start + len("pytorch")))


def _hit_of_name(span: Span) -> Hit:
    return Hit(
        span,
        "the package `pytorch` on PyPI is not PyTorch: installing it raises an error that says so",
        "Write `torch`.",
        severity="high",
    )


def _conda(command: Install) -> Iterator[Hit]:
    if not re.search(r"(?:-c|--channel)[ =]+pytorch(?:\s|$)", command.text) or "conda-forge" in command.text:
        return
    torch = next((word for word in command.packages if word.text == "pytorch"), None)
    if torch is None:
        return  # with its version, it may be meant so
    last = LAST_WITH_CUDATOOLKIT if "cudatoolkit" in command.text else LAST_ON_CONDA
    if last is LAST_ON_CONDA and "pytorch-cuda" not in command.text:
        return
    cause = "is built against `cudatoolkit` up to" if "cudatoolkit" in command.text else "ends at"
    yield Hit(
        torch.span,
        f"the conda channel `pytorch` {cause} PyTorch {show(last)}: nothing newer is installed",
        "Install it with pip (`pip install torch`), or `pytorch-gpu` from conda-forge.",
    )


RULE = Rule(
    "FO901",
    "wheel-index-long-gone",
    "medium",
    find,
    needs=("download.pytorch.org", "pytorch"),
    reads="text",
)
