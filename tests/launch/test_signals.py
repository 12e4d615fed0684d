"""Signals from outside, and the end of time. flatout's side runs in a process of its own, which gets the signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from launch_bench import Bench

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

Until = Callable[[Callable[[], object]], None]

DRIVER = """
    import json, sys
    from flatout.launch import Target, supervise
    options = json.loads(sys.argv[1])
    exit = supervise(Target(path="script.py"), hook="launch_hooks:notes", options={"notes": "notes"}, **options)
    place = exit.failure.place if exit.failure else None
    with open("exit.json", "w") as file:
        json.dump({"code": exit.code, "signal": exit.signal, "interrupted": exit.interrupted,
                   "timed_out": exit.timed_out, "place": place and place.line}, file)
"""


class Driven:
    """A flatout process, its script, and what the script printed."""

    def __init__(self, bench: Bench, code: str, **options: Any) -> None:
        bench.write(code)
        bench.write(DRIVER, "driver.py")
        source = str(Path(__file__).parents[2] / "src")
        environment = {**os.environ, "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{source}"}
        self.folder = bench.folder
        self.output = bench.folder / "output"
        with self.output.open("wb") as file:
            command = [sys.executable, "driver.py", json.dumps(options)]
            self.process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)

    def printed(self) -> list[str]:
        return self.output.read_text().splitlines()

    def exit(self) -> dict[str, Any]:
        self.process.wait(30)
        exit: dict[str, Any] = json.loads((self.folder / "exit.json").read_text())
        return exit


@pytest.fixture
def drive(bench: Bench) -> Iterator[Callable[..., Driven]]:
    started: list[Driven] = []

    def start(code: str, **options: Any) -> Driven:
        started.append(Driven(bench, textwrap.dedent(code), **options))
        return started[-1]

    yield start
    for driven in started:
        if driven.process.poll() is None:
            driven.process.terminate()
            driven.process.wait(10)


def test_ctrl_c_reaches_the_script_once(drive: Callable[..., Driven], until: Until) -> None:
    driven = drive("""
        import time
        print("ready", flush=True)
        count = 0
        for _ in range(2):
            try:
                time.sleep(1.5 if count else 30)
            except KeyboardInterrupt:
                count += 1
        print(count)
    """)
    until(lambda: driven.printed())
    driven.process.send_signal(signal.SIGINT)
    assert driven.exit() == {"code": 0, "signal": None, "interrupted": True, "timed_out": False, "place": None}
    assert driven.printed() == ["ready", "1"]


def test_ctrl_c_ends_a_script_as_python_does(drive: Callable[..., Driven], until: Until) -> None:
    driven = drive("import time\nprint('ready', flush=True)\ntime.sleep(30)")
    until(lambda: driven.printed())
    driven.process.send_signal(signal.SIGINT)
    exit = driven.exit()
    assert (exit["code"], exit["signal"], exit["place"]) == (130, signal.SIGINT, 3)
    assert driven.printed()[-1] == "KeyboardInterrupt"
    assert not any("flatout" in line for line in driven.printed())


def test_ctrl_c_again_and_again_on_a_deaf_script(drive: Callable[..., Driven], until: Until) -> None:
    driven = drive("""
        import signal, time
        signal.signal(signal.SIGINT, lambda *_: print("no", flush=True))
        signal.signal(signal.SIGTERM, lambda *_: print("no!", flush=True))
        print("ready", flush=True)
        while True: time.sleep(1)
    """)
    for lines in range(1, 5):
        until(lambda lines=lines: len(driven.printed()) == lines)
        driven.process.send_signal(signal.SIGINT)
    exit = driven.exit()
    assert (exit["code"], exit["signal"], exit["interrupted"]) == (137, signal.SIGKILL, True)
    assert driven.printed() == ["ready", "no", "no", "no!"]


def test_sigterm_is_handed_on(drive: Callable[..., Driven], until: Until) -> None:
    driven = drive("""
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        print("ready", flush=True)
        time.sleep(30)
    """)
    until(lambda: driven.printed())
    driven.process.terminate()
    exit = driven.exit()
    assert (exit["code"], exit["signal"], exit["interrupted"]) == (7, None, True)


def test_the_script_ends_when_flatout_is_killed(drive: Callable[..., Driven], until: Until) -> None:
    if sys.platform != "linux":
        pytest.skip("Linux alone tells a child that its parent died")
    driven = drive("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)")
    until(lambda: driven.printed())
    driven.process.kill()
    driven.process.wait()
    until(lambda: gone(int(driven.printed()[0])))


def test_pausing_pauses_both(drive: Callable[..., Driven], until: Until) -> None:
    driven = drive(
        "import os, sys, time\nprint(os.getpid(), flush=True)\nsys.stdin.close()\ntime.sleep(2)\nprint('end')"
    )
    until(lambda: driven.printed())
    script = psutil.Process(int(driven.printed()[0]))
    driven.process.send_signal(signal.SIGTSTP)
    until(lambda: script.status() == psutil.STATUS_STOPPED)
    until(lambda: psutil.Process(driven.process.pid).status() == psutil.STATUS_STOPPED)
    driven.process.send_signal(signal.SIGCONT)
    assert driven.exit()["code"] == 0


def test_out_of_time_in_python_code(bench: Bench) -> None:
    said = bench.run("import time\ndef loop():\n    time.sleep(60)\nloop()", timeout_seconds=0.7)
    assert said.exit.timed_out
    assert not said.exit.interrupted
    assert said.exit.failure is not None
    assert said.exit.failure.place is not None
    assert (said.exit.failure.type, said.exit.failure.place.line) == ("KeyboardInterrupt", 3)
    assert "ran out of its time" in said.exit.explanation


def test_out_of_time_where_no_interrupt_is_heard(bench: Bench) -> None:
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)"
    said = bench.run(code, timeout_seconds=0.7, grace_seconds=0.3)
    assert (said.exit.timed_out, said.exit.signal) == (True, signal.SIGTERM)
    assert said.exit.failure is not None
    assert said.exit.failure.place is not None
    assert said.exit.failure.place.line == 3


def test_out_of_time_leaves_no_orphans(bench: Bench, until: Until) -> None:
    code = """
        import os, signal, subprocess, sys, time
        for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
        def start(**options): return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], **options)
        print(os.getpid(), start().pid, start(start_new_session=True).pid, flush=True)
        time.sleep(60)
    """
    said = bench.run(code, timeout_seconds=1.0, grace_seconds=0.3)
    assert (said.exit.timed_out, said.exit.signal) == (True, signal.SIGKILL)
    assert said.exit.seconds < 20
    for number in map(int, said.out.split()):
        until(lambda number=number: gone(number))


def test_out_of_time_in_the_hook(bench: Bench) -> None:
    said = bench.run("print('never')", hook="slow", timeout_seconds=0.7, grace_seconds=0.3)
    assert said.exit.timed_out
    assert said.out == b""


def test_workers_of_a_killed_script_are_ended(bench: Bench, until: Until) -> None:
    code = """
        import os, subprocess, sys
        print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid, flush=True)
        os.kill(os.getpid(), 9)
    """
    said = bench.run(code)
    until(lambda: gone(int(said.out)))


def gone(number: int) -> bool:
    try:
        return psutil.Process(number).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_standard_input_is_the_scripts(bench: Bench) -> None:
    bench.write("import sys\nprint(input(), sys.stdin.read())")
    bench.write(DRIVER, "driver.py")
    source = str(Path(__file__).parents[2] / "src")
    environment = {**bench.environment, "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{source}"}
    command = [sys.executable, "driver.py", "{}"]
    ended = subprocess.run(command, env=environment, input=b"one\ntwo", capture_output=True, check=True, timeout=30)
    assert ended.stdout == b"one two\n"
