"""Softmax of half precision straight into float32, as CUDA's kernel does.

Source: aten/src/ATen/native/SoftMax.cpp. Other combinations convert their input first, on every device.
"""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import composes

_aten: Any = torch.ops.aten


@composes("softmax.int")
def softmax(op: Operator, input: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> Any:
    return _into(_aten._softmax.default, input, dim, dtype)


@composes("log_softmax.int")
def log_softmax(op: Operator, input: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> Any:
    return _into(_aten._log_softmax.default, input, dim, dtype)


def _into(kernel: Any, input: torch.Tensor, dim: int, dtype: torch.dtype | None) -> Any:
    if input.dtype is torch.float16 and dtype is torch.float32:
        return kernel(input, dim, True)
    return kernel(input if dtype is None else _aten.to.dtype(input, dtype), dim, False)
