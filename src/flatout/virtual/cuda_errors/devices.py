"""Tensors on the CPU and on the GPU, or on two GPUs, in one operation: what is legal, and how CUDA says no.

Three mechanisms of PyTorch speak, each in its own words: the check that is generated in front of a kernel (names the
argument and the kernel; aten/src/ATen/core/op_registration/adaption.cpp, reworded in 2.8), ``TensorIterator`` (names
the devices; aten/src/ATen/TensorIterator.cpp), and checks that a kernel makes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from flatout.virtual.cuda_errors.wording import device_of, torch_version
from flatout.virtual.native_functions import cuda_kernel

if TYPE_CHECKING:
    from flatout.virtual.operators import Operator

Check: TypeAlias = "Callable[[Operator, Sequence[Any], dict[str, Any]], None]"
_CPU = torch.device("cpu")
_ITERATOR = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"


def accepts_host_scalars(op: Operator) -> bool:
    """Whether a CPU tensor without dimensions may be among the arguments without a further look."""
    return op.name not in _SPECIAL and not op.writes and not cuda_kernel(op.name).checked


def check_devices(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise what CUDA raises if the tensors of a call may not be mixed.

    Raises:
        RuntimeError: in PyTorch's words.
    """
    special = _SPECIAL.get(op.name)
    if special is not None:
        special(op, args, kwargs)
    elif cuda_kernel(op.name).checked:
        check_wrapper(cuda_kernel(op.name).wrapper, named_positionals(op, args, kwargs))
    else:
        _iterator(op, args, kwargs)


def named_positionals(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments that a generated check looks at, in its order: outputs, then positional ones."""
    for name in op.arguments:
        if name in op.out_names and name in kwargs:
            yield name, kwargs[name]
    yield from zip(op.arguments, args, strict=False)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in an argument."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def check_wrapper(wrapper: str, arguments: Iterator[tuple[str, Any]]) -> None:
    """The check that is generated in front of a kernel: the first tensor says which device it must be."""
    common: torch.device | None = None
    for name, value in arguments:
        for tensor in tensors_in(value):
            device = device_of(tensor)
            if common is None:
                common = device
            elif device != common:
                raise RuntimeError(wrapper_text(wrapper, name, common, device))


def wrapper_text(wrapper: str, argument: str, common: torch.device, device: torch.device) -> str:
    """The text of a failed generated check."""
    if torch_version() >= (2, 8):
        return (
            f"Expected all tensors to be on the same device, but got {argument} is on {device}, different from other"
            f" tensors on {common} (when checking argument in method {wrapper})"
        )
    return f"{_ITERATOR.format(common, device)} (when checking argument for argument {argument} in method {wrapper})"


def _iterator(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    written = {
        id(args[w] if isinstance(w, int) else kwargs.get(w))
        for w in op.writes
        if not isinstance(w, int) or w < len(args)
    }
    operands = [(tensor, id(value) in written) for value in (*kwargs.values(), *args) for tensor in tensors_in(value)]
    common = next((device for tensor, _ in operands if (device := device_of(tensor)) != _CPU), _CPU)
    for tensor, is_output in operands:
        device = device_of(tensor)
        if device == common or (device == _CPU and tensor.dim() == 0 and not is_output):
            continue
        raise RuntimeError(_ITERATOR.format(common, device))


def _foreach(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Lists are taken apart, tensor by tensor, where they are not all on one GPU."""
    lists = [
        value for value in args if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor)
    ]
    for row in zip(*lists, strict=False):
        gpu = next((device for tensor in row if (device := device_of(tensor)) != _CPU), None)
        for place, tensor in enumerate(row):
            if gpu is not None and device_of(tensor) != gpu and (tensor.dim() or (place == 0 and op.writes)):
                raise RuntimeError(_ITERATOR.format(gpu, device_of(tensor)))


def _mv(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """A product with a vector is written into a new tensor beside the matrix."""
    check_wrapper("wrapper_CUDA_addmv_", iter((("mat", args[0]), ("vec", args[1]))))


def _mask(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: aten/src/ATen/native/cuda/Indexing.cu, ``masked_fill__cuda``."""
    tensor, mask = args[:2]
    if device_of(tensor) != device_of(mask):
        if device_of(tensor) == _CPU and len(args) > 2 and isinstance(args[2], torch.Tensor):
            raise RuntimeError("masked_fill_: Expected inputs to be on same device")
        raise RuntimeError(
            f"expected self and mask to be on the same device, but got mask on {device_of(mask)} and self on"
            f" {device_of(tensor)}"
        )
    if len(args) > 2 and isinstance(args[2], torch.Tensor) and device_of(tensor) == _CPU:
        raise RuntimeError("masked_fill_: Expected inputs to be on same device")


def _index(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp; a value without dimensions may be on the CPU."""
    tensor = args[0]
    home = device_of(tensor)
    for index in args[1]:
        if index is not None and device_of(index) not in (home, _CPU):
            raise RuntimeError(f"indices should be either on cpu or on the same device as the indexed tensor ({home})")
    if len(args) > 2 and args[2].dim() and device_of(args[2]) != home:
        gpu = home if home != _CPU else device_of(args[2])
        raise RuntimeError(_ITERATOR.format(gpu, _CPU if _CPU in (home, device_of(args[2])) else device_of(args[2])))


def _where(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """All three may be CPU tensors without dimensions. Source: ``where_self_out`` in TensorCompare.cpp."""
    tensors = list(tensors_in((*args, *kwargs.values())))
    gpu = next((device for tensor in tensors if (device := device_of(tensor)) != _CPU), _CPU)
    for tensor in tensors:
        if device_of(tensor) != gpu and tensor.dim():
            raise RuntimeError(_ITERATOR.format(gpu, device_of(tensor)))


def _convolution(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Told as a difference of types, by the rules for element types."""
    from flatout.virtual.cuda_errors.dtypes import check_convolution

    check_convolution(*args[:3])


def _free(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Any mixture is legal."""


_SPECIAL: dict[str, Check] = {
    "aten::mv": _mv,
    "aten::copy_": _free,
    "aten::embedding": _free,  # its parts are checked
    "aten::set_.source_Storage_storage_offset": _free,
    **{f"aten::masked_fill{dash}.{kind}": _mask for dash in ("", "_") for kind in ("Scalar", "Tensor")},
    **{f"aten::{name}": _index for name in ("index.Tensor", "_unsafe_index.Tensor", "index.Tensor_out")},
    **{f"aten::{name}": _index for name in ("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")},
    **{f"aten::{name}": _where for name in ("where.self", "where.self_out")},
    **{f"aten::{name}": _convolution for name in ("convolution", "_convolution", "convolution_overrideable")},
}


def _register_foreach() -> None:
    names = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeExplicitAutograd")
    _SPECIAL.update({name: _foreach for name in names if name.startswith("aten::_foreach_")})


_register_foreach()
