"""The floors of the house: who may import whom. Read from the source with `ast`, so nothing has to be importable.

The rules are those of docs/design.md. A rule that cannot fail protects nothing, so each is tried on a
small bad tree too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"

# From the ground up. A package imports from the floors below its own, never from its own floor or from above.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"errors"}),
    frozenset({"findings", "gpu", "recording", "source", "measure"}),
    frozenset({"costs", "launch", "steps"}),
    frozenset({"timeline"}),
    frozenset({"importers", "virtual", "watch", "check", "doctor"}),
    frozenset({"explain", "speedups", "plans"}),
    frozenset({"loop", "tune", "bench", "infer", "report"}),
    frozenset({"top", "labs"}),
    frozenset({"cli"}),
    frozenset({"__main__"}),
)
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}

# A rule in `explain` cannot tell which maker wrote a recording: it may not even know them, though they live below it.
MAKERS = frozenset({"virtual", "watch", "importers"})

# What `--help`, `check`, `doctor --from` and `explain` of a small file load: they answer fast, torch or no torch.
TORCH_FREE = frozenset(
    {
        "cli",
        "findings",
        "gpu",
        "costs",
        "timeline",
        "recording",
        "source",
        "check",
        "doctor",
        "explain",
        "report",
        "launch",
        "errors",
        "__init__",
    }
)
HEAVY = frozenset({"torch", "torchvision", "transformers", "accelerate", "timm"})


class Import(NamedTuple):
    """One imported name. `at_load`: when the module is loaded, not inside a function or for the type checker only."""

    target: str
    line: int
    at_load: bool


class Module(NamedTuple):
    name: str  # dotted, e.g. flatout.gpu.names
    path: Path
    imports: tuple[Import, ...]

    @property
    def package(self) -> str:
        """The part of the house that the module belongs to, e.g. `gpu`; `__init__` for flatout's own."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else "__init__"


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _imports(node: ast.AST, package: list[str], at_load: bool) -> Iterator[Import]:
    """All imports below `node`. `package` is the package that relative imports start from."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, at_load)
        elif isinstance(child, ast.ImportFrom):
            start = package[: len(package) - child.level + 1] if child.level else []
            base = ".".join([*start, *([child.module] if child.module else [])])
            for (
                alias
            ) in child.names:  # `from flatout import gpu` imports flatout.gpu: both are named, readers take the longest
                yield Import(f"{base}.{alias.name}", child.lineno, at_load)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imports(child, package, False)
        elif isinstance(child, ast.If) and _is_type_checking(child.test):
            for statement in child.body:
                yield from _imports(ast.Module([statement], []), package, False)
            for statement in child.orelse:
                yield from _imports(ast.Module([statement], []), package, at_load)
        else:
            yield from _imports(child, package, at_load)


def read_tree(source: Path) -> dict[str, Module]:
    """Every module of `source`/flatout by dotted name."""
    modules = {}
    for path in sorted((source / "flatout").rglob("*.py")):
        parts = list(path.relative_to(source).with_suffix("").parts)
        package = parts[:-1]
        name = ".".join(package if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        modules[name] = Module(name, path, tuple(_imports(tree, package, True)))
    return modules


def resolve(target: str, modules: dict[str, Module]) -> str | None:
    """The module of the tree that importing `target` loads; None for somebody else's."""
    parts = target.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in modules:
            return name
    return None


def floor_faults(modules: dict[str, Module]) -> list[str]:
    """Imports that go up or sideways, makers that know each other, parts of the house that have no floor."""
    faults = []
    for module in modules.values():
        here = module.package
        if here != "__init__" and here not in FLOOR_OF:
            faults.append(f"{module.name}: `{here}` has no floor; give it one in FLOORS and in docs/design.md")
            continue
        for imported in module.imports:
            name = resolve(imported.target, modules)
            if name is None or (there := modules[name].package) in ("__init__", here):
                continue
            at = f"{module.name}:{imported.line}"
            if here == "__init__":
                if there != "errors" and imported.at_load:
                    faults.append(f"{at} loads {name}: flatout/__init__.py loads nothing but errors")
            elif here == "explain" and there in MAKERS:
                faults.append(f"{at} imports {name}: explain knows recordings, not who made them")
            elif FLOOR_OF.get(there, len(FLOORS)) >= FLOOR_OF[here]:
                faults.append(f"{at} imports {name}: imports go down only")
    return faults


def torch_faults(modules: dict[str, Module]) -> list[str]:
    """Chains of imports at load time that lead from a torch-free part of the house to torch."""
    faults = []
    for start in modules.values():
        if start.package not in TORCH_FREE:
            continue
        chains = {start.name: start.name}
        queue = [start.name]
        while queue:
            name = queue.pop()
            for imported in modules[name].imports:
                if not imported.at_load:
                    continue
                if imported.target.split(".")[0] in HEAVY:
                    faults.append(f"{chains[name]}:{imported.line} -> {imported.target}")
                loaded = resolve(imported.target, modules)
                while loaded:  # loading a.b.c loads a and a.b as well
                    if loaded in modules and loaded not in chains:
                        chains[loaded] = f"{chains[name]} -> {loaded}"
                        queue.append(loaded)
                    loaded = loaded.rpartition(".")[0]
    return faults


def test_imports_go_down_only() -> None:
    assert floor_faults(read_tree(SOURCE)) == []


def test_torch_is_not_loaded_where_it_may_be_absent() -> None:
    assert torch_faults(read_tree(SOURCE)) == []


def test_the_real_tree_was_read() -> None:
    modules = read_tree(SOURCE)
    assert "flatout.errors" in modules
    assert resolve("flatout.recording.schema.Run", modules) == "flatout.recording.schema"


def _tree(root: Path, files: dict[str, str]) -> dict[str, Module]:
    for name, text in {"__init__.py": "", **files}.items():
        path = root / "flatout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        (path.parent / "__init__.py").touch()
    return read_tree(root)


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"gpu/a.py": "import flatout.cli.main", "cli/main.py": ""}, "imports go down only"),
        ({"gpu/a.py": "from flatout import report", "report/__init__.py": ""}, "imports go down only"),
        ({"gpu/a.py": "from ..launch import child", "launch/child.py": ""}, "imports go down only"),
        ({"gpu/a.py": "def f():\n    from flatout.launch import child", "launch/child.py": ""}, "imports go down only"),
        ({"watch/a.py": "from flatout.virtual import face", "virtual/face.py": ""}, "imports go down only"),
        ({"virtual/a.py": "import flatout.importers", "importers/__init__.py": ""}, "imports go down only"),
        ({"explain/a.py": "from flatout.virtual.face import f", "virtual/face.py": ""}, "not who made them"),
        ({"explain/a.py": "from flatout.watch import f", "watch/__init__.py": ""}, "not who made them"),
        ({"__init__.py": "from flatout.gpu import find", "gpu/__init__.py": ""}, "nothing but errors"),
        ({"shed/__init__.py": ""}, "has no floor"),
    ],
)
def test_a_bad_tree_is_caught(tmp_path: Path, files: dict[str, str], fault: str) -> None:
    faults = floor_faults(_tree(tmp_path, files))
    assert len(faults) == 1
    assert fault in faults[0]


@pytest.mark.parametrize(
    "files",
    [
        {"gpu/a.py": "import torch"},
        {"gpu/a.py": "from torch import nn"},
        {"cli/a.py": "try:\n    import torch.cuda\nexcept ImportError:\n    pass"},
        {"cli/a.py": "from flatout.virtual.prediction import P", "virtual/prediction.py": "import torch"},
        {
            "cli/a.py": "from flatout.virtual.prediction import P",
            "virtual/prediction.py": "",
            "virtual/__init__.py": "import torch",
        },
        {"__init__.py": "import torch"},
    ],
)
def test_torch_at_load_time_is_caught(tmp_path: Path, files: dict[str, str]) -> None:
    assert torch_faults(_tree(tmp_path, files))


def test_a_good_tree_passes(tmp_path: Path) -> None:
    modules = _tree(
        tmp_path,
        {
            "__init__.py": "from flatout.errors import FlatoutError",
            "errors.py": "class FlatoutError(Exception): pass",
            "gpu/a.py": "from typing import TYPE_CHECKING\nimport flatout.errors\nif TYPE_CHECKING:\n    import torch",
            "gpu/b.py": "from . import a\ndef f():\n    import torch",
            "virtual/face.py": "import torch\nfrom flatout.gpu.a import x\nfrom flatout.errors import FlatoutError",
            "cli/main.py": "from flatout.gpu import a\ndef f():\n    from flatout.virtual import face",
        },
    )
    assert floor_faults(modules) == []
    assert torch_faults(modules) == []
