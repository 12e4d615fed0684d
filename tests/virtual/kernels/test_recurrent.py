from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from metering import Meter
from torch import nn

from flatout.virtual.kernels import workspaces
from flatout.virtual.kernels.recurrent import buffer_offsets

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

MODES = {nn.LSTM: "lstm", nn.GRU: "gru", nn.RNN: "tanh"}


def test_flattened_weights_are_views_of_one_buffer(machine: Machine) -> None:
    net = nn.LSTM(16, 32, 2, bidirectional=True).cuda()
    storages = {p.untyped_storage()._cdata for p in net.parameters()}
    assert len(storages) == 1
    count = sum(p.numel() for p in net.parameters())
    assert next(net.parameters()).untyped_storage().nbytes() == 4 * count


def test_matrices_come_before_biases() -> None:
    params = [torch.empty(8, 4), torch.empty(8, 2), torch.empty(8), torch.empty(8)]
    assert buffer_offsets(params) == [0, 32, 48, 56]


@pytest.mark.parametrize("kind", list(MODES))
def test_forward_keeps_output_states_and_reserve(machine: Machine, meter: Meter, kind: type[nn.RNNBase]) -> None:
    steps, batch, hidden, layers = 64, 128, 256, 2
    net = kind(512, hidden, layers).cuda()
    x = torch.randn(steps, batch, 512, device="cuda", requires_grad=True)
    states = torch.zeros(layers, batch, hidden, device="cuda")
    given = (states, states) if kind is nn.LSTM else states
    y, _ = meter(lambda: net(x, given))
    assert y.shape == (steps, batch, hidden)
    assert type(y.grad_fn).__name__ == "CudnnRnnBackward0"
    reserve = workspaces.recurrent_reserve(MODES[kind], steps * batch, hidden, layers, 1, 4)
    state = 4 * layers * batch * hidden
    assert meter.kept_bytes == 4 * y.numel() + reserve + state * (2 if kind is nn.LSTM else 1)
    y.sum().backward()
    grads = {p.grad.untyped_storage()._cdata for p in net.parameters() if p.grad is not None}
    assert len(grads) == 1


def test_published_reserves() -> None:
    # pytorch issue 2895: 4 layers of 320.
    assert workspaces.recurrent_reserve("lstm", 25_000, 320, 4, 1, 4) == 736_000_000
    assert workspaces.recurrent_reserve("gru", 25_000, 320, 4, 1, 4) == 864_000_000


@pytest.mark.parametrize("kind", list(MODES))
def test_packed_sequences(machine: Machine, kind: type[nn.RNNBase]) -> None:
    net = kind(16, 32, 2, dropout=0.1, bidirectional=True).cuda()
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 16, device="cuda"), torch.tensor([3, 2]))
    out, _ = net(packed)
    assert out.data.shape == (5, 64)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(out)
    assert padded.shape == (3, 2, 64)
    assert lengths.tolist() == [3, 2]
    padded.sum().backward()


def test_projection_and_batch_first(machine: Machine) -> None:
    net = nn.LSTM(16, 32, 2, proj_size=8, batch_first=True).cuda()
    out, (h, c) = net(torch.randn(3, 5, 16, device="cuda"))
    assert out.shape == (3, 5, 8)
    assert h.shape == (2, 3, 8)
    assert c.shape == (2, 3, 32)
    out.sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in net.parameters())


def test_weights_that_are_not_flat_are_copied(machine: Machine, meter: Meter) -> None:
    net = nn.GRU(64, 64).cuda()
    x = torch.randn(4, 2, 64, device="cuda")
    net(x)
    flat = meter(lambda: net(x)[0])
    kept = meter.kept_bytes
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.set_(parameter.clone())
    del flat
    loose = meter(lambda: net(x)[0])
    count = sum(p.numel() for p in net.parameters())
    assert meter.kept_bytes - kept == 4 * count
    assert loose.shape == (4, 2, 64)


def test_autocast_runs_in_half(machine: Machine) -> None:
    net = nn.LSTM(16, 32).cuda()
    with torch.autocast("cuda", dtype=torch.float16):
        out, _ = net(torch.randn(3, 2, 16, device="cuda"))
    assert out.dtype is torch.float16
    out.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype is torch.float32 for p in net.parameters())


def test_cells_are_fused(machine: Machine) -> None:
    x = torch.randn(2, 16, device="cuda", requires_grad=True)
    h, c = nn.LSTMCell(16, 32).cuda()(x)
    assert type(h.grad_fn).__name__ == "ThnnFusedLstmCellBackward0"
    (h.sum() + c.sum()).backward()
    g = nn.GRUCell(16, 32).cuda()(x)
    assert type(g.grad_fn).__name__ == "ThnnFusedGruCellBackward0"
    g.sum().backward()


def test_without_cudnn_it_goes_step_by_step(machine: Machine) -> None:
    net = nn.LSTM(16, 32).cuda()
    with torch.backends.cudnn.flags(enabled=False):
        out, _ = net(torch.randn(3, 2, 16, device="cuda"))
    assert out.shape == (3, 2, 32)
    assert "Cudnn" not in type(out.grad_fn).__name__
