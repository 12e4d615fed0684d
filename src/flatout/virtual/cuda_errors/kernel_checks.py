"""Checks of kernels whose stand-ins make their outputs themselves, and of operators that C++ checks by native device.

What goes through PyTorch's shape rules is checked there (see `devices` and `dtypes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from flatout.virtual.cuda_errors.devices import check_devices, check_wrapper, tensors_in
from flatout.virtual.cuda_errors.dtypes import refuse
from flatout.virtual.cuda_errors.wording import device_of, scalar_type, tensor_type
from flatout.virtual.tensor import HOST_INDEX, native_index

Guard: TypeAlias = Callable[[Sequence[Any], dict[str, Any]], None]


def _apart(values: Sequence[Any]) -> bool:
    """Whether the tensors are not all on one device (a quick look)."""
    first = -1
    for tensor in tensors_in(values):
        index = native_index(tensor) % (HOST_INDEX + 1)  # host memory that is not there counts as the CPU
        if first < 0:
            first = index
        elif index != first:
            return True
    return False


def _like_its_kernel(name: str) -> Guard:
    """Devices by PyTorch's table of operators, types by our rules."""

    def guard(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        from flatout.virtual.operators import operator

        op = operator(name)
        if _apart(args):
            check_devices(op, args, kwargs)
        refuse(op, args, kwargs)

    return guard


def _cudnn_batch_norm(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Sources: ``_batch_norm_impl_index`` in Normalization.cpp; native/cudnn/BatchNorm.cpp; ATen/TensorUtils.cpp."""
    input, weight, bias, mean, variance = args[:5]
    for name, tensor in (("running_mean", mean), ("running_var", variance), ("weight", weight), ("bias", bias)):
        if tensor is not None and tensor.numel() != input.shape[1]:
            raise RuntimeError(f"{name} should contain {input.shape[1]} elements not {tensor.numel()}")
    if _apart(args[:5]):
        names = ("input", "weight", "bias", "running_mean", "running_var")
        # Only an input on the GPU goes to cuDNN.
        library = "cudnn" if native_index(input) else "native"
        check_wrapper(f"wrapper_CUDA__{library}_batch_norm", zip(names, args, strict=False))
    if input.dtype is not torch.float16 and weight.dtype is not input.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 'weight'; but type"
            f" {tensor_type(input)} does not equal {tensor_type(weight)}"
            " (while checking arguments for cudnn_batch_norm)"
        )


def _recurrent(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """``_cudnn_rnn(input, weight, stride, buffer, hx, cx, ...)``.

    Source: ``check_attributes`` in aten/src/ATen/native/cudnn/RNN.cpp.
    """
    input, weights = args[:2]
    for name, tensors in (("hidden", args[4:6]), ("parameter", weights)):
        for tensor in tensors_in(tensors):
            if device_of(tensor) != device_of(input):
                raise RuntimeError(
                    f"Input and {name} tensors are not at the same device, found input tensor at {device_of(input)} and"
                    f" {name} tensor at {device_of(tensor)}"
                )
            if tensor.dtype is not input.dtype:
                raise RuntimeError(
                    f"Input and {name} tensors are not the same dtype, found input tensor with"
                    f" {scalar_type(input.dtype)} and {name} tensor with {scalar_type(tensor.dtype)}"
                )


def _attention(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: ``validate_sdpa_input`` in aten/src/ATen/native/transformers/attention.cpp."""
    query, key, value = args[:3]
    if _apart((query, key, value)):
        raise RuntimeError(
            f"Expected query, key, and value to have the same device type, but got query.device: {device_of(query)}"
            f" key.device: {device_of(key)} and value.device: {device_of(value)} instead."
        )


def _packed_lengths(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """``_pack_padded_sequence(input, lengths, batch_first)``. Source: aten/src/ATen/native/PackedSequence.cpp."""
    lengths = args[1]
    if 0 < native_index(lengths) <= HOST_INDEX:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {device_of(lengths)}"
            f" {scalar_type(lengths.dtype)} tensor"
        )


def _comparison(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """``allclose`` compares element by element."""
    if _apart(args):
        gpu, other = sorted((device_of(tensor) for tensor in args[:2]), key=lambda device: device.type != "cuda")
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {gpu} and {other}!"
        )


_KERNELS = (
    "embedding native_group_norm _fused_rms_norm equal masked_select _thnn_fused_lstm_cell _thnn_fused_gru_cell"
    " bincount _embedding_bag _embedding_bag_forward_only _scaled_dot_product_efficient_attention"
    " _scaled_dot_product_cudnn_attention"
)
GUARDS: dict[str, Guard] = {
    **{f"aten::{name}": _like_its_kernel(f"aten::{name}") for name in _KERNELS.split()},
    "aten::cudnn_batch_norm": _cudnn_batch_norm,
    "aten::_cudnn_rnn": _recurrent,
    "aten::scaled_dot_product_attention": _attention,
    "aten::_pack_padded_sequence": _packed_lengths,
    "aten::allclose": _comparison,
}
