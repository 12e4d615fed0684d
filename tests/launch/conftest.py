"""Fixtures for scripts that are run plainly and supervised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from launch_bench import Bench


@pytest.fixture
def bench(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, capfdbinary, monkeypatch)


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Wait until something is true, ten seconds at most."""
    import time

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "waited ten seconds in vain"
            time.sleep(0.02)

    return wait
