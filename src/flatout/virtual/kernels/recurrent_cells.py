"""One step of an LSTM or GRU at a time (``nn.LSTMCell``): two products and one fused kernel.

Sources: aten/src/ATen/native/RNN.cpp, native/cuda/RNN.cu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import composes, stands_in
from flatout.virtual.tensor import native_index

_aten: Any = torch.ops.aten


def _gates(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    product: torch.Tensor = _aten.matmul(input, weight.t())
    return product


@composes("lstm_cell")
def lstm_cell(
    op: Operator,
    input: torch.Tensor,
    hx: Sequence[torch.Tensor],
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> Any:
    igates, hgates = _gates(input, w_ih), _gates(hx[0], w_hh)
    return _aten._thnn_fused_lstm_cell(igates, hgates, hx[1], b_ih, b_hh)[:2]


@composes("gru_cell")
def gru_cell(
    op: Operator,
    input: torch.Tensor,
    hx: torch.Tensor,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> Any:
    igates, hgates = _gates(input, w_ih), _gates(hx, w_hh)
    return _aten._thnn_fused_gru_cell(igates, hgates, hx, b_ih, b_hh)[0]


@stands_in("_thnn_fused_gru_cell")
def fused_gru_cell(
    op: Operator,
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hx: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> Any:
    machines.current().operations += 1
    index = native_index(hx)
    return empty(hx.shape, hx.dtype, index), empty((hx.shape[0], hx.shape[1] * 5), hx.dtype, index)


@stands_in("_thnn_fused_gru_cell_backward")
def fused_gru_cell_backward(op: Operator, grad_hy: torch.Tensor, workspace: torch.Tensor, has_bias: bool) -> Any:
    machines.current().operations += 1
    index = native_index(grad_hy)
    rows, hidden = workspace.shape[0], workspace.shape[1] // 5
    inputs, hiddens = (empty((rows, hidden * 3), workspace.dtype, index) for _ in range(2))
    dhx = empty(grad_hy.shape, grad_hy.dtype, index)
    biases = [empty((hidden * 3,), workspace.dtype, index) for _ in range(2)] if has_bias else [None, None]
    return inputs, hiddens, dhx, *biases


@stands_in("_thnn_fused_lstm_cell_backward_impl")
def fused_lstm_cell_backward(
    op: Operator,
    grad_hy: torch.Tensor | None,
    grad_cy: torch.Tensor | None,
    cx: torch.Tensor,
    cy: torch.Tensor,
    workspace: torch.Tensor,
    has_bias: bool,
) -> Any:
    if grad_hy is None and grad_cy is None:
        return None, None, None
    machines.current().operations += 1
    index = native_index(workspace)
    gates = empty(workspace.shape, workspace.dtype, index)
    bias = empty((workspace.shape[1],), workspace.dtype, index) if has_bias else None
    return gates, empty(cx.shape, cx.dtype, index), bias
