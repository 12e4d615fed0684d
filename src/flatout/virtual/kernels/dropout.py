"""Dropout with CUDA's fused kernel: its mask is one byte an element.

Source: aten/src/ATen/native/Dropout.cpp. The fused kernel serves plain dropout that is not in place, in training, with
0 < p < 1; all other dropout is composed there on every device.
"""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.dispatch import taken_apart
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import composes

_aten: Any = torch.ops.aten


@composes("dropout")
def dropout(op: Operator, input: torch.Tensor, p: float, train: bool) -> Any:
    if train and 0 < p < 1 and input.numel():
        return _aten.native_dropout.default(input, p, True)[0]
    return taken_apart(op, input, p, train)
