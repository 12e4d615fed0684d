"""What a dotted expression is called where it was defined: `F.relu` is `torch.nn.functional.relu`."""

from __future__ import annotations

import ast

from flatout.check.scopes import Binding, Scopes
from flatout.check.tree import Tree

# Where PyTorch defines a thing, and the name under which everyone knows it.
_INNER = (
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.utils.data.distributed.", "torch.utils.data."),
    ("torch.utils.data.sampler.", "torch.utils.data."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.nn.parallel.data_parallel.", "torch.nn."),
    ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
    ("torch.nn.parameter.", "torch.nn."),
    ("torch.nn.utils.clip_grad.", "torch.nn.utils."),
    ("torch.autograd.grad_mode.", "torch."),
    ("torch.autograd.set_grad_enabled", "torch.set_grad_enabled"),
    ("torch.autograd.no_grad", "torch.no_grad"),
    ("torch.autograd.anomaly_mode.", "torch.autograd."),
    ("torch.cuda.amp.grad_scaler.", "torch.cuda.amp."),
    ("torch.cuda.amp.autocast_mode.", "torch.cuda.amp."),
    ("torch.amp.grad_scaler.", "torch.amp."),
    ("torch.amp.autocast_mode.", "torch.amp."),
    ("torch.distributed.distributed_c10d.", "torch.distributed."),
    ("torch.autocast", "torch.amp.autocast"),
)
_MODULES = "torch.nn.modules."
# What a name stands for that a file uses and never binds: a snippet, whose imports everybody knows.
_CUSTOMARY = {
    "torch": "torch",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "np": "numpy",
    "optim": "torch.optim",
    "dist": "torch.distributed",
    "DDP": "torch.nn.parallel.DistributedDataParallel",
    "DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "DataLoader": "torch.utils.data.DataLoader",
    "Dataset": "torch.utils.data.Dataset",
    "IterableDataset": "torch.utils.data.IterableDataset",
    "DistributedSampler": "torch.utils.data.DistributedSampler",
    "os": "os",
    "random": "random",
    "Image": "PIL.Image",
}


def canonical(name: str) -> str:
    """`name` as users know it: without the module that PyTorch happens to define it in."""
    if not name.startswith("torch."):
        return name
    if name.startswith(_MODULES):
        return f"torch.nn.{name.rpartition('.')[2]}"
    for inner, known in _INNER:
        if name.startswith(inner):
            return known + name[len(inner) :]
    return name


class Names:
    """Resolves expressions to qualified names through imports, aliases and plain assignments."""

    def __init__(self, tree: Tree, scopes: Scopes) -> None:
        self._tree = tree
        self._scopes = scopes
        self._known: dict[ast.AST, str | None] = {}

    def written(self, node: ast.expr) -> str | None:
        """`node` as a dotted name with imports resolved, as the import spells it; None where it is none."""
        if node in self._known:
            return self._known[node]
        self._known[node] = None  # while it is being looked for: `x = x.y`
        if isinstance(node, ast.Name):
            found = self._of_name(node)
        elif isinstance(node, ast.Attribute):
            base = self.written(node.value)
            found = f"{base}.{node.attr}" if base else None
        else:
            found = None
        self._known[node] = found
        return found

    def qualified(self, node: ast.expr) -> str | None:
        """`written`, in the spelling that users know."""
        name = self.written(node)
        return canonical(name) if name else None

    def _of_name(self, node: ast.Name) -> str | None:
        found = self._scopes.lookup(node.id, node)
        if found is None:
            return _CUSTOMARY.get(node.id)
        bindings = found[1]
        if all(binding.kind == "import" for binding in bindings):
            names = [imported for binding in bindings if (imported := imported_name(binding))]
            return next((name for name in names if name.startswith("torch")), names[0] if names else None)
        if len(bindings) == 1:
            (binding,) = bindings
            if binding.kind == "assign" and not binding.path and isinstance(binding.value, ast.Attribute | ast.Name):
                return self.written(binding.value)
        return None


def imported_name(binding: Binding) -> str | None:
    """The qualified name of what an import binds."""
    node = binding.node
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname == binding.name:
                return alias.name
            if alias.asname is None and alias.name.partition(".")[0] == binding.name:
                return binding.name
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if (alias.asname or alias.name) == binding.name:
                base = "." * node.level + (node.module or "")
                return f"{base}{alias.name}" if base.endswith(".") else f"{base}.{alias.name}"
    return None
