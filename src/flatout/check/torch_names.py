"""Which names PyTorch has, and since and until which version: looked up in a table, without torch.

The table lists what was found in the packages of the versions that it names (tools/torch_names). Of a version
between two of these only what both agree on is said.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

TorchVersion = tuple[int, int]  # (2, 13): names come and go with minor versions

# Devices that packages of their makers add to torch and to torch.backends while it runs.
_PLUGGED = re.compile("dipu|gcu|hpu|ipu|maca|maia|mlu|mudnn|musa|neuron|npu|sdaa|supa|tpu|xla")

_TABLE = Path(__file__).with_name("data") / "torch_names.txt"
_SPAN = r"(?:\+(?P<first>\d+))?(?:-(?P<last>\d+))?"
_MEMBER = re.compile(rf"(?P<name>\w+)(?P<passing>~?)(?:>(?P<scope>\d+))?{_SPAN}")
_HEAD = re.compile(rf"(?P<name>[\w.]+)(?P<bases>(?::\d+)*)(?P<open>\*?){_SPAN}")


class _Member(NamedTuple):
    """What a module or class holds under one name, in the versions from `first` to `last` (indices)."""

    passing: bool  # imported for its own use, not offered
    scope: int | None  # the line of the module or class that it is
    first: int
    last: int


class _Scope(NamedTuple):
    """A module or class, listed for the versions from `first` to `last` (indices)."""

    name: str
    bases: tuple[int, ...]
    open: bool  # may hold more than is listed
    first: int
    last: int
    members: dict[str, _Member]


class _Table:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [line for line in text.splitlines() if not line.startswith("#")]
        self.versions: list[TorchVersion] = []
        for word in self.lines[0].split():
            major, _, minor = word.partition(".")
            self.versions.append((int(major), int(minor)))
        self._scopes: dict[int, _Scope] = {}

    @cached_property
    def line_starts(self) -> list[int]:
        starts, at = [], self.text.index("\n" + self.lines[0]) + 1
        for line in self.lines:
            starts.append(at)
            at += len(line) + 1
        return starts

    def scope(self, number: int) -> _Scope:
        """The module or class of line `number`."""
        if (known := self._scopes.get(number)) is not None:
            return known
        head, *words = self.lines[number].split(" ")
        parts = _HEAD.fullmatch(head)
        assert parts is not None, head
        members = {}
        for word in words:
            match = _MEMBER.fullmatch(word)
            assert match is not None, word
            scope = match["scope"]
            members[match["name"]] = _Member(bool(match["passing"]), int(scope) if scope else None, *self._span(match))
        bases = tuple(map(int, parts["bases"].split(":")[1:]))
        made = _Scope(parts["name"], bases, bool(parts["open"]), *self._span(parts), members)
        self._scopes[number] = made
        return made

    def _span(self, match: re.Match[str]) -> tuple[int, int]:
        return int(match["first"] or 0), int(match["last"] or len(self.versions) - 1)

    def found(self, number: int, name: str) -> list[_Member]:
        """`name` in a scope and in its bases: a method may have moved from one to the other between versions."""
        held = (self.scope(number), *map(self.scope, self.scope(number).bases))
        return [scope.members[name] for scope in held if name in scope.members]

    def has(self, member: _Member | _Scope, torch: TorchVersion | None) -> bool | None:
        """Whether `member` is in `torch`; in any version where that is None."""
        if torch is None or self.versions[member.first] <= torch <= self.versions[member.last]:
            return True
        if torch > self.versions[member.last]:
            if member.last == len(self.versions) - 1:
                return True  # newer than the table: nothing says that it went
            return False if torch >= self.versions[member.last + 1] else None
        return False if member.first and torch <= self.versions[member.first - 1] else None


class _Step(NamedTuple):
    """How far a name could be followed."""

    exists: bool | None
    scope: int | None  # the last module or class on the way that exists
    rest: tuple[str, ...]  # what was looked for in it and below


@lru_cache(maxsize=1)
def _table() -> _Table:
    return _Table(_TABLE.read_text(encoding="utf-8"))


def _follow(name: str, torch: TorchVersion | None) -> _Step:
    table = _table()
    head, *parts = name.split(".")
    device = parts[1] if len(parts) > 1 and parts[0] == "backends" else parts[0] if parts else ""
    if head != "torch" or _PLUGGED.fullmatch(device) or any(part.startswith("_") for part in parts):
        return _Step(None, None, ())
    scope = 1  # torch itself
    for depth, part in enumerate(parts):
        rest = tuple(parts[depth:])
        members = table.found(scope, part)
        if not members:
            newer = torch is not None and torch > table.versions[-1]
            older = torch is not None and torch < table.versions[0]
            return _Step(None if table.scope(scope).open or newer or older else False, scope, rest)
        answers = {table.has(member, torch) for member in members}
        if True not in answers:
            return _Step(None if None in answers else False, scope, rest)
        inner = next((member.scope for member in members if member.scope is not None), None)
        # A function or a value, in this version or in all: what it holds is not listed.
        if inner is None or not table.has(table.scope(inner), torch):
            return _Step(True if depth + 1 == len(parts) else None, scope, rest)
        scope = inner
    return _Step(True, scope, ())


def exists(name: str, torch: TorchVersion | None) -> bool | None:
    """Whether the public `name`, such as `torch.cuda.amp.autocast`, is in a version of PyTorch, in any where None.

    None where that cannot be said: a private name, one below a function or below what is filled at run time
    (`torch.ops`), a version that the table does not reach.
    """
    return _follow(name, torch).exists


def removed_in(name: str) -> TorchVersion | None:
    """The first listed version that no longer has `name`; None where the newest has it, or none ever had."""
    there = [version for version in _table().versions if exists(name, version)]
    later = [version for version in _table().versions if there and version > there[-1]]
    return later[0] if later and exists(name, later[0]) is False else None


def nearest(name: str, torch: TorchVersion | None = None, limit: int = 3) -> list[str]:
    """Names that `name` may have meant: of close spelling in the same place, then the same word elsewhere.

    Only what a module offers is named, not what it imports for itself; in the newest listed version where `torch` is
    None.
    """
    table = _table()
    torch = torch or table.versions[-1]
    step = _follow(name, torch)
    if step.exists is not False or step.scope is None:
        return []
    missing, below = step.rest[0], step.rest[1:]
    held = (table.scope(step.scope), *map(table.scope, table.scope(step.scope).bases))
    offered = {key for scope in held for key, member in scope.members.items() if not member.passing}
    same = sorted(key for key in offered if key.lower() == missing.lower())  # but for case: AdamW before adamw
    close = [f"{held[0].name}.{key}" for key in (*same, *difflib.get_close_matches(missing, sorted(offered), limit))]
    longer = [".".join((path, *below)) for path in close]
    found = [path for path in longer if exists(path, torch)] + _elsewhere(table, step.rest[-1], torch)
    return list(dict.fromkeys(path for path in found if path != name))[:limit]


def _elsewhere(table: _Table, word: str, torch: TorchVersion) -> list[str]:
    """The public names that end in `word`, the shortest first, modules before classes."""
    found = []
    for match in re.finditer(rf"(?<= ){re.escape(word)}(?=[ \n>+-])", table.text):
        number = bisect_right(table.line_starts, match.start()) - 1
        if number > 0:
            scope = table.scope(number)
            path = f"{scope.name}.{word}"
            if not scope.members[word].passing and exists(path, torch):
                in_class = scope.name.rpartition(".")[2][:1].isupper()
                found.append((in_class, path.count("."), path))
    return [path for *_, path in sorted(found)]
