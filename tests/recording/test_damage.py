"""Files that are damaged, foreign, hostile, or left by a maker that died."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from flatout.errors import RecordingError
from flatout.recording import Writer, open_recording, write_ending
from flatout.recording.layout import VERSION
from flatout.recording.schema import Ending, Place, Run
from flatout.recording.timed import TimedStep

RUN = Run("virtual", "train.py", (), "2.13.0", 1.5)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "run.flatout"
    writer = Writer(path, RUN)
    for i in range(5000):
        writer.memory_event("alloc", i, 512, 500, 0, "activations", "forward", 1, Place("train.py", i % 90, "f"))
    writer.wait(None, "item")
    writer.timed_step(TimedStep(0, 0.0, 1.0, "steady", {"forward": 1.0}))
    writer.close(Ending("completed", 0))
    return path


def read_all(path: Path) -> None:
    with open_recording(path) as recording:
        _ = recording.run, recording.ending, recording.doing, recording.peak(), recording.steps()
        _ = recording.timed_steps()
        _ = recording.waits(), recording.assumptions(), recording.facts(), list(recording.memory_events())


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.unlink(), "no such recording"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(b"PK\3\4 a zip"), "not a flatout recording"),
        (lambda path: path.write_bytes(path.read_bytes()[:60]), "not a flatout recording"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:4096]), "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:50_000]), "damaged"),
        (lambda path: change(path, "PRAGMA application_id = 7"), "not a flatout recording"),
        (lambda path: change(path, f"PRAGMA user_version = {VERSION + 1}"), "written by a newer flatout .* Upgrade"),
        (lambda path: change(path, f"PRAGMA user_version = {VERSION - 1}"), "written by an older flatout"),
        (lambda path: change(path, "DROP TABLE waits"), "no table 'waits'"),
        (lambda path: change(path, "DELETE FROM documents"), "does not say what was run"),
        (lambda path: change(path, "UPDATE documents SET json = '{\"maker\": 3}'"), "damaged"),
        (lambda path: change(path, "UPDATE documents SET json = x'ff00' WHERE name = 'run'"), "damaged"),
        (lambda path: change(path, "UPDATE waits SET count = 'many'"), "damaged"),
        (lambda path: change(path, "UPDATE timed_steps SET parts = '{'"), "damaged"),
        (lambda path: change(path, "UPDATE timed_steps SET kind = 'quick'"), "damaged"),
        (lambda path: change(path, "UPDATE places SET file = x'00'"), "damaged"),
        (lambda path: change(path, "UPDATE memory_events SET size_bytes = 'x' WHERE sequence = 4000"), "damaged"),
        (lambda path: change(path, "UPDATE memory_events SET action = 9 WHERE sequence = 4000"), "damaged"),
        (lambda path: change(path, "UPDATE memory_events SET action = -1 WHERE sequence = 4000"), "damaged"),
        (lambda path: change(path, "UPDATE memory_events SET place = 400 WHERE sequence = 4000"), "damaged"),
        (lambda path: change(path, f"INSERT INTO facts VALUES ('deep', '{'[' * 100_000}')"), "damaged"),
    ],
)
def test_one_clear_error(recorded: Path, make: Callable[[Path], object], says: str) -> None:
    make(recorded)
    with pytest.raises(RecordingError, match=says) as caught:
        read_all(recorded)
    assert str(recorded) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="sqlite3 has limits since Python 3.11")
def test_a_huge_text_is_refused(recorded: Path) -> None:
    change(recorded, "INSERT INTO facts VALUES ('huge', zeroblob(70000000))")
    with pytest.raises(RecordingError):
        read_all(recorded)


def test_tables_that_are_views_are_refused(recorded: Path) -> None:
    change(recorded, "DROP TABLE facts", "CREATE VIEW facts AS SELECT hex(zeroblob(1000)) AS name, 1 AS json")
    with pytest.raises(RecordingError, match="no table 'facts'"):
        read_all(recorded)


def test_random_bytes_never_escape_as_another_error(recorded: Path) -> None:
    good = recorded.read_bytes()
    chance = random.Random(0)
    for _ in range(60):
        bad = bytearray(good)
        for _ in range(20):
            bad[chance.randrange(100, len(bad))] = chance.randrange(256)
        recorded.write_bytes(bad)
        with contextlib.suppress(RecordingError):
            read_all(recorded)


def test_an_ending_cannot_be_written_into_something_else(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    with pytest.raises(RecordingError, match="not a flatout recording"):
        write_ending(tmp_path / "x", Ending("killed", 137))


def test_killed_in_the_middle_of_a_commit(recorded: Path, tmp_path: Path) -> None:
    connection = sqlite3.connect(recorded, isolation_level=None)
    connection.execute("PRAGMA cache_size = 2")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE memory_events SET size_bytes = 'half-written'")
    (tmp_path / "dead").mkdir()
    dead = Path(shutil.copy(recorded, tmp_path / "dead"))
    shutil.copy(f"{recorded}-journal", tmp_path / "dead")
    connection.execute("ROLLBACK")
    connection.close()
    before = sorted(p.name for p in dead.parent.iterdir())
    with open_recording(dead) as recording:
        assert {event.size_bytes for event in recording.memory_events()} == {512}
    assert sorted(p.name for p in dead.parent.iterdir()) == before


MAKER = """
    import os, sys, time
    from flatout.recording import Writer
    from flatout.recording.schema import Run
    writer = Writer(sys.argv[1], Run("virtual", "train.py", (), "2.13.0", 1.5))
    started = time.monotonic()
    while True:
        for _ in range(100):
            writer.memory_event("alloc", 1, 512, int((time.monotonic() - started) * 1000), 0, "other", "other", 0, None)
        writer.doing("working")
        time.sleep(0.01)
        if time.monotonic() - started > 2:
            os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_readable_after_kill_up_to_the_last_second(tmp_path: Path) -> None:
    path = tmp_path / "run.flatout"
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(MAKER), path], check=False)
    assert ended.returncode == -signal.SIGKILL
    with open_recording(path) as recording:
        assert recording.ending is None
        assert recording.doing == "working"
        last = max(event.requested_bytes for event in recording.memory_events())
    assert last > 1000  # milliseconds of 2000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_is_inert(tmp_path: Path) -> None:
    path = tmp_path / "run.flatout"
    script = """
        import os, sys
        from flatout.recording import Writer
        from flatout.recording.schema import Ending, Run, Step
        writer = Writer(sys.argv[1], Run("virtual", "train.py", (), "2.13.0", 1.5))
        def note(number):
            for _ in range(30_000):
                writer.memory_event("alloc", number, 512, 0, 0, "other", "other", 0, None)
            writer.step(Step(number, 0, 0, 0))
            writer.assume("x")
            writer.doing(str(number))
            writer.flush()
        note(1)
        child = os.fork()
        if child == 0:
            note(2)
            writer.close(Ending("error", 3))
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        note(1)
        writer.close(Ending("completed", 0))
    """
    code = textwrap.dedent(script)
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, path], check=True, timeout=60)
    with open_recording(path) as recording:
        assert recording.ending == Ending("completed", 0)
        assert {event.address for event in recording.memory_events()} == {1}
        assert [step.index for step in recording.steps()] == [1]
        assert [assumption.count for assumption in recording.assumptions()] == [2]
        assert recording.doing == "1"
