"""The functions of one module: what a call runs, who calls it, what it is given and gives back."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from flatout.check.fact import UNKNOWN, Fact
from flatout.check.tree import FUNCTIONS, Function

if TYPE_CHECKING:
    from flatout.check.module import Module

_ANNOTATIONS = {
    "torch.Tensor": "Tensor",
    "torch.nn.Module": "Module",
    "torch.device": "device",
    "torch.utils.data.DataLoader": "DataLoader",
}


class Functions:
    """Calls and definitions, joined. Local functions, and methods that are called on `self`."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def definition(self, func: ast.expr) -> Function | ast.ClassDef | None:
        """The local function, method or class that a call of `func` runs: `f`, `Class`, `self.method`."""
        if isinstance(func, ast.Name):
            found = self._module.scopes.lookup(func.id, func)
            if (
                found
                and len(found[1]) == 1
                and isinstance(found[1][0].node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            ):
                return found[1][0].node
        elif isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self":
            class_ = self._tree.class_(func)
            while class_ is not None:
                for item in class_.body:
                    if isinstance(item, FUNCTIONS) and item.name == func.attr:
                        return item
                class_ = self._local_base(class_)
        return None

    def _local_base(self, class_: ast.ClassDef) -> ast.ClassDef | None:
        for base in class_.bases:
            found = self.definition(base)
            if isinstance(found, ast.ClassDef) and found is not class_:
                return found
        return None

    @cached_property
    def _calls_of(self) -> dict[ast.AST, list[ast.Call]]:
        calls: defaultdict[ast.AST, list[ast.Call]] = defaultdict(list)
        for call in self._tree.nodes(ast.Call):
            target = self.definition(call.func)
            if isinstance(target, FUNCTIONS):
                calls[target].append(call)
        return calls

    def calls_of(self, function: Function) -> list[ast.Call]:
        """The calls of a local function or method, in this module."""
        return self._calls_of.get(function, [])

    @cached_property
    def _appended(self) -> dict[tuple[ast.AST, str], list[ast.expr]]:
        found: defaultdict[tuple[ast.AST, str], list[ast.expr]] = defaultdict(list)
        for call in self._module.methods("append"):
            assert isinstance(call.func, ast.Attribute)
            owner = call.func.value
            if isinstance(owner, ast.Name) and len(call.args) == 1:
                scope = self._module.scopes.lookup(owner.id, owner)
                if scope is not None:
                    found[scope[0], owner.id].append(call.args[0])
        return found

    def appended_to(self, empty: ast.List) -> list[ast.expr]:
        """What is appended to a variable that begins as the empty list `empty`."""
        assign = self._tree.parent(empty)
        if empty.elts or not isinstance(assign, ast.Assign) or not isinstance(assign.targets[0], ast.Name):
            return []
        name = assign.targets[0].id
        scope = self._module.scopes.lookup(name, assign.targets[0])
        return self._appended.get((scope[0], name), [])[:16] if scope is not None else []

    def returns(self, function: Function) -> list[ast.expr]:
        """The values that a function returns; empty for a generator or where one is bare."""
        return self._returns.get(function, [])

    @cached_property
    def _returns(self) -> dict[Function, list[ast.expr]]:
        found: defaultdict[Function, list[ast.expr]] = defaultdict(list)
        spoiled: set[Function] = set()
        for node in (*self._tree.nodes(ast.Return), *self._tree.nodes(ast.Yield), *self._tree.nodes(ast.YieldFrom)):
            function = self._tree.function(node)
            if function is None:
                continue
            if isinstance(node, ast.Return) and node.value is not None:
                found[function].append(node.value)
            else:
                spoiled.add(function)
        return {function: values for function, values in found.items() if function not in spoiled}

    def annotated(self, argument: ast.arg) -> Fact:
        """What the annotation of an argument says."""
        if argument.annotation is None:
            return UNKNOWN
        name = self._module.qualified(argument.annotation)
        kinds = {
            "torch.Tensor": "Tensor",
            "torch.nn.Module": "Module",
            "torch.device": "device",
            "torch.utils.data.DataLoader": "DataLoader",
        }
        if name in kinds:
            return Fact(kind=kinds[name])
        if name and name.startswith("torch.optim.") and name.rpartition(".")[2][:1].isupper():
            return Fact(kind="Scheduler" if "lr_scheduler" in name else "Optimizer")
        if isinstance(argument.annotation, ast.Name) and argument.annotation.id in (
            "int",
            "float",
            "bool",
            "str",
            "list",
            "dict",
        ):
            return Fact(kind=argument.annotation.id)
        return UNKNOWN

    def passed_to(self, argument: ast.arg) -> list[ast.expr]:
        """What the calls in this module pass for an argument; empty where one of them cannot be read."""
        arguments = self._tree.parent(argument)
        function = self._tree.parent(arguments) if arguments else None
        if not isinstance(function, FUNCTIONS) or not isinstance(arguments, ast.arguments):
            return []
        plain = [*arguments.posonlyargs, *arguments.args]
        is_method = isinstance(self._tree.parent(function), ast.ClassDef)
        index = next((i for i, item in enumerate(plain) if item is argument), None)
        values: list[ast.expr] = []
        for call in self.calls_of(function):
            position = None if index is None else index - is_method
            value = next((item.value for item in call.keywords if item.arg == argument.arg), None)
            if value is None and position is not None and 0 <= position < len(call.args):
                value = call.args[position]
            if value is None or isinstance(value, ast.Starred):
                return []
            values.append(value)
        return values[:8]
