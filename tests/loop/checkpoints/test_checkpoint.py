"""Checkpoint files: whole or not there, and never trusted."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from flatout.errors import CheckpointError, UsageError
from flatout.loop.checkpoints import checkpoint

HERE = Path(__file__).parent


def content(steps: int, run: str = "a run") -> dict[str, Any]:
    return {"run": run, "steps": steps, "values": torch.arange(300.0) * steps, "words": {"a": [1, "b", (None, True)]}}


def write(folder: Path, *steps: int, keep: int | None = None) -> Path:
    return [checkpoint.write(folder, content(n), keep=keep) for n in steps][-1]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- writing ----------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "new" / "folder", 120)
    assert path.name == "step-00000120.pt"
    read = checkpoint.read(path)
    assert read["schema"] == "flatout.checkpoint/1"
    assert torch.equal(read["values"], content(120)["values"])
    assert read["words"] == content(120)["words"]
    assert torch.load(path, weights_only=True)["steps"] == 120  # it needs no flatout


def test_versions_are_in_the_order_of_their_steps(tmp_path: Path) -> None:
    write(tmp_path, 9, 10, 123456789)
    (tmp_path / "step-x.pt").touch()
    (tmp_path / "notes.txt").touch()
    assert [path.name for path in checkpoint.versions(tmp_path)] == [
        "step-00000009.pt",
        "step-00000010.pt",
        "step-123456789.pt",
    ]
    assert checkpoint.versions(tmp_path / "nowhere") == []


def test_the_newest_are_kept(tmp_path: Path) -> None:
    write(tmp_path, 1, 2, 3, 4)
    assert len(names(tmp_path)) == 4
    write(tmp_path, 5, keep=2)
    assert names(tmp_path) == ["step-00000004.pt", "step-00000005.pt"]
    write(tmp_path, 5, keep=2)  # once more after the same step: it takes the other's place
    assert names(tmp_path) == ["step-00000004.pt", "step-00000005.pt"]
    write(tmp_path, 6, keep=1)
    assert names(tmp_path) == ["step-00000006.pt"]


def test_a_run_that_went_back_takes_its_future_away(tmp_path: Path) -> None:
    write(tmp_path, 3, 6, 9)
    write(tmp_path, 4, keep=2)
    assert names(tmp_path) == ["step-00000003.pt", "step-00000004.pt"]


def test_another_runs_newer_version_is_in_the_way(tmp_path: Path) -> None:
    write(tmp_path, 9)
    with pytest.raises(UsageError, match=r"step-00000009.pt of another run, ahead of this run's step-00000003.pt"):
        checkpoint.write(tmp_path, content(3, "another run"))
    assert names(tmp_path) == ["step-00000009.pt"]


def test_killed_at_every_line_and_at_many_bytes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "killed_writing.py", tmp_path], capture_output=True, text=True, timeout=200, check=True
    )
    reports = json.loads(done.stdout)
    assert not reports[-1]["killed"]  # all lines were tried
    killed = reports[:-1]
    assert all(report["killed"] for report in killed)
    assert len(killed) > 20 + 30
    after = [report["after"] for report in killed]
    assert all(all(state["whole"]) for state in after)
    old, new = ["step-00000001.pt", "step-00000002.pt"], ["step-00000002.pt", "step-00000003.pt"]
    assert {tuple(state["names"]) for state in after} == {tuple(old), (*old, new[1]), tuple(new)}
    assert sum(state["unfinished"] for state in after) > 20
    for report in reports:
        assert report["again"] == {"names": new, "whole": [True, True], "unfinished": 0}, report["place"]


def test_a_living_writers_file_is_left_alone(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    mine, dead = (tmp_path / f".step-00000007.pt.{letter * 16}.unfinished" for letter in "ab")
    dead.touch()
    with open(mine, "xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write(tmp_path, 1)
        assert names(tmp_path) == [mine.name, "step-00000001.pt"]
    write(tmp_path, 2)
    assert names(tmp_path) == ["step-00000001.pt", "step-00000002.pt"]


NO_WAY_TO_WRITE = """
import os, resource, sys, torch
from pathlib import Path
from flatout.errors import CheckpointError
from flatout.loop.checkpoints import checkpoint

def attempt(folder):
    try:
        checkpoint.write(folder, {"run": "a run", "steps": 2, "values": torch.zeros(100_000)})
    except CheckpointError as error:
        print(error)

folder = Path(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for most_bytes in (0, 1000, 200_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    attempt(folder)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
folder.chmod(0o555)
if os.geteuid() == 0:
    os.setuid(65534)  # root may write anywhere
attempt(folder)
"""


def test_a_full_disk_and_no_permission(tmp_path: Path) -> None:
    before = write(tmp_path, 1).read_bytes()
    arguments = [sys.executable, "-c", NO_WAY_TO_WRITE, tmp_path]
    said = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    tmp_path.chmod(0o755)
    assert len(said) == 4
    for line in said[:3]:
        assert "step-00000002.pt cannot be written (File too large)" in line
        assert "the versions saved before are untouched" in line
    assert "Permission denied" in said[3]
    assert names(tmp_path) == ["step-00000001.pt"]
    assert (tmp_path / "step-00000001.pt").read_bytes() == before


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_on_the_way_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    before = write(tmp_path, 1).read_bytes()

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(CheckpointError, match="Input/output error"):
        write(tmp_path, 1)
    assert names(tmp_path) == ["step-00000001.pt"]
    assert (tmp_path / "step-00000001.pt").read_bytes() == before


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"loop.save\(.*file.*cannot be written \(File exists\).*no folder"):
        write(tmp_path / "file", 1)
    with pytest.raises(CheckpointError, match=r"cannot be written.*no folder"):
        write(tmp_path / "file" / "below", 1)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"cannot be written.*no folder"):
        write(tmp_path / "dangling", 1)
    with pytest.raises(CheckpointError, match="cannot be read as a folder"):
        checkpoint.versions(tmp_path / "file")


def test_checksums_are_written_even_where_they_are_turned_off(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        checkpoint.read(write(tmp_path, 1))
        assert not torch.serialization.get_crc32_options()
    finally:
        torch.serialization.set_crc32_options(True)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_file_cut_off_anywhere(tmp_path: Path) -> None:
    path = write(tmp_path, 1, 2)
    data = path.read_bytes()
    for length in [*(len(data) * part // 20 for part in range(20)), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=r"step-00000002.pt.*(cut off|empty)") as error:
            checkpoint.read(path)
        assert 'loop.resume("' in str(error.value)
        assert str(tmp_path / "step-00000001.pt") in str(error.value)


def test_a_flipped_bit_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, 2)
    data, expected = path.read_bytes(), content(2)
    choose, noticed = random.Random(5), 0
    for _ in range(300):
        damaged = bytearray(data)
        damaged[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        path.write_bytes(damaged)
        try:
            read = checkpoint.read(path)
        except CheckpointError:
            noticed += 1
        else:
            assert torch.equal(read["values"], expected["values"])
            assert read["words"] == expected["words"]
    assert noticed > 100


def test_pytorch_alone_hands_out_a_flipped_bit(tmp_path: Path) -> None:
    """The reason for checking; when this fails PyTorch does it itself."""
    path = write(tmp_path, 2)
    data = bytearray(path.read_bytes())
    data[data.index(content(2)["values"].numpy().tobytes()) + 1003] ^= 4
    path.write_bytes(data)
    assert not torch.equal(torch.load(path, weights_only=True)["values"], content(2)["values"])
    with pytest.raises(CheckpointError, match=r"is damaged: the checksum of its part .*/data/0 is wrong"):
        checkpoint.read(path)


class Touch:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def _zip(method: int, size_bytes: int) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        archive.writestr("a/data.pkl", b"\0" * size_bytes)
    return data.getvalue()


def test_what_is_not_a_checkpoint(tmp_path: Path) -> None:
    trap = Touch(tmp_path / "run")
    hostile, other, legacy = tmp_path / "step-00000001.pt", tmp_path / "other.pt", tmp_path / "legacy.pt"
    torch.save({"schema": checkpoint.SCHEMA, "trap": trap}, hostile)
    torch.save({"layer.weight": torch.zeros(3)}, other)
    torch.save({"layer.weight": torch.zeros(3)}, legacy, _use_new_zipfile_serialization=False)
    files = {
        "text": b"hello",
        "zeros": bytes(5000),
        "pickle": pickle.dumps(trap),
        "bomb": _zip(zipfile.ZIP_DEFLATED, 10_000_000),
        "zip": _zip(zipfile.ZIP_STORED, 100),
        "header": b"PK\x03\x04",
        "list": b"",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    torch.save([1, 2], tmp_path / "list")
    for path in (hostile, other, legacy, *(tmp_path / name for name in files)):
        with pytest.raises(CheckpointError, match=path.name):
            checkpoint.read(path)
    assert not trap.path.exists()
    with pytest.raises(CheckpointError, match="compressed"):
        checkpoint.read(tmp_path / "bomb")
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match="cannot be read"):
            checkpoint.read(path)


def test_overlapping_parts_are_no_way_to_make_much_of_little(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    data = bytearray(path.read_bytes())
    name = b"/data/0"
    directory = data.rindex(b"PK\x01\x02", 0, data.rindex(name))
    data[directory + 20 : directory + 28] = (1 << 30).to_bytes(4, "little") * 2  # its two sizes: 1 GiB
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"longer than the file|cut off or damaged"):
        checkpoint.read(path)


def test_a_newer_schema(tmp_path: Path) -> None:
    torch.save({"schema": "flatout.checkpoint/2", "flatout": "9.1"}, tmp_path / "step-00000001.pt")
    with pytest.raises(CheckpointError, match=r"schema flatout.checkpoint/2, and this flatout reads .*/1; .*9\.1"):
        checkpoint.read(tmp_path / "step-00000001.pt")
