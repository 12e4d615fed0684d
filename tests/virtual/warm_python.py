"""A Python in which the virtual GPU is in place before a script begins: each script runs in a fork of one process.

    python warm_python.py serve SOCKET GPU          boots once, then forks for everyone who asks
    python warm_python.py run SOCKET SCRIPT ...     stands where ``python SCRIPT ...`` would

Loading PyTorch takes seconds, which a hundred scripts would pay a hundred times. Everything else is as it is in a
Python that `flatout predict` starts: the sitecustomize of flatout's own that is first on PYTHONPATH and all that it
does, a fresh ``__main__``, the ending with its exit handlers, the exit code.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import sys
from typing import Any

LIMIT_SECONDS = 100
Order = dict[str, Any]


def run(address: str, words: list[str]) -> None:
    """Have `words`, a script and its arguments, run with this process's streams, folder and environment. End as it."""
    order = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
    text = json.dumps(order).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [len(text).to_bytes(8, "big")], [0, 1, 2])
        server.sendall(text)
        code = int(server.recv(16))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def serve(address: str) -> Order:
    """Serve until standard input ends. Returns in the forks alone, with what each is to run."""
    import select

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            readable, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in readable:
                sys.exit()
            connection, _ = listener.accept()
            with connection:
                length, streams, _, _ = socket.recv_fds(connection, 8, 3)
                with connection.makefile("rb") as file:
                    text = file.read(int.from_bytes(length, "big"))
                child = os.fork()
                if child == 0:
                    signal.alarm(LIMIT_SECONDS)
                    for number, stream in enumerate(streams):
                        os.dup2(stream, number)
                        os.close(stream)
                    order: Order = json.loads(text)
                    return order
                for stream in streams:
                    os.close(stream)
                _, status = os.waitpid(child, 0)
                connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def load(gpu: str) -> None:
    """Do beforehand what takes long in `flatout.virtual.child.install`; there it is then found done."""
    import gc

    import torch._dynamo  # noqa: F401 - what PyTorch loads when it is first asked for an operation's shape

    import flatout.launch.child
    import flatout.steps
    import flatout.virtual.child
    import flatout.virtual.files.load
    import flatout.virtual.saving  # noqa: F401
    from flatout.gpu import GPU, find
    from flatout.recording import Writer
    from flatout.virtual import boot as booting

    specification = find(gpu)
    machine = booting.boot(specification)
    assert not machine.initialized  # else a fork of this process could not use its GPU

    def boot(
        wanted: GPU,
        *,
        writer: Writer | None = None,
        assume: dict[str, float] | None = None,
        usable_bytes: int,
        calibrated: bool,
    ) -> Any:
        assert (wanted, usable_bytes) == (specification, specification.usable_bytes), f"booted for a {gpu}"
        assert calibrated == (writer is not None)
        machine.writer, machine.assume = writer, assume or {}
        return machine

    booting.boot = boot  # type: ignore[assignment]
    gc.collect()
    gc.freeze()  # what is never looked at again is not copied into each fork


def leave_at_once() -> None:
    """The last exit handler of a script that failed: Python's own teardown would cost more than the script did."""
    if hasattr(sys, "last_value"):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def become(order: Order) -> dict[str, Any]:
    """Make of this process what ``python SCRIPT ...`` is when the script begins. Returns ``__main__``'s namespace."""
    import importlib
    from types import ModuleType

    words: list[str] = order["words"]
    own = {*os.environ.get("PYTHONPATH", "").split(os.pathsep), os.path.dirname(os.path.abspath(__file__))}
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    first = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [entry for entry in (*first, *(entry for entry in sys.path if entry not in own)) if entry]
    sys.argv[:] = words
    sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:  # as `site` does
        if error.name != "sitecustomize":
            raise
    sys.path.insert(0, os.path.dirname(os.path.realpath(words[0])))
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = words[0]
    return main.__dict__


if __name__ == "__main__":
    this = sys.modules["__main__"]  # kept: another takes its place
    if sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3:])
    atexit.register(leave_at_once)  # before anybody else's, so it is called after them
    load(sys.argv[3])
    todo = serve(sys.argv[2])
    namespace = become(todo)
    with open(todo["words"][0], "rb") as script:
        code = compile(script.read(), todo["words"][0], "exec", dont_inherit=True)
    exec(code, namespace)
