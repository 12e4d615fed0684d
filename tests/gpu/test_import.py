"""The table answers where torch is broken or absent."""

from __future__ import annotations

import subprocess
import sys


def test_torch_is_not_imported() -> None:
    program = "import sys; from flatout.gpu import find; find('h100'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
