"""Other processes of a script: the hook goes along into multiprocessing's, and leaves the rest alone."""

from __future__ import annotations

import os
import sys

import pytest
from launch_bench import Bench

SPAWNING = """
    import multiprocessing, sys
    class Net: pass
    def work(net, queue):
        queue.put((launched_as, type(net).__module__, multiprocessing.get_start_method()))
    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[1])
        queue = context.Queue()
        process = context.Process(target=work, args=(Net(), queue))
        process.start()
        print(queue.get()[:2])
        process.join()
        print(process.exitcode, launched_as)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_fresh_processes_get_the_hook(bench: Bench, method: str) -> None:
    if method == "forkserver" and sys.platform == "win32":
        pytest.skip("no forkserver on Windows")
    said = bench.run(SPAWNING, method)
    assert said.err == b""
    assert said.out == b"('worker', '__mp_main__')\n0 script\n"
    assert bench.notes() == [["hook", "script"], ["hook", "worker"], ["finished", "NoneType"]]


def test_fresh_processes_of_fresh_processes(bench: Bench) -> None:
    code = """
        import multiprocessing
        def inner(): print(launched_as, "inner", flush=True)
        def outer():
            process = multiprocessing.get_context("spawn").Process(target=inner)
            process.start(); process.join()
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=outer)
            process.start(); process.join()
    """
    assert bench.run(code).out == b"worker inner\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forked_processes_are_told_to_the_watcher(bench: Bench) -> None:
    said = bench.run(SPAWNING, "fork")
    assert said.err == b""
    assert said.out == b"('script', '__main__')\n0 script\n"
    assert bench.notes() == [["hook", "script"], ["forked", ""], ["finished", "NoneType"]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_that_exits_or_fails_tells_nothing(bench: Bench) -> None:
    code = """
        import os, sys
        for _ in range(2):
            if os.fork() == 0:
                if _: sys.exit(5)
                raise ValueError("a child's own")
            os.wait()
        sys.exit(6)
    """
    said = bench.run(code)
    assert (said.exit.code, said.exit.failure) == (6, None)
    assert bench.notes().count(["finished", "NoneType"]) == 1


def test_subprocesses_are_left_alone(bench: Bench) -> None:
    bench.write("print('launched_as' in dir(__builtins__))", "other.py")
    said = bench.run("import subprocess, sys; subprocess.run([sys.executable, 'other.py'], check=True)")
    assert said.out == b"False\n"
    assert bench.notes() == [["hook", "script"], ["finished", "NoneType"]]


def test_a_stop_in_a_worker_ends_it_quietly(bench: Bench) -> None:
    code = """
        import multiprocessing
        def work():
            while True: step()
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=work)
            process.start(); process.join(); print(process.exitcode)
    """
    said = bench.run(code)
    assert (said.out, said.err) == (b"0\n", b"")
    assert not said.exit.stopped


def test_a_pool_shuts_down_on_a_stop(bench: Bench) -> None:
    code = """
        import concurrent.futures, multiprocessing
        def square(x): return x * x
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
                print(list(pool.map(square, range(3))), flush=True)
                step(), step()
    """
    said = bench.run(code)
    assert (said.out, said.err, said.exit.stopped) == (b"[0, 1, 4]\n", b"", True)


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows exec starts another process and ends this one")
@pytest.mark.parametrize(
    "call",
    [
        "os.execv(sys.executable, arguments)",
        "os.execvp('python3', arguments)",
        "os.execve(sys.executable, arguments, dict(os.environ, A='1'))",
        "os.execl(sys.executable, *arguments)",
    ],
)
def test_a_script_that_replaces_itself_is_followed(bench: Bench, call: str) -> None:
    bench.environment["PATH"] = f"{os.path.dirname(sys.executable)}{os.pathsep}{bench.environment['PATH']}"
    code = f"""
        import os, sys
        print(launched_as, sys.argv, os.environ["PYTHONPATH"] == {bench.environment["PYTHONPATH"]!r}, flush=True)
        if "again" not in sys.argv:
            arguments = [sys.executable, *sys.argv, "again"]
            {call}
        step(), step()
    """
    said = bench.run(code)
    assert said.err == b""
    assert said.out == b"script ['script.py'] True\nscript ['script.py', 'again'] True\n"
    assert said.exit.stopped


@pytest.mark.skipif(sys.platform == "win32", reason="no echo")
def test_a_script_that_becomes_another_program(bench: Bench) -> None:
    said = bench.run("import os; os.execvp('echo', ['echo', 'hello'])")
    assert (said.out, said.exit.code) == (b"hello\n", 0)
