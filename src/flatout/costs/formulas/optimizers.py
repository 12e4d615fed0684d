"""Optimizers over lists of tensors: the bytes that an update really moves, and how many kernels take the list.

Source of the kernels' limits: aten/src/ATen/native/cuda/MultiTensorApply.cuh. One launch takes up to 110, 64, 48, 36 or
30 tensors (by how many lists there are) and 320 chunks of 65,536 elements.
"""

from __future__ import annotations

from flatout.costs.cost import Kernel
from flatout.costs.table import formula, formulas, read_bytes, written_bytes
from flatout.recording.operation import Operation, TensorType

CHUNK_ELEMENTS = 65_536
CHUNKS_A_LAUNCH = 320
TENSORS_A_LAUNCH = (110, 64, 48, 36, 30)


def launches(lists: list[tuple[TensorType, ...]]) -> int:
    """Kernels that one call over these lists launches."""
    if not lists:
        return 1
    most = TENSORS_A_LAUNCH[min(len(lists), len(TENSORS_A_LAUNCH)) - 1]
    chunks = sum(-(-tensor.count // CHUNK_ELEMENTS) for tensor in lists[0])
    return max(-(-len(lists[0]) // most), -(-chunks // CHUNKS_A_LAUNCH), 1)


def tensor_lists(operation: Operation) -> list[tuple[TensorType, ...]]:
    """The lists among its arguments that hold tensors."""
    found = []
    for argument in operation.arguments:
        if isinstance(argument, tuple):
            tensors = tuple(item for item in argument if isinstance(item, TensorType) and not item.host)
            if tensors:
                found.append(tensors)
    return found


def foreach(operation: Operation) -> tuple[Kernel, ...]:
    """Each list read once; results written, in place or new."""
    lists = tensor_lists(operation)
    extra = 1 if operation.outputs else 0
    count = launches([*lists, *([lists[0]] if extra and lists else [])])
    read = read_bytes(operation)
    if operation.base in ("aten::_foreach_zero_", "aten::_foreach_copy_"):
        read -= sum(target.bytes for target in operation.targets())
    return (Kernel("optimizer", bytes_read=read, bytes_written=written_bytes(operation), launches=count),)


_FOREACH = (
    "abs", "add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "copy", "div", "exp", "lerp", "log", "maximum",
    "minimum", "mul", "neg", "norm", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sqrt", "sub", "tanh",
    "zero", "max",
)  # fmt: skip
for _name in _FOREACH:
    formulas[f"aten::_foreach_{_name}"] = foreach
    formulas[f"aten::_foreach_{_name}_"] = foreach


@formula("_amp_foreach_non_finite_check_and_unscale_")
def unscale(operation: Operation) -> tuple[Kernel, ...]:
    """Gradients read and written."""
    gradients = sum(tensor.bytes for tensor in tensor_lists(operation)[0]) if tensor_lists(operation) else 0
    return (
        Kernel(
            "optimizer", bytes_read=gradients, bytes_written=gradients, launches=launches(tensor_lists(operation)[:1])
        ),
    )


@formula("_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_")
def fused(operation: Operation) -> tuple[Kernel, ...]:
    """Parameter, gradient and states are read; parameter and states are written; the gradient is not, unless scaled.

    AdamW in float32: 16 bytes read and 12 written a parameter.
    """
    lists = tensor_lists(operation)
    scaled = any(name == "grad_scale" and value is not None for name, value in operation.keywords)
    large = [one for one in lists if any(tensor.count > 1 for tensor in one)]
    read = sum(tensor.bytes for one in lists for tensor in one)
    written = sum(tensor.bytes for position, one in enumerate(large) if position != 1 or scaled for tensor in one)
    return (Kernel("optimizer", bytes_read=read, bytes_written=written, launches=launches(large)),)
