"""Loop against plain DDP on two real processes with gloo: the same weights, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from parity_ranks import CASES

from several_processes import launch


@pytest.mark.integration
def test_two_processes_end_with_the_plain_weights() -> None:
    for ended in launch(Path(__file__).parent / "parity_ranks.py", 2, timeout_seconds=180):
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.splitlines() == [f"equal: {name}" for name in CASES]
