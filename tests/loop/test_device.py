"""The device that is chosen, what is said about it, and batches of every shape on their way there."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from flatout import Loop
from flatout.errors import UsageError
from flatout.loop.device import choose_device, move, unused_gpu

META = torch.device("meta")  # a device that every machine has, and that is not the CPU


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """PyTorch's answers on a machine with two GPUs. The list of those that were made current."""
    made_current: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {getattr(device, 'index', device)}")
    monkeypatch.setattr(torch.cuda, "set_device", made_current.append)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return made_current


@pytest.mark.parametrize(("local_rank", "chosen"), [(None, "cuda:0"), ("1", "cuda:1")])
@pytest.mark.parametrize("asked", ["auto", "cuda"])
def test_each_process_has_its_gpu(
    two_gpus: list[int], monkeypatch: pytest.MonkeyPatch, local_rank: str | None, chosen: str, asked: str
) -> None:
    if local_rank is not None:
        monkeypatch.setenv("LOCAL_RANK", local_rank)
    choice = choose_device(asked)
    assert str(choice.device) == chosen
    assert two_gpus == [choice.device.index]
    assert choice.warning is None


def test_a_local_rank_without_a_gpu(two_gpus: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(UsageError, match=r"LOCAL_RANK=2, but PyTorch sees 2 GPUs; .*torchrun --nproc-per-node=2"):
        choose_device()
    monkeypatch.setenv("LOCAL_RANK", "first")
    with pytest.raises(UsageError, match="LOCAL_RANK='first': not a number"):
        choose_device("cuda")


def test_an_index_too_high(two_gpus: list[int]) -> None:
    with pytest.raises(UsageError, match=r"Loop\(device='cuda:5'\): PyTorch sees 2 GPUs, numbered from cuda:0"):
        choose_device("cuda:5")


def test_a_gpu_that_is_not_used_is_said(two_gpus: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    Loop(device="cpu")
    assert "warning: training on the CPU as asked, though GPU 0 is there" in capsys.readouterr().err
    Loop(device="cpu", quiet=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("asked", ["gpu", "cpu:x", 3.5, None])
def test_no_device(asked: Any) -> None:
    with pytest.raises(UsageError, match=r"Loop\(device=.*\): no device of that kind; give auto, cpu, cuda"):
        choose_device(asked)


@pytest.mark.parametrize("asked", ["meta", "xla", "xpu:0", torch.device("meta")])
def test_a_device_that_loop_does_not_train_on(asked: Any) -> None:
    with pytest.raises(UsageError, match=r"Loop\(device=.*\): Loop does not train on that; give auto, cpu, cuda"):
        choose_device(asked)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"Loop\(device='cuda'\): PyTorch sees no CUDA GPU.*give device='auto'"):
        choose_device("cuda")
    assert str(choose_device().device) in (
        "cpu",
        "mps",
    )  # also with a CUDA build, whose accelerator is "cuda" all the same
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES='' hides every GPU"):
        choose_device("cuda:0")


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has Apple's GPU")
def test_no_apple_gpu() -> None:
    with pytest.raises(UsageError, match=r"Loop\(device='mps'\): PyTorch finds no Apple GPU"):
        choose_device("mps")


@pytest.mark.parametrize("sign", ["driver", "nvidia-smi", None])
@pytest.mark.parametrize(
    ("build", "said"), [(None, "is a build for CPUs; install one with CUDA"), ("12.4", "CUDA 12.4")]
)
def test_signs_of_a_gpu(tmp_path: Path, sign: str | None, build: str | None, said: str) -> None:
    driver, folder = tmp_path / "version", tmp_path / "bin"
    folder.mkdir()
    if sign == "driver":
        driver.write_text("NVRM version")
    if sign == "nvidia-smi":
        (folder / "nvidia-smi").touch(mode=0o755)
    why = unused_gpu({}, driver, build, str(folder))
    if sign is None:
        assert why is None
    else:
        assert why is not None
        assert said in why
    for hidden in ("", "-1"):
        assert "hides every GPU" in str(unused_gpu({"CUDA_VISIBLE_DEVICES": hidden}, driver, build, str(folder)))
    assert unused_gpu({"CUDA_VISIBLE_DEVICES": "0"}, driver, build, str(folder)) == why


# --- moving ----------------------------------------------------------------------------------------------------------

T = torch.ones(2)


class Point(NamedTuple):
    x: torch.Tensor
    name: str


@dataclasses.dataclass
class Plain:
    x: torch.Tensor
    made: int = dataclasses.field(init=False, default=7)
    unset: torch.Tensor = dataclasses.field(init=False)


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor

    def __post_init__(self) -> None:
        assert self.x.device.type == "cpu"  # is not to run again


@dataclasses.dataclass
class Slotted:
    __slots__ = ("x",)
    x: torch.Tensor


class ReadOnly(Mapping[str, Any]):
    """A mapping that takes no dict."""

    def __init__(self, first: Any, second: Any) -> None:
        self.held = {"first": first, "second": second}

    def __getitem__(self, key: str) -> Any:
        return self.held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


class Graph:
    """An object that knows how to move. `blocking`: without the argument non_blocking."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def to(self, device: torch.device, non_blocking: bool = False) -> Graph:
        return type(self)(self.x.to(device, non_blocking=non_blocking))


class OldGraph(Graph):
    def to(self, device: torch.device) -> Graph:  # type: ignore[override]
        return super().to(device)


class InPlace(Graph):
    def to(self, device: torch.device) -> None:  # type: ignore[override]
        self.x = self.x.to(device)


class Quantity:
    """`to` means something else."""

    def to(self, unit: str) -> str:
        return unit.upper()


class Attribute:
    to = "a destination"


def device_of(moved: Any) -> str:
    return str(moved.device.type)


def test_a_tensor_and_what_is_none() -> None:
    assert device_of(move(T, META)) == "meta"
    array = np.ones(2)
    for same in (None, "text", b"bytes", 3, 2.5, True, array, object(), Attribute(), Quantity(), torch.float32, Plain):
        assert move(same, META) is same


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_collections(kind: Any) -> None:
    moved = move(kind([T]), META)
    assert type(moved) is kind
    assert device_of(next(iter(moved))) == "meta"
    assert device_of(T) == "cpu"


def test_nested() -> None:
    moved = move({"a": [T, (T, "b")], "c": Point(T, "d")}, META)
    assert device_of(moved["a"][1][0]) == device_of(moved["c"].x) == "meta"
    assert (moved["a"][1][1], moved["c"].name) == ("b", "d")


def test_subclasses_keep_their_type() -> None:
    class Batch(list):  # type: ignore[type-arg]
        pass

    class Own(tuple):  # type: ignore[type-arg]
        def __new__(cls, first: Any, second: Any) -> Own:
            return super().__new__(cls, (first, second))

    assert type(move(Batch([T]), META)) is Batch
    moved = move(Own(T, T), META)
    assert isinstance(moved, tuple)
    assert [device_of(part) for part in moved] == ["meta", "meta"]


def test_mappings() -> None:
    ordered = OrderedDict(b=T, a=T)
    missing: defaultdict[str, list[Any]] = defaultdict(list, a=[T])
    own = UserDict({"a": T})
    for mapping in (ordered, missing, own):
        moved = move(mapping, META)
        assert type(moved) is type(mapping)
        assert list(moved) == list(mapping)
        assert device_of(T) == device_of(mapping["a"][0] if mapping is missing else mapping["a"]) == "cpu"
    assert move(missing, META)["new"] == []
    assert device_of(move(missing, META)["a"][0]) == "meta"
    for unbuildable in (ReadOnly(T, 1), MappingProxyType({"first": T, "second": 1})):
        moved = move(unbuildable, META)
        assert device_of(moved["first"]) == "meta"
        assert moved["second"] == 1


def test_dataclasses() -> None:
    plain = Plain(T)
    plain.made = 9
    moved = move(plain, META)
    assert (device_of(moved.x), moved.made, device_of(plain.x)) == ("meta", 9, "cpu")
    assert not hasattr(moved, "unset")
    assert device_of(move(Frozen(T), META).x) == "meta"
    assert device_of(move(Slotted(T), META).x) == "meta"


@pytest.mark.parametrize("kind", [Graph, OldGraph, InPlace])
def test_objects_that_move_themselves(kind: Any) -> None:
    assert device_of(move([kind(T)], META, non_blocking=True)[0].x) == "meta"


def test_packed_sequences() -> None:
    moved = move(pack_sequence([torch.ones(3), torch.ones(2)]), META)
    assert isinstance(moved, PackedSequence)
    assert device_of(moved.data) == "meta"


def test_a_tokenizers_batch() -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    batch = transformers.BatchEncoding({"input_ids": torch.ones(1, 3), "names": ["a"]})
    moved = move(batch, META)
    assert type(moved) is type(batch)
    assert device_of(moved["input_ids"]) == "meta"
    assert moved["names"] == ["a"]
