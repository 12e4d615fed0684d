from __future__ import annotations

from toy_project import project, toy_rules

__all__ = ["project", "toy_rules"]
