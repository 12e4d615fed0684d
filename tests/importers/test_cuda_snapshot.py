from __future__ import annotations

import gzip
import lzma
import pickle
from pathlib import Path
from typing import Any

import pytest

from flatout.errors import UnreadableFileError
from flatout.importers.cuda_snapshot import read_cuda_snapshot
from flatout.recording.schema import Place


def snapshot() -> dict[str, Any]:
    """A snapshot of one segment in the form that PyTorch 2.11 writes."""
    frames = [
        {"name": "empty", "filename": "??", "line": 0},
        {"name": "forward", "filename": "/venv/site-packages/torch/nn/modules/linear.py", "line": 125},
        {"name": "step", "filename": "train.py", "line": 17},
    ]
    blocks = [
        {"address": 4096, "size": 512, "requested_size": 100, "state": "active_allocated", "frames": []},
        {"address": 4608, "size": 2096640, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    segment = {
        "device": 0,
        "address": 4096,
        "total_size": 2097152,
        "allocated_size": 512,
        "active_size": 512,
        "requested_size": 100,
        "stream": 0,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }
    event = {"action": "alloc", "addr": 4096, "size": 100, "stream": 0, "time_us": 1, "frames": frames}
    return {
        "segments": [segment],
        "device_traces": [[event]],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
        "external_annotations": [],
    }


def write(path: Path, value: object) -> Path:
    path.write_bytes(pickle.dumps(value, 4))
    return path


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_a_snapshot_is_read_whatever_its_compression(tmp_path: Path, compress: Any) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(compress(pickle.dumps(snapshot(), 4)))
    read = read_cuda_snapshot(path)
    (segment,) = read.segments
    assert (segment.address, segment.total_size, segment.segment_type) == (4096, 2097152, "small")
    assert [(address, block.size) for address, block in segment.placed_blocks()] == [(4096, 512), (4608, 2096640)]
    assert [block.is_allocated for block in segment.blocks] == [True, False]
    ((event,),) = read.device_traces
    assert (event.action, event.addr, event.size, event.time_us) == ("alloc", 4096, 100, 1)
    assert event.place == Place("train.py", 17, "step")


def test_old_snapshots_without_addresses_and_settings(tmp_path: Path) -> None:
    value = snapshot()
    for block in value["segments"][0]["blocks"]:
        del block["address"], block["requested_size"]
    del value["allocator_settings"], value["segments"][0]["segment_pool_id"]
    (segment,) = read_cuda_snapshot(write(tmp_path / "old.pickle", value)).segments
    assert [address for address, _ in segment.placed_blocks()] == [4096, 4608]
    assert segment.segment_pool_id == (0, 0)


def test_no_place_without_frames(tmp_path: Path) -> None:
    value = snapshot()
    value["device_traces"][0][0]["frames"] = [7, {"filename": "x.cpp"}]
    assert read_cuda_snapshot(write(tmp_path / "s.pickle", value)).device_traces[0][0].place is None


class Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("run",)


def damaged(**changes: Any) -> dict[str, Any]:
    value = snapshot()
    value["segments"][0].update(changes)
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "Expected `object`, got `array`"),
        ({}, "missing required field `segments`"),
        (damaged(total_size="2 MiB"), r"Expected `int`, got `str` - at `\$.segments\[0\].total_size`"),
        (damaged(total_size=512), "its blocks cover 2097152"),
        (damaged(segment_type="huge"), "Invalid enum value 'huge'"),
        (damaged(blocks=[{"size": -512, "state": "inactive"}], total_size=-512), "damaged"),
        ({**snapshot(), "device_traces": [[{"action": "fly", "size": 1, "stream": 0}]]}, "Invalid enum value 'fly'"),
        ({**snapshot(), "attack": Attack()}, "could run code"),
    ],
)
def test_bad_values_are_named(tmp_path: Path, value: object, message: str) -> None:
    path = write(tmp_path / "bad.pickle", value)
    with pytest.raises(UnreadableFileError, match=message) as raised:
        read_cuda_snapshot(path)
    assert str(raised.value).startswith(f"{path}: ")


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_a_cut_off_file(tmp_path: Path, compress: Any) -> None:
    path = tmp_path / "cut"
    path.write_bytes(compress(pickle.dumps(snapshot(), 4))[:-20])
    with pytest.raises(UnreadableFileError, match="damaged"):
        read_cuda_snapshot(path)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_a_bomb_is_not_unpacked(tmp_path: Path, compress: Any) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(compress(b"\x00" * 2_000_000))
    with pytest.raises(UnreadableFileError, match="larger than 1000000 bytes"):
        read_cuda_snapshot(path, limit_bytes=1_000_000)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="No such file"):
        read_cuda_snapshot(tmp_path / "missing")
    with pytest.raises(UnreadableFileError, match="cannot be read"):
        read_cuda_snapshot(tmp_path)
    text = tmp_path / "train.py"
    text.write_text("import torch\n")
    with pytest.raises(UnreadableFileError, match="not a CUDA memory snapshot"):
        read_cuda_snapshot(text)
