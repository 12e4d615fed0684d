"""Nothing is left in the temporary directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flatout.virtual.files.folder import PREFIX, STALE_SECONDS, make_folder

SCRIPT = """
import multiprocessing, os, sys
from flatout.virtual.files import FileOptions, install, taint
def work():
    install(FileOptions())
    taint()
    open("worker.txt", "w").close()
if __name__ == "__main__":
    if sys.argv[1] == "worker":
        process = multiprocessing.get_context("spawn").Process(target=work)
        process.start()
        process.join()
    else:
        work()
    sys.exit(3)
"""


@pytest.mark.parametrize("kind", ["program", "worker"])
def test_a_process_that_forgets_to_uninstall(kind: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "scratch").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "scratch"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "script.py", kind]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 3
    assert done.stderr == b""
    assert sorted(os.listdir(tmp_path)) == ["scratch", "script.py"]
    assert [name for name in os.listdir(tmp_path / "scratch") if name.startswith(PREFIX)] == []


def test_old_folders_of_dead_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("psutil.pid_exists", lambda process: process == 42)
    old = os.stat(tmp_path).st_mtime - STALE_SECONDS - 60
    for name, stale in (("41-a", True), ("42-a", True), ("43-a", False)):
        (tmp_path / (PREFIX + name) / "store").mkdir(parents=True)
        if stale:
            os.utime(tmp_path / (PREFIX + name), (old, old))
    made = Path(make_folder()).name
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted([f"{PREFIX}42-a", f"{PREFIX}43-a", made])
    assert made.startswith(f"{PREFIX}{os.getpid()}-")
