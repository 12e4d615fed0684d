"""What a compiler would launch in place of the operations of compiled regions. No torch, and no GPU is asked for."""

from flatout.timeline.compiled.applying import compiled

__all__ = ["compiled"]
