"""The classes of one module: which are layers, what they keep in `self`, and where that is moved."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from flatout.check.tree import FUNCTIONS

if TYPE_CHECKING:
    from flatout.check.module import Module

_LAYER_BASES = frozenset({"torch.nn.Module", "lightning.LightningModule", "pytorch_lightning.LightningModule"})

_DATASET_BASES = frozenset({"torch.utils.data.Dataset", "torch.utils.data.IterableDataset"})


class Classes:
    """What the classes of a module are and hold."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._tree = module.tree

    def is_layer(self, class_: ast.ClassDef, depth: int = 8) -> bool:
        """Whether a local class is surely a torch.nn.Module."""
        for base in class_.bases:
            name = self._module.qualified(base)
            if name in _LAYER_BASES or (name and name.startswith("torch.nn.") and name.count(".") == 2):
                return True
            local = self._module.functions.definition(base)
            if depth and isinstance(local, ast.ClassDef) and local is not class_ and self.is_layer(local, depth - 1):
                return True
        return False

    def is_dataset(self, class_: ast.ClassDef, depth: int = 8) -> bool:
        """Whether a local class is surely a data set that a DataLoader reads."""
        for base in class_.bases:
            name = self._module.qualified(base)
            if name in _DATASET_BASES or (name and name.startswith("torchvision.datasets.")):
                return True
            local = self._module.functions.definition(base)
            if depth and isinstance(local, ast.ClassDef) and local is not class_ and self.is_dataset(local, depth - 1):
                return True
        return False

    @cached_property
    def datasets(self) -> dict[str, ast.ClassDef]:
        """The local data sets by name."""
        return {class_.name: class_ for class_ in self._tree.nodes(ast.ClassDef) if self.is_dataset(class_)}

    @cached_property
    def _local_layers(self) -> dict[str, ast.ClassDef]:
        return {class_.name: class_ for class_ in self._tree.nodes(ast.ClassDef) if self.is_layer(class_)}

    def local_layer(self, name: str | None) -> ast.ClassDef | None:
        """The layer of this module with that name."""
        return self._local_layers.get(name or "")

    def is_local_layer(self, name: str | None) -> bool:
        return name in self._local_layers

    def layer_gives_tensor(self, name: str | None) -> bool:
        """Whether `forward` of a local layer surely returns one tensor."""
        class_ = self._local_layers.get(name or "")
        forward = (
            next((f for f in class_.body if isinstance(f, FUNCTIONS) and f.name == "forward"), None) if class_ else None
        )
        if forward is None:
            return False
        values = self._module.functions.returns(forward)
        # One expression a return, not a tuple or dict, is a tensor in all but name.
        return bool(values) and all(
            self._module.fact(value).is_tensor
            or (isinstance(value, ast.Name | ast.Call) and self._module.fact(value).kind is None)
            for value in values
        )

    @cached_property
    def _self_assignments(self) -> dict[ast.ClassDef, dict[str, list[ast.expr | None]]]:
        found: defaultdict[ast.ClassDef, defaultdict[str, list[ast.expr | None]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for node in self._tree.nodes(ast.Attribute):
            if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self":
                class_ = self._tree.class_(node)
                above = self._tree.parent(node)
                value = above.value if isinstance(above, ast.Assign | ast.AnnAssign) else None
                if class_ is not None:
                    found[class_][node.attr].append(value)
        return found  # type: ignore[return-value]

    def self_assignments(self, class_: ast.ClassDef) -> dict[str, list[ast.expr | None]]:
        """What methods assign to `self.name`; None for a part of a tuple, an augmented or looping assignment."""
        return self._self_assignments.get(class_, {})

    @cached_property
    def _moves(self) -> dict[tuple[ast.AST, str], list[ast.Call]]:
        moves: defaultdict[tuple[ast.AST, str], list[ast.Call]] = defaultdict(list)
        for call in self._module.methods("to", "cuda", "cpu"):
            assert isinstance(call.func, ast.Attribute)
            owner = call.func.value
            if isinstance(owner, ast.Name):
                found = self._module.scopes.lookup(owner.id, owner)
                if found:
                    moves[found[0], owner.id].append(call)
            elif isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name) and owner.value.id == "self":
                class_ = self._tree.class_(owner)
                if class_ is not None:
                    moves[class_, owner.attr].append(call)
        return moves

    def moves_of_name(self, node: ast.Name) -> list[ast.Call]:
        """The calls of `.to`, `.cuda`, `.cpu` on the variable: for a layer they move it in place."""
        found = self._module.scopes.lookup(node.id, node)
        return self._moves.get((found[0], node.id), []) if found else []

    def moves_of_self(self, class_: ast.ClassDef, name: str) -> list[ast.Call]:
        """The same for `self.name`."""
        return self._moves.get((class_, name), [])
