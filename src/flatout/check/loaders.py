"""The data loaders of one module: their options, the loops over them, and the code that their workers run."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.fact import Fact
from flatout.check.options import Options, options
from flatout.check.torch_api import LOADER_PARAMETERS, LOADERS
from flatout.check.tree import FUNCTIONS, Function

if TYPE_CHECKING:
    from flatout.check.module import Module

_WRAPPERS = frozenset({"enumerate", "iter", "tqdm", "trange", "track", "islice", "progress_bar", "list"})


class Loader(NamedTuple):
    """One call that makes a DataLoader."""

    call: ast.Call
    options: Options
    workers: int | None  # None: not known
    dataset: Fact

    def given(self, name: str) -> ast.expr | None:
        """The value of an option."""
        return self.options.values.get(name)

    def lacks(self, name: str) -> bool:
        """Whether an option is surely not given."""
        return self.options.is_whole and name not in self.options.values


class Loaders:
    """Finds and joins them."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def all(self) -> list[Loader]:
        """Every DataLoader that the module makes, in source order."""
        return [self._read(call) for call in self._module.calls(*sorted(LOADERS))]

    def _read(self, call: ast.Call) -> Loader:
        given = options(self._module, call, LOADER_PARAMETERS)
        workers = self._module.constant(given.values["num_workers"]) if "num_workers" in given.values else None
        if "num_workers" not in given.values and given.is_whole:
            workers = 0
        dataset = given.values.get("dataset")
        fact = self._module.fact(dataset) if dataset is not None else Fact()
        return Loader(call, given, workers if isinstance(workers, int) else None, fact)

    def of(self, node: ast.expr) -> Loader | None:
        """The loader that `node` is, or goes through: `enumerate(tqdm(loader))`."""
        for _ in range(4):
            node = self._module.origin(node)
            if not isinstance(node, ast.Call) or self._module.fact(node).call is not None or not node.args:
                break
            func = node.func
            name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
            if name not in _WRAPPERS:
                break
            node = node.args[0]
        call = self._module.fact(node).call
        return self._by_call.get(call) if call is not None else None

    @cached_property
    def _by_call(self) -> dict[ast.Call, Loader]:
        return {loader.call: loader for loader in self.all}

    @cached_property
    def loops(self) -> list[tuple[ast.For, Loader]]:
        """The loops over loaders of this module."""
        return [
            (loop, loader) for loop in self._module.tree.nodes(ast.For) if (loader := self.of(loop.iter)) is not None
        ]

    def around(self, node: ast.AST) -> Loader | None:
        """The loader of the innermost loop around `node` that is over one."""
        for loop in self._module.tree.loops(node):
            if isinstance(loop, ast.For) and loop in self._by_loop:
                return self._by_loop[loop]
        return None

    @cached_property
    def _by_loop(self) -> dict[ast.For, Loader]:
        return dict(self.loops)

    @cached_property
    def _loops_of(self) -> dict[ast.Call, list[ast.For]]:
        found: defaultdict[ast.Call, list[ast.For]] = defaultdict(list)
        for loop, loader in self.loops:
            found[loader.call].append(loop)
        return found

    def loops_over(self, loader: Loader) -> list[ast.For]:
        """The loops over one loader."""
        return self._loops_of.get(loader.call, [])

    def runs_again(self, node: ast.AST, depth: int = 3) -> bool:
        """Whether `node` is run more than once: it is in a loop, or its function is called in one."""
        if self._module.tree.loops(node):
            return True
        function = self._module.tree.function(node)
        return (
            depth > 0
            and function is not None
            and any(self.runs_again(call, depth - 1) for call in self._module.functions.calls_of(function))
        )

    # --- what the workers run -----------------------------------------------------------------------------------------

    def dataset_class(self, loader: Loader) -> ast.ClassDef | None:
        """The local class of what is loaded."""
        return self._module.classes.datasets.get(loader.dataset.class_name or "")

    def worker_functions(self, class_: ast.ClassDef) -> list[Function]:
        """The methods of a dataset that a worker runs for a sample, and what they call in this module."""
        first = [item for item in class_.body if isinstance(item, FUNCTIONS) and item.name in _FOR_A_SAMPLE]
        return self._with_called(first)

    def collate_functions(self, loader: Loader) -> list[Function]:
        """The local function that a loader makes batches with, and what it calls."""
        given = loader.given("collate_fn")
        target = self._module.functions.definition(given) if given is not None else None
        return self._with_called([target]) if isinstance(target, FUNCTIONS) else []

    def _with_called(self, functions: list[Function]) -> list[Function]:
        found = list(functions)
        for function in found:
            for node in ast.walk(function):
                target = self._module.functions.definition(node.func) if isinstance(node, ast.Call) else None
                if isinstance(target, FUNCTIONS) and target not in found and len(found) < 20:
                    found.append(target)
        return found


_FOR_A_SAMPLE = ("__getitem__", "__getitems__", "__iter__")
