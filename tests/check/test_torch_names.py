"""The table of torch's names, against the torch that is installed and against code that runs."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from flatout.check import torch_names
from flatout.check.torch_names import TorchVersion, exists, nearest, removed_in

ROOT = Path(__file__).resolve().parents[2]
INSTALLED: TorchVersion = tuple(map(int, torch.__version__.split(".")[:2]))  # type: ignore[assignment]
CODE = sorted([*ROOT.joinpath("tests/scripts").glob("*.py"), *ROOT.joinpath("examples").rglob("*.py")])


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each dotted name of torch that a module imports or reads, with its line."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    yield node.lineno, alias.name
                    known[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch":
            for alias in node.names:
                if alias.name != "*":
                    yield node.lineno, f"{node.module}.{alias.name}"
                    known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    stored |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        parts: list[str] = []
        at: ast.AST = node
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        if parts and isinstance(at, ast.Name) and at.id in known and at.id not in stored:
            yield node.lineno, ".".join((known[at.id], *reversed(parts)))  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.name)
def test_every_name_of_a_script_that_runs_exists(path: Path) -> None:
    names = dict(reversed(pair) for pair in names_in(ast.parse(path.read_text(encoding="utf-8"))))
    assert [(name, line) for name, line in names.items() if exists(name, None) is False] == []


def test_the_scripts_are_full_of_names() -> None:
    names = {name for path in CODE for _, name in names_in(ast.parse(path.read_text(encoding="utf-8")))}
    known = [name for name in names if exists(name, INSTALLED)]
    assert len(known) > 150
    assert {"torch.nn.functional.cross_entropy", "torch.optim.lr_scheduler.CosineAnnealingLR"} <= set(known)


@pytest.mark.parametrize(
    "module",
    [
        "torch",
        "torch.Tensor",
        "torch.amp",
        "torch.autograd",
        "torch.backends.cuda.matmul",
        "torch.backends.cudnn",
        "torch.cuda",
        "torch.distributed",
        "torch.nn",
        "torch.nn.functional",
        "torch.optim",
        "torch.utils.data",
    ],
)
def test_all_that_the_installed_torch_offers_is_known(module: str) -> None:
    thing = torch
    for part in module.split(".")[1:]:
        thing = getattr(thing, part)
    names = [name for name in dir(thing) if not name.startswith("_")]
    assert [name for name in names if not exists(f"{module}.{name}", INSTALLED)] == []


@pytest.mark.parametrize(
    "name",
    [
        "torch.backends.cuda.matmul.allow_tf32",  # answered by the object itself
        "torch.backends.cudnn.benchmark",  # by the class of the module
        "torch.distributed.ProcessGroupMPI",  # in other builds
        "torch.distributed.group.WORLD",  # by the class of the class
        "torch.nn.Conv2d.register_buffer",  # by a base
        "torch.onnx.export",
        "torch.utils.data.distributed.DistributedSampler",
    ],
)
def test_names_that_dir_does_not_tell_exist(name: str) -> None:
    assert exists(name, None) is True


@pytest.mark.parametrize(
    "name",
    [
        "torch.cuda.asynchronous_executions",
        "torch.cuda.empty_caches",
        "torch.cuda.amp.autocaster",
        "torch.backends.cudnn.benchmarks",
        "torch.backends.cuda.matmul.allow_tf16",
        "torch.nn.Liner",
        "torch.nn.Module.to_gpu",
        "torch.Tensor.gpu",
        "torch.cuda.FloatTensor.gpu",
        "torch.optim.lr_scheduler.CosineAnnealing",
        "torch.utils.data.DataLoaders",
        "torch.gpu",
        "torch.gpu.is_available",
    ],
)
@pytest.mark.parametrize("version", [None, (2, 0), INSTALLED])
def test_what_never_was_does_not_exist(name: str, version: TorchVersion | None) -> None:
    assert exists(name, version) is False


@pytest.mark.parametrize(
    "name",
    [
        "torch.cuda._lazy_init",
        "torch._C.anything",
        "torch.__version__",
        "torch.ops.mine.fused",
        "torch.version.cuda",
        "torch.nn.functional.relu.name",
        "torch.float32.itemsize",
        "torch.compiler.config.what_it_answers_to",
        "torch.npu.empty_cache",
        "torch.backends.musa.matmul",
        "torch.xpu.only_in_its_own_build",
        "numpy.float32",
        "torchvision.models",
    ],
)
def test_what_cannot_be_told_is_not_told(name: str) -> None:
    assert exists(name, None) is None
    assert exists(name, INSTALLED) is None
    assert nearest(name) == []


def test_what_is_a_class_only_in_later_versions_is_not_looked_into_before() -> None:
    assert exists("torch.export.Dim", (2, 6)) is True
    assert exists("torch.export.Dim.AUTO", (2, 6)) is None  # a function then, with values of its own
    assert exists("torch.export.Dim.AUTO", (2, 10)) is True


def test_a_version_that_the_table_does_not_reach_is_not_spoken_of() -> None:
    assert exists("torch.nn.Linear", (99, 0)) is True
    assert exists("torch.nn.Brandnew", (99, 0)) is None
    assert exists("torch.nn.Brandnew", (0, 4)) is None
    assert exists("torch.nn.Linear", (0, 4)) is None
    assert exists("torch.distributed.pipeline.sync.Pipe", (99, 0)) is False


# name, added in, removed in; by PyTorch's release notes and by looking.
HISTORY: list[tuple[str, TorchVersion | None, TorchVersion | None]] = [
    ("torch.nn.Linear", None, None),
    ("torch.cuda.amp.autocast", None, None),
    ("torch.cuda.amp.GradScaler.unscale_", None, None),
    ("torch.compile", (2, 0), None),
    ("torch.nn.functional.scaled_dot_product_attention", (2, 0), None),
    ("torch.amp.GradScaler", (2, 3), None),
    ("torch.nn.RMSNorm", (2, 4), None),
    ("torch.nn.attention.sdpa_kernel", (2, 3), None),
    ("torch.distributed.pipeline.sync.Pipe", None, (2, 4)),
    ("torch.distributed.all_reduce_multigpu", None, (2, 2)),
    ("torch.cuda.asynchronous_executions", None, None),
]


@pytest.mark.parametrize(("name", "added", "removed"), HISTORY)
def test_names_come_and_go(name: str, added: TorchVersion | None, removed: TorchVersion | None) -> None:
    assert removed_in(name) == removed
    if added:
        assert exists(name, added)
        assert exists(name, (added[0], added[1] - 1) if added[1] else (1, 13)) is False
    if removed:
        assert exists(name, removed) is False


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("torch.cuda.empty_caches", "torch.cuda.empty_cache"),
        ("torch.nn.Liner", "torch.nn.Linear"),
        ("torch.optim.Adamw", "torch.optim.AdamW"),
        ("torch.cuda.cross_entropy", "torch.nn.functional.cross_entropy"),
        ("torch.utils.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.nn.functionals.relu", "torch.nn.functional.relu"),
        ("torch.gpu.empty_cache", "torch.cuda.empty_cache"),
        ("torch.backends.cudnn.benchmarks", "torch.backends.cudnn.benchmark"),
        ("torch.nn.Module.parameter", "torch.nn.Module.parameters"),
    ],
)
def test_the_nearest_name_is_the_one_meant(name: str, meant: str) -> None:
    assert meant in nearest(name)
    assert all(exists(near, None) for near in nearest(name))


def test_what_exists_needs_no_other_name() -> None:
    assert nearest("torch.nn.Linear") == []


def test_the_table_is_small_and_quick_and_needs_no_torch() -> None:
    assert torch_names._TABLE.stat().st_size < 400_000
    torch_names._table.cache_clear()
    seconds = []
    for _ in range(5):
        torch_names._table.cache_clear()
        start = time.process_time()
        exists("torch.nn.functional.relu", None)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.02
    code = "import sys; from flatout.check.torch_names import exists; assert exists('torch.nn.Linear', None); "
    subprocess.run([sys.executable, "-c", code + "assert 'torch' not in sys.modules"], check=True)
