"""Whoever wants to see every operation that reaches a virtual GPU says so here.

A listener is called after each operation with the operator, its arguments, its result, and when it began by the
listener's own clock; `describe` makes an `Operation` of them, which knows nothing of tensors. Without a listener an
operation pays one look at `listener` and one at a clock that stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from flatout.recording.operation import Operation, TensorType
from flatout.virtual.tensor import HOST_INDEX, native_device

if TYPE_CHECKING:
    from flatout.virtual.operators import Operator

Listener = Callable[["Operator", Sequence[Any], "dict[str, Any]", Any, int], None]

listener: Listener | None = None
"""Who is told of operations; set by `listen`."""


def _no_clock() -> int:
    return 0


now: Callable[[], int] = _no_clock
"""The listener's clock; set by `listen`."""

_Tensor = torch.Tensor
_types: dict[Any, TensorType] = {}
_dtypes: dict[torch.dtype, str] = {}
_operations: dict[Any, Operation] = {}
_PLAIN = (bool, int, float, str)
_LARGE = 1 << 63  # what a recording's numbers can hold


def listen(new: Listener | None, clock: Callable[[], int] = _no_clock) -> Listener | None:
    """Make `new` the one who is told, by that clock; None for nobody. Returns who was told before."""
    global listener, now
    before, listener = listener, new
    now = clock
    return before


def describe(op: Operator, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Operation:
    """The operation in words that need no PyTorch. Equal operations are one object."""
    arguments = tuple([_argument(value) for value in args])
    keywords = tuple([(name, _argument(value)) for name, value in kwargs.items()]) if kwargs else ()
    outputs: list[TensorType] = []
    if len(op.written) == 1:
        _add_output(outputs, result, op.written[0])
    elif isinstance(result, (tuple, list)):
        for item, source in zip(result, op.written):
            _add_output(outputs, item, source)
    tf32 = _tf32_allowed(op.name)
    repeated = len(args) > 1 and args[0] is args[1] and isinstance(args[0], _Tensor)
    key = (op.number, arguments, keywords, tuple(outputs), tf32, repeated)
    found = _operations.get(key)
    if found is None:
        found = _operations[key] = Operation(
            name=op.name,
            arguments=arguments,
            keywords=keywords,
            outputs=tuple(outputs),
            written=tuple(where for where in op.writes if isinstance(where, int)),
            repeated=repeated,
            tf32=tf32,
        )
    return found


def flow(op: Operator, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> tuple[list[Any], list[Any]]:
    """The tensors of an operation in the order of `Operation.inputs` and `Operation.outputs`."""
    inputs: list[Any] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, _Tensor):
            inputs.append(value)
        elif isinstance(value, (tuple, list)):
            inputs.extend(item for item in value if isinstance(item, _Tensor))
    results = (result,) if len(op.written) == 1 else result if isinstance(result, (tuple, list)) else ()
    outputs: list[Any] = []
    for item, source in zip(results, op.written):
        if source is None:
            of_item = item if isinstance(item, (tuple, list)) else (item,)
            outputs.extend(one for one in of_item if isinstance(one, _Tensor))
    return inputs, outputs


def _add_output(outputs: list[TensorType], item: Any, source: int | str | None) -> None:
    if source is not None:
        return
    if isinstance(item, _Tensor):
        outputs.append(_type(item))
    elif isinstance(item, (tuple, list)):
        outputs.extend(_type(one) for one in item if isinstance(one, _Tensor))


def _type(tensor: torch.Tensor) -> TensorType:
    if tensor.layout is not torch.strided:
        return TensorType(tuple(tensor.shape), (1,) * tensor.dim(), _dtype(tensor.dtype))
    device = native_device(tensor)
    host = device.type != "meta" or (device.index or 0) > HOST_INDEX
    key = (tensor.shape, tensor.stride(), tensor.dtype, host)
    found = _types.get(key)
    if found is None:
        found = _types[key] = TensorType(tuple(tensor.shape), tuple(tensor.stride()), _dtype(tensor.dtype), host)
    return found


def _dtype(dtype: torch.dtype) -> str:
    found = _dtypes.get(dtype)
    if found is None:
        found = _dtypes[dtype] = str(dtype).removeprefix("torch.")
    return found


def _argument(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in _PLAIN:
        return value if kind is not int or -_LARGE < value < _LARGE else float(value)
    if isinstance(value, _Tensor):
        return _type(value)
    if isinstance(value, (tuple, list)):
        return tuple([_argument(item) for item in value])
    if isinstance(value, torch.dtype):
        return _dtype(value)
    return str(value)


_PRODUCTS = ("mm", "bmm", "baddbmm", "addmm", "convolution", "attention", "_rnn", "matmul", "addbmm")
_may_use_tf32: dict[str, str] = {}


def _tf32_allowed(name: str) -> bool:
    """Whether the script lets float32 products of this operator run as TF32: one switch for cuDNN, one for the rest."""
    library = _may_use_tf32.get(name)
    if library is None:
        matters = any(part in name for part in _PRODUCTS)
        cudnn = "convolution" in name or "_rnn" in name
        library = _may_use_tf32[name] = ("cudnn" if cudnn else "cublas") if matters else ""
    if not library:
        return False
    try:
        return torch.backends.cudnn.allow_tf32 if library == "cudnn" else torch.backends.cuda.matmul.allow_tf32
    except RuntimeError:  # the script set both the old and the new switches
        return False
