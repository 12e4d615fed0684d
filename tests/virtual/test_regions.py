"""Which operations the tape puts into compiled regions, forward and backward."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flatout.recording.tape import Inside, Launch, Replay, Tape
from flatout.virtual import regions
from flatout.virtual.clock import Clock

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def clock(machine: Machine) -> Iterator[Clock]:
    made = machine.clock = Clock(machine)
    machine.phase = "forward"
    yield made
    made.stop()
    machine.clock = None


def told(clock: Clock, machine: Machine) -> Tape:
    machine.step = 3
    clock.step_completed()
    tape = clock.tape()
    assert tape is not None
    return tape


def backward(clock: Clock, machine: Machine, loss: torch.Tensor) -> None:
    for phase, run in (("backward", loss.backward), ("forward", int)):
        machine.phase = phase  # type: ignore[assignment]
        clock.phase_changed(phase)  # type: ignore[arg-type]
        run()


def names(tape: Tape, kind: type, *, back: bool | None = None) -> list[str]:
    return [
        tape.operations[event.operation].base.removeprefix("aten::")
        for event in tape.events
        if isinstance(event, kind) and (back is None or (tape.calls[event.call].backward_of is not None) == back)  # type: ignore[attr-defined]
    ]


def body() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16)).cuda()


def in_place(module: nn.Module) -> nn.Module:
    module.compile()
    return module


WAYS: list[Callable[[nn.Module], Any]] = [
    torch.compile,
    in_place,
    lambda module: torch.compile(module, mode="reduce-overhead", fullgraph=True, dynamic=False),
    lambda module: torch.compile(module, options={"triton.cudagraphs": True}),
    lambda module: torch.compile()(lambda x: module(x)),  # as a decorator
]


@pytest.mark.parametrize("way", WAYS)
def test_a_compiled_part_of_an_eager_model(way: Callable[[nn.Module], Any], clock: Clock, machine: Machine) -> None:
    part, head, x = way(body()), nn.Linear(16, 4).cuda(), torch.randn(8, 16, device="cuda")
    backward(clock, machine, F.cross_entropy(head(part(x)), torch.zeros(8, dtype=torch.long, device="cuda")))
    tape = told(clock, machine)
    inside = [name for name in names(tape, Inside, back=False) if name != "as_strided"]
    assert inside == ["addmm", "gelu", "native_layer_norm"]
    back = names(tape, Inside, back=True)
    assert [name for name in back if "backward" in name] == ["native_layer_norm_backward", "gelu_backward"]
    outside = names(tape, Launch)
    assert {"_log_softmax", "_log_softmax_backward_data", "nll_loss_forward"} <= set(outside)
    assert not {"gelu", "gelu_backward", "native_layer_norm"} & set(outside)


@pytest.mark.parametrize(("mode", "graph"), [(None, False), ("reduce-overhead", True), ("max-autotune", True),
                                             ("max-autotune-no-cudagraphs", False)])  # fmt: skip
def test_modes_with_cuda_graphs(mode: str | None, graph: bool, clock: Clock, machine: Machine) -> None:
    torch.compile(body(), mode=mode)(torch.randn(8, 16, device="cuda"))
    (call,) = told(clock, machine).calls
    assert (call.graph, call.fuses, call.input_bytes) == (graph, True, 8 * 16 * 4)


def test_a_compiled_loss(clock: Clock, machine: Machine) -> None:
    loss = torch.compile(F.mse_loss)
    x = torch.randn(8, 16, device="cuda", requires_grad=True)
    backward(clock, machine, loss(x * 2, torch.zeros(8, 16, device="cuda")))
    tape = told(clock, machine)
    assert names(tape, Inside, back=False) == ["mse_loss"]
    assert "mse_loss_backward" in names(tape, Inside, back=True)
    assert "mul" in names(tape, Launch)


def test_a_compiled_optimizer_step_keeps_its_parameters(clock: Clock, machine: Machine) -> None:
    weight = nn.Parameter(torch.randn(64, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1, foreach=False)
    weight.grad = torch.ones_like(weight)
    torch.compile(optimizer.step)()
    tape = told(clock, machine)
    (event,) = (event for event in tape.events if isinstance(event, Inside))
    assert names(tape, Inside) == ["add_"]
    assert event.inputs[0][0] in tape.kept


def test_gradients_and_results_are_kept_and_nothing_in_between(clock: Clock, machine: Machine) -> None:
    module = body()
    result = torch.compile(module)(torch.randn(8, 16, device="cuda"))
    backward(clock, machine, result.sum())
    tape = told(clock, machine)
    made = {
        (tape.operations[event.operation].base, at): number
        for event in tape.events
        if isinstance(event, Inside)
        for at, (number, _) in enumerate(event.outputs)
    }
    assert made["aten::native_layer_norm", 0] in tape.kept
    assert made["aten::native_layer_norm_backward", 1] in tape.kept
    assert made["aten::gelu_backward", 0] not in tape.kept
    assert made["aten::gelu", 0] not in tape.kept


def test_a_value_that_the_host_reads_breaks_the_graph(clock: Clock, machine: Machine) -> None:
    @torch.compile
    def clipped(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        return x / 2 if x.sum().item() > 0 else x * 3

    clipped(torch.randn(8, device="cuda"))
    assert len(told(clock, machine).calls) == 2


def test_what_the_compiler_is_told_to_leave_alone_runs_eagerly(clock: Clock, machine: Machine) -> None:
    @torch.compiler.disable
    def left(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    torch.compile(lambda x: left(x * 2) + 1)(torch.randn(8, device="cuda"))
    tape = told(clock, machine)
    assert names(tape, Launch)[1:] == ["exp"]  # the first one makes the argument
    assert names(tape, Inside) == ["mul", "add"]
    assert len({event.call for event in tape.events if isinstance(event, Inside)}) == 2


def test_backends_that_do_not_fuse_leave_everything_eager(clock: Clock, machine: Machine) -> None:
    torch.compile(body(), backend="eager")(torch.randn(8, 16, device="cuda"))
    tape = told(clock, machine)
    assert not tape.calls
    assert "gelu" in names(tape, Launch)


def test_forced_eager_is_eager(clock: Clock, machine: Machine) -> None:
    compiled = torch.compile(body())
    with torch.compiler.set_stance("force_eager"):
        compiled(torch.randn(8, 16, device="cuda"))
    assert not told(clock, machine).calls


def test_a_script_sees_that_it_is_compiled(clock: Clock, machine: Machine) -> None:
    seen: list[bool] = []

    @torch.compile
    def look(x: torch.Tensor) -> torch.Tensor:
        seen.extend((torch.compiler.is_compiling(), torch.compiler.is_dynamo_compiling()))
        return operator.add(x, 1)

    look(torch.randn(8, device="cuda"))
    assert seen == [True, True]
    assert not torch.compiler.is_compiling()
    assert not regions.inside()


def test_an_error_inside_leaves_the_region(clock: Clock, machine: Machine) -> None:
    @torch.compile
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails(torch.randn(8, device="cuda"))
    assert not regions.inside()


def test_eager_code_pays_nothing(clock: Clock, machine: Machine) -> None:
    backward(clock, machine, body()(torch.randn(8, 16, device="cuda")).sum())
    tape = told(clock, machine)
    assert not tape.calls
    assert not tape.kept
    assert not clock.regions._numbers


def test_a_captured_graph_runs_when_it_is_replayed(clock: Clock, machine: Machine) -> None:
    x = torch.randn(8, 16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2).relu()
    assert y.shape == (8, 16)
    before = len(clock._events)
    graph.replay()
    (event,) = clock._events[before:]
    assert isinstance(event, Replay)
    tape = told(clock, machine)
    assert [tape.operations[number].base for number in event.operations] == ["aten::mul", "aten::relu"]
    assert "relu" not in names(tape, Launch)


def test_graphed_callables_replay_forward_and_backward(clock: Clock, machine: Machine) -> None:
    x = torch.randn(8, 16, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(body(), (x,))
    clock._events.clear()
    backward(clock, machine, graphed(x).sum())
    replays = [event for event in clock._events if isinstance(event, Replay)]
    tape = told(clock, machine)
    first, second = ({tape.operations[number].base for number in event.operations} for event in replays)
    assert {"aten::addmm", "aten::gelu"} <= first
    assert {"aten::gelu_backward", "aten::mm"} <= second
