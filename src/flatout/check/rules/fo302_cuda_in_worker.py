"""FO302: work on the GPU in what the workers of a DataLoader run: a forked process cannot use CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.devices import keyword, read_move
from flatout.check.loaders import Loader
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import FACTORIES
from flatout.check.tree import Function


def find(module: Module) -> Iterator[Hit]:
    if any(word in module.text.text for word in ("spawn", "forkserver", "get_worker_info")):
        return
    told: set[ast.AST] = set()
    for loader in module.loaders.all:
        if "num_workers" not in loader.options.values or loader.workers == 0:
            continue
        class_ = module.loaders.dataset_class(loader)
        functions = [(function, "collate_fn") for function in module.loaders.collate_functions(loader)]
        if class_ is not None:
            functions += [(function, class_.name) for function in module.loaders.worker_functions(class_)]
        for node, where in _on_gpu(module, functions, class_):
            if node not in told:
                told.add(node)
                yield _hit(module, loader, node, where)


def _hit(module: Module, loader: Loader, node: ast.expr, where: str) -> Hit:
    workers = module.text.of(loader.options.values["num_workers"])
    return Hit(
        node,
        f"`{module.text.short(node)}` of `{where}` is used in the workers of the DataLoader on line "
        f"{loader.call.lineno} (`num_workers={workers}`): a forked process that touches CUDA raises RuntimeError",
        "Give CPU tensors, and move the batch in the training loop.",
    )


def _on_gpu(
    module: Module, functions: list[tuple[Function, str]], class_: ast.ClassDef | None
) -> Iterator[tuple[ast.expr, str]]:
    kept: set[str] = set()
    for function, where in functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _puts_on_gpu(module, node):
                yield node, where
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                kept.add(node.attr)
    for name, values in module.classes.self_assignments(class_).items() if class_ is not None else ():
        for value in values:
            if name in kept and value is not None and module.fact(value).is_gpu_tensor:
                assert class_ is not None
                yield value, class_.name


def _puts_on_gpu(module: Module, call: ast.Call) -> bool:
    move = read_move(module.facts, call)
    if move is not None and move.device is not None:
        device = move.device
        return device == "cuda" if isinstance(device, str) else module.facts.device(device) == "cuda"
    given = keyword(call, "device")
    return given is not None and module.qualified(call.func) in FACTORIES and module.facts.device(given) == "cuda"


RULE = Rule("FO302", "cuda-in-worker", "high", find, needs=("DataLoader",))
