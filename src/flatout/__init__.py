"""flatout: know before you rent the GPU, see while it runs, prove what you changed.

Importing this package does not import torch; asking it for `Loop` does.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["FlatoutError", "Loop", "__version__"]

from flatout.errors import FlatoutError

if TYPE_CHECKING:
    from flatout.loop import Loop

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Loop":
        from flatout.loop import Loop

        return Loop
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
