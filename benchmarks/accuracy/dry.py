"""Runs jobs on the virtual GPU through a worker, and keeps the outcomes, so that a rerun does only what changed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GPUS_FILE = HERE / "gpus.toml"
SCRIPTS = HERE / "scripts"
KEPT = Path(os.environ.get("FLATOUT_ACCURACY_CACHE", ROOT / "build" / "accuracy"))
ORACLES = Path(os.environ.get("FLATOUT_ORACLES", ROOT / "../shared/oracles"))


def _digest(paths: Sequence[Path], *more: str) -> str:
    hasher = hashlib.sha256()
    for path in paths:
        hasher.update(path.read_bytes())
    for text in more:
        hasher.update(text.encode())
    return hasher.hexdigest()[:16]


class Runner:
    """Runs scripts for one set. `modules` are imported once before them; `environment` is added to this process's.

    Outcomes are kept under `KEPT`, by a digest of flatout's own source, the script, its arguments and its environment.
    """

    def __init__(
        self, name: str, modules: Sequence[str], environment: Mapping[str, str] | None = None, path: Sequence[Path] = ()
    ) -> None:
        self._modules = list(modules)
        self._environment = dict(environment or {})
        self._path = [str(p) for p in path]
        self._worker: subprocess.Popen[str] | None = None
        KEPT.mkdir(parents=True, exist_ok=True)
        self._file = KEPT / f"{name}.jsonl"
        self._known: dict[str, dict[str, Any]] = {}
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                entry = json.loads(line)
                self._known[entry["key"]] = entry["outcome"]
        source = sorted((ROOT / "src/flatout/virtual").rglob("*.py")) + [GPUS_FILE, HERE / "worker.py"]
        self._source = _digest(source)

    def run(
        self, script: str, arguments: Sequence[str], gpu: str, capacity_bytes: int | None = None
    ) -> dict[str, Any]:
        """The outcome of one run (see `worker.run`), from the store if nothing changed since."""
        job = {
            "script": str(SCRIPTS / script if "/" not in script else script),
            "arguments": list(arguments),
            "gpu": gpu,
            "gpus_file": str(GPUS_FILE),
            "capacity_bytes": capacity_bytes,
        }
        key = _digest(
            [Path(job["script"])], self._source, json.dumps(job["arguments"]), gpu, str(capacity_bytes),
            json.dumps(sorted(self._environment.items())), str([Path(p).name for p in self._path]), sys.prefix,
        )  # fmt: skip
        if key not in self._known:
            outcome = self._ask(job)
            self._known[key] = outcome
            with self._file.open("a") as file:
                file.write(json.dumps({"key": key, "job": job["arguments"], "outcome": outcome}) + "\n")
        return self._known[key]

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            assert self._worker.stdin is not None
            self._worker.stdin.close()
            self._worker.wait()
            self._worker = None

    def _ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        if self._worker is None:
            path = [str(ROOT / "src"), *self._path, os.environ.get("PYTHONPATH", "")]
            self._worker = subprocess.Popen(
                [sys.executable, str(HERE / "worker.py"), *self._modules],
                env={**os.environ, **self._environment, "PYTHONPATH": os.pathsep.join(p for p in path if p)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(KEPT / "output.txt").open("w"),
                text=True,
            )
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(job) + "\n")
        self._worker.stdin.flush()
        line = self._worker.stdout.readline()
        if not line:
            raise SystemExit(f"the worker ended; its last words are in {KEPT / 'output.txt'}")
        return json.loads(line)  # type: ignore[no-any-return]
