"""Virtual tensors in files: small, tied, on the right device; checkpoints of real runs on the virtual GPU."""

from __future__ import annotations

import io
import os
import pickle
import time
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flatout.virtual.files import TensorOps, tainted

CUDA = torch.device("cuda", 0)


def virtual(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def test_a_large_model_saves_fast_and_small(tensors: TensorOps) -> None:
    state = {f"layer{i}": virtual(1 << 20, 1 << 10) for i in range(4)}  # 16 GiB
    start = time.perf_counter()
    torch.save(state, "model.pt")
    assert time.perf_counter() - start < 1
    assert os.path.getsize("model.pt") < 10_000
    assert tainted()
    loaded = torch.load("model.pt", weights_only=True)
    assert list(loaded) == list(state)
    assert all(tensors.is_virtual(t) and t.shape == (1 << 20, 1 << 10) and t.device == CUDA for t in loaded.values())


@pytest.mark.parametrize("weights_only", [True, False])
def test_ties_views_and_kinds_survive(tensors: TensorOps, weights_only: bool) -> None:
    weight = nn.Parameter(virtual(4, 6))
    state = {"a": weight, "b": weight, "t": weight.detach().t(), "v": weight.detach()[1:, 2:4], "g": virtual(3)}
    state["g"].requires_grad_()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=weights_only)
    assert type(loaded["a"]) is nn.Parameter
    assert loaded["a"] is loaded["b"]
    assert loaded["t"].stride() == (1, 6)
    assert loaded["v"].storage_offset() == 8
    storages = {loaded[name].untyped_storage()._cdata for name in ("a", "t", "v")}
    assert len(storages) == 1
    assert loaded["g"].requires_grad
    assert loaded["g"].untyped_storage()._cdata not in storages


def test_known_values_travel(tensors: TensorOps, fakes: Any) -> None:
    fakes.to_host = lambda tensor: torch.full(tensor.shape, 41, dtype=tensor.dtype)
    ops = TensorOps(fakes.is_virtual, fakes.to_host, fakes.to_device, fakes.empty)
    assert ops.known_values(virtual(5)) is None
    steps = ops.known_values(virtual(2, dtype=torch.int64))
    assert steps is not None
    assert steps.tolist() == [41, 41]
    torch.save({"steps": virtual(2, dtype=torch.int64)}, "counter.pt")
    torch.load("counter.pt", weights_only=True)
    assert fakes.moved[-1].tolist() == [0, 0]


def test_pickle_and_queues(tensors: TensorOps) -> None:
    weight = nn.Parameter(virtual(3, 3))
    again = pickle.loads(pickle.dumps({"w": weight, "same": weight}))
    assert again["w"] is again["same"]
    assert tensors.is_virtual(again["w"])
    sent = pickle.loads(ForkingPickler.dumps(weight))
    assert type(sent) is nn.Parameter
    assert tensors.is_virtual(sent)
    real = torch.arange(3)
    assert pickle.loads(pickle.dumps(real)).tolist() == [0, 1, 2]


def test_a_virtual_checkpoint_on_the_cpu_is_real(tensors: TensorOps) -> None:
    torch.save({"w": virtual(3, 2)}, "w.pt")
    places: list[Any] = ["cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage]
    for where in places:
        loaded = torch.load("w.pt", map_location=where)["w"]
        assert loaded.device.type == "cpu"
        assert loaded.tolist() == [[0.0, 0.0]] * 3


@pytest.fixture
def real_checkpoint(project: Path) -> Path:
    shared = torch.arange(6.0)
    path = project.parent / "scratch/real.pt"
    torch.save({"w": shared, "view": shared[2:4], "p": nn.Parameter(torch.ones(2)), "n": torch.tensor(5)}, path)
    return path


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    "where",
    ["cuda", "cuda:0", CUDA, torch.device("cuda"), {"cpu": "cuda:0"}, lambda s, _: s.cuda(), lambda s, _: s.cuda(0)],
    ids=lambda where: getattr(where, "__name__", str(where)),
)
def test_real_checkpoints_move_to_the_virtual_gpu(
    where: Any, weights_only: bool, real_checkpoint: Path, tensors: TensorOps, fakes: Any
) -> None:
    loaded = torch.load(real_checkpoint, map_location=where, weights_only=weights_only)
    assert all(tensors.is_virtual(tensor) for tensor in loaded.values())
    assert loaded["w"].untyped_storage()._cdata == loaded["view"].untyped_storage()._cdata
    assert loaded["view"].storage_offset() == 2
    assert type(loaded["p"]) is nn.Parameter
    assert [moved.tolist() for moved in fakes.moved] == [[0, 1, 2, 3, 4, 5], [1, 1], [5]]
    assert not tainted()


@pytest.mark.parametrize(
    "where",
    [None, "cpu", torch.device("cpu"), lambda s, _: s, {"cuda:0": "cpu"}],
    ids=lambda where: getattr(where, "__name__", str(where)),
)
def test_real_checkpoints_stay_on_the_cpu(where: Any, real_checkpoint: Path, tensors: TensorOps) -> None:
    loaded = torch.load(real_checkpoint, map_location=where)
    assert loaded["w"].tolist() == [0, 1, 2, 3, 4, 5]
    assert loaded["n"].item() == 5


def tagged(path: Path, tag: str, **options: Any) -> Path:
    """A checkpoint as a machine with that device writes it: the same bytes, another location tag."""
    original = torch.serialization.location_tag
    torch.serialization.location_tag = lambda storage: tag
    try:
        torch.save({"w": torch.arange(4.0)}, path, **options)
    finally:
        torch.serialization.location_tag = original
    return path


@pytest.mark.parametrize("new_format", [True, False])
def test_a_checkpoint_from_a_gpu_machine_needs_no_map_location(
    new_format: bool, tmp_path: Path, tensors: TensorOps, fakes: Any
) -> None:
    path = tagged(tmp_path / "scratch/gpu.pt", "cuda:0", _use_new_zipfile_serialization=new_format)
    loaded = torch.load(path)
    assert tensors.is_virtual(loaded["w"])
    if new_format:
        assert fakes.moved[-1].tolist() == [0, 1, 2, 3]
    assert torch.load(path, map_location="cpu")["w"].tolist() == [0, 1, 2, 3]


def test_a_gpu_that_is_not_there(tmp_path: Path, tensors: TensorOps) -> None:
    path = tagged(tmp_path / "scratch/gpu3.pt", "cuda:3")
    with pytest.raises(RuntimeError, match=r"CUDA device 3 but torch.cuda.device_count\(\) is 1"):
        torch.load(path)
    assert tensors.is_virtual(torch.load(path, map_location={"cuda:3": "cuda:0"})["w"])


def test_other_dtypes_of_the_newer_rebuild_function(tmp_path: Path, tensors: TensorOps) -> None:
    path = tmp_path / "scratch/wide.pt"
    torch.save(torch.arange(3).to(torch.uint16), path)
    assert tensors.is_virtual(torch.load(path, map_location="cuda"))
    assert torch.load(path).dtype == torch.uint16


def test_mapped_checkpoint(real_checkpoint: Path, tensors: TensorOps) -> None:
    assert tensors.is_virtual(torch.load(real_checkpoint, map_location="cuda", mmap=True)["w"])


def test_safetensors_hold_holes(tensors: TensorOps, fakes: Any) -> None:
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    big = {"w": virtual(1 << 14, 1 << 14), "n": virtual(3, dtype=torch.int64), "real": torch.full((2,), 3.0)}
    save_file(big, "model.safetensors", {"format": "pt"})
    status = os.stat("model.safetensors")
    assert status.st_size > 1 << 30
    assert status.st_blocks * 512 < 1 << 20
    on_gpu = load_file("model.safetensors", device="cuda")
    assert all(tensors.is_virtual(tensor) for tensor in on_gpu.values())
    with safe_open("model.safetensors", framework="pt", device=0) as file:
        assert file.metadata() == {"format": "pt"}
        assert tensors.is_virtual(file.get_tensor("n"))
        assert tensors.is_virtual(file.get_slice("real")[:1])
        assert file.get_slice("w").get_shape() == [1 << 14, 1 << 14]
    with safe_open("model.safetensors", framework="pt") as file:
        assert file.get_tensor("real").tolist() == [3.0, 3.0]
        assert file.get_tensor("n").tolist() == [0, 0, 0]


def test_safetensors_refuse_shared_storage(tensors: TensorOps) -> None:
    from safetensors.torch import save_file

    weight = virtual(4)
    with pytest.raises(RuntimeError, match="share memory"):
        save_file({"a": weight, "b": weight}, "shared.safetensors")


def test_everything_is_restored(project: Path, fakes: Any) -> None:
    from flatout.virtual.files import FileOptions, install

    names = [(torch, "save"), (torch, "load"), (torch.Tensor, "__reduce_ex__"), (torch._utils, "_rebuild_tensor")]
    names += [(torch.UntypedStorage, "cuda"), (torch._C, "PyTorchFileReader"), (os, "stat"), (io, "open")]
    before = [getattr(owner, name) for owner, name in names]
    ops = TensorOps(fakes.is_virtual, fakes.to_host, fakes.to_device, fakes.empty)
    guard = install(FileOptions(), ops)
    assert all(getattr(owner, name) is not old for (owner, name), old in zip(names, before, strict=True))
    guard.uninstall()
    guard.uninstall()
    assert [getattr(owner, name) for owner, name in names] == before
