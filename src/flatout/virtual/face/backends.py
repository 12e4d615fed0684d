"""What ``torch.version.cuda``, ``torch.backends.cuda`` and ``torch.backends.cudnn`` say."""

from __future__ import annotations

import types
from typing import Any

import torch

from flatout.virtual.face.patches import Patches
from flatout.virtual.face.properties import cuda_version
from flatout.virtual.kernels.target import cudnn_version, decided

_benchmark_limit = [10]


def _cudnn() -> Any:
    version = cudnn_version()
    parts = (version // 10000, version // 100 % 100, version % 100)
    return types.SimpleNamespace(
        is_cuda=True,
        RNNMode=types.SimpleNamespace(rnn_relu=0, rnn_tanh=1, lstm=2, gru=3),
        getVersionInt=lambda: version,
        getRuntimeVersion=lambda: parts,
        getCompileVersion=lambda: parts,
    )


def _set_benchmark_limit(limit: int) -> None:
    _benchmark_limit[0] = limit


def install(patches: Patches) -> None:
    """A CUDA build of this PyTorch, on the virtual GPU."""
    library = _cudnn()
    version = library.getVersionInt()
    patches.set(torch.version, "cuda", cuda_version())
    patches.set_all(
        torch._C,
        {
            "_has_cuda": True,
            "_has_cudnn": True,
            "_has_magma": True,
            "_cudnn": library,
            "_cuda_get_cudnn_benchmark_limit": lambda: _benchmark_limit[0],
            "_cuda_set_cudnn_benchmark_limit": _set_benchmark_limit,
            "_cuda_get_conv_benchmark_empty_cache": lambda: True,
            "_cudnn_set_conv_benchmark_empty_cache": lambda enable: None,
            "_cudnn_clear_dropout_state": lambda: None,
            "_is_flash_attention_available": lambda: True,
            "_cuda_getCompiledVersion": lambda: int(float(cuda_version()) * 1000),
        },
    )
    cudnn: Any = torch.backends.cudnn
    real = getattr(cudnn, "m", cudnn)  # the module proper is kept behind the object that answers for it
    globals_ = real.version.__globals__
    for name, value in {
        "_cudnn": library,
        "_init": lambda: True,
        "version": lambda: version,
        "__cudnn_version": version,
    }.items():
        if name in globals_:
            before = globals_[name]
            globals_[name] = value
            patches.on_undo(lambda name=name, before=before: globals_.__setitem__(name, before))  # type: ignore[misc]
    if real is not cudnn:
        patches.set(real, "version", lambda: version)
    patches.set(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    patches.set(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or _is_ampere())
    if hasattr(torch.cuda, "is_tf32_supported"):
        patches.set(torch.cuda, "is_tf32_supported", _is_ampere)


def _is_ampere() -> bool:
    return decided(None, lambda capability: capability >= (8, 0))
