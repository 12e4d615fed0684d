"""A project directory with somebody's files in it, a guard over it, and thin stand-ins for virtual tensors."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from flatout.virtual.files import FileGuard, FileOptions, TensorOps, install

_native_device: Any = torch._C.TensorBase.device.__get__
_native_storage_device: Any = torch._C.StorageBase.device.__get__


def fingerprint(folder: Path) -> dict[str, str]:
    """Every path below `folder` with its kind, mode, modification time and content."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            status = path.lstat()
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_dir():
                content = "directory"
            else:
                content = hashlib.sha256(path.read_bytes()).hexdigest() + str(status.st_mtime_ns)
            found[str(path.relative_to(folder))] = f"{status.st_mode:o} {content}"
    return found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with real files: best.pt, notes.txt, runs/checkpoint-{1,2}/model.bin, link.pt -> best.pt."""
    folder = tmp_path / "project"
    for step in (1, 2):
        (folder / f"runs/checkpoint-{step}").mkdir(parents=True)
        (folder / f"runs/checkpoint-{step}/model.bin").write_bytes(b"real weights %d" % step)
    torch.save({"w": torch.full((4,), 7.0)}, folder / "best.pt")
    (folder / "notes.txt").write_text("a year of notes\n", encoding="utf-8")
    (folder / "runs.zip").write_bytes(b"an older archive")
    (folder / "link.pt").symlink_to("best.pt")
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def fresh_accelerate() -> Iterator[None]:
    """Accelerate keeps its state for the whole process."""
    state = pytest.importorskip("accelerate.state")
    state.AcceleratorState._reset_state(reset_partial_state=True)
    yield
    state.AcceleratorState._reset_state(reset_partial_state=True)


class Fakes:
    """Virtual tensors as the files package knows them: real meta tensors that say they are on cuda:0."""

    def __init__(self) -> None:
        self.moved: list[torch.Tensor] = []

    def is_virtual(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and _native_device(value).type == "meta"

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.zeros(tensor.shape, dtype=tensor.dtype)

    def to_device(self, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        assert device.type == "cuda"
        self.moved.append(tensor.detach().clone())
        return torch.empty_like(tensor, device="meta")

    def empty(self, elements: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.zeros(elements, dtype=dtype, device="meta" if device.type == "cuda" else device)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """Make meta tensors look like tensors on cuda:0, on a machine with one GPU."""

    def device(self: torch.Tensor) -> torch.device:
        native: torch.device = _native_device(self)
        return torch.device("cuda", 0) if native.type == "meta" else native

    monkeypatch.setattr(torch.Tensor, "device", property(device), raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return Fakes()


GuardMaker = Callable[..., FileGuard]


@pytest.fixture
def guard_maker(project: Path) -> Iterator[GuardMaker]:
    """Installs a guard for `project`, and checks afterwards that what was real is as it was."""
    guards: list[FileGuard] = []
    before = fingerprint(project)

    def make(**options: Any) -> FileGuard:
        ops = options.pop("ops", None)
        options = {"temporary": (str(project.parent / "scratch"),), "protected": (), **options}
        guards.append(install(FileOptions(**options), ops))
        return guards[-1]

    yield make
    for guard in guards:
        guard.uninstall()
    after = fingerprint(project)
    assert {path: after.get(path) for path in before} == before


@pytest.fixture
def guard(guard_maker: GuardMaker) -> FileGuard:
    """A guard without virtual tensors."""
    return guard_maker()


@pytest.fixture
def tensors(guard_maker: GuardMaker, fakes: Fakes) -> TensorOps:
    """A guard with the fake virtual tensors connected."""
    ops = TensorOps(fakes.is_virtual, fakes.to_host, fakes.to_device, fakes.empty)
    guard_maker(ops=ops)
    return ops
