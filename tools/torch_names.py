"""Lists the public names of PyTorch, for the rule about names that do not exist.

Run by hand. First in an environment for each version, then once over all the lists:

    python tools/torch_names.py survey 2.13.json
    python tools/torch_names.py merge *.json src/flatout/check/data/torch_names.txt

A survey imports every public module of torch and looks at what it holds. A name counts when any build could have it:
one that is bound in a branch not taken here (`try: from torch._C import ...`) is listed too. What cannot be told is
`open`, and nothing is ever said about names below it. The format of the merged file is told in its first lines.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import json
import pkgutil
import re
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

# Not looked into. The first three are filled by what is loaded or by how PyTorch was built; the others are the insides
# of its tools, large and of no use in a training script.
OPEN = (
    "torch.ops",
    "torch.classes",
    "torch.version",
    "torch.ao.ns",
    "torch.distributed.flight_recorder",
    "torch.fx.experimental",
    "torch.fx.passes",
    "torch.utils.hipify",
)
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

HEADER = """\
# The public names of PyTorch and the versions that have them, made by tools/torch_names.py from the installed packages.
# Line 0 (below): the versions. Then one line a module or class: its name; `:` and the line number of each base;
# `*` if open (it may hold more than is listed); its members. A member: its name, `~` if it only passes through (an
# import), `>n` if it is the module or class of line n, `+i` and `-i` for the first and the last version that has it,
# counted from 0 (left out where these are the first and last of all).
"""


def is_open(name: str) -> bool:
    return any(name == unseen or name.startswith(f"{unseen}.") for unseen in OPEN)


def quietly(work: Any, *arguments: Any) -> Any:
    """The result of `work`, or None where it fails; what it prints is dropped."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return work(*arguments)
        except (Exception, SystemExit):
            return None


def public_modules(torch: types.ModuleType) -> tuple[dict[str, Any], list[str]]:
    """The public modules of torch by name, and the names of those that cannot be imported here."""
    modules, failed = {"torch": torch}, []
    queue = [("torch", torch.__path__)]
    while queue:
        parent, path = queue.pop()
        for info in pkgutil.iter_modules(path):
            name = f"{parent}.{info.name}"
            if info.name.startswith("_") or is_open(name):
                continue
            module = quietly(importlib.import_module, name)
            if module is None:
                failed.append(name)
                continue
            modules[name] = module
            if info.ispkg and hasattr(module, "__path__"):
                queue.append((name, module.__path__))
    for name, module in list(sys.modules.items()):  # made in code, such as torch.cpu.amp or torch.return_types
        public = name.startswith("torch.") and not any(part.startswith("_") for part in name.split("."))
        if public and not is_open(name) and module is not None:
            modules.setdefault(name, module)
    return modules, failed


def source_tree(module: Any) -> ast.Module | None:
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py"):
        return None
    with open(file, encoding="utf-8") as stream:
        return ast.parse(stream.read())


def bound_in_branches(body: list[ast.stmt], inside: bool = False) -> Iterator[str]:
    """Names that a module binds in `if`, `try` or `with`, taken here or not."""
    for node in body:
        if isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from bound_in_branches(node.body, True)
            yield from bound_in_branches(node.orelse, True)
        elif isinstance(node, ast.Try):
            for part in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
                yield from bound_in_branches(part, True)
        elif isinstance(node, ast.With):
            yield from bound_in_branches(node.body, inside)
        elif not inside:
            continue
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))


def strings_in(tree: ast.AST) -> set[str]:
    found = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in found if IDENTIFIER.fullmatch(text)}


def has(thing: Any, name: str) -> bool:
    return bool(quietly(hasattr, thing, name))


def served(thing: Any) -> set[str]:
    """Names that an instance's own `__getattr__` answers to, as far as its code names them."""
    function = getattr(type(thing), "__getattr__", None)
    code = getattr(function, "__code__", None)
    words = {text for text in (code.co_consts if code else ()) if isinstance(text, str) and IDENTIFIER.fullmatch(text)}
    return {word for word in words if has(thing, word)}


class Survey:
    """What the torch that is installed here holds: `scopes` by name, each with bases, openness and members."""

    def __init__(self) -> None:
        import torch

        self.version = torch.__version__.split("+")[0]
        self.modules, failed = public_modules(torch)
        self.module_name = {id(module): name for name, module in sorted(self.modules.items(), key=lambda m: -len(m[0]))}
        self.members: dict[str, dict[str, Any]] = {name: self.of_module(name) for name in self.modules}
        self.class_name = self.name_classes()
        self.scopes: dict[str, dict[str, Any]] = {}
        for name, members in self.members.items():
            self.scopes[name] = {"bases": [], "open": False, "members": self.targets(name, members)}
        for thing, name in list(self.class_name.values()):
            self.scopes.setdefault(name, self.of_class(thing))
        there = [name for name in OPEN if quietly(importlib.import_module, name) is not None]
        for name in (*failed, *there):
            self.scopes[name] = {"bases": [], "open": True, "members": {}}
            parent, _, last = name.rpartition(".")
            self.scopes[parent]["members"][last] = [name, False]

    def of_module(self, name: str) -> dict[str, Any]:
        module = self.modules[name]
        names = {*dir(module), *(set(dir(type(module))) - set(dir(types.ModuleType)))}
        if isinstance(getattr(module, "m", None), types.ModuleType):  # torch.backends.*: properties around a module
            names |= set(dir(module.m))
        missing = set()
        if (tree := source_tree(module)) is not None:
            deleted = {
                n.id for d in tree.body if isinstance(d, ast.Delete) for n in d.targets if isinstance(n, ast.Name)
            }
            missing = set(bound_in_branches(tree.body)) - deleted
            if "__getattr__" in names:
                names |= {word for word in strings_in(tree) if has(module, word)}
        members = {}
        for member in sorted(names | missing):
            if not member.startswith("_") and member.isidentifier():
                members[member] = quietly(getattr, module, member)
        prefix = name + "."
        for other, thing in self.modules.items():
            if other.startswith(prefix) and "." not in other[len(prefix) :]:
                members[other[len(prefix) :]] = (
                    thing if members.get(other[len(prefix) :]) is None else members[other[len(prefix) :]]
                )
        return members

    def name_classes(self) -> dict[int, tuple[type, str]]:
        """A name for each public class of torch and each settings object of torch.backends: its shortest path."""
        found: dict[int, tuple[Any, str]] = {}
        for name, members in self.members.items():
            for member, thing in members.items():
                if not self.is_scope(name, thing):
                    continue
                path = f"{name}.{member}"
                known = found.get(id(thing))
                if known is None or (path.count("."), path) < (known[1].count("."), known[1]):
                    found[id(thing)] = (thing, path)
        return found

    @staticmethod
    def is_scope(holder: str, thing: Any) -> bool:
        if isinstance(thing, type):
            return str(thing.__module__).split(".")[0] == "torch"
        settings = (
            holder.startswith("torch.backends") and not isinstance(thing, types.ModuleType) and not callable(thing)
        )
        return settings and type(thing).__module__.startswith("torch.backends")

    def of_class(self, thing: Any) -> dict[str, Any]:
        if not isinstance(thing, type):
            names = {*dir(thing), *served(thing)}
            return {"bases": [], "open": False, "members": {n: None for n in sorted(names) if not n.startswith("_")}}
        bases = [base for base in thing.__mro__[1:] if id(base) in self.class_name]
        own = {name for name in dir(thing) if not name.startswith("_")}
        tensor = self.modules["torch"].Tensor
        if tensor not in bases and len(own & set(dir(tensor))) > len(own) / 2:  # torch.cuda.FloatTensor and its like
            bases.append(tensor)
        own -= {name for base in bases for name in dir(base)}
        serving = hasattr(type(thing), "__getattr__") and type(thing).__module__.startswith("torch")
        return {
            "bases": [self.class_name[id(base)][1] for base in bases],
            "open": serving,
            "members": dict.fromkeys(sorted(own)),
        }

    def targets(self, name: str, members: dict[str, Any]) -> dict[str, Any]:
        """For each member: the scope that it is (or None), and whether it only passes through."""
        exported = getattr(self.modules[name], "__all__", None)
        result = {}
        for member, thing in members.items():
            if isinstance(thing, types.ModuleType):
                target = self.module_name.get(id(thing))
            else:
                target = self.class_name[id(thing)][1] if id(thing) in self.class_name else None
            home = getattr(thing, "__module__", None) if not isinstance(thing, types.ModuleType) else thing.__name__
            foreign = isinstance(home, str) and home.split(".")[0] != "torch"
            passing = foreign if exported is None or target == f"{name}.{member}" else member not in exported
            result[member] = [target, passing]
        return result


def survey(path: str) -> None:
    warnings.simplefilter("ignore")
    made = Survey()
    with open(path, "w", encoding="utf-8") as stream:
        json.dump({"torch": made.version, "scopes": made.scopes}, stream, indent=0)
    print(made.version, len(made.scopes), "scopes", sum(len(s["members"]) for s in made.scopes.values()), "members")


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
                into = merged.setdefault(self.name(name), {"bases": {}, "open": False, "members": {}})
                into["open"] |= held["open"]
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
        words = [f"{name}{bases}{'*' if held['open'] else ''}"]
        for member, (target, passing, first, last) in sorted(held["members"].items()):
            since = f"+{first}" if first else ""
            until = f"-{last}" if last < len(self.versions) - 1 else ""
            known = f">{numbers[target]}" if target in numbers and not passing else ""
            words.append(f"{member}{'~' if passing else ''}{known}{since}{until}")
        return " ".join(words)


def merge(sources: list[str], path: str) -> None:
    surveys = []
    for source in sources:
        with open(source, encoding="utf-8") as stream:
            surveys.append(json.load(stream))
    surveys.sort(key=lambda made: tuple(map(int, made["torch"].split(".")[:2])))
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(HEADER + "\n".join(Merge(surveys).lines()) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["survey"] and len(sys.argv) == 3:
        survey(sys.argv[2])
    elif sys.argv[1:2] == ["merge"] and len(sys.argv) > 3:
        merge(sys.argv[2:-1], sys.argv[-1])
    else:
        sys.exit(inspect.cleandoc(__doc__))
