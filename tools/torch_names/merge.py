"""Makes the table of torch's names from the lists of several versions.

    python tools/torch_names/merge.py *.json src/flatout/check/data/torch_names.txt

The lists are survey.py's. The format of the table is told in its first lines.
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

from survey import OPEN, is_below

# Looked into, but the builds for these devices may hold more.
OTHER_BUILDS = ("torch.mps", "torch.mtia", "torch.xpu", "torch.backends.mps")

HEADER = """\
# The public names of PyTorch and the versions that have them, made by tools/torch_names from the installed packages.
# Line 0 (below): the versions. Then one line a module or class: its name; `:` and the line number of each base;
# `*` if open (it may hold more than is listed); its members. A member: its name, `~` if it only passes through (an
# import), `>n` if it is the module or class of line n. Of both: `+i` and `-i`, the first and the last version that has
# it, counted from 0 (left out where these are the first and last of all).
"""


class Merge:
    """The surveys of all versions as one: what a scope holds, and since and until when."""

    def __init__(self, surveys: list[dict[str, Any]]) -> None:
        self.versions = [".".join(made["torch"].split(".")[:2]) for made in surveys]
        self.scopes = [made["scopes"] for made in surveys]
        self.parent: dict[str, str] = {}
        self.join_renamed()

    def name(self, scope: str) -> str:
        """The name under which a scope is kept: the same for a class that was moved between versions."""
        while scope in self.parent:
            scope = self.parent[scope]
        return scope

    def join_renamed(self) -> None:
        """A member that is one class in one version and one of another name in the next is one class throughout."""
        modules = {name for scopes in self.scopes for name in scopes if name.rpartition(".")[2].islower()}
        last: dict[tuple[str, str], str] = {}
        for scopes in self.scopes:
            for scope, held in scopes.items():
                for member, entry in held["members"].items():
                    target = entry and entry[0]
                    if target is None or target in modules:
                        continue
                    one, other = self.name(last.setdefault((scope, member), target)), self.name(target)
                    if one != other:
                        short, long = sorted((one, other), key=lambda path: (path.count("."), path))
                        self.parent[long] = short

    def lines(self) -> list[str]:
        merged: dict[str, dict[str, Any]] = {}
        for version, scopes in enumerate(self.scopes):
            for name, held in scopes.items():
                if is_below(self.name(name), OPEN) and name not in OPEN:
                    continue
                if name in OPEN:
                    held = {"bases": [], "open": True, "members": {}}
                new = {"bases": {}, "open": False, "members": {}, "first": version}
                into = merged.setdefault(self.name(name), new)
                into["last"] = version
                into["open"] |= held["open"] or is_below(name, OTHER_BUILDS)
                into["bases"].update(dict.fromkeys(map(self.name, held["bases"])))
                for member, entry in held["members"].items():
                    target, passing = entry or (None, False)
                    known = into["members"].get(member)
                    first = known[2] if known else version
                    into["members"][member] = (target and self.name(target), passing, first, version)
        numbers = {name: number for number, name in enumerate(sorted(merged), 1)}
        return [" ".join(self.versions), *(self.line(name, merged[name], numbers) for name in sorted(merged))]

    def line(self, name: str, held: dict[str, Any], numbers: dict[str, int]) -> str:
        bases = "".join(f":{numbers[base]}" for base in held["bases"] if base in numbers and base != name)
        words = [f"{name}{bases}{'*' if held['open'] else ''}{self.span(held['first'], held['last'])}"]
        for member, (target, passing, first, last) in sorted(held["members"].items()):
            known = f">{numbers[target]}" if target in numbers and not passing else ""
            words.append(f"{member}{'~' if passing else ''}{known}{self.span(first, last)}")
        return " ".join(words)

    def span(self, first: int, last: int) -> str:
        return (f"+{first}" if first else "") + (f"-{last}" if last < len(self.versions) - 1 else "")


def merge(sources: list[str], path: str) -> None:
    surveys = []
    for source in sources:
        with open(source, encoding="utf-8") as stream:
            surveys.append(json.load(stream))
    surveys.sort(key=lambda made: tuple(map(int, made["torch"].split(".")[:2])))
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(HEADER + "\n".join(Merge(surveys).lines()) + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(inspect.cleandoc(__doc__ or ""))
    merge(sys.argv[1:-1], sys.argv[-1])
