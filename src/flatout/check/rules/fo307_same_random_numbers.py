"""FO307: workers of a DataLoader that all draw the same random numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import FUNCTIONS

_GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "random.Random", "torch.Generator"})
_SEEDING = frozenset({"numpy.random.seed", "random.seed", "torch.manual_seed", "torch.random.manual_seed"})
_DIFFERS = ("get_worker_info", "worker_init_fn", "initial_seed")


def find(module: Module) -> Iterator[Hit]:
    yield from _copied_generators(module)
    yield from _same_seeds(module)


def _copied_generators(module: Module) -> Iterator[Hit]:
    """A generator that a dataset makes once: every worker gets a copy in the same state."""
    if any(word in module.text.text for word in _DIFFERS):
        return
    for name, class_ in module.classes.datasets.items():
        loaders = [loader for loader in module.loaders.all if loader.dataset.class_name == name]
        if loaders and all(loader.workers == 0 for loader in loaders):
            continue
        drawn: dict[str, ast.Attribute] = {}
        for function in module.loaders.worker_functions(class_):
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                    drawn.setdefault(node.attr, node)
        for attribute, values in module.classes.self_assignments(class_).items():
            if attribute not in drawn or not all(_is_made_once(module, class_, value) for value in values):
                continue
            use = drawn[attribute]
            yield Hit(
                use,
                f"every DataLoader worker gets a copy of `self.{attribute}` in the same state, so all of them draw the "
                "same random numbers here",
                f"Make `self.{attribute}` in the worker, seeded with `torch.initial_seed()`, or use `torch`'s or "
                "`random`'s global functions, which PyTorch seeds for each worker.",
            )


def _is_made_once(module: Module, class_: ast.ClassDef, value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call) or module.qualified(value.func) not in _GENERATORS:
        return False
    function = module.tree.function(value)
    return function is not None and function.name == "__init__" and module.tree.parent(function) is class_


def _same_seeds(module: Module) -> Iterator[Hit]:
    """A worker_init_fn that seeds each worker alike."""
    for loader in module.loaders.all:
        given = loader.given("worker_init_fn")
        if given is None or loader.workers == 0:
            continue
        function = module.functions.definition(given)
        here = function if isinstance(function, FUNCTIONS) else module.origin(given)
        if not isinstance(here, (*FUNCTIONS, ast.Lambda)) or len(here.args.args) != 1:
            continue
        number = here.args.args[0].arg
        for node in ast.walk(here):
            if isinstance(node, ast.Call) and module.qualified(node.func) in _SEEDING and _is_same(node, number):
                yield Hit(
                    node,
                    f"`{module.text.short(node)}` seeds every worker alike: all of them draw the same random numbers",
                    f"Add the worker's number, `{number}`, to the seed, or drop the function: PyTorch itself seeds "
                    "`torch`, `random` and, since version 1.9, `numpy.random` in each worker.",
                )


def _is_same(seeding: ast.Call, number: str) -> bool:
    """Whether the seed is surely the same in each worker: a number or a plain variable, without the worker's number."""
    if len(seeding.args) != 1:
        return False
    parts = list(ast.walk(seeding.args[0]))
    if any(isinstance(part, ast.Call | ast.Subscript) for part in parts):
        return False
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return number not in names and not any("worker" in name or "rank" in name for name in names)


RULE = Rule("FO307", "same-random-numbers", "high", find, needs=("Dataset", "worker_init_fn"))
