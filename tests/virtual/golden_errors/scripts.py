"""A row of the golden table as a script that somebody might have."""

from __future__ import annotations

import ast

from golden_errors.rows import Row

HELPERS = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel


def gpu(*size):
    return torch.randn(size, device="cuda")


def half(*size):
    return gpu(*size).half()


def cpu(*size):
    return torch.randn(size)


class deterministic:
    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        torch.use_deterministic_algorithms(True, **self.options)

    def __exit__(self, *error):
        torch.use_deterministic_algorithms(False)


def attention(backend):
    return sdpa_kernel([getattr(SDPBackend, backend)])


def eight_bit():
    small = gpu(16, 16).to(torch.float8_e4m3fn)
    return small, small.t(), torch.ones((), device="cuda"), torch.ones((), device="cuda")
"""
"""What the code of a row may use."""


def script_of(row: Row) -> tuple[str, int]:
    """The text of the script, and the number of the line that holds the mistake: the last of the row's own."""
    text = f"{HELPERS}\n\n{ast.unparse(ast.parse(row.code))}\n"
    line = len(text.splitlines())
    return f'{text}print("the mistake went unnoticed")\n', line
