"""Operations of a tape put into a compiled region: the tape as if the script had compiled that much of itself.

What flows between operations is not on the tape, except in regions. A rule that knows what it has found (a loss, a
norm) knows how its tensors hang together, and names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from flatout.recording.tape import Call, Inside, Launch, Piece, Tape


class Part(NamedTuple):
    """One operation: the position of its event, and names of what it reads and makes.

    In the order of `Operation.inputs` and `Operation.outputs`; names are the region's own.
    """

    position: int
    reads: tuple[str, ...]
    makes: tuple[str, ...] = ()


class Region(NamedTuple):
    """What would be compiled: the parts forward and backward, and what is used outside of it, by name."""

    forward: tuple[Part, ...]
    backward: tuple[Part, ...]
    kept: tuple[str, ...]


def with_regions(tape: Tape, regions: Iterable[Region]) -> Tape:
    """The tape with these regions compiled. Each part must be a launch of the tape."""
    events = list(tape.events)
    calls = list(tape.calls)
    kept = list(tape.kept)
    fresh = 1 + _highest_storage(tape)
    for region in regions:
        number = {name: fresh + place for place, name in enumerate(_names(region))}
        fresh += len(number)
        kept += [number[name] for name in region.kept]
        forward = len(calls)
        calls.append(Call(forward, differentiable=True))
        calls.append(Call(forward, backward_of=forward, differentiable=True))
        for call, parts in ((forward, region.forward), (forward + 1, region.backward)):
            for part in parts:
                event = events[part.position]
                assert isinstance(event, Launch)
                events[part.position] = Inside(
                    event.operation, event.stream, call, _pieces(part.reads, number), _pieces(part.makes, number)
                )
    return msgspec.structs.replace(tape, events=tuple(events), calls=tuple(calls), kept=tuple(kept))


def _pieces(names: Sequence[str], number: dict[str, int]) -> tuple[Piece, ...]:
    return tuple((number[name], 0) for name in names)


def _names(region: Region) -> list[str]:
    found: dict[str, None] = {}
    for part in (*region.forward, *region.backward):
        found.update(dict.fromkeys((*part.reads, *part.makes)))
    return list(found)


def _highest_storage(tape: Tape) -> int:
    pieces = [
        storage for event in tape.events if isinstance(event, Inside) for storage, _ in (*event.inputs, *event.outputs)
    ]
    return max((*pieces, *tape.kept), default=0)
