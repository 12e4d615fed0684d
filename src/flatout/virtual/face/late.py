"""Acting on modules that the script may import later, while the virtual GPU is in place."""

from __future__ import annotations

from flatout.steps.imports import watch_imports, when_imported
from flatout.virtual.face.patches import Patches

__all__ = ["install", "when_imported"]


def install(patches: Patches) -> None:
    """Watch imports."""
    patches.on_undo(watch_imports())
