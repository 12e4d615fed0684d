"""Autocast on the virtual GPU: CUDA's own policy for each operator, above autograd, with the cache of cast weights.

PyTorch's C++ kernels for ``AutocastCUDA`` cast only what C++ takes for a CUDA tensor, which a virtual tensor is not. So
Python kernels with the same policies replace them. *Which* operators have one is asked of the installed PyTorch; *what*
each does is in the table below (source: aten/src/ATen/autocast_mode.h and .cpp of PyTorch 2.6 to 2.14).
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import torch

from flatout.virtual import machine as machines
from flatout.virtual.tensor import HOST_INDEX, native_index


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LOWER_PRECISION = _names(
    """
    _convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
    conv_transpose3d.input convolution cudnn_convolution cudnn_convolution_transpose prelu addmm addmv addr
    matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
    _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    _scaled_dot_product_flash_attention scaled_dot_product_attention
    """
)
FLOAT32 = _names(
    """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
    pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim
    nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d
    hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
    binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d
    _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
    _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
    upsample_bicubic2d _upsample_bicubic2d_aa
    """
)
FLOAT32_BY_ARGUMENT = _names(
    """
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
    linalg_matrix_norm.str_ord sum sum.dim_IntList
    prod.dim_Dimname softmax.Dimname log_softmax.Dimname cumprod.dimname cumsum.dimname sum.dim_DimnameList
    """
)
WIDEST = _names(
    """
    addcdiv addcmul atan2 bilinear cat stack cross dot vdot grid_sampler index_put tensordot scatter_add
    """
)
NORM = {
    "norm.Scalar": "norm.ScalarOpt_dtype",
    "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype",
    "norm.names_ScalarOpt_dim": "norm.names_ScalarOpt_dim_dtype",
}
UNSAFE = ("binary_cross_entropy",)
ANSWERED_ABOVE = ("_cudnn_rnn",)
"""The stand-in for recurrent nets casts by itself, and flattens the weights anew as CUDA's policy does."""
UNKNOWN = ("linalg_matrix_sqrth",)
"""In PyTorch 2.14 with a policy that its headers do not say: run as they are, with a note where a script uses them."""

Kernel: TypeAlias = Callable[..., Any]
_KEY: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
_below: Any = torch._C._ExcludeDispatchKeyGuard
_plain_to: Any = torch._C.TensorBase.to
_cast_weights: dict[int, tuple[Any, torch.Tensor]] = {}
_libraries: list[Any] = []


def clear_cache() -> None:
    """Forget the cast weights, as leaving the outermost autocast region does."""
    _cast_weights.clear()


def _eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and 0 < native_index(value) <= HOST_INDEX
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


def cast(value: Any, dtype: torch.dtype) -> Any:
    """An argument in `dtype` if autocast casts it; weights come from the cache."""
    if isinstance(value, (list, tuple)):
        return type(value)([cast(item, dtype) for item in value])
    if not _eligible(value) or value.dtype is dtype:
        return value
    cached = (
        value.dtype is torch.float32
        and value.requires_grad
        and value.is_leaf
        and torch.is_autocast_cache_enabled()
        and dtype is torch.get_autocast_dtype("cuda")
        and not value._is_view()
        and not (torch.is_inference_mode_enabled() and _forgets_in_inference_mode())
    )
    if not cached:
        return _plain_to(value, dtype)
    found = _cast_weights.get(id(value))
    if found is None or found[0]() is not value:
        found = _cast_weights[id(value)] = (weakref.ref(value), _plain_to(value, dtype))
    return found[1]


@cache
def _forgets_in_inference_mode() -> bool:
    """Whether the installed PyTorch leaves cast weights out of the cache in inference mode.

    2.6 keeps them, 2.11 does not. Asked of its CPU side: a weight is changed between two uses; the second use shows
    whether it was cast again.
    """
    weight = torch.nn.Parameter(torch.ones(1, 1))
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        torch.mm(weight, weight.detach())
        weight.fill_(2.0)
        return torch.mm(weight, torch.ones(1, 1)).item() == 2.0


def _casting(op: Any, dtype_for: Callable[..., torch.dtype]) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _below(_KEY):
            dtype = dtype_for(args, kwargs)
            values = [cast(a, dtype) for a in args]
            result = op(*values, **{name: cast(value, dtype) for name, value in kwargs.items()})
            _let_go_in_order(values)
            return result

    return kernel


def _let_go_in_order(values: list[Any]) -> None:
    """Drop cast arguments as C++ does, the first one first (Python would begin at the end of a list)."""
    for value in values:
        if isinstance(value, list):
            value.reverse()
    values.reverse()
    values.clear()


def _lower(args: Any, kwargs: Any) -> torch.dtype:
    lower: torch.dtype = torch.get_autocast_dtype("cuda")
    return lower


def _float32(args: Any, kwargs: Any) -> torch.dtype:
    return torch.float32


def _widest(args: Any, kwargs: Any) -> torch.dtype:
    """float32 if any argument is, else the lower precision."""
    lower: torch.dtype = torch.get_autocast_dtype("cuda")
    pending = [*args, *kwargs.values()]
    while pending:
        value = pending.pop()
        if isinstance(value, (list, tuple)):
            pending.extend(value)
        elif _eligible(value):
            if value.dtype == torch.float32:
                return torch.float32
            if value.dtype is not lower:
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return lower


def _by_argument(op: Any) -> Kernel:
    names = [argument.name for argument in op._schema.arguments]
    position = names.index("dtype")
    keyword_only = op._schema.arguments[position].kwarg_only

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _below(_KEY):
            given = kwargs.get("dtype") if keyword_only or len(args) <= position else args[position]
            if given is None and _eligible(args[0]):
                args = args[:position]
                kwargs["dtype"] = torch.float32
            return op(*args, **kwargs)

    return kernel


def _norm(op: Any, widened: Any) -> Kernel:
    def kernel(value: torch.Tensor, p: Any = 2, *args: Any, **kwargs: Any) -> Any:
        with _below(_KEY):
            if not _eligible(value):
                return op(value, p, *args, **kwargs)
            if widened._schema.overload_name.endswith("ScalarOpt_dim_dtype") and len(args) + len(kwargs) == 1:
                kwargs.setdefault("keepdim", False)
            return widened(value, p, *args, **kwargs, dtype=torch.float32)

    return kernel


def _unsafe(op: Any) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        # CUDA's own message, word for word (autocast_mode.cpp)
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
            "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
            "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
            "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
            "safe to autocast."
        )

    return kernel


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _as_it_is(name: str) -> Kernel:
    op = _operator(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if name not in ANSWERED_ABOVE:
            machines.current().assume_that(f"autocast leaves {name} as it is: its policy is not known", anywhere=True)
        with _below(_KEY):
            return op(*args, **kwargs)

    return kernel


def kernel_for(name: str) -> Kernel | None:
    """The autocast kernel of an operator (as ``softmax.int``), or None where its policy is not in the tables."""
    op = _operator(name)
    if name in LOWER_PRECISION:
        return _casting(op, _lower)
    if name in FLOAT32:
        return _casting(op, _float32)
    if name in FLOAT32_BY_ARGUMENT:
        return _by_argument(op)
    if name in WIDEST:
        return _casting(op, _widest)
    if name in NORM:
        return _norm(op, _operator(NORM[name]))
    return _unsafe(op) if name in UNSAFE else None


def names() -> list[str]:
    """The operators for which the installed PyTorch has an autocast policy on CUDA."""
    found = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    return sorted(name.removeprefix("aten::") for name in found if name.startswith("aten::"))


def install() -> list[str]:
    """Register the kernels. Returns the operators whose policy flatout does not know; they run as they are."""
    library: Any = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    unknown = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the kernels that are replaced are PyTorch's own: that is the purpose
        for name in names():
            kernel = kernel_for(name)
            if kernel is None and name not in ANSWERED_ABOVE:
                unknown.append(name)
            library.m.impl(name, "AutocastCUDA", kernel or _as_it_is(name), False)
    plain_clear = torch.clear_autocast_cache

    def clear_autocast_cache() -> None:
        clear_cache()
        plain_clear()

    torch.clear_autocast_cache = clear_autocast_cache
    return unknown
