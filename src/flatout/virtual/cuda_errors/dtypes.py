"""Element types that CUDA's kernels refuse though PyTorch's Python shape rules let them pass.

A rule looks at a call whose combination of shapes and types was not seen before, so it costs nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from flatout.virtual.cuda_errors import replay
from flatout.virtual.cuda_errors.devices import tensors_in
from flatout.virtual.cuda_errors.wording import device_of, scalar_type, tensor_type, torch_version, type_meta

if TYPE_CHECKING:
    from flatout.virtual.operators import Operator

Rule: TypeAlias = "Callable[[Operator, Sequence[Any], dict[str, Any]], None]"


def refuse(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise what CUDA raises if it has no kernel for these element types.

    Raises:
        RuntimeError: in PyTorch's words (``NotImplementedError`` where the installed PyTorch raises that).
    """
    rule = RULES.get(op.name)
    if rule is not None:
        rule(op, args, kwargs)


@cache
def _not_implemented_type() -> type[Exception]:
    """``NotImplementedError`` or, up to PyTorch 2.6, ``RuntimeError``: asked of the installed PyTorch."""
    try:
        torch.ones(1, dtype=torch.int64).softmax(0)
    except RuntimeError as error:
        return type(error)
    return NotImplementedError


def not_implemented(kernel: str, dtype: torch.dtype) -> Exception:
    """No instance of that kernel for this element type. Source of the text: aten/src/ATen/Dispatch.h."""
    return _not_implemented_type()(f"\"{kernel}\" not implemented for '{scalar_type(dtype)}'")


def _need(kernel: str, tensor: torch.Tensor, allowed: frozenset[torch.dtype]) -> None:
    if tensor.dtype not in allowed and tensor.numel():
        raise not_implemented(kernel, tensor.dtype)


_FLOATS = frozenset((torch.float32, torch.float64, torch.float16, torch.bfloat16))
_WITH_COMPLEX = _FLOATS | {torch.complex64, torch.complex128}
_CLASSES = frozenset((torch.int64, torch.uint8))


def _same(args: Sequence[Any], *places: int) -> bool:
    return len({args[place].dtype for place in places}) == 1


def _mm(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: ``addmm_out_cuda_impl`` in aten/src/ATen/native/cuda/Blas.cpp."""
    first, second = args[0], args[1]
    _fitting(op, args, kwargs, first, second)
    if first.dtype is not second.dtype:
        raise RuntimeError(
            "expected mat1 and mat2 to have the same dtype, but got:"
            f" {type_meta(first.dtype)} != {type_meta(second.dtype)}"
        )
    _need("addmm_cuda", first, _WITH_COMPLEX)


def _fitting(
    op: Operator, args: Sequence[Any], kwargs: dict[str, Any], first: torch.Tensor, second: torch.Tensor
) -> None:
    """Shapes are checked before types."""
    if first.dim() == 2 == second.dim() and first.shape[1] != second.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({first.shape[0]}x{first.shape[1]} and"
            f" {second.shape[0]}x{second.shape[1]})"
        )


def _addmm(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: ``ADDMM_META`` in aten/src/ATen/native/LinearAlgebra.cpp, shared by the CPU and CUDA."""
    bias, first, second = args[:3]
    for name, tensor in (("self", bias), ("mat1", first)):
        if tensor.dtype is not second.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {scalar_type(tensor.dtype)} and"
                f" {scalar_type(second.dtype)}"
            )
    _fitting(op, args, kwargs, first, second)
    _need("addmm_cuda", first, _WITH_COMPLEX)


def _batched(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """The kernel reads the second batch as the type of the first; for ``baddbmm`` the shape rules compare all three."""
    places = (0, 1) if op.name.startswith("aten::bmm") else (0, 1, 2)
    if not _same(args, *places):
        replay.raise_if_refused(op, args, kwargs)
    _need("baddbmm_cuda", args[0], _WITH_COMPLEX)


def _mixed(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Where types differ, the CPU's text is CUDA's: it comes from rules that both share."""
    if len({tensor.dtype for tensor in tensors_in(args)}) > 1:
        replay.raise_if_refused(op, args, kwargs)


def check_convolution(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Source: ``check_input_same_type_as_parameters`` in aten/src/ATen/native/Convolution.cpp."""
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and (tensor.dtype is not input.dtype or device_of(tensor) != device_of(input)):
            raise RuntimeError(
                f"Input type ({tensor_type(input)}) and {name} type ({tensor_type(tensor)}) should be the same"
            )


def _convolution(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    input, weight, bias = args[:3]
    check_convolution(input, weight, bias)
    _need("slow_conv2d_cuda", input, _WITH_COMPLEX)
    # The shape rules in Python do not look at all of the channels. What the others say, C++ says for all devices.
    transposed, groups = args[6], args[8]
    outer, inner = weight.shape[0], weight.shape[1] * groups
    channels, outputs = (outer, inner) if transposed else (inner, outer)
    if input.shape[1] != channels or (bias is not None and bias.shape != (outputs,)):
        replay.raise_if_refused(op, args, kwargs)


def _nll_loss(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: aten/src/ATen/native/cuda/NLLLoss.cu; from 2.12 the shape rules check the targets for all devices."""
    scores, target, weight, reduction = args[:4]
    if target.dtype not in _CLASSES:
        if torch_version() >= (2, 12):
            raise RuntimeError(f"expected target dtype to be Long or Byte, but got {scalar_type(target.dtype)}")
        raise not_implemented(f"{_nll_kernel(scores, reduction)}_index", target.dtype)
    _need(_nll_kernel(scores, reduction), scores, _FLOATS)
    if weight is not None and weight.dtype is not scores.dtype:
        raise _expected_scalar_type(scores.dtype, weight.dtype)


def _nll_kernel(scores: torch.Tensor, reduction: int) -> str:
    if reduction == 0 and scores.dim() == 2:
        return "nll_loss_forward_no_reduce_cuda_kernel"
    return f"nll_loss_forward_reduce_cuda_kernel_{scores.dim()}d"


def _nll_loss2d(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: aten/src/ATen/native/cuda/NLLLoss2d.cu."""
    if args[1].dtype is not torch.int64:
        raise _expected_scalar_type(torch.int64, args[1].dtype)


def _expected_scalar_type(wanted: torch.dtype, found: torch.dtype) -> Exception:
    # Source: ``data_ptr<T>`` in aten/src/ATen/templates/TensorMethods.cpp.
    return RuntimeError(f"expected scalar type {scalar_type(wanted)} but found {scalar_type(found)}")


def _embedding(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: ``checkScalarTypes`` in aten/src/ATen/TensorUtils.cpp."""
    indices = args[1]
    if indices.dtype not in (torch.int64, torch.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got"
            f" {tensor_type(indices)} instead (while checking arguments for embedding)"
        )


def _one(kernel: str, allowed: frozenset[torch.dtype] = _FLOATS) -> Rule:
    def rule(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        _need(kernel, args[0], allowed)

    return rule


def _weighted(kernel: str, weight: int, bias: int) -> Rule:
    """A normalization whose kernel reads weight and bias as the type of its input."""

    def rule(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        _need(kernel, args[0], _FLOATS)
        for place in (weight, bias):
            if args[place] is not None and args[place].dtype is not args[0].dtype:
                raise _expected_scalar_type(args[0].dtype, args[place].dtype)

    return rule


def _softmax(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    _need("host_softmax", args[0], _FLOATS)


def _index_put(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: ``make_index_put_iterator`` in aten/src/ATen/native/TensorAdvancedIndexing.cpp."""
    target, content = args[0], args[2]
    if target.dtype is not content.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got"
            f" {scalar_type(target.dtype)} for the destination and {scalar_type(content.dtype)} for the source."
        )


def _power(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: aten/src/ATen/native/Pow.cpp."""
    base, exponent = args[:2]
    if isinstance(exponent, int) and exponent < 0 and not (base.is_floating_point() or base.is_complex()):
        raise RuntimeError("Integers to negative integer powers are not allowed.")


def _subtraction(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: ``sub_check`` in aten/src/ATen/native/BinaryOps.h; two conditions are refused by the shape rules."""
    conditions = [value.dtype is torch.bool if isinstance(value, torch.Tensor) else value is True for value in args[:2]]
    if any(conditions) and not all(conditions):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask,"
            " use the `~` or `logical_not()` operator instead."
        )


def _bitwise(kernel: str) -> Rule:
    def rule(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        common = torch.result_type(*args[:2])
        if common.is_floating_point or common.is_complex:
            raise not_implemented(kernel, common)

    return rule


def _random(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: aten/src/ATen/native/DistributionTemplates.h."""
    low, high = args[1:3]
    if high is not None and low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")


def _scaled_mm(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: ``_scaled_mm_out_cuda`` in aten/src/ATen/native/cuda/Blas.cpp."""
    from flatout.virtual.kernels.target import decided

    if decided(None, lambda capability: capability < (8, 9)):
        raise RuntimeError(
            "torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or ROCm MI300+"
        )


def _names(rule: Rule, *names: str) -> dict[str, Rule]:
    return {f"aten::{name}": rule for name in names}


# The names of kernels are those in ``libtorch_cuda.so``; the sources are under aten/src/ATen/native/cuda/.
RULES: dict[str, Rule] = {
    **_names(_mm, "mm", "mm.out"),
    **_names(_addmm, "addmm", "addmm_", "addmm.out", "_addmm_activation"),
    **_names(_batched, "bmm", "bmm.out", "baddbmm", "baddbmm_", "baddbmm.out"),
    **_names(_mixed, "mv", "addmv", "addmv_", "dot", "vdot", "binary_cross_entropy", "lerp.Scalar", "lerp_.Scalar"),
    **_names(_mixed, "index_add", "index_add_", "scatter_add", "scatter_add_", "scatter.src", "scatter_.src"),
    **_names(_mixed, "index_copy", "index_copy_"),
    **_names(_convolution, "convolution", "_convolution", "convolution_overrideable"),
    **_names(_nll_loss, "nll_loss_forward"),
    **_names(_nll_loss2d, "nll_loss2d_forward"),
    **_names(_embedding, "embedding"),
    **_names(_index_put, "index_put", "index_put_", "_index_put_impl_"),
    **_names(_power, "pow.Tensor_Scalar", "pow_.Scalar"),
    **_names(_random, "random_.from"),
    **_names(_subtraction, "sub.Tensor", "sub_.Tensor", "sub.out", "rsub.Tensor", "rsub.Scalar"),
    **_names(_bitwise("bitwise_and_cuda"), "bitwise_and.Tensor", "bitwise_and_.Tensor", "bitwise_and.Tensor_out"),
    **_names(_bitwise("bitwise_or_cuda"), "bitwise_or.Tensor", "bitwise_or_.Tensor", "bitwise_or.Tensor_out"),
    **_names(_bitwise("bitwise_xor_cuda"), "bitwise_xor.Tensor", "bitwise_xor_.Tensor", "bitwise_xor.Tensor_out"),
    **_names(_softmax, "_softmax", "_log_softmax"),
    **_names(_scaled_mm, "_scaled_mm", "_scaled_mm.out"),
    **_names(_one("GeluCUDAKernelImpl"), "gelu"),
    **_names(_weighted("LayerNormKernelImpl", 2, 3), "native_layer_norm"),
    **_names(_weighted("GroupNormKernelImpl", 1, 2), "native_group_norm"),
    **_names(_one("batch_norm_stats_cuda"), "native_batch_norm"),
    **_names(_one("normal_kernel_cuda", _WITH_COMPLEX), "normal_"),
    **_names(_one("mse_cuda"), "mse_loss"),
    **_names(_one("upsample_bilinear2d_out_frame", _FLOATS | {torch.uint8}), "upsample_bilinear2d"),
    **_names(_one("avg_pool2d_out_cuda_frame"), "avg_pool2d"),
    **_names(_one("adaptive_avg_pool2d_cuda"), "_adaptive_avg_pool2d"),
    **_names(_one("max_pool2d_with_indices_out_cuda_frame"), "max_pool2d_with_indices"),
}
