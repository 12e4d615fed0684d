"""How scripts end, and what is told of it: failures, crashes, refusals, stops."""

from __future__ import annotations

import os
import re
import signal
import sys

import pytest
from launch_bench import Bench

from flatout.errors import ScriptError, UnsupportedError
from flatout.launch import Target
from flatout.recording.schema import Failure, Place

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def test_a_good_end(bench: Bench) -> None:
    said = bench.run("print('hello')")
    assert said.out == b"hello\n"
    assert (said.exit.code, said.exit.signal, said.exit.failure, said.exit.timed_out) == (0, None, None, False)
    assert 0 < said.exit.seconds < 30
    assert bench.notes() == [["hook", "script"], ["finished", "NoneType"]]


def test_a_failure_has_the_deepest_place_in_the_users_files(bench: Bench) -> None:
    bench.write("import json\ndef load(text):\n    return json.loads(text)\n", "data.py")
    said = bench.run("import data\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    pass\ndata.load('{')")
    failure = said.exit.failure
    assert failure is not None
    assert failure.type == "json.decoder.JSONDecodeError"
    assert failure.message.startswith("Expecting property name")
    assert failure.place == Place(str(bench.folder / "data.py"), 3, "load")
    assert bench.notes()[-1] == ["finished", "JSONDecodeError"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes from Python 3.11 on")
def test_notes_stand_beside_the_message(bench: Bench) -> None:
    failure = bench.run("error = ValueError('x')\nerror.add_note('in batch 7')\nraise error").exit.failure
    assert failure is not None
    assert (failure.message, failure.notes) == ("x", ("in batch 7",))


def test_a_hook_may_put_the_words_of_a_failure_right(bench: Bench) -> None:
    said = bench.run("raise ValueError('meta')", hook="translating")
    assert said.exit.failure is not None
    assert said.exit.failure.message == "cuda"
    assert said.err.endswith(b"ValueError: cuda\n")


def test_a_failure_is_told_whatever_excepthook_the_script_has(bench: Bench) -> None:
    said = bench.run("import sys\nsys.excepthook = lambda *_: None\nraise ValueError('x')")
    assert said.exit.failure == Failure("ValueError", "x", Place(str(bench.folder / "script.py"), 3, "<module>"))


def test_a_failure_that_cannot_be_printed(bench: Bench) -> None:
    said = bench.run("class E(Exception):\n    def __str__(self): raise KeyError\nraise E")
    assert said.exit.failure is not None
    assert said.exit.failure.type == "__main__.E"
    assert "cannot be printed" in said.exit.failure.message


def test_a_syntax_error_is_pythons_own_with_its_line(bench: Bench) -> None:
    said = bench.run("x = 1\nif x\n    pass\n")
    assert b"if x\n" in said.err
    assert said.exit.code == 1
    assert said.exit.failure is not None
    assert said.exit.failure.type == "SyntaxError"
    assert said.exit.failure.place == Place(str(bench.folder / "script.py"), 2)


def test_flatouts_frames_are_not_shown(bench: Bench) -> None:
    code = """
        from flatout.launch.target import Target
        def build():
            try:
                Target()
            except ValueError as error:
                raise RuntimeError from error
        build()
    """
    said = bench.run(code)
    assert b"launch" not in said.err.replace(str(bench.folder).encode(), b"")
    assert said.err.count(b"in build") == 2
    assert said.err.count(b"Traceback") == 2
    assert said.exit.failure is not None
    assert said.exit.failure.place == Place(str(bench.folder / "script.py"), 7, "build")


@posix
@pytest.mark.parametrize(
    ("code", "number", "says"),
    [
        ("import os\ndef f():\n    os.abort()\nf()", signal.SIGABRT, r"aborted by C\+\+ code"),
        ("import ctypes\ndef f():\n    ctypes.string_at(0)\nf()", signal.SIGSEGV, "bad memory access"),
    ],
)
def test_a_crash_says_where_it_was(bench: Bench, code: str, number: int, says: str) -> None:
    said = bench.run(code)
    assert (said.exit.signal, said.exit.code) == (number, 128 + number)
    assert said.err == b""
    assert said.exit.failure is not None
    assert said.exit.failure.type == signal.Signals(number).name
    assert said.exit.failure.place == Place(str(bench.folder / "script.py"), 3, "f")
    assert "Fatal Python error" in said.exit.trace
    assert re.search(says, said.exit.explanation)


@posix
def test_a_kill_is_taken_for_a_lack_of_memory(bench: Bench) -> None:
    said = bench.run("import os; os.kill(os.getpid(), 9)")
    assert (said.exit.signal, said.exit.code) == (9, 137)
    assert "ran out of memory" in said.exit.explanation
    assert bench.notes() == [["hook", "script"]]


@posix
def test_a_crash_in_a_forked_worker_is_not_the_scripts(bench: Bench) -> None:
    said = bench.run("import os\nif os.fork() == 0:\n    os.abort()\nos.wait()\n")
    assert (said.exit.code, said.exit.trace, said.exit.failure) == (0, "", None)


@posix
def test_keyboard_interrupt_ends_as_in_python(bench: Bench) -> None:
    said = bench.run("raise KeyboardInterrupt")
    assert (said.exit.code, said.exit.signal) == (130, signal.SIGINT)
    assert said.exit.failure is not None
    assert said.exit.failure.type == "KeyboardInterrupt"


def test_a_stop_runs_finally_blocks_and_passes_except_exception(bench: Bench) -> None:
    code = """
        import atexit
        atexit.register(print, "exit handlers")
        try:
            while True:
                try:
                    print("step"); step()
                except Exception:
                    print("swallowed")
        finally:
            print("finally")
        print("never")
    """
    said = bench.run(code)
    assert said.out.split(b"\n") == [b"step", b"step", b"finally", b"exit handlers", b""]
    assert said.err == b""
    assert (said.exit.code, said.exit.stopped, said.exit.failure) == (0, True, None)
    assert bench.notes()[-1] == ["finished", "StopRun"]


def test_a_script_that_swallows_every_stop_is_stopped_anyway(bench: Bench) -> None:
    code = """
        import multiprocessing, time
        if __name__ == "__main__":
            worker = multiprocessing.Process(target=time.sleep, args=(60,)); worker.start()
            while True:
                try:
                    step()
                except BaseException as error:
                    print(type(error).__name__)
    """
    said = bench.run(code)
    assert said.out == b"StopRun\n" * 3
    assert (said.exit.code, said.exit.stopped) == (0, True)
    assert said.exit.seconds < 30
    assert ["finished", "StopRun"] in bench.notes()  # a child that it had forked may end later


def test_a_stop_in_a_script_that_exits_by_itself_afterwards(bench: Bench) -> None:
    said = bench.run("import sys\ntry:\n    step(), step()\nexcept BaseException:\n    sys.exit(4)")
    assert (said.exit.code, said.exit.stopped) == (4, True)


def test_a_hook_may_refuse(bench: Bench) -> None:
    with pytest.raises(UnsupportedError, match="sparse tensors are not known"):
        bench.run("print('never')", hook="refuses")
    assert bench._capture.readouterr() == (b"", b"")


def test_a_broken_hook_is_one_line(bench: Bench) -> None:
    with pytest.raises(ScriptError, match=r"before the script began: KeyError: 'gone' at .*launch_hooks\.py:\d+$"):
        bench.run("print('never')", hook="breaks")
    assert bench._capture.readouterr() == (b"", b"")


def test_a_hook_that_breaks_at_the_end_does_not_change_the_scripts_end(bench: Bench) -> None:
    said = bench.run("import sys; sys.exit(3)", hook="breaks_at_the_end")
    assert (said.exit.code, said.exit.trouble, said.err) == (3, "OSError: disk full", b"")


def test_a_python_that_does_not_enter_is_told(bench: Bench) -> None:
    bench.write("print(1)")
    fake = bench.folder / "python"
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    fake.chmod(0o755)
    if sys.platform == "win32":
        pytest.skip("no shell")
    with pytest.raises(ScriptError, match="could not follow the script"):
        bench.run(python=str(fake))
    with pytest.raises(ScriptError, match="cannot start this Python"):
        bench.run(python=str(bench.folder / "nothing"))


def test_stdout_can_go_to_stderr(bench: Bench) -> None:
    said = bench.run("print('hello', flush=True)", stdout_to_stderr=True)
    assert (said.out, said.err) == (b"", b"hello\n")


def test_what_cannot_begin(bench: Bench) -> None:
    bench.write("", "train.py")
    bench.write("{}", "notes.ipynb")
    (bench.folder / "src").mkdir()
    for target, says in [
        (Target(path="trian.py"), r"^trian\.py: no such script\. Did you mean train\.py\?$"),
        (Target(path="deep/x.py"), "no such script. Looked from "),
        (Target(path="src"), "^src: a folder without __main__.py"),
        (Target(path="notes.ipynb"), "a notebook, not a script"),
        (Target(path="-"), "standard input"),
        (Target(module="no_such_module_here.x"), "no module 'no_such_module_here' here"),
        (Target(module=""), "no module"),
    ]:
        with pytest.raises(ScriptError, match=says):
            bench.run(target=target)
    with pytest.raises(ValueError, match="either a path or a module"):
        Target()
    if sys.platform != "win32" and os.geteuid() != 0:
        (bench.folder / "train.py").chmod(0)
        with pytest.raises(ScriptError, match="no permission"):
            bench.run(target=Target(path="train.py"))


def test_a_script_whose_name_begins_with_a_dash(bench: Bench) -> None:
    bench.write("import sys; print(sys.argv)", "-x.py")
    assert bench.run(target=Target(path="-x.py", arguments=("-v",))).out == b"['-x.py', '-v']\n"
