"""``torch.use_deterministic_algorithms``: operations that have no deterministic kernel on CUDA.

Sources: the calls of ``alertNotDeterministic`` under aten/src/ATen/native/cuda/, aten/src/ATen/Context.cpp for the
texts, and the list in PyTorch's documentation of ``use_deterministic_algorithms``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from flatout.virtual.cuda_errors.wording import torch_version

Guard: TypeAlias = Callable[[Sequence[Any], dict[str, Any]], None]

_INSTEAD = (
    "You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if that's"
    " acceptable for your application. You can also file an issue at https://github.com/pytorch/pytorch/issues to help"
    " us prioritize adding deterministic support for this operation."
)
_CUBLAS = (
    "Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or"
    " `at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because it uses CuBLAS"
    " and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must set an environment variable"
    " before running your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8 or CUBLAS_WORKSPACE_CONFIG=:16:8. For"
    " more information, go to https://docs.nvidia.com/cuda/cublas/index.html#results-reproducibility"
)
_MAXIMUM = 2  # what ``nn.EmbeddingBag(mode="max")`` is in C++
_enabled = torch.are_deterministic_algorithms_enabled


def alert(kernel: str) -> None:
    """Raise or warn that a kernel is not deterministic, as PyTorch does in deterministic mode."""
    if torch.is_deterministic_algorithms_warn_only_enabled():
        warnings.warn(
            f"{kernel} does not have a deterministic implementation, but you set"
            " 'torch.use_deterministic_algorithms(True, warn_only=True)'. You can file an issue at"
            " https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support for this"
            " operation.",
            UserWarning,
            stacklevel=4,
        )
        return
    raise RuntimeError(
        f"{kernel} does not have a deterministic implementation, but you set"
        f" 'torch.use_deterministic_algorithms(True)'. {_INSTEAD}"
    )


def _always(kernel: str) -> Guard:
    def guard(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        if _enabled():
            alert(kernel)

    return guard


def _for_floats(kernel: str) -> Guard:
    def guard(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        if _enabled() and (args[0].is_floating_point() or args[0].is_complex()):
            alert(kernel)

    return guard


def _with_weights(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if _enabled() and (args[1] if len(args) > 1 else kwargs.get("weights")) is not None:
        alert("_bincount_cuda")


def _embedding_bag(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if _enabled() and args[7] == _MAXIMUM:
        alert("embedding_bag_backward_cuda_max")


def _cublas(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if not _enabled() or os.environ.get("CUBLAS_WORKSPACE_CONFIG") in (":4096:8", ":16:8"):
        return
    if torch.is_deterministic_algorithms_warn_only_enabled():
        warnings.warn(_CUBLAS, UserWarning, stacklevel=4)
        return
    raise RuntimeError(_CUBLAS)


_ALERTS = {
    "avg_pool3d_backward": "avg_pool3d_backward_cuda",
    "_adaptive_avg_pool2d_backward": "adaptive_avg_pool2d_backward_cuda",
    "_adaptive_avg_pool3d_backward": "adaptive_avg_pool3d_backward_cuda",
    "adaptive_max_pool2d_backward": "adaptive_max_pool2d_backward_cuda",
    "fractional_max_pool2d_backward": "fractional_max_pool2d_backward_cuda",
    "fractional_max_pool3d_backward": "fractional_max_pool3d_backward_cuda",
    "max_unpool2d": "max_unpooling2d_forward_out",
    "max_unpool3d": "max_unpooling3d_forward_out",
    "upsample_linear1d_backward": "upsample_linear1d_backward_out_cuda",
    "upsample_bilinear2d_backward": "upsample_bilinear2d_backward_out_cuda",
    "upsample_bicubic2d_backward": "upsample_bicubic2d_backward_out_cuda",
    "upsample_trilinear3d_backward": "upsample_trilinear3d_backward_out_cuda",
    "reflection_pad1d_backward": "reflection_pad1d_backward_out_cuda",
    "reflection_pad2d_backward": "reflection_pad2d_backward_cuda",
    "reflection_pad3d_backward": "reflection_pad3d_backward_out_cuda",
    "nll_loss2d_forward": "nll_loss2d_forward_out_cuda_template",
    "nll_loss2d_backward": "nll_loss2d_backward_out_cuda_template",
    "_ctc_loss_backward": "ctc_loss_backward_gpu",
    "put_": "put_",
    "median.dim": "median CUDA with indices output",
    "grid_sampler_2d_backward": "grid_sampler_2d_backward_cuda",
    "grid_sampler_3d_backward": "grid_sampler_3d_backward_cuda",
}
# Which versions: the list in the documentation of each PyTorch from 2.6 to 2.14.
_UNTIL = {
    (2, 8): {
        "replication_pad1d_backward": "replication_pad1d_backward_cuda",
        "replication_pad3d_backward": "replication_pad3d_backward_cuda",
    },
    (2, 10): {"kthvalue": "kthvalue CUDA"},
    (2, 13): {"max_pool3d_with_indices_backward": "max_pool3d_with_indices_backward_cuda"},
}
_PRODUCTS = ["mm", "bmm", "baddbmm", "baddbmm_", "mv", "addmv", "addmv_", "dot", "vdot"]

GUARDS: dict[str, Guard] = {
    **{f"aten::{name}": _always(kernel) for name, kernel in _ALERTS.items()},
    "aten::histc": _for_floats("_histc_cuda with floating point input"),
    "aten::bincount": _with_weights,
    "aten::_embedding_bag_dense_backward": _embedding_bag,
}
if torch_version() < (2, 14):
    GUARDS["aten::cumsum"] = _for_floats("cumsum_cuda_kernel")
for _version, _kernels in _UNTIL.items():
    if torch_version() < _version:
        GUARDS.update({f"aten::{name}": _always(kernel) for name, kernel in _kernels.items()})
if torch_version() < (2, 10):  # in 2.10 the check is gone from the library
    GUARDS.update({f"aten::{name}": _cublas for name in _PRODUCTS})
