"""What goes to the store, what goes to the disk, and what is said about it."""

# ruff: noqa: SIM115 (opening is what is tried here, and it fails)
from __future__ import annotations

import _io
import errno
import io
import logging
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from flatout.virtual.files import FileGuard, FileOptions, TensorOps, install, taint, tainted

GuardMaker = Callable[..., FileGuard]
posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX descriptors")


def test_before_the_taint_new_files_are_real(project: Path, guard: FileGuard) -> None:
    Path("prepared.bin").write_bytes(b"tokens")
    os.replace("prepared.bin", "train.bin")
    guard.uninstall()
    assert Path("train.bin").read_bytes() == b"tokens"
    assert guard.report().kept == (str(project / "train.bin"),)
    assert guard.report().shadowed == ()
    assert guard.report().sentence() == ""


def test_after_the_taint_nothing_is_left_behind(project: Path, guard: FileGuard) -> None:
    os.makedirs("out/run1")
    taint()
    Path("out/run1/model.pt").write_bytes(b"invented")
    Path("new.txt").write_text("x")
    with open("notes.txt", "a") as file:
        file.write("loss 1.0")
    assert sorted(os.listdir("out/run1")) == ["model.pt"]
    guard.uninstall()
    assert not os.path.exists("out")
    assert not os.path.exists("new.txt")
    report = guard.report()
    assert report.shadowed == tuple(str(project / name) for name in ("out/run1/model.pt", "new.txt", "notes.txt"))
    assert report.spared == (str(project / "notes.txt"),)
    sentence = (
        "3 files written to a temporary copy, none of yours touched (1 would have been replaced, changed or deleted)"
    )
    assert report.sentence() == sentence


def test_a_file_of_this_run_is_frozen_by_the_taint(guard: FileGuard) -> None:
    Path("state.json").write_text("before")
    taint()
    Path("state.json").write_text("after")
    assert Path("state.json").read_text() == "after"
    os.remove("state.json")
    assert not os.path.exists("state.json")
    guard.uninstall()
    assert Path("state.json").read_text() == "before"


@posix_only
def test_files_that_are_open_when_the_taint_comes(guard: FileGuard) -> None:
    handler = logging.FileHandler("train.log")
    record = logging.LogRecord("x", 20, "f", 1, "start", (), None)
    handler.emit(record)
    raw = os.open("raw.bin", os.O_RDWR | os.O_CREAT)
    os.write(raw, b"12345")
    os.lseek(raw, 2, os.SEEK_SET)
    with open("half.csv", "w") as buffered:
        buffered.write("step,loss\n")
        taint()
        buffered.write("1,0.5\n")
        handler.emit(record)
        os.write(raw, b"xy")
    handler.close()
    os.close(raw)
    assert Path("half.csv").read_text() == "step,loss\n1,0.5\n"
    assert Path("train.log").read_text() == "start\nstart\n"
    assert Path("raw.bin").read_bytes() == b"12xy5"
    guard.uninstall()
    assert not any(os.path.exists(name) for name in ("half.csv", "train.log", "raw.bin"))


def test_a_save_that_taints_halfway(guard_maker: GuardMaker, fakes: Any) -> None:
    guard = guard_maker(ops=TensorOps(fakes.is_virtual, fakes.to_host, fakes.to_device, fakes.empty))
    assert not tainted()
    torch.save({"w": torch.empty(4, device="meta")}, "fresh.pt")
    assert tainted()
    assert torch.load("fresh.pt")["w"].shape == (4,)
    guard.uninstall()
    assert not os.path.exists("fresh.pt")


def test_scratch_files_are_real(project: Path, guard: FileGuard) -> None:
    taint()
    scratch = project.parent / "scratch"
    with tempfile.NamedTemporaryFile(dir=scratch) as file:
        assert os.stat(file.name).st_ino == os.fstat(file.fileno()).st_ino
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        Path(folder, "deep").mkdir()
        Path(folder, "deep/x").write_text("x")
    (scratch / "left").write_text("x")
    assert guard.report().shadowed == ()
    guard.uninstall()
    assert os.listdir(scratch) == ["left"]


def test_an_older_file_in_scratch_is_spared(project: Path, guard_maker: GuardMaker) -> None:
    older = project.parent / "scratch/older.log"
    older.write_text("somebody's")
    guard = guard_maker()
    older.write_text("mine")
    assert older.read_text() == "mine"
    older.unlink()
    guard.uninstall()
    assert older.read_text() == "somebody's"


def test_a_project_inside_the_temporary_directory_is_protected(project: Path) -> None:
    guard = install(FileOptions(temporary=(str(project.parent),)))
    taint()
    Path("new.txt").write_text("x")
    Path("notes.txt").write_text("x")
    guard.uninstall()
    assert not os.path.exists("new.txt")
    assert Path("notes.txt").read_text() == "a year of notes\n"


def test_allowed_paths_and_caches_are_real(project: Path, guard_maker: GuardMaker) -> None:
    guard = guard_maker(allowed=(str(project / "recording.db"),))
    taint()
    Path("recording.db").write_text("x")
    os.makedirs("package/__pycache__")
    assert not os.path.exists(guard.store.tree + str(project / "recording.db"))
    guard.uninstall()
    assert Path("recording.db").read_text() == "x"


def test_allow_writes(project: Path) -> None:
    guard = install(FileOptions(allow_writes=True, temporary=(), protected=()))
    taint()
    Path("new.txt").write_text("x")
    guard.uninstall()
    assert Path("new.txt").read_text() == "x"
    assert guard.report().sentence() == ""


@posix_only
def test_devices_pipes_and_terminals_pass(guard: FileGuard, capfd: pytest.CaptureFixture[str]) -> None:
    taint()
    with open(os.devnull, "w") as sink:
        sink.write("x")
    with open("/dev/stdout", "a") as out:
        out.write("seen")
    assert capfd.readouterr().out == "seen"
    os.mkfifo("pipe")
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    reader = threading.Thread(target=lambda: Path("pipe").read_text())
    reader.start()
    Path("pipe").write_text("through")
    reader.join(5)
    assert not reader.is_alive()
    with open(os.dup(1), "w") as descriptor:
        descriptor.write("too")
    assert capfd.readouterr().out == "too"


@pytest.mark.parametrize(
    "harm",
    [
        lambda: io.FileIO("notes.txt", "w"),
        lambda: _io.open("notes.txt", "w"),
        lambda: __import__("posix").unlink("notes.txt"),
        lambda: __import__("posix").rename("best.pt", "x.pt"),
        lambda: __import__("posix").rename("pyproject", "notes.txt"),
        lambda: __import__("posix").truncate("notes.txt", 0),
    ],
)
@posix_only
def test_ways_around_are_refused(harm: Callable[[], Any], guard: FileGuard) -> None:
    taint()
    with pytest.raises(
        PermissionError, match=r"a dry run does not .* --allow-writes: '.*(notes.txt|best.pt)'"
    ) as caught:
        harm()
    assert caught.value.errno == errno.EPERM
    with io.FileIO("notes.txt") as file:
        assert file.read()


@posix_only
def test_the_operating_systems_errors(guard: FileGuard) -> None:
    taint()
    for harm, expected in (
        (lambda: open("missing/x", "w"), FileNotFoundError),
        (lambda: open("notes.txt/x", "w"), NotADirectoryError),
        (lambda: open("notes.txt/x/y", "w"), NotADirectoryError),  # at whatever depth
        (lambda: os.replace("link.pt", "notes.txt/x/y"), NotADirectoryError),
        (lambda: os.replace("link.pt", "missing/x/y"), FileNotFoundError),
        (lambda: os.mkdir("notes.txt/x/y"), NotADirectoryError),
        (lambda: os.unlink("notes.txt/x/y"), NotADirectoryError),
        (lambda: open("runs", "w"), IsADirectoryError),
        (lambda: open("notes.txt", "x"), FileExistsError),
        (lambda: os.mkdir("runs"), FileExistsError),
        (lambda: os.rmdir("runs"), OSError),
        (lambda: os.unlink("missing"), FileNotFoundError),
        (lambda: os.rename("missing", "x"), FileNotFoundError),
        (lambda: os.symlink("a", "link.pt"), FileExistsError),
    ):
        with pytest.raises(expected):
            harm()
    os.remove("notes.txt")
    with pytest.raises(FileNotFoundError) as caught:
        open("notes.txt")
    assert caught.value.filename == "notes.txt"
    with pytest.raises(FileNotFoundError) as caught:
        os.stat("notes.txt")
    assert caught.value.filename == "notes.txt"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions mean nothing to root")
def test_a_read_only_file_stays_read_only(project: Path, guard_maker: GuardMaker) -> None:
    (project / "notes.txt").chmod(0o400)
    guard_maker()
    taint()
    with pytest.raises(PermissionError):
        open("notes.txt", "w")


def test_names(guard: FileGuard) -> None:
    taint()
    with open("notes.txt", "w") as file:
        assert file.name == "notes.txt"
    with open(Path("größe 数.txt"), "w") as file:
        file.write("x")
    with open(b"bytes\xff.bin", "wb") as raw:
        raw.write(b"x")
    assert "größe 数.txt" in os.listdir()
    assert b"bytes\xff.bin" in os.listdir(b".")
    assert "bytes\udcff.bin" in [entry.name for entry in os.scandir(".")]
    old = os.umask(0o077)
    try:
        Path("private").touch()
    finally:
        os.umask(old)
    if os.name == "posix":
        assert os.stat("private").st_mode & 0o777 == 0o600


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_children_share_the_store(guard: FileGuard) -> None:
    taint()
    os.makedirs("logs")
    child = os.fork()
    if child == 0:
        try:
            Path("logs/worker.txt").write_text("hello")
            Path("notes.txt").write_text("child")
            guard.uninstall()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert Path("logs/worker.txt").read_text() == "hello"
    assert Path("notes.txt").read_text() == "child"


def test_programs_are_noted(guard: FileGuard) -> None:
    taint()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    assert guard.report().programs == (sys.executable,)


def test_many_threads(guard: FileGuard) -> None:
    taint()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(20):
                os.makedirs(f"deep/{number}/{turn}", exist_ok=True)
                Path(f"deep/{number}/{turn}/x").write_text("x")
                Path("notes.txt").write_text(str(number))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(list(Path("deep").rglob("x"))) == 80


def test_copies_that_do_not_fit_are_refused(guard: FileGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flatout.virtual.files.changes.SPARE_BYTES", 1 << 60)
    with pytest.raises(PermissionError, match=r"TMPDIR .* --allow-writes"):
        open("notes.txt", "a")
    Path("notes.txt").write_text("replacing needs no copy")


def test_a_working_directory_in_the_store_is_left(project: Path, guard: FileGuard) -> None:
    taint()
    os.makedirs("only/here")
    os.chdir("only/here")
    guard.uninstall()
    assert os.getcwd() == str(project)
