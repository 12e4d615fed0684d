"""Many ways to overwrite, change or delete a real file; after none of them is it different.

`guard_maker` compares the whole project, byte for byte, with what it was before. Each route runs twice: before and
after the first invented value. The script must see its own change, which each route checks.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import logging
import mmap
import os
import pickle
import shutil
import sqlite3
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from flatout.virtual.files import FileGuard, taint

GuardMaker = Callable[..., FileGuard]
ROUTES: dict[str, Callable[[], object]] = {}


def route(function: Callable[[], object]) -> Callable[[], object]:
    """A way to harm the project. What it returns must be true: the script's own view of what it did."""
    ROUTES[function.__name__] = function
    return function


@route
def open_w() -> bool:
    with open("notes.txt", "w") as file:
        file.write("invented")
    return Path("notes.txt").read_text() == "invented" and os.path.getsize("notes.txt") == 8


@route
def open_append() -> bool:
    with open("notes.txt", "a") as file:
        file.write("more")
    return Path("notes.txt").read_text() == "a year of notes\nmore"


@route
def open_update() -> bool:
    with open(b"notes.txt", "r+b") as file:
        file.write(b"THE")
    return Path("notes.txt").read_bytes().startswith(b"THEear of")


@route
def io_open_through_link() -> bool:
    with io.open("link.pt", "wb") as file:  # noqa: UP020
        file.write(b"x")
    return Path("best.pt").read_bytes() == b"x" and os.path.islink("link.pt")


@route
def os_open_truncate() -> bool:
    os.close(os.open("notes.txt", os.O_WRONLY | os.O_TRUNC))
    return os.stat("notes.txt").st_size == 0


@route
def os_open_dir_fd() -> bool:
    directory = os.open("runs/checkpoint-1", os.O_RDONLY)
    descriptor = os.open("model.bin", os.O_WRONLY | os.O_TRUNC, dir_fd=directory)
    os.write(descriptor, b"new")
    os.close(descriptor)
    os.close(directory)
    return Path("runs/checkpoint-1/model.bin").read_bytes() == b"new"


@route
def os_truncate() -> bool:
    os.truncate("notes.txt", 3)
    return Path("notes.txt").read_text() == "a y"


@route
def os_remove() -> bool:
    os.remove("best.pt")
    return not os.path.exists("best.pt") and "best.pt" not in os.listdir() and not os.path.exists("link.pt")


@route
def os_remove_link() -> bool:
    os.unlink("link.pt")
    return not os.path.lexists("link.pt") and os.path.exists("best.pt")


@route
def unlink_dir_fd() -> bool:
    directory = os.open(".", os.O_RDONLY)
    os.unlink("notes.txt", dir_fd=directory)
    os.close(directory)
    return not os.path.exists("notes.txt")


@route
def rename_away() -> bool:
    os.rename("best.pt", "old.pt")
    return not os.path.exists("best.pt") and torch.load("old.pt", weights_only=True)["w"].sum() == 28


@route
def replace_over() -> bool:
    Path("best.tmp").write_bytes(b"better")
    os.replace("best.tmp", "best.pt")
    return Path("best.pt").read_bytes() == b"better" and not os.path.exists("best.tmp")


@route
def rename_directory() -> bool:
    os.rename("runs", "old_runs")
    return sorted(os.listdir("old_runs")) == ["checkpoint-1", "checkpoint-2"] and not os.path.exists("runs")


@route
def rename_directory_round_trip() -> bool:
    os.rename("runs/checkpoint-1", "runs/checkpoint-9")
    os.rename("runs/checkpoint-9", "runs/checkpoint-1")
    with open("runs/checkpoint-1/model.bin", "ab") as file:
        file.write(b"!")
    return Path("runs/checkpoint-1/model.bin").read_bytes() == b"real weights 1!"


@route
def rmtree() -> bool:
    shutil.rmtree("runs")
    return not os.path.exists("runs") and glob.glob("runs/*") == []


@route
def rotate_checkpoints() -> bool:
    os.makedirs("runs/checkpoint-3")
    Path("runs/checkpoint-3/model.bin").write_bytes(b"3")
    for old in sorted(glob.glob("runs/checkpoint-*"))[:-1]:
        shutil.rmtree(old)
    return [path.name for path in Path("runs").iterdir()] == ["checkpoint-3"] and glob.glob("runs/*/*.bin") == [
        "runs/checkpoint-3/model.bin"
    ]


@route
def remake_directory() -> bool:
    shutil.rmtree("runs/checkpoint-1")
    os.makedirs("runs/checkpoint-1/deep/er")
    return os.listdir("runs/checkpoint-1") == ["deep"] and list(os.walk("runs/checkpoint-1"))[-1][0].endswith("er")


@route
def copy_over() -> bool:
    shutil.copy("notes.txt", "best.pt")
    return Path("best.pt").read_text() == "a year of notes\n"


@route
def copy2_through_bytes() -> bool:
    shutil.copy2(b"notes.txt", b"best.pt")
    return Path("best.pt").read_text() == "a year of notes\n"


@route
def move_over() -> bool:
    shutil.move("notes.txt", "runs/checkpoint-1/model.bin")
    return not os.path.exists("notes.txt") and Path("runs/checkpoint-1/model.bin").stat().st_size == 16


@route
def move_directory() -> bool:
    shutil.move("runs/checkpoint-1", "runs/checkpoint-2")
    return os.path.exists("runs/checkpoint-2/checkpoint-1/model.bin")


@route
def copytree_over() -> bool:
    shutil.copytree("runs/checkpoint-1", "runs/checkpoint-2", dirs_exist_ok=True)
    return Path("runs/checkpoint-2/model.bin").read_bytes() == b"real weights 1"


@route
def link_over() -> bool:
    os.remove("notes.txt")
    os.link("best.pt", "notes.txt")
    with open("notes.txt", "wb") as file:
        file.write(b"x")
    return Path("notes.txt").read_bytes() == b"x"


@route
def symlink_over() -> bool:
    os.remove("link.pt")
    os.symlink("notes.txt", "link.pt")
    with open("link.pt", "a") as file:
        file.write("z")
    return Path("notes.txt").read_text().endswith("z") and os.readlink("link.pt") == "notes.txt"


@route
def chmod_and_touch() -> bool:
    os.chmod("notes.txt", 0o600)
    os.utime("notes.txt", (1, 1))
    Path("best.pt").touch()
    return os.stat("notes.txt").st_mtime == 1 and os.stat("notes.txt").st_mode & 0o777 == 0o600


@route
def path_write_text() -> bool:
    Path("notes.txt").write_text("x")
    return Path("notes.txt").read_text() == "x"


@route
def path_methods() -> bool:
    Path("notes.txt").unlink()
    Path("best.pt").rename("second.pt")
    Path("runs/checkpoint-1/model.bin").replace("runs/checkpoint-2/model.bin")
    Path("runs/checkpoint-1").rmdir()
    return sorted(path.as_posix() for path in Path().rglob("*")) == [
        "link.pt",
        "runs",
        "runs.zip",
        "runs/checkpoint-2",
        "runs/checkpoint-2/model.bin",
        "second.pt",
    ]


@route
def tempfile_then_replace() -> bool:
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as file:
        file.write("{}")
    os.replace(file.name, "notes.txt")
    return Path("notes.txt").read_text() == "{}"


@route
def scratch_then_move() -> bool:
    with tempfile.NamedTemporaryFile("w", dir="../scratch", delete=False) as file:
        file.write("from scratch")
    shutil.move(file.name, "notes.txt")
    return Path("notes.txt").read_text() == "from scratch" and not os.path.exists(file.name)


@route
def unnamed_file_linked() -> bool:
    if not hasattr(os, "O_TMPFILE"):
        return True
    os.remove("notes.txt")
    descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR)
    os.write(descriptor, b"unnamed")
    os.link(f"/proc/self/fd/{descriptor}", "notes.txt", follow_symlinks=True)
    os.close(descriptor)
    return Path("notes.txt").read_bytes() == b"unnamed"


@route
def json_and_csv() -> bool:
    with open("notes.txt", "w", newline="") as file:
        csv.writer(file).writerow([1, 2])
    with open("best.pt", "w") as file:
        json.dump({"loss": 1.0}, file)
    with open("best.pt") as file:
        return bool(json.load(file) == {"loss": 1.0})


@route
def pickle_dump() -> bool:
    with open("best.pt", "wb") as file:
        pickle.dump([1], file)
    with open("best.pt", "rb") as file:
        return bool(pickle.load(file) == [1])


@route
def logging_handler() -> bool:
    handler = logging.FileHandler("notes.txt", mode="w")
    handler.emit(logging.LogRecord("x", 20, "f", 1, "loss 2.3", (), None))
    handler.close()
    return Path("notes.txt").read_text() == "loss 2.3\n"


@route
def zip_and_tar() -> bool:
    with zipfile.ZipFile("best.pt", "w") as archive:
        archive.write("notes.txt")
    with tarfile.open("notes.txt", "w:gz") as tar:
        tar.add("runs")
    with tarfile.open("notes.txt") as tar:
        return len(tar.getnames()) == 5 and zipfile.is_zipfile("best.pt")


@route
def make_archive() -> bool:
    return os.path.getsize(shutil.make_archive("runs", "zip", "runs")) > 100


@route
def gzip_over() -> bool:
    with gzip.open("best.pt", "wt") as file:
        file.write("x")
    with gzip.open("best.pt", "rt") as file:
        return file.read() == "x"


@route
def numpy_save() -> bool:
    np.save("runs/checkpoint-1/model.bin.npy", np.ones(3))
    with open("best.pt", "wb") as file:
        np.savez(file, a=np.ones(2))
    np.savetxt("notes.txt", np.zeros(2))
    return bool(np.load("best.pt")["a"].sum() == 2) and bool(np.loadtxt("notes.txt").sum() == 0)


@route
def numpy_tofile() -> bool:
    np.arange(4, dtype=np.uint8).tofile("notes.txt")
    return bool((np.fromfile("notes.txt", dtype=np.uint8) == np.arange(4)).all())


@route
def numpy_memmap() -> bool:
    array = np.memmap("notes.txt", dtype=np.uint8, mode="r+")
    array[0] = 66
    array.flush()
    fresh = np.memmap("best.pt", dtype=np.uint8, mode="w+", shape=(5,))
    fresh[:] = 1
    del fresh, array
    return Path("notes.txt").read_bytes()[0] == 66 and Path("best.pt").read_bytes() == b"\1" * 5


@route
def mapped_file() -> bool:
    with open("notes.txt", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:1] = b"B"
    return Path("notes.txt").read_text().startswith("B year")


@route
def sqlite() -> bool:
    os.remove("notes.txt")
    with sqlite3.connect("notes.txt") as database:
        database.execute("create table t(x)")
    database.close()
    return os.path.getsize("notes.txt") > 0


@route
def torch_save() -> bool:
    torch.save({"w": torch.zeros(2)}, "best.pt")
    torch.save({"w": torch.zeros(2)}, Path("notes.txt"), _use_new_zipfile_serialization=False)
    return torch.load("best.pt", weights_only=True)["w"].shape == (2,) == torch.load("notes.txt")["w"].shape


@route
def torch_save_best_then_reload() -> bool:
    torch.save({"epoch": 1}, "best.tmp")
    os.replace("best.tmp", "best.pt")
    return bool(torch.load("link.pt", weights_only=True) == {"epoch": 1})


@route
def safetensors_save() -> bool:
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    save_file({"w": torch.ones(3)}, "best.pt")
    with safe_open("best.pt", "pt") as file:
        return list(file.keys()) == ["w"] and load_file("best.pt")["w"].sum() == 3


@route
def changed_directory() -> bool:
    os.chdir("runs")
    Path("../notes.txt").write_text("from below")
    os.makedirs("new/deeper")
    os.chdir("new/deeper")
    Path("here.txt").write_text("x")
    inside = os.getcwd()
    found = os.path.exists("here.txt") and os.path.abspath("here.txt") == os.path.join(inside, "here.txt")
    os.chdir("../../..")
    return found and inside.endswith("project/runs/new/deeper") and os.path.exists("runs/new/deeper/here.txt")


@route
def through_a_linked_directory() -> bool:
    os.symlink("runs", "alias")
    Path("alias/checkpoint-1/model.bin").write_bytes(b"by alias")
    shutil.rmtree("alias/checkpoint-2")
    return Path("runs/checkpoint-1/model.bin").read_bytes() == b"by alias" and os.listdir("runs") == ["checkpoint-1"]


@pytest.mark.parametrize("tainted", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", ROUTES)
def test_the_real_files_survive(name: str, tainted: bool, guard_maker: GuardMaker) -> None:
    guard = guard_maker()
    if tainted:
        taint()
    here = os.getcwd()
    assert ROUTES[name]()
    assert os.getcwd() == here
    assert guard.report().spared


@pytest.mark.parametrize("name", ["torch_jit", "torch_package"])
@pytest.mark.filterwarnings("ignore")
def test_archives_written_in_cpp(name: str, guard_maker: GuardMaker) -> None:
    traced = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    guard_maker()
    taint()
    if name == "torch_jit":
        torch.jit.save(traced, "best.pt")
        traced.save("notes.txt")
        assert torch.jit.load("best.pt")(torch.ones(1, 2)).shape == torch.jit.load("notes.txt")(torch.ones(1, 2)).shape
    else:
        from torch.package import PackageExporter, PackageImporter

        with PackageExporter("best.pt") as package:
            package.save_pickle("data", "numbers.pkl", [1, 2])
        assert PackageImporter("best.pt").load_pickle("data", "numbers.pkl") == [1, 2]
