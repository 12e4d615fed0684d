"""What flatout has to say: a finding, its place, its cost and what to do about it."""

from __future__ import annotations

from flatout.findings.finding import Finding, Remedy, Saving, Severity

__all__ = ["Finding", "Remedy", "Saving", "Severity"]
