"""FO306: options of a DataLoader that exclude each other: PyTorch raises ValueError."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.loaders import Loader
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

# What a batch_sampler decides alone.
_BY_BATCH_SAMPLER = ("batch_size", "shuffle", "sampler", "drop_last")


def find(module: Module) -> Iterator[Hit]:
    for loader in module.loaders.all:
        shuffles = _is_true(module, loader.given("shuffle"))
        batches = loader.given("batch_sampler")
        if batches is not None and _is_something(module, batches):
            with_it = [name for name in _BY_BATCH_SAMPLER if _is_set(module, loader, name)]
            if with_it:
                names = " and ".join(f"`{name}`" for name in with_it)
                yield _hit(loader, with_it[0], f"{names} and `batch_sampler` exclude each other", "it raises", names)
        elif shuffles and (sampler := loader.given("sampler")) is not None and _is_something(module, sampler):
            when = "it raises" if _always(module, sampler) else "with the sampler it raises"
            yield _hit(loader, "shuffle", "`shuffle=True` and `sampler` exclude each other", when, "`shuffle`")
        elif shuffles and _is_iterable(module, loader):
            name = loader.dataset.class_name
            yield _hit(
                loader,
                "shuffle",
                f"`{name}` is an IterableDataset, which a DataLoader cannot shuffle",
                "it raises",
                "`shuffle`",
            )


def _hit(loader: Loader, option: str, what: str, when: str, drop: str) -> Hit:
    node = next((item for item in loader.call.keywords if item.arg == option), loader.call)
    how = "shuffle in the dataset itself" if "Iterable" in what else "the sampler decides the order"
    return Hit(node, f"{what}: {when} ValueError", f"Take {drop} away: {how}.")


def _is_true(module: Module, value: ast.expr | None) -> bool:
    return value is not None and module.constant(value) is True


def _is_set(module: Module, loader: Loader, name: str) -> bool:
    """Whether an option surely has another value than its default."""
    value = loader.given(name)
    if value is None:
        return False
    constant = module.constant(value)
    if name == "batch_size":
        return isinstance(constant, int) and constant != 1
    if name == "sampler":
        return _is_something(module, value) and _always(module, value)
    return constant is True


def _is_something(module: Module, value: ast.expr) -> bool:
    """Whether the value is a sampler, at least on one way through the program."""
    if isinstance(value, ast.Name):
        bindings = module.scopes.reaching(value.id, value)
        values = [binding.value for binding in bindings if binding.kind == "assign" and not binding.path]
    else:
        values = [module.origin(value)]
    return any(
        _is_sampler(module, part)
        for given in values
        if given is not None
        for part in ([given.body, given.orelse] if isinstance(given, ast.IfExp) else [given])
    )


def _is_sampler(module: Module, value: ast.expr) -> bool:
    made = module.origin(value)
    if not isinstance(made, ast.Call):
        return False
    func = made.func
    name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
    return name.endswith("Sampler")


def _always(module: Module, value: ast.expr) -> bool:
    return isinstance(module.origin(value), ast.Call)


def _is_iterable(module: Module, loader: Loader) -> bool:
    class_ = module.loaders.dataset_class(loader)
    return class_ is not None and any(
        module.qualified(base) == "torch.utils.data.IterableDataset" for base in class_.bases
    )


RULE = Rule("FO306", "loader-options-exclude", "high", find, needs=("DataLoader",), in_tests=True)
