"""LSTM, GRU and plain recurrent nets: cuDNN where it can, else step by step as on any device.

Sources: aten/src/ATen/native/RNN.cpp, native/cudnn/RNN.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from flatout.virtual.dispatch import taken_apart
from flatout.virtual.kernels.recurrent_cudnn import GRU, LSTM, RELU, TANH, dropout_state
from flatout.virtual.kernels.recurrent_weights import buffer_offsets, flattened
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import composes
from flatout.virtual.tensor import native_index

__all__ = ["acceptable", "buffer_offsets"]

_aten: Any = torch.ops.aten
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def acceptable(tensor: torch.Tensor) -> bool:
    """Whether cuDNN takes this input (``cudnn_is_acceptable``)."""
    return bool(torch.backends.cudnn.enabled) and tensor.dtype in _DTYPES and tensor.numel() > 0


class Settings(NamedTuple):
    """What all these operators are told of a net, in their order; packed sequences are never batch first."""

    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool = False


def _run(
    mode: int,
    input: torch.Tensor,
    states: Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    settings: Settings,
    batch_sizes: Sequence[int] = (),
) -> Any:
    """The output and each of the new states. `states` are the hidden state and an LSTM's cell state."""
    if torch.is_autocast_enabled("cuda") and input.dtype in (torch.float32, torch.float16, torch.bfloat16):
        dtype = torch.get_autocast_dtype("cuda")
        input = input.to(dtype)
        states = [state.to(dtype) for state in states]
        params = [param.to(dtype) for param in params]
    hx, cx = (*states, None)[:2]
    assert hx is not None
    hidden = states[-1].shape[2]
    projection = hx.shape[2] if hx.shape[2] != hidden else 0
    stride = (4 if settings.has_biases else 2) + (1 if projection else 0)
    return _aten._cudnn_rnn(
        input, list(params), stride, flattened(params), hx, cx, mode, hidden, projection, settings.num_layers,
        settings.batch_first, settings.dropout, settings.train, settings.bidirectional, list(batch_sizes),
        dropout_state(native_index(input), settings.dropout, settings.train),
    )[: 1 + len(states)]  # fmt: skip


def _answer(packet: str, mode: int) -> None:
    """Both forms of one kind of net: a padded batch, and packed sequences."""

    def states(hx: Any) -> Sequence[torch.Tensor]:
        return hx if mode == LSTM else (hx,)

    def goes_to_cudnn(input: torch.Tensor, hx: Any) -> bool:
        return acceptable(input) and len(states(hx)) == (2 if mode == LSTM else 1)

    @composes(f"{packet}.input")
    def padded(op: Operator, input: torch.Tensor, hx: Any, params: Sequence[torch.Tensor], *settings: Any) -> Any:
        if not goes_to_cudnn(input, hx):
            return taken_apart(op, input, hx, params, *settings)
        return _run(mode, input, states(hx), params, Settings(*settings))

    @composes(f"{packet}.data")
    def packed(
        op: Operator,
        data: torch.Tensor,
        batch_sizes: torch.Tensor,
        hx: Any,
        params: Sequence[torch.Tensor],
        *settings: Any,
    ) -> Any:
        if not goes_to_cudnn(data, hx):
            return taken_apart(op, data, batch_sizes, hx, params, *settings)
        return _run(mode, data, states(hx), params, Settings(*settings), batch_sizes.tolist())


_answer("lstm", LSTM)
_answer("gru", GRU)
_answer("rnn_tanh", TANH)
_answer("rnn_relu", RELU)
