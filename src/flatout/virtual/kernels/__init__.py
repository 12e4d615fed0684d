"""Stand-ins: operations that the virtual GPU answers itself, one family a file.

Importing a module here registers its stand-ins with `flatout.virtual.dispatch`; `load` imports them all.
"""

from __future__ import annotations

import importlib

FAMILIES = (
    "factories",
    "copies",
    "views",
    "cublas",
    "attention",
    "attention_kernels",
    "dropout",
    "softmax",
    "normalization",
    "convolution",
    "recurrent",
    "ctc",
    "temporaries",
)


def load() -> None:
    """Register every family of stand-ins."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
