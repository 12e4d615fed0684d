"""Normalization and softmax: few operations an element, so the passes over memory decide.

How many passes a kernel makes: aten/src/ATen/native/cuda/{Normalization.cuh, layer_norm_kernel.cu,
group_norm_kernel.cu, SoftMax.cu} and cuDNN's batch norm. A second pass over the same data is `reused_bytes`: a cache
may serve it.
"""

from __future__ import annotations

from flatout.costs.cost import Kernel
from flatout.costs.table import formula, read_bytes, written_bytes
from flatout.recording.operation import Operation, TensorType


@formula("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update")
def batch_norm(operation: Operation) -> tuple[Kernel, ...]:
    """In training: one pass for mean and variance, one to normalize. In evaluation the second alone."""
    x = operation.tensor(0)
    training = operation.argument(5, True) is not False or operation.base.endswith("with_update")
    return _passes("batch_norm", operation, x, 2 if training else 1)


@formula("native_batch_norm_backward", "cudnn_batch_norm_backward", "batch_norm_backward")
def batch_norm_backward(operation: Operation) -> tuple[Kernel, ...]:
    """Two passes over input and gradient, one to sum up, one for the input's gradient."""
    grad = operation.tensor(0)
    read = 4 * grad.bytes
    return (
        Kernel(
            _layout("batch_norm_backward", grad),
            bytes_read=read,
            bytes_written=written_bytes(operation),
            reused_bytes=read // 2,
        ),
    )


def _layout(kind: str, x: TensorType) -> str:
    return f"{kind}_nhwc" if x.channels_last else kind


def _passes(kind: str, operation: Operation, x: TensorType, passes: int) -> tuple[Kernel, ...]:
    read = read_bytes(operation) + (passes - 1) * x.bytes
    return (
        Kernel(
            _layout(kind, x),
            bytes_read=read,
            bytes_written=written_bytes(operation),
            reused_bytes=(passes - 1) * x.bytes,
        ),
    )


@formula("batch_norm_stats", "batch_norm_gather_stats_with_counts", "batch_norm_backward_reduce")
def synchronized_sums(operation: Operation) -> tuple[Kernel, ...]:
    return (Kernel("reduction", bytes_read=read_bytes(operation), bytes_written=written_bytes(operation)),)


@formula("native_layer_norm", "_fused_rms_norm")
def layer_norm(operation: Operation) -> tuple[Kernel, ...]:
    """A row stays on the chip between the two passes."""
    return (Kernel("layer_norm", bytes_read=read_bytes(operation), bytes_written=written_bytes(operation)),)


@formula("native_layer_norm_backward", "_fused_rms_norm_backward")
def layer_norm_backward(operation: Operation) -> tuple[Kernel, ...]:
    """One kernel for the gradient of the input; one for those of weight and bias, which reads both again."""
    grad, x = operation.tensor(0), operation.tensor(1)
    outputs = operation.outputs
    kernels: tuple[Kernel, ...] = (
        Kernel("layer_norm_backward", bytes_read=grad.bytes + x.bytes, bytes_written=x.bytes),
    )
    if len(outputs) > 1:
        small = sum(output.bytes for output in outputs[1:])
        kernels += (Kernel("layer_norm_weights", bytes_read=grad.bytes + x.bytes, bytes_written=small),)
    return kernels


@formula("native_group_norm")
def group_norm(operation: Operation) -> tuple[Kernel, ...]:
    """One kernel for the moments of each group, one to normalize."""
    x = operation.tensor(0)
    return (
        Kernel("reduction", bytes_read=x.bytes),
        Kernel("pointwise", bytes_read=x.bytes, bytes_written=x.bytes),
    )


@formula("native_group_norm_backward")
def group_norm_backward(operation: Operation) -> tuple[Kernel, ...]:
    """One kernel for two sums of each channel, one for the gradient of the input."""
    grad, x = operation.tensor(0), operation.tensor(1)
    return (
        Kernel("reduction", bytes_read=grad.bytes + x.bytes),
        Kernel("pointwise", bytes_read=grad.bytes + x.bytes, bytes_written=x.bytes),
    )


@formula("_softmax", "_log_softmax", "_masked_softmax", "_safe_softmax")
def softmax(operation: Operation) -> tuple[Kernel, ...]:
    """A row stays on the chip."""
    return (Kernel("softmax", bytes_read=read_bytes(operation), bytes_written=written_bytes(operation)),)


@formula("_softmax_backward_data", "_log_softmax_backward_data", "_masked_softmax_backward")
def softmax_backward(operation: Operation) -> tuple[Kernel, ...]:
    return (Kernel("softmax_backward", bytes_read=read_bytes(operation), bytes_written=written_bytes(operation)),)
