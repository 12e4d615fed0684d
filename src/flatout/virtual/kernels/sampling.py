"""Grid sampling through cuDNN where CUDA picks it. Source: aten/src/ATen/native/GridSampler.cpp and native/cudnn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty, taken_apart
from flatout.virtual.kernels.layouts import copy_bytes
from flatout.virtual.kernels.target import Temporaries
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import composes, stands_in
from flatout.virtual.tensor import native_index

_aten: Any = torch.ops.aten
BILINEAR, ZEROS = 0, 0
MOST_CHANNELS = 1024


@composes("grid_sampler")
def grid_sampler(
    op: Operator,
    input: torch.Tensor,
    grid: torch.Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Any:
    acceptable = torch.backends.cudnn.enabled and input.numel() > 0 and grid.numel() > 0
    if (
        acceptable
        and input.dim() == 4
        and interpolation_mode == BILINEAR
        and padding_mode == ZEROS
        and align_corners
        and input.shape[1] <= MOST_CHANNELS
        and input.dtype is grid.dtype is not torch.bfloat16
    ):
        return _aten.cudnn_grid_sampler(input, grid)
    return taken_apart(op, input, grid, interpolation_mode, padding_mode, align_corners)


@stands_in("cudnn_grid_sampler")
def cudnn_grid_sampler(op: Operator, input: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    machines.current().operations += 1
    index = native_index(input)
    with _copies(index, input, grid):
        return empty((*input.shape[:2], *grid.shape[1:3]), input.dtype, index)


@stands_in("cudnn_grid_sampler_backward")
def cudnn_grid_sampler_backward(
    op: Operator, input: torch.Tensor, grid: torch.Tensor, grad_output: torch.Tensor
) -> Sequence[torch.Tensor]:
    machines.current().operations += 1
    index = native_index(input)
    with _copies(index, input, grid, grad_output):
        return empty(input.shape, input.dtype, index), empty(grid.shape, grid.dtype, index)


def _copies(index: int, *tensors: torch.Tensor) -> Temporaries:
    temporaries = Temporaries(index)
    for tensor in tensors:
        temporaries.take(copy_bytes(tensor, torch.contiguous_format))
    return temporaries
