"""Lists the public names of the PyTorch that is installed here, for the rule about names that do not exist.

    python tools/torch_names/survey.py 2.13.json

Run by hand, in an environment for each version; merge.py then makes one table of the lists. A survey imports every
public module of torch and looks at what it holds. A name counts when any build could have it: one that is bound in a
branch not taken here (`try: from torch._C import ...`) is listed too. What cannot be told is `open`: nothing is
said about names below it.
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
    "torch.ao.quantization.backend_config",
    "torch.ao.quantization.fx",
    "torch.ao.quantization.pt2e",
    "torch.ao.quantization.quantizer",
    "torch.distributed.elastic",
    "torch.distributed.flight_recorder",
    "torch.fx.experimental",
    "torch.fx.passes",
    "torch.utils.hipify",
)
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def is_below(name: str, heads: tuple[str, ...]) -> bool:
    return any(name == head or name.startswith(f"{head}.") for head in heads)


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
            if info.name.startswith("_") or is_below(name, OPEN):
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
        if public and not is_below(name, OPEN) and module is not None:
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


def star_imports(tree: ast.Module, module: str, is_package: bool) -> list[str]:
    """The modules that `module` takes all names of, by their full names."""
    here = module.split(".") if is_package else module.split(".")[:-1]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            start = here[: len(here) - node.level + 1] if node.level else []
            found.append(".".join([*start, *([node.module] if node.module else [])]))
    return found


def strings_in(tree: ast.AST) -> set[str]:
    found = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in found if IDENTIFIER.fullmatch(text)}


def has(thing: Any, name: str) -> bool:
    return bool(quietly(hasattr, thing, name))


def added_by_metaclass(thing: type) -> set[str]:
    """What only the class itself answers to, not its objects: `torch.distributed.group.WORLD`; dir() leaves it out."""
    return set(dir(type(thing))) - set(dir(type)) if type(thing).__module__.startswith("torch") else set()


def serves_anything(module: Any) -> bool:
    """Whether a module's class answers to names of its own accord, as those of settings do (torch.compiler.config)."""
    wraps = isinstance(getattr(module, "m", None), types.ModuleType)  # hands on to that, which is looked at
    return hasattr(type(module), "__getattr__") and not wraps


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
        self.in_branches: dict[str, set[str]] = {}  # by module: names that another build may have
        self.stars: dict[str, list[str]] = {}
        self.members: dict[str, dict[str, Any]] = {name: self.of_module(name) for name in self.modules}
        for name, sources in self.stars.items():
            for member in set().union(*(self.in_branches.get(source, set()) for source in sources)):
                self.members[name].setdefault(member, None)
        self.class_name = self.name_classes()
        self.scopes: dict[str, dict[str, Any]] = {}
        for name, members in self.members.items():
            answering = serves_anything(self.modules[name])
            self.scopes[name] = {"bases": [], "open": answering, "members": self.targets(name, members)}
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
            self.in_branches[name] = {word for word in missing if not word.startswith("_")}
            self.stars[name] = star_imports(tree, name, hasattr(module, "__path__"))
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
        own = {name for name in (*dir(thing), *added_by_metaclass(thing)) if not name.startswith("_")}
        tensor = self.modules["torch"].Tensor
        if (
            thing is not tensor and tensor not in bases and len(own & set(dir(tensor))) > len(own) / 2
        ):  # torch.cuda.FloatTensor and its like
            bases.append(tensor)
        own -= {name for base in bases for name in (*dir(base), *added_by_metaclass(base))}
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


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(inspect.cleandoc(__doc__ or ""))
    survey(sys.argv[1])
