"""A tape played on one GPU until its steps repeat: how long a step is and what it goes to."""

from __future__ import annotations

import msgspec

from flatout.costs import Efficiency, cost, lower_bound_seconds
from flatout.gpu import GPU
from flatout.recording.tape import Launch, Tape, Transfer, operations_of
from flatout.timeline.bounds import bound_by
from flatout.timeline.compiled import compiled
from flatout.timeline.host import Host
from flatout.timeline.player import Player, Prices
from flatout.timeline.span import Bound, Span

_MOST_ROUNDS = 24
_SETTLED = 0.002


class Timeline(msgspec.Struct, frozen=True):
    """One step, all figures in seconds and for one step.

    Attributes:
        step_seconds: from one step's end to the next, once the steps repeat.
        kernels_seconds: time that kernels take, streams added up.
        host_seconds: time that the host is busy (waiting for the GPU is none of it).
        lower_bound_seconds: the speed of light of the same kernels, one after another.
        bound_by: what the step goes to; adds up to `step_seconds`.
        flops: operations of products and convolutions, and of everything else that is counted.
        unknown: operators without a formula, costed by their bytes, with the seconds that were taken for them.
        steps: how many steps the last round holds; `host` and `gpu` are what either did in it.
    """

    step_seconds: float
    kernels_seconds: float
    host_seconds: float
    lower_bound_seconds: float
    bound_by: dict[Bound, float]
    flops: float
    unknown: dict[str, float]
    steps: int = 1
    host: tuple[Span, ...] = ()
    gpu: tuple[Span, ...] = ()


def play(tape: Tape, gpu: GPU, host: Host, efficiency: Efficiency | None = None, slower: float = 1.0) -> Timeline:
    """Repeat the tape on that GPU until a round takes as long as the one before.

    Compiled regions are played as their compiler would launch them. `slower`: kernels take so many times as long as
    they are taken to.
    """
    tape = compiled(tape)
    player = Player(tape, host, Prices(gpu, efficiency, slower))
    passes = _passes(tape)
    period, end = _settled(player, passes)
    steps = passes * tape.steps
    priced = [(span, _parts(player, span)) for span in player.gpu_spans]
    bounds = bound_by(end - period, end, priced, player.host_spans)
    launches = [number for event in tape.events for number in operations_of(event)]
    measured = {event.operation for event in tape.events if isinstance(event, Launch) and event.gpu_seconds is not None}
    costs = [cost(operation) for operation in tape.operations]
    lower = [lower_bound_seconds(one, gpu) for one in costs]
    unknown: dict[str, float] = {}
    for number in launches:
        if not costs[number].known and number not in measured:
            name = tape.operations[number].base
            unknown[name] = unknown.get(name, 0.0) + player.prices[number].seconds / tape.steps
    busy = sum(span.end - span.start for span in player.host_spans if span.bound != "wait")
    return Timeline(
        step_seconds=period / steps,
        kernels_seconds=sum(price.seconds for event in tape.events for price in player.of(event)) / tape.steps,
        host_seconds=busy / steps,
        lower_bound_seconds=sum(lower[number] for number in launches) / tape.steps,
        bound_by={bound: seconds / steps for bound, seconds in bounds.items()},
        flops=sum(costs[number].flops for number in launches) / tape.steps,
        unknown=unknown,
        steps=steps,
        host=tuple(player.host_spans),
        gpu=tuple(player.gpu_spans),
    )


def step_seconds(tape: Tape, host: Host, prices: Prices) -> float:
    """`Timeline.step_seconds` and nothing else, in half the time: for who plays many tapes that are nearly the same."""
    tape = compiled(tape)
    passes = _passes(tape)
    return _settled(Player(tape, host, prices), passes)[0] / (passes * tape.steps)


def _passes(tape: Tape) -> int:
    """How often the tape is played in a round: steps that wait for workers come in bursts, as many as there are."""
    return max([1, *(loader.workers for loader in tape.loaders)])


def _settled(player: Player, passes: int) -> tuple[float, float]:
    """Play until a round takes as long as the one before. Returns how long that is, and when the last one ended."""
    before = player.play(passes)
    period = before
    for _ in range(_MOST_ROUNDS):
        start = before
        before = player.play(passes)
        settled = abs(before - start - period) <= _SETTLED * period
        period = before - start
        if settled:
            break
    return period, before


def _parts(player: Player, span: Span) -> dict[Bound, float]:
    event = player.tape.events[span.event]
    if isinstance(event, Transfer):
        return {"transfer": span.end - span.start}
    prices = player.of(event)
    return {
        "compute": sum(price.compute for price in prices),
        "memory": sum(price.memory for price in prices),
        "launch": sum(price.launch for price in prices),
    }
