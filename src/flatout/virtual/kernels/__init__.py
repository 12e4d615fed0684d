"""Stand-ins: operations that the virtual GPU answers itself, one family a file.

Importing a module here registers its stand-ins in `flatout.virtual.stand_ins`; `load` imports them all.
"""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Register every family of stand-ins in this folder."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        importlib.import_module(f"{__name__}.{module.name}")
