"""A supervised script cannot be told from one that Python runs alone: same bytes, same exit code.

FLATOUT_TEST_PYTHONS may name more interpreters, separated as PATH is; nothing has to be installed in them.
"""

from __future__ import annotations

import os
import sys

import pytest
from launch_bench import Bench

from flatout.launch import Target

PYTHONS = [sys.executable, *filter(None, os.environ.get("FLATOUT_TEST_PYTHONS", "").split(os.pathsep))]

SCRIPTS = {
    "surroundings": """
        import os, sys
        for name, value in list(globals().items()):
            print(name, value if name != "__builtins__" else type(value))
        print(sys.argv, sys.orig_argv, sys.path, sys.flags, os.getcwd())
        print(sys.modules["__main__"].__dict__ is globals(), "sitecustomize" in sys.modules)
        print(os.environ.get("PYTHONPATH"), [name for name in os.environ if "FLATOUT" in name])
        import traceback; traceback.print_stack()
        print(sys.getrecursionlimit(), len(__import__("inspect").stack()))
    """,
    "uncaught": """
        import json
        def load(text):
            try:
                return json.loads(text)
            except ValueError as error:
                raise RuntimeError("bad input: ä") from error
        print("before", flush=True)
        load("{")
    """,
    "context": """
        try:
            {}[1]
        finally:
            class Error(Exception):
                def __str__(self): raise TypeError
            raise Error
    """,
    "recursion": "def f(n): return f(n + 1)\nf(0)",
    "exit code": "import sys; print('x', end=''); sys.exit(3)",
    "exit text": "import sys; sys.exit('no data: ä')",
    "exit none": "raise SystemExit",
    "exit at once": "import os; print('lost'); os._exit(9)",
    "syntax error": "print('never')\nif True\n    pass\n",
    "bad indent": "def f():\nreturn 1\n",
    "syntax error in an import": "open('bad.py', 'w').write('x = = 1'); import bad",
    "keyboard interrupt": "def f(): raise KeyboardInterrupt\nf()",
    "at exit": """
        import atexit, threading, warnings
        atexit.register(lambda: print("goodbye"))
        atexit.register(lambda: 1 / 0)
        thread = threading.Thread(target=lambda: [][0], name="worker")
        thread.start(); thread.join()
        warnings.warn("careful")
        raise ValueError("the end")
    """,
    "own excepthook": "import sys; sys.excepthook = lambda *a: print('mine', a[0].__name__)\n1 / 0",
    "last words": "class A:\n    def __del__(self): print('deleted', __name__)\na = A()\nprint('end')",
    "main can be pickled": """
        import inspect, pickle
        class Net:
            '''A net.'''
        print(type(pickle.loads(pickle.dumps(Net()))), pickle.dumps(Net), inspect.getsource(Net))
    """,
}


def without_times(text: bytes) -> bytes:
    """The bytes, but for the addresses of objects and numbers of threads."""
    import re

    return re.sub(rb"0x[0-9a-f]+", b"0x", text)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script(bench: Bench, name: str, python: str) -> None:
    bench.write(SCRIPTS[name], "scripts/train.py")
    target = Target(path="scripts/train.py", arguments=("--lr", "0.1", "-m", "--hook", ""))
    plain = bench.plain(target, python)
    said = bench.run(target=target, python=python)
    assert without_times(said.out) == without_times(plain.stdout)
    assert without_times(said.err) == without_times(plain.stderr)
    assert (-said.exit.signal if said.exit.signal else said.exit.code) == plain.returncode


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", ["surroundings", "uncaught", "exit code", "syntax error", "keyboard interrupt"])
def test_a_module(bench: Bench, name: str, python: str) -> None:
    bench.write("", "package/__init__.py")
    bench.write(SCRIPTS[name], "package/train.py")
    target = Target(module="package.train", arguments=("-x",))
    plain = bench.plain(target, python)
    said = bench.run(target=target, python=python)
    assert without_times(said.out) == without_times(plain.stdout)
    assert without_times(said.err) == without_times(plain.stderr)
    assert (-said.exit.signal if said.exit.signal else said.exit.code) == plain.returncode


def test_a_folder_with_a_main(bench: Bench) -> None:
    bench.write(SCRIPTS["surroundings"], "package/__main__.py")
    target = Target(path="package")
    assert without_times(bench.run(target=target).out) == without_times(bench.plain(target).stdout)


@pytest.mark.parametrize("value", [None, "", "elsewhere"])
def test_python_path_is_put_back(bench: Bench, value: str | None) -> None:
    bench.write("import os, sys; print(os.environ.get('PYTHONPATH'), sys.path)")
    bench.environment.pop("PYTHONPATH")
    if value is not None:
        bench.environment["PYTHONPATH"] = value
    target = Target(path="script.py")
    assert bench.run(target=target, hook="collections:OrderedDict").out == bench.plain(target).stdout


def test_a_sitecustomize_of_the_users_own_still_runs(bench: Bench) -> None:
    bench.write("print('mine')\nvalue = 7", "site/sitecustomize.py")
    bench.environment["PYTHONPATH"] += os.pathsep + str(bench.folder / "site")
    said = bench.run("import sitecustomize; print(sitecustomize.value, sitecustomize.__file__)")
    assert said.out == bench.plain(Target(path="script.py")).stdout
    assert b"mine" in said.out
