"""Every operation on virtual tensors comes through here.

Python kernels are registered for the dispatch keys of virtual tensors. An operation that has a *stand-in* (see
`kernels`) is answered by it. Any other is answered by its shape (see `shapes`), and memory is allocated for what comes
out. Operations that PyTorch composes of others in C++ are left alone: they come here in parts, as they reach CUDA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import cuda_errors, randomness, values
from flatout.virtual import machine as machines
from flatout.virtual.operators import Operator
from flatout.virtual.shapes import Described, Spec, infer
from flatout.virtual.tensor import (
    HOST_INDEX,
    Allocation,
    allocation_of,
    as_meta,
    as_virtual,
    contiguous_stride,
    is_virtual,
    native_device,
    new_tensor,
    place,
    span_bytes,
)

_Tensor = torch.Tensor


def build(spec: Any, index: int) -> Any:
    """New virtual tensors for a spec, in the order in which an operation allocates its outputs."""
    if type(spec) is Spec:
        allocation = new_allocation(spec.nbytes, index)
        return new_tensor(allocation, spec.size, spec.stride, spec.dtype)
    if type(spec) is list:
        return [build(item, index) for item in spec]
    return spec[1]


def new_allocation(nbytes: int, index: int) -> Allocation:
    """Memory on the virtual device of that native index."""
    if index > HOST_INDEX:
        return Allocation(None, index, nbytes)
    return machines.current().gpus[index - 1].memory.allocate(nbytes)


def empty(size: Sequence[int], dtype: torch.dtype, index: int, stride: Sequence[int] | None = None) -> torch.Tensor:
    """A new virtual tensor, as ``torch.empty``."""
    meta = torch.empty(0, dtype=dtype)
    size = torch.Size(size)
    if stride is None:
        stride = contiguous_stride(size)
    return new_tensor(new_allocation(span_bytes(size, stride, meta.element_size()), index), size, stride, dtype)


def inferred(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, int]:
    """What comes out of the operation by PyTorch's own rules, and the native device; its errors are raised."""
    described = _describe(op, args, kwargs)
    if described.host or described.mixed:
        check_host_tensors(op, described, args, kwargs)
    return infer(op, described, args, kwargs), described.index


def _describe(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Described:
    described = Described(op.number)
    for argument in args:
        described.add(argument)
    for name, argument in kwargs.items():
        described.key.append(name)
        described.add(argument)
    return described


def generic(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Answer an operation by the shapes that come out of it."""
    described = _describe(op, args, kwargs)
    if described.host or described.mixed:
        check_host_tensors(op, described, args, kwargs)
    if op.random:
        check_generator(kwargs, described.index)
    specs = infer(op, described, args, kwargs)
    index = described.index
    if op.makes and not index:
        index = index_named(kwargs.get("device"))
    assert index, f"{op.name} has no tensor to say where its result belongs"
    results = []
    for spec, source in zip(specs, op.written):
        if source is None:
            results.append(build(spec, index))
        else:
            target = args[source] if isinstance(source, int) else kwargs[source]
            if (
                isinstance(source, str)
                and isinstance(target, _Tensor)
                and type(spec) is Spec
                and spec.size != target.shape
            ):
                resize(target, spec.size, spec.stride)
            results.append(target)
    if op.writes:
        _note_update(results)
    values.follow(op, args, kwargs, results, described.tensors)
    if len(results) == 1:
        return results[0]
    return tuple(results) if results else None


def _note_update(written: Sequence[Any]) -> None:
    """Tell who counts steps that a parameter may have been changed by hand."""
    machine = machines.current()
    if machine.steps is None or machine.phase in ("optimizer", "backward"):
        return
    for tensor in written:
        if isinstance(tensor, _Tensor) and is_virtual(tensor):
            record = allocation_of(tensor).record
            if (record is not None and record.category == "parameters") or (tensor.requires_grad and tensor.is_leaf):
                machine.steps.counter.parameter_updated()


def index_named(device: torch.device | None) -> int:
    """The native index of the GPU that was named, or of the current one; 0 for a script's own ``meta``."""
    if device is not None and device.type == "meta":
        return device.index or place.index
    return machines.current().gpu(None if device is None else device.index).number + 1


def check_generator(kwargs: dict[str, Any], index: int) -> None:
    """A GPU's tensor needs a GPU's generator. Source of the text: check_generator in aten/src/ATen/core/Generator.h."""
    generator = kwargs.get("generator")
    if generator is not None and index <= HOST_INDEX and randomness.source_of(generator) is None:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")


def check_host_tensors(op: Operator, described: Described, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """CPU scalars may be mixed with GPU tensors, larger CPU tensors may not."""
    if described.index > HOST_INDEX:
        return
    if not described.mixed:
        for tensor in described.host:
            if tensor.dim() > 0:
                break
        else:
            lenient = _lenient.get(op.name)
            if lenient is None:
                lenient = _lenient[op.name] = cuda_errors.accepts_host_scalars(op)
            if lenient:
                return
    cuda_errors.check_devices(op, args, kwargs)


_lenient: dict[str, bool] = {}


def resize(tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int] | None = None) -> None:
    """Give a virtual tensor another shape in place, with more memory where its storage is too small."""
    stride = contiguous_stride(size) if stride is None else stride
    needed = span_bytes(size, stride, tensor.element_size(), int(tensor.storage_offset()))
    storage = tensor.untyped_storage()
    if storage.nbytes() < needed:
        storage.resize_(needed)
    tensor.as_strided_(size, stride)  # C++ sets the shape; nothing is allocated


def alias(tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> torch.Tensor:
    """A view of a virtual tensor's memory."""
    native = as_meta(tensor)
    index = native_device(tensor).index
    return as_virtual(torch.ops.aten.as_strided.default(native, size, stride, offset), index)


def taken_apart(op: Operator, *args: Any, **kwargs: Any) -> Any:
    """A composite operator as C++ takes it apart on any device (Python decompositions of it are left aside)."""
    return op.overload._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
