"""LSTM, GRU and plain recurrent nets through cuDNN, and the fused cells.

Sources: aten/src/ATen/native/RNN.cpp, native/cudnn/RNN.cpp, native/cuda/RNN.cu. All weights lie in one buffer, the
matrices of all layers before all biases; what was not flattened is copied into a new buffer at each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import alias, empty, taken_apart
from flatout.virtual.kernels import workspaces
from flatout.virtual.kernels.target import Temporaries, multiprocessors, scratch
from flatout.virtual.operators import Operator
from flatout.virtual.registry import composes, stands_in
from flatout.virtual.tensor import contiguous_stride, native_index

_aten: Any = torch.ops.aten
RELU, TANH, LSTM, GRU = 0, 1, 2, 3
"""cuDNN's numbers of the kinds of net (``cudnnRNNMode_t``)."""
NAMES = {RELU: "relu", TANH: "tanh", LSTM: "lstm", GRU: "gru"}
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def acceptable(tensor: torch.Tensor) -> bool:
    """Whether cuDNN takes this input (``cudnn_is_acceptable``)."""
    return bool(torch.backends.cudnn.enabled) and tensor.dtype in _DTYPES and tensor.numel() > 0


def _flattened(params: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The buffer that all weights are views of, or None."""
    first = params[0].untyped_storage()
    count = sum(param.numel() for param in params)
    if first.nbytes() < count * params[0].element_size() or len(params) < 2:
        return None
    if any(param.untyped_storage()._cdata != first._cdata for param in params[1:]):
        return None
    return alias(params[0].detach(), (count,), (1,), 0)


def _dropout_state(index: int, dropout: float, train: bool) -> Any:
    """The random states of cuDNN's dropout: made once for each GPU, and kept."""
    if not (train and dropout > 0 and index):
        return None
    machine = machines.current()
    key = (index, machine.thread.stream, False, "cudnn_dropout")
    if key not in machine.workspaces:
        nbytes = multiprocessors(index) * workspaces.DROPOUT_STATE_BYTES_PER_MULTIPROCESSOR
        machine.workspaces[key] = empty((nbytes,), torch.uint8, index)
    return machine.workspaces[key]


def _run(
    mode: int,
    input: torch.Tensor,
    hx: torch.Tensor,
    cx: torch.Tensor | None,
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    batch_sizes: Sequence[int] = (),
) -> Any:
    if torch.is_autocast_enabled("cuda") and input.dtype in (torch.float32, torch.float16, torch.bfloat16):
        dtype = torch.get_autocast_dtype("cuda")
        input, hx = input.to(dtype), hx.to(dtype)
        cx = None if cx is None else cx.to(dtype)
        params = [param.to(dtype) for param in params]
    hidden = (cx if cx is not None else hx).shape[2]
    projection = hx.shape[2] if cx is not None and hx.shape[2] != hidden else 0
    stride = (4 if has_biases else 2) + (1 if projection else 0)
    return _aten._cudnn_rnn(
        input, list(params), stride, _flattened(params), hx, cx, mode, hidden, projection, num_layers, batch_first,
        dropout, train, bidirectional, list(batch_sizes), _dropout_state(native_index(input), dropout, train),
    )  # fmt: skip


@composes("lstm.input")
def lstm(
    op: Operator,
    input: torch.Tensor,
    hx: Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    if len(hx) != 2 or not acceptable(input):
        return taken_apart(op, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    return _run(
        LSTM, input, hx[0], hx[1], params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )[:3]  # fmt: skip


@composes("lstm.data")
def lstm_packed(
    op: Operator,
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    hx: Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> Any:
    if not acceptable(data):
        return taken_apart(op, data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)
    rest = (has_biases, num_layers, dropout, train, bidirectional, False, batch_sizes.tolist())
    return _run(LSTM, data, hx[0], hx[1], params, *rest)[:3]


def _one_state(packet: str, mode: int) -> None:
    """The nets with one state: GRU, tanh and ReLU."""

    @composes(f"{packet}.input")
    def plain(
        op: Operator,
        input: torch.Tensor,
        hx: torch.Tensor,
        params: Sequence[torch.Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        rest = (has_biases, num_layers, dropout, train, bidirectional, batch_first)
        if not acceptable(input):
            return taken_apart(op, input, hx, params, *rest)
        return _run(mode, input, hx, None, params, *rest)[:2]

    @composes(f"{packet}.data")
    def packed(
        op: Operator,
        data: torch.Tensor,
        batch_sizes: torch.Tensor,
        hx: torch.Tensor,
        params: Sequence[torch.Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> Any:
        rest = (has_biases, num_layers, dropout, train, bidirectional)
        if not acceptable(data):
            return taken_apart(op, data, batch_sizes, hx, params, *rest)
        return _run(mode, data, hx, None, params, *rest, False, batch_sizes.tolist())[:2]


_one_state("gru", GRU)
_one_state("rnn_tanh", TANH)
_one_state("rnn_relu", RELU)


@stands_in("_cudnn_rnn")
def cudnn_rnn(
    op: Operator,
    input: torch.Tensor,
    weight: Sequence[torch.Tensor],
    weight_stride0: int,
    weight_buf: torch.Tensor | None,
    hx: torch.Tensor,
    cx: torch.Tensor | None,
    mode: int,
    hidden_size: int,
    proj_size: int,
    num_layers: int,
    batch_first: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_sizes: Sequence[int],
    dropout_state: torch.Tensor | None,
) -> Any:
    machine = machines.current()
    machine.operations += 1
    machine.count("recurrent_kernels", NAMES[mode])
    machine.count("recurrent_dtypes", str(input.dtype)[6:])
    index = native_index(input)
    directions = 2 if bidirectional else 1
    features = (proj_size or hidden_size) * directions
    count = sum(param.numel() for param in weight)
    with Temporaries(index) as temporaries:
        if weight_buf is None or not weight_buf.numel():
            weight_buf = empty((count,), weight[0].dtype, index)
        ordered = input.transpose(0, 1) if batch_first and not batch_sizes else input
        if not ordered.is_contiguous():
            temporaries.take(ordered.numel() * ordered.element_size())
        size: Sequence[int] = (*ordered.shape[:-1], features)
        output = empty(size, input.dtype, index)
        hy = empty(hx.shape, hx.dtype, index)
        cy = empty((0,) if cx is None else cx.shape, hx.dtype, index)
        rows = ordered.numel() // max(ordered.shape[-1], 1)
        name = NAMES[mode]
        batch = batch_sizes[0] if batch_sizes else ordered.shape[1]
        space = workspaces.recurrent(name, count, batch, hidden_size, num_layers, directions, input.element_size())
        kept = 0
        if train:
            kept = workspaces.recurrent_reserve(name, rows, hidden_size, num_layers, directions, input.element_size())
        scratch(index, space.point_bytes, space.upper_bytes)
        reserve = empty((kept,), torch.uint8, index)
    if batch_first and not batch_sizes:
        output = output.transpose(0, 1)
    return output, hy, cy, reserve, weight_buf


@stands_in("_cudnn_rnn_backward")
def cudnn_rnn_backward(
    op: Operator,
    input: torch.Tensor,
    weight: Sequence[torch.Tensor],
    weight_stride0: int,
    weight_buf: torch.Tensor,
    hx: torch.Tensor,
    cx: torch.Tensor | None,
    output: torch.Tensor,
    grad_output: torch.Tensor | None,
    grad_hy: torch.Tensor | None,
    grad_cy: torch.Tensor | None,
    mode: int,
    hidden_size: int,
    proj_size: int,
    num_layers: int,
    batch_first: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_sizes: Sequence[int],
    dropout_state: torch.Tensor | None,
    reserve: torch.Tensor,
    output_mask: Sequence[bool],
) -> Any:
    if not train:
        raise RuntimeError("cudnn RNN backward can only be called in training mode")
    machines.current().operations += 1
    index = native_index(input)
    directions = 2 if bidirectional else 1
    turned = batch_first and not batch_sizes
    with Temporaries(index) as temporaries:
        # What the script did not use of the results counts as zeros of their shape.
        for grad, of in ((grad_output, output), (grad_hy, hx), (grad_cy, cx)):
            if of is None:
                continue
            shown = of.transpose(0, 1) if turned and of is output else of
            given = None if grad is None else grad.transpose(0, 1) if turned and of is output else grad
            if given is None or not given.is_contiguous():
                temporaries.take(shown.numel() * shown.element_size())
        ordered = input.transpose(0, 1) if turned else input
        for tensor in (ordered, output.transpose(0, 1) if turned else output):
            if not tensor.is_contiguous():
                temporaries.take(tensor.numel() * tensor.element_size())
        dx = empty(ordered.shape, input.dtype, index)
        dhx = empty(hx.shape, hx.dtype, index)
        dcx = None if cx is None else empty(cx.shape, cx.dtype, index)
        count = sum(param.numel() for param in weight)
        batch = batch_sizes[0] if batch_sizes else ordered.shape[1]
        space = workspaces.recurrent(
            NAMES[mode], count, batch, hidden_size, num_layers, directions, input.element_size()
        )
        scratch(index, space.point_bytes, space.upper_bytes)
        grads: list[torch.Tensor] = []
        if output_mask[3]:
            buffer = empty((count,), weight[0].dtype, index)
            grads = [
                alias(buffer, param.shape, contiguous_stride(param.shape), offset)
                for param, offset in zip(weight, buffer_offsets(weight))
            ]
            scratch(index, space.point_bytes, space.upper_bytes)
    return (
        (dx.transpose(0, 1) if turned else dx) if output_mask[0] else None,
        dhx if output_mask[1] else None,
        dcx if output_mask[2] else None,
        grads,
    )


def buffer_offsets(params: Sequence[torch.Tensor]) -> list[int]:
    """Where each weight starts in the buffer, in elements: the matrices in order, then the biases."""
    offsets = [0] * len(params)
    place = 0
    for wanted in (True, False):
        for number, param in enumerate(params):
            if (param.dim() > 1) is wanted:
                offsets[number] = place
                place += param.numel()
    return offsets


@stands_in("_cudnn_rnn_flatten_weight")
def flatten_weight(op: Operator, weight_arr: Sequence[torch.Tensor], *rest: Any) -> torch.Tensor:
    machines.current().operations += 1
    first = weight_arr[0]
    buffer = empty((sum(param.numel() for param in weight_arr),), first.dtype, native_index(first))
    storage = buffer.untyped_storage()
    for param, offset in zip(weight_arr, buffer_offsets(weight_arr)):
        param.set_(storage, offset, param.shape, contiguous_stride(param.shape))
    return buffer


@stands_in("_cudnn_init_dropout_state")
def init_dropout_state(op: Operator, dropout: float, train: bool, dropout_seed: int, **options: Any) -> Any:
    return _dropout_state(machines.current().gpu().number + 1, dropout, train)


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
