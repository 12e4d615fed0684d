"""``torch.backends.cudnn`` as a machine with cuDNN shows it, on a build without."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.kernels.target import cudnn_version
from flatout.virtual.tensor import HOST_INDEX, native_index

_cudnn: Any = torch.backends.cudnn


class _Modes:
    """Stands for ``torch._C._cudnn.RNNMode``."""

    rnn_relu, rnn_tanh, lstm, gru = range(4)


class _Library:
    RNNMode = _Modes
    is_cuda = True

    @staticmethod
    def getVersionInt() -> int:
        return cudnn_version()


_DTYPES = (torch.float16, torch.float32, torch.float64, torch.bfloat16)


def install() -> None:
    """Replace what asks for the library (real tensors go on as before)."""
    import torch.backends.cudnn.rnn as rnn

    module = _cudnn.m if hasattr(_cudnn, "m") else _cudnn
    for target in (module, _cudnn):
        target.is_available = _is_available
        target.version = cudnn_version
        target.is_acceptable = _is_acceptable
    # In newer versions that module is a wrapper: what its functions see are the globals of the one beneath.
    seen = rnn.get_cudnn_mode.__globals__
    if seen["_cudnn"] is None:
        seen["_cudnn"] = _Library
    names: Any = torch
    names._use_cudnn_rnn_flatten_weight = _is_available


def _is_available() -> bool:
    return True


def _is_acceptable(tensor: torch.Tensor) -> bool:
    return bool(torch._C._get_cudnn_enabled()) and 0 < native_index(tensor) <= HOST_INDEX and tensor.dtype in _DTYPES
