"""What comes out of an operation, as shapes: asked of PyTorch's meta kernels once for each combination of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.errors import UnsupportedError
from flatout.virtual import cuda_errors
from flatout.virtual.operators import Operator
from flatout.virtual.tensor import native_device, new_meta, placed_on, span_bytes

_Tensor = torch.Tensor
_specs: dict[Any, Any] = {}
_metas: dict[Any, torch.Tensor] = {}
# What a single-argument float does to an output's shape is nothing; its type is enough of a key.
_shapeless = (float, complex)


class Described:
    """The arguments of one call: a key for the cache, and the virtual tensors among them."""

    __slots__ = ("host", "index", "key", "mixed", "tensors")

    def __init__(self, number: int) -> None:
        self.key: list[Any] = [number]
        self.tensors: list[torch.Tensor] = []
        self.host: list[torch.Tensor] = []
        self.index = 0
        self.mixed = False  # virtual tensors of different devices

    def add(self, value: Any) -> None:
        key = self.key
        if isinstance(value, _Tensor):
            device = native_device(value)
            key.append(value.shape)
            key.append(value.stride() if value.layout is torch.strided else value.layout)
            key.append(value.dtype)
            if device.type == "meta":
                if device.index is not None:
                    self.tensors.append(value)
                    if device.index != self.index:
                        if self.index:
                            self.mixed = self.mixed or value.dim() > 0
                            self.index = min(self.index, device.index)
                        else:
                            self.index = device.index
            else:
                if value.dim() == 0 and is_wrapped_number(value):
                    key.append("number")
                self.host.append(value)
        elif isinstance(value, (list, tuple)):
            key.append(len(value))
            for item in value:
                self.add(item)
        elif isinstance(value, _shapeless):
            key.append(type(value))
        elif isinstance(value, torch.Generator):
            key.append("generator")
        else:
            key.append(value.__class__)
            key.append(value)


_zero_dimensional = torch.zeros((), dtype=torch.float32)


def is_wrapped_number(tensor: torch.Tensor) -> bool:
    """Whether a CPU scalar is only a Python number that C++ wrapped: it takes no part in type promotion."""
    if tensor.dtype is torch.float64:
        return torch.result_type(tensor, _zero_dimensional) is torch.float32
    if tensor.dtype is torch.int64:
        return torch.result_type(tensor, torch.zeros((), dtype=torch.int8)) is torch.int8
    if tensor.dtype is torch.complex128:
        return torch.result_type(tensor, torch.zeros((), dtype=torch.complex64)) is torch.complex64
    return False


def meta_of(tensor: torch.Tensor, *, fresh: bool = False) -> torch.Tensor:
    """A meta tensor of the same shape, strides and dtype (shared unless `fresh`: do not change it)."""
    if tensor.layout is not torch.strided:
        return tensor
    key = (tensor.shape, tensor.stride(), tensor.dtype)
    if fresh:
        return new_meta(*key)
    found = _metas.get(key)
    if found is None:
        # Made in inference mode, it could not be written to outside of it for ever after.
        with torch.inference_mode(False):
            found = _metas[key] = new_meta(*key)
    return found


def to_meta(value: Any) -> Any:
    """An argument as PyTorch's meta kernels take it."""
    if isinstance(value, _Tensor):
        if value.dim() == 0 and native_device(value).type == "cpu" and is_wrapped_number(value):
            return value.item()
        return meta_of(value)
    if isinstance(value, (list, tuple)):
        return type(value)([to_meta(item) for item in value])
    if isinstance(value, torch.device):
        return torch.device("meta")
    if isinstance(value, torch.Generator):
        return None
    return value


class Spec:
    """The shape of a new tensor that an operation returns. `nbytes` is that of its storage."""

    __slots__ = ("dtype", "nbytes", "size", "stride")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.size = tensor.shape
        self.stride = tensor.stride()
        self.dtype = tensor.dtype
        self.nbytes = span_bytes(self.size, self.stride, tensor.element_size())


def _spec_of(op: Operator, returned: Any, position: int) -> Any:
    if isinstance(returned, _Tensor):
        return Spec(returned)
    if isinstance(returned, (list, tuple)):
        return [_spec_of(op, item, position) for item in returned]
    return ("value", returned)


def infer(op: Operator, described: Described, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What comes out of the operation: one `Spec` (or list, or value) for each return."""
    try:
        key = tuple(described.key)
        found = _specs.get(key)
    except TypeError:  # an argument that cannot be hashed
        key, found = None, None
    if found is None:
        cuda_errors.refuse(op, args, kwargs)
        meta_kwargs = {
            name: meta_of(value, fresh=True) if name in op.out_names and isinstance(value, _Tensor) else to_meta(value)
            for name, value in kwargs.items()
        }
        try:
            with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction(), placed_on(0):
                result = op.call([to_meta(a) for a in args], meta_kwargs)
        except NotImplementedError as error:
            result = _tried_on_cpu(op, args, kwargs) if op.written else None
            if op.written and result is None:
                cuda_errors.raise_if_refused(op, args, kwargs)
                raise _without_shape(op) from error
        except Exception as error:
            raise cuda_errors.as_cuda_says(op, args, kwargs, error) from None
        returns = result if len(op.written) > 1 else (result,)
        found = [_spec_of(op, item, position) for position, item in enumerate(returns)]
        if key is not None:
            _specs[key] = found
    return found


# Up to what size of its arguments an operator is run on the CPU only to learn the shape of its result.
_TRIAL_LIMIT_BYTES = 64 << 20
_dynamic = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)


def _tried_on_cpu(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an operator without a meta kernel gives on the CPU, from made-up content; None where it fails."""
    if not op.name.startswith("aten::") or any(tag in op.overload.tags for tag in _dynamic):
        return None
    spent = 0

    def stand_in(value: Any) -> Any:
        nonlocal spent
        if isinstance(value, _Tensor):
            spent += value.numel() * value.element_size()
            if spent > _TRIAL_LIMIT_BYTES:
                raise MemoryError
            content = torch.zeros if not value.is_floating_point() else torch.ones
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(
                content((), dtype=value.dtype)
            )
        if isinstance(value, (list, tuple)):
            return type(value)([stand_in(item) for item in value])
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return None if isinstance(value, torch.Generator) else value

    try:
        return op.overload(*[stand_in(a) for a in args], **{name: stand_in(value) for name, value in kwargs.items()})
    except (RuntimeError, MemoryError):
        return None


def _without_shape(op: Operator) -> UnsupportedError:
    if op.name.startswith("aten::"):
        return UnsupportedError(
            f"{op.name} is not supported on the virtual GPU: PyTorch cannot tell the shape of its result in advance"
        )
    return UnsupportedError(
        f"the operator {op.name} is not PyTorch's own and says nothing of the shape of its result: register a shape "
        f'function with torch.library.register_fake("{op.name}")'
    )
