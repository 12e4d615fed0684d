"""One module of a program, and the questions that rules ask of it."""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from functools import cached_property
from typing import Any

from flatout.check import contexts
from flatout.check.classes import Classes
from flatout.check.contexts import Autocast
from flatout.check.evaluation import Evaluations
from flatout.check.fact import Fact
from flatout.check.facts import Facts
from flatout.check.functions import Functions
from flatout.check.loaders import Loaders
from flatout.check.losses import Losses
from flatout.check.names import Names
from flatout.check.options import Options
from flatout.check.regions import Region, Regions
from flatout.check.scopes import Scopes
from flatout.check.tree import Tree
from flatout.check.waits import Wait, waits
from flatout.check.windows import Windows
from flatout.source import SourceText

TorchVersion = tuple[int, int]

_GPU_WORDS = re.compile(r"\bcuda\b|\bmps\b|\bxpu\b|\.to\(\s*(?:self\.)?(?:args\.)?device")
_DEFAULT_DEVICE = re.compile(
    r"set_default_device|set_default_tensor_type|with torch\.device\(|with device\b|init_empty_weights"
)


class Module:
    """A parsed file. Everything but the tree is worked out when a rule first asks for it."""

    def __init__(
        self, text: SourceText, root: ast.Module, *, path: str, is_test: bool, torch: TorchVersion | None
    ) -> None:
        self.text = text
        self.path = path
        self.is_test = is_test
        self.torch = torch  # the oldest PyTorch that the project admits; None: not known
        self.tree = Tree(root)
        self.spelled_dicts: dict[tuple[ast.AST, str], Options] = {}  # filled by `options`

    @classmethod
    def parse(cls, text: SourceText, *, path: str, is_test: bool = False, torch: TorchVersion | None = None) -> Module:
        """The module of `text`. Raises what `ast.parse` raises."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            root = ast.parse(text.text, filename=path)
        return cls(text, root, path=path, is_test=is_test, torch=torch)

    @cached_property
    def scopes(self) -> Scopes:
        return Scopes(self.tree)

    @cached_property
    def names(self) -> Names:
        return Names(self.tree, self.scopes)

    @cached_property
    def facts(self) -> Facts:
        return Facts(self)

    @cached_property
    def regions(self) -> Regions:
        return Regions(self)

    def torch_at_least(self, major: int, minor: int) -> bool:
        """Whether every PyTorch that the project admits has at least this version; one that names none gets today's."""
        return self.torch is None or self.torch >= (major, minor)

    @cached_property
    def functions(self) -> Functions:
        return Functions(self)

    @cached_property
    def classes(self) -> Classes:
        return Classes(self)

    @cached_property
    def loaders(self) -> Loaders:
        return Loaders(self)

    @cached_property
    def losses(self) -> Losses:
        return Losses(self)

    @cached_property
    def evaluations(self) -> Evaluations:
        return Evaluations(self)

    @cached_property
    def windows(self) -> Windows:
        return Windows(self)

    # --- names --------------------------------------------------------------------------------------------------------

    def qualified(self, node: ast.expr) -> str | None:
        """The dotted name of what `node` refers to: `torch.nn.functional.relu`; None where that cannot be told."""
        return self.names.qualified(node)

    @cached_property
    def _calls(self) -> dict[str, list[ast.Call]]:
        calls: defaultdict[str, list[ast.Call]] = defaultdict(list)
        for call in self.tree.nodes(ast.Call):
            if isinstance(call.func, ast.Name | ast.Attribute) and (name := self.qualified(call.func)):
                calls[name].append(call)
        return calls

    def calls(self, *names: str) -> list[ast.Call]:
        """The calls of these functions or classes, by qualified name. `torch.optim.` stands for all below it."""
        found: list[ast.Call] = []
        for name in names:
            if name.endswith("."):
                for other, calls in self._calls.items():
                    if other.startswith(name):
                        found += calls
            else:
                found += self._calls.get(name, [])
        return found if len(names) == 1 and not names[0].endswith(".") else sorted(found, key=_place)

    @cached_property
    def _methods(self) -> dict[str, list[ast.Call]]:
        methods: defaultdict[str, list[ast.Call]] = defaultdict(list)
        for call in self.tree.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute):
                methods[call.func.attr].append(call)
        return methods

    def methods(self, *names: str) -> list[ast.Call]:
        """The calls `anything.name(...)`; `call.func` is an ast.Attribute."""
        return sorted((call for name in names for call in self._methods.get(name, ())), key=_place)

    def origin(self, node: ast.expr, depth: int = 8) -> ast.expr:
        """The expression that a name was surely assigned, through names; `node` itself if there is no one such."""
        while depth and isinstance(node, ast.Name | ast.Attribute):
            value = self._assigned(node)
            if value is None:
                break
            node, depth = value, depth - 1
        return node

    def _assigned(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        if isinstance(node, ast.Name):
            bindings = self.scopes.reaching(node.id, node)
            if len(bindings) == 1 and bindings[0].kind == "assign" and not bindings[0].path:
                return bindings[0].value
        elif isinstance(node.value, ast.Name) and node.value.id == "self" and (class_ := self.tree.class_(node)):
            values: list[ast.expr | None] = self.classes.self_assignments(class_).get(node.attr, [])
            if len(values) == 1:
                return values[0]
        return None

    def constant(self, node: ast.expr) -> Any:
        """The literal value of `node`, through names that are assigned once; None where there is none."""
        origin = self.origin(node)
        if isinstance(origin, ast.Constant):
            return origin.value
        if isinstance(origin, ast.UnaryOp):
            return self.fact(origin).constant
        return None

    # --- values -------------------------------------------------------------------------------------------------------

    def fact(self, node: ast.expr) -> Fact:
        """What is known of the value of `node`."""
        return self.facts.of(node)

    @cached_property
    def uses_gpu(self) -> bool:
        """Whether the file speaks of a GPU at all."""
        return _GPU_WORDS.search(self.text.text) is not None

    @cached_property
    def changes_default_device(self) -> bool:
        """Whether tensors without `device=` may be made elsewhere than on the CPU."""
        return _DEFAULT_DEVICE.search(self.text.text) is not None

    @cached_property
    def waits(self) -> list[Wait]:
        """The expressions that surely read a value of the GPU, in source order."""
        return sorted(waits(self), key=lambda wait: (wait.node.lineno, wait.node.col_offset))

    # --- where and under what -----------------------------------------------------------------------------------------

    def region(self, node: ast.AST) -> Region | None:
        """The code that `node` is part of and that runs every step; None where it does not."""
        return self.regions.of(node)

    def is_rare(self, node: ast.AST) -> bool:
        """Whether `node` runs under a condition, so not each time round."""
        return contexts.is_rare(self, node)

    def conditions(self, node: ast.AST) -> list[ast.expr]:
        """The tests of the `if`s around `node`, up to its loop or function."""
        return contexts.conditions(self, node)

    def grad_is_off(self, node: ast.AST) -> bool:
        """Whether gradients are surely not recorded at `node`."""
        return contexts.grad_is_off(self, node)

    def autocast(self, node: ast.AST) -> Autocast | None:
        """The autocast region around `node`."""
        return contexts.autocast(self, node)


def _place(node: ast.expr) -> tuple[int, int]:
    # Where a method call's name ends: calls in a chain begin at the same place.
    return node.end_lineno or 0, node.end_col_offset or 0
