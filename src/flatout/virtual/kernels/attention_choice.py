"""Which attention kernel CUDA picks: flash, memory-efficient, cuDNN, or plain mathematics.

Sources: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and sdp_utils_cpp.h of PyTorch 2.6 to 2.14. The order in
which they are tried, and what the script switched off, are asked of PyTorch itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from flatout.virtual import machine as machines
from flatout.virtual.kernels.target import compute_capability, cuda_version, cudnn_version, torch_version
from flatout.virtual.tensor import native_index

_C: Any = torch._C
HALF = (torch.float16, torch.bfloat16)
MATH, FLASH, EFFICIENT, CUDNN = 0, 1, 2, 3
NAMES = {MATH: "math", FLASH: "flash", EFFICIENT: "efficient", CUDNN: "cudnn"}
DEFAULT_ORDER = [FLASH, EFFICIENT, MATH, CUDNN]
LAST_CAPABILITY = (12, 1)


@dataclass(frozen=True)
class Call:
    """One call of ``scaled_dot_product_attention``: tensors of shape (batch, heads, length, head size)."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    causal: bool
    grouped: bool
    capability: tuple[int, int]

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient will be wanted of this call."""
        return torch.is_grad_enabled() and (
            self.query.requires_grad or self.key.requires_grad or self.value.requires_grad
        )


Check: TypeAlias = Callable[[Call], bool]


def choose(call: Call, *, nested: bool = False) -> int:
    """The kernel for this call, as ``torch.nn.attention.SDPBackend`` numbers it. cuDNN takes no `nested` tensors.

    Raises ``RuntimeError`` with CUDA's words where the script allows none that can do it.
    """
    alike = machines.current().alike
    return alike.by_capability(lambda one: _choose(replace(call, capability=one), nested), _choose(call, nested))


def _choose(call: Call, nested: bool) -> int:
    enabled = {
        MATH: _C._get_math_sdp_enabled(),
        FLASH: _C._get_flash_sdp_enabled(),
        EFFICIENT: _C._get_mem_efficient_sdp_enabled(),
        CUDNN: _C._get_cudnn_sdp_enabled() and not nested,
    }
    for kernel in order(call.capability):
        if enabled.get(kernel) and all(check(call) for check in CHECKS[kernel]):
            return kernel
    raise RuntimeError("No available kernel. Aborting execution.")


def order(capability: tuple[int, int]) -> list[int]:
    """The kernels in the order in which they are tried: the script's own, or this PyTorch's for that GPU."""
    get = getattr(_C, "_get_sdp_priority_order", None)
    current = [int(kernel) for kernel in get()] if get is not None else DEFAULT_ORDER
    if current[:4] != DEFAULT_ORDER or not prefers_cudnn(capability):
        return current
    return [CUDNN, FLASH, EFFICIENT, MATH]


def prefers_cudnn(capability: tuple[int, int]) -> bool:
    """Whether this PyTorch tries cuDNN first on that GPU (since 2.8, on Hopper and data-centre Blackwell)."""
    major, minor = capability
    version = torch_version()
    if version < (2, 8) or major not in (9, 10):
        return False
    if version < (2, 10):
        return os.environ.get("TORCH_CUDNN_SDPA_PREFERRED") != "0" and cudnn_version() >= 90900 and minor == 0
    if os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1" or cudnn_version() <= 91500:
        return False
    return minor in (0, 3) or cuda_version() >= (13, 0)


def _is_supported(call: Call, first: tuple[int, int]) -> bool:
    return first <= call.capability <= LAST_CAPABILITY


def _dtype_in(call: Call, dtypes: tuple[torch.dtype, ...]) -> bool:
    return call.query.dtype is call.key.dtype is call.value.dtype and call.query.dtype in dtypes


def _four_dimensions(call: Call) -> bool:
    return call.query.dim() == call.key.dim() == call.value.dim() == 4


def _half(call: Call) -> bool:
    return _dtype_in(call, HALF if call.capability >= (8, 0) else (torch.float16,))


def _nonzero_lengths(call: Call) -> bool:
    return call.query.shape[2] > 0 and call.key.shape[2] > 0


def _last_dimension_is_dense(call: Call, *, ignore_single: bool) -> bool:
    if call.mask is not None and call.mask.stride(-1) != 1:
        return False
    return all(
        tensor.stride(-1) == 1 or (ignore_single and tensor.shape[-1] == 1)
        for tensor in (call.query, call.key, call.value)
    )


def _heads(call: Call, *, grouping: bool, same_key_value: bool = True) -> bool:
    query, key, value = call.query, call.key, call.value
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        return False
    heads, key_heads, value_heads = query.shape[1], key.shape[1], value.shape[1]
    if not (call.grouped and grouping):
        return heads == key_heads == value_heads
    if (same_key_value and key_heads != value_heads) or not key_heads or not value_heads:
        return False
    return heads % key_heads == 0 and heads % value_heads == 0


def _flash_head_size(call: Call) -> bool:
    size = call.query.shape[3]
    return size == call.key.shape[3] == call.value.shape[3] and size <= 256


def _flash_backward_fits(call: Call) -> bool:
    """GPUs with little shared memory have no backward kernel for the largest heads."""
    small = (8, 6) <= call.capability <= (8, 9) or call.capability >= (12, 0)
    size = call.query.shape[3]
    return not (small and call.requires_grad) or size <= 192 or (call.dropout == 0 and size > 224)


def _flash_causal_is_square(call: Call) -> bool:
    return not call.causal or call.query.shape[2] == call.key.shape[2]


def gemm_alignment(dtype: torch.dtype, capability: tuple[int, int]) -> int:
    """Elements that the memory-efficient kernel's head size must be a multiple of."""
    half = dtype in HALF
    alignment = 4 if capability >= (8, 0) else 1
    tensor_cores = capability >= (8, 0) or (capability >= (7, 0) and half)
    return max(alignment, 128 // (16 if half else 32)) if tensor_cores else alignment


def _efficient_head_size(call: Call) -> bool:
    size, value_size = call.query.shape[3], call.value.shape[3]
    alignment = gemm_alignment(call.query.dtype, call.capability)
    return (
        size == call.key.shape[3]
        and size > 0
        and size % alignment == 0
        and value_size > 0
        and value_size % alignment == 0
    )


def _efficient_dtype(call: Call) -> bool:
    half = HALF if call.capability >= (8, 0) else (torch.float16,)
    return _dtype_in(call, (*half, torch.float32))


def _efficient_starts_aligned(call: Call) -> bool:
    if torch_version() < (2, 14) or call.capability < (8, 0):
        return True
    alignment = gemm_alignment(call.query.dtype, call.capability)
    return all(tensor.storage_offset() % alignment == 0 for tensor in (call.query, call.key, call.value))


def _cudnn_mask(call: Call) -> bool:
    mask = call.mask
    if mask is None:
        return True
    if mask.requires_grad:
        return False
    sizes = (call.query.shape[0], call.query.shape[1], call.query.shape[2], call.key.shape[2])
    return mask.dim() in (2, 3, 4) and all(m in (1, n) for m, n in zip(reversed(mask.shape), reversed(sizes)))


def _cudnn_shape(call: Call) -> bool:
    size, value_size = call.query.shape[3], call.value.shape[3]
    limit = 128
    if call.capability == (9, 0) or call.capability[0] == 10:
        if torch_version() >= (2, 14) and cudnn_version() > 92200:
            limit = 256
        elif cudnn_version() >= 91100 and (size, value_size) == (192, 128):
            limit = 192
    if size > limit or value_size > limit or size % 8 or value_size % 8:
        return False
    if limit == 256 and call.requires_grad and max(size, value_size) > 128:
        return (size, value_size) in ((192, 128), (256, 256))
    return call.key.shape[2] != 1 and not (call.dropout and call.query.shape[2] == 1)


def _cudnn_dropout(call: Call) -> bool:
    if call.dropout > 0 and 91100 < cudnn_version() < 91400:
        return False
    return torch_version() < (2, 13) or call.dropout * 16 == int(call.dropout * 16)


def _cudnn_may_vary(call: Call) -> bool:
    return not torch.are_deterministic_algorithms_enabled() or torch.is_deterministic_algorithms_warn_only_enabled()


CHECKS: dict[int, tuple[Check, ...]] = {
    MATH: (),
    FLASH: (
        _four_dimensions,
        lambda call: call.mask is None,
        _flash_head_size,
        lambda call: _is_supported(call, (8, 0)),
        _flash_backward_fits,
        _flash_causal_is_square,
        _half,
        lambda call: _heads(call, grouping=True),
        _nonzero_lengths,
        lambda call: _last_dimension_is_dense(call, ignore_single=True),
    ),
    EFFICIENT: (
        _four_dimensions,
        lambda call: _is_supported(call, (5, 0)),
        _efficient_head_size,
        _efficient_starts_aligned,
        _nonzero_lengths,
        lambda call: _last_dimension_is_dense(call, ignore_single=False),
        lambda call: _heads(call, grouping=False),
        _efficient_dtype,
    ),
    CUDNN: (
        _four_dimensions,
        lambda call: _is_supported(call, (8, 0)),
        _cudnn_may_vary,
        _half,
        _cudnn_mask,
        _cudnn_dropout,
        _nonzero_lengths,
        lambda call: _last_dimension_is_dense(call, ignore_single=True),
        lambda call: _heads(call, grouping=True, same_key_value=False),
        _cudnn_shape,
    ),
}


def call_of(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    causal: bool,
    grouped: bool,
) -> Call:
    """The call with the GPU that the query is on."""
    return Call(query, key, value, mask, dropout, causal, grouped, compute_capability(native_index(query)))
