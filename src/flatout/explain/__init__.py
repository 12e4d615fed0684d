"""What slows a recorded step down, what each cause costs by replay, and what to do. Which maker recorded it is unknown.

findings(tape, gpu, host) -> list[Finding]     the largest saving first; empty where nothing is worth a word
"""

from flatout.explain.finding import findings
from flatout.explain.subject import Subject

__all__ = ["Subject", "findings"]
