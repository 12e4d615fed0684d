"""Recurrent nets in cuDNN's kernels, forward and backward: outputs, workspace, and what is kept for backward.

Source: aten/src/ATen/native/cudnn/RNN.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty
from flatout.virtual.kernels import workspaces
from flatout.virtual.kernels.layouts import copy_bytes
from flatout.virtual.kernels.recurrent_weights import views_of
from flatout.virtual.kernels.target import Temporaries, multiprocessors, scratch
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index

RELU, TANH, LSTM, GRU = 0, 1, 2, 3
"""cuDNN's numbers of the kinds of net (``cudnnRNNMode_t``)."""
NAMES = {RELU: "relu", TANH: "tanh", LSTM: "lstm", GRU: "gru"}


class Net(NamedTuple):
    """What cuDNN is told of a net, in the order of ``_cudnn_rnn``'s arguments.

    Tensors are of shape (steps, batch, features), or batch first; with `batch_sizes` all steps of all sequences lie
    behind each other.
    """

    mode: int
    hidden_size: int
    proj_size: int
    num_layers: int
    batch_first: bool
    dropout: float
    train: bool
    bidirectional: bool
    batch_sizes: Sequence[int]

    @property
    def name(self) -> str:
        """As `workspaces` names the kinds."""
        return NAMES[self.mode]

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def by_step(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as cuDNN sees it, steps first; by the same way it comes back."""
        return tensor.transpose(0, 1) if self.batch_first and not self.batch_sizes else tensor

    def scratch(self, ordered: torch.Tensor, weights: int) -> None:
        """Take and give back cuDNN's workspace for this input of a net with so many weights."""
        batch = self.batch_sizes[0] if self.batch_sizes else ordered.shape[1]
        space = workspaces.recurrent(
            self.name, weights, batch, self.hidden_size, self.num_layers, self.directions, ordered.element_size()
        )
        scratch(native_index(ordered), space.point_bytes, space.upper_bytes)

    def reserve_bytes(self, ordered: torch.Tensor) -> int:
        """What forward keeps for backward."""
        if not self.train:
            return 0
        rows = ordered.numel() // max(ordered.shape[-1], 1)
        return workspaces.recurrent_reserve(
            self.name, rows, self.hidden_size, self.num_layers, self.directions, ordered.element_size()
        )


_SETTINGS = len(Net._fields)


def dropout_state(index: int, dropout: float, train: bool) -> Any:
    """The random states of cuDNN's dropout: made once for each GPU, and kept."""
    if not (train and dropout > 0 and index):
        return None
    machine = machines.current()
    key = (index, machine.thread.stream, False, "cudnn_dropout")
    if key not in machine.workspaces:
        nbytes = multiprocessors(index) * workspaces.DROPOUT_STATE_BYTES_PER_MULTIPROCESSOR
        machine.workspaces[key] = empty((nbytes,), torch.uint8, index)
    return machine.workspaces[key]


def _count(params: Sequence[torch.Tensor]) -> int:
    return sum(param.numel() for param in params)


def _take_contiguous(temporaries: Temporaries, *tensors: torch.Tensor) -> None:
    for tensor in tensors:
        temporaries.take(copy_bytes(tensor, torch.contiguous_format))


@stands_in("_cudnn_rnn")
def cudnn_rnn(
    op: Operator,
    input: torch.Tensor,
    weight: Sequence[torch.Tensor],
    weight_stride0: int,
    weight_buf: torch.Tensor | None,
    hx: torch.Tensor,
    cx: torch.Tensor | None,
    *settings: Any,
) -> Any:
    net = Net(*settings[:_SETTINGS])
    machine = machines.current()
    machine.operations += 1
    machine.count("recurrent_kernels", net.name)
    machine.count("recurrent_dtypes", str(input.dtype)[6:])
    index = native_index(input)
    with Temporaries(index) as temporaries:
        if weight_buf is None or not weight_buf.numel():
            weight_buf = empty((_count(weight),), weight[0].dtype, index)
        ordered = net.by_step(input)
        _take_contiguous(temporaries, ordered)
        features = (net.proj_size or net.hidden_size) * net.directions
        output = empty((*ordered.shape[:-1], features), input.dtype, index)
        hy = empty(hx.shape, hx.dtype, index)
        cy = empty((0,) if cx is None else cx.shape, hx.dtype, index)
        net.scratch(ordered, _count(weight))
        reserve = empty((net.reserve_bytes(ordered),), torch.uint8, index)
    return net.by_step(output), hy, cy, reserve, weight_buf


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
    *settings: Any,
) -> Any:
    net = Net(*settings[:_SETTINGS])
    output_mask: Sequence[bool] = settings[-1]
    if not net.train:
        raise RuntimeError("cudnn RNN backward can only be called in training mode")
    machines.current().operations += 1
    index = native_index(input)
    ordered, results = net.by_step(input), net.by_step(output)
    given = None if grad_output is None else net.by_step(grad_output)
    with Temporaries(index) as temporaries:
        # What the script did not use of the results counts as zeros of their shape.
        for grad, of in ((given, results), (grad_hy, hx), (grad_cy, cx)):
            if of is not None and (grad is None or not grad.is_contiguous()):
                temporaries.take(of.numel() * of.element_size())
        _take_contiguous(temporaries, ordered, results)
        dx = empty(ordered.shape, input.dtype, index)
        dhx = empty(hx.shape, hx.dtype, index)
        dcx = None if cx is None else empty(cx.shape, cx.dtype, index)
        net.scratch(ordered, _count(weight))
        grads: list[torch.Tensor] = []
        if output_mask[3]:
            grads = views_of(empty((_count(weight),), weight[0].dtype, index), weight)
            net.scratch(ordered, _count(weight))
    states = (dhx if output_mask[1] else None, dcx if output_mask[2] else None)
    return net.by_step(dx) if output_mask[0] else None, *states, grads


@stands_in("_cudnn_init_dropout_state")
def init_dropout_state(op: Operator, dropout: float, train: bool, dropout_seed: int, **options: Any) -> Any:
    return dropout_state(machines.current().gpu().number + 1, dropout, train)
