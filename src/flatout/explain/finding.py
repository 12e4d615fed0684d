"""All rules over one tape."""

from __future__ import annotations

from flatout.explain.rules import RULES
from flatout.explain.subject import Subject
from flatout.findings import Finding
from flatout.gpu import GPU
from flatout.recording.tape import Tape
from flatout.timeline import Host


def findings(tape: Tape, gpu: GPU, host: Host) -> list[Finding]:
    """What would make a step shorter, the largest saving first. Savings of several findings need not add up."""
    subject = Subject(tape, gpu, host)
    if not subject.issued:
        return []  # no step of a GPU
    found = [finding for rule in RULES for finding in rule(subject)]
    return sorted(found, key=lambda one: -((one.saving and one.saving.seconds_per_step) or 0.0))
