"""Small tapes, and the GPU and host that they are played on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flatout.explain import Subject
from flatout.gpu import find
from flatout.recording.operation import Operation, tensor
from flatout.recording.schema import Place
from flatout.recording.tape import Event, Loader, Tape
from flatout.timeline import Host

PRODUCT = Operation("aten::mm", (tensor((4096, 4096)), tensor((4096, 4096))), outputs=(tensor((4096, 4096)),))
HALF = Operation(
    "aten::mm",
    (tensor((4096, 4096), "float16"), tensor((4096, 4096), "float16")),
    outputs=(tensor((4096, 4096), "float16"),),
)
SMALL = Operation("aten::relu", (tensor((16,)),), outputs=(tensor((16,)),))
PLACES = tuple(Place("train.py", line) for line in range(1, 9))

Make = Callable[..., Subject]


@pytest.fixture
def subject() -> Make:
    """`subject(*events, loaders=(), operations=..., gpu="v100")`: operation 0 takes the GPU 10 ms, operation 1 none.

    Operation 2 is as operation 0, on tensor cores.
    """

    def make(
        *events: Event,
        loaders: tuple[Loader, ...] = (),
        operations: tuple[Operation, ...] = (PRODUCT, SMALL, HALF),
        gpu: str = "v100",
        host: Host | None = None,
    ) -> Subject:
        tape = Tape(events, operations=operations, lines=(0,) * len(operations), places=PLACES, loaders=loaders)
        return Subject(tape, find(gpu), host or Host(cores=4))

    return make
