"""Every operation on virtual tensors comes through here.

Python kernels are registered for the dispatch keys of virtual tensors. An operation that has a *stand-in* (see
`kernels`) is answered by it. Any other is answered by its shape: PyTorch's own meta kernel says what comes out, once
for each combination of shapes, and memory is allocated for it. Operations that PyTorch composes of others in C++ are
left alone: they come here in parts, as they reach CUDA.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from flatout.errors import UnsupportedError
from flatout.virtual import cuda_errors, randomness, values
from flatout.virtual import machine as machines
from flatout.virtual.tensor import (
    HOST_INDEX,
    Allocation,
    allocation_of,
    as_meta,
    as_virtual,
    is_virtual,
    native_device,
    new_meta,
    new_tensor,
    shown_device,
    span_bytes,
)

Handler: TypeAlias = Callable[..., Any]
KEYS = ("CUDA", "HPU")
_Tensor = torch.Tensor


class Operator:
    """What must be known of one ATen operator overload.

    Attributes:
        overload: the ``torch._ops.OpOverload``.
        name: as ``aten::add.Tensor``.
        written: for each return value, the position or keyword of the argument that it is, or None where it is new.
        out_names: keyword arguments that are written to (``out=``).
        random: draws random numbers.
        makes: has an argument that names the device of what it makes.
    """

    __slots__ = ("arguments", "makes", "name", "number", "out_names", "overload", "random", "writes", "written")

    def __init__(self, number: int, overload: Any) -> None:
        schema = overload._schema
        self.number = number
        self.overload = overload
        self.name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        self.arguments = tuple(argument.name for argument in schema.arguments)
        self.random = torch.Tag.nondeterministic_seeded in overload.tags
        self.makes = "device" in self.arguments
        sources: dict[str, int | str] = {}
        self.writes: list[int | str] = []
        out_names = []
        for position, argument in enumerate(schema.arguments):
            alias = argument.alias_info
            if alias is None or not alias.is_write:
                continue
            where: int | str = argument.name if argument.kwarg_only else position
            self.writes.append(where)
            if argument.kwarg_only:
                out_names.append(argument.name)
            for mark in alias.before_set:
                sources[mark] = where
        self.out_names = frozenset(out_names)
        self.written: tuple[int | str | None, ...] = tuple(
            next((sources[mark] for mark in returned.alias_info.before_set if mark in sources), None)
            if returned.alias_info is not None
            else None
            for returned in schema.returns
        )

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the operator with arguments as a kernel got them.

        A Python number that C++ wrapped in a tensor comes to kernels as a number. Most operators take it back for a
        tensor; for the few that do not, their overload for numbers gives the same.
        """
        try:
            return self.overload(*args, **kwargs)
        except RuntimeError as error:
            if "Expected a value of type 'Tensor'" not in str(error):
                raise
            return self.overload.overloadpacket(*args, **kwargs)


_operators: dict[str, Operator] = {}
_specs: dict[Any, Any] = {}
_metas: dict[Any, torch.Tensor] = {}
# What a single-argument float does to an output's shape is nothing; its type is enough of a key.
_shapeless = (float, complex)


def operator(name: str) -> Operator:
    """The operator of that name, as ``aten::add.Tensor``."""
    known = _operators.get(name)
    if known is None:
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        found = getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
        known = _operators[name] = Operator(len(_operators), found)
    return known


class _Described:
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


def infer(op: Operator, described: _Described, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
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
            with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
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
        from flatout.virtual.tensor import contiguous_stride

        stride = contiguous_stride(size)
    return new_tensor(new_allocation(span_bytes(size, stride, meta.element_size()), index), size, stride, dtype)


def inferred(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, int]:
    """What comes out of the operation by PyTorch's own rules, and the native device; its errors are raised."""
    described = _describe(op, args, kwargs)
    if described.host or described.mixed:
        check_host_tensors(op, described, args, kwargs)
    return infer(op, described, args, kwargs), described.index


def _describe(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> _Described:
    described = _Described(op.number)
    for argument in args:
        described.add(argument)
    for name, argument in kwargs.items():
        described.key.append(name)
        described.add(argument)
    return described


def generic(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Answer an operation by the shapes that come out of it."""
    described = _Described(op.number)
    for argument in args:
        described.add(argument)
    for name, argument in kwargs.items():
        described.key.append(name)
        described.add(argument)
    if described.host or described.mixed:
        check_host_tensors(op, described, args, kwargs)
    if op.random:
        check_generator(kwargs)
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
    """The native index of the GPU that was named, or of the current one."""
    if device is not None and device.type == "meta":
        return device.index or 0
    return machines.current().gpu(None if device is None else device.index).number + 1


def check_generator(kwargs: dict[str, Any]) -> None:
    """A generator must be the GPU's. Source of the text: check_generator in aten/src/ATen/core/Generator.h."""
    generator = kwargs.get("generator")
    if generator is not None and randomness.source_of(generator) is None:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")


def check_host_tensors(op: Operator, described: _Described, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
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
    from flatout.virtual.tensor import contiguous_stride

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


_handlers: dict[str, Handler] = {}


def stands_in(*names: str) -> Callable[[Handler], Handler]:
    """Register a stand-in: ``handler(op, *args, **kwargs)`` answers these operators, named as ``add.Tensor``."""

    def register(handler: Handler) -> Handler:
        for name in names:
            full = name if "::" in name else f"aten::{name}"
            assert full not in _handlers, (
                f"{full} has two stand-ins: {_handlers[full].__module__} and {handler.__module__}"
            )
            _handlers[full] = handler
        return handler

    return register


_composites: dict[str, Handler] = {}


def composes(*names: str) -> Callable[[Handler], Handler]:
    """Register the CUDA side of operators that C++ puts together from others and that ask there for ``is_cuda()``.

    The handler runs above autograd and calls the operators that CUDA would: their derivatives are C++'s own. An
    operator that the installed PyTorch does not have is left out.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            _composites[f"aten::{name}"] = handler
        return handler

    return register


def _kernel(name: str, handler: Handler | None) -> Handler:
    cell: list[Operator] = []

    if handler is not None:

        def kernel(*args: Any, **kwargs: Any) -> Any:
            if not cell:
                cell.append(operator(name))
            return handler(cell[0], *args, **kwargs)

    else:

        def kernel(*args: Any, **kwargs: Any) -> Any:
            if not cell:
                cell.append(operator(name))
            machines.current().operations += 1
            return generic(cell[0], args, kwargs)

    kernel.__name__ = name
    return cuda_errors.guarded(name, kernel)


def covered_names() -> set[str]:
    """Operators that need a kernel of ours at the backend's key: those that do not come apart in C++ there."""
    of: Any = torch._C._dispatch_get_registrations_for_dispatch_key
    names = set(of("CPU")) | set(of("Meta")) | set(of("CompositeExplicitAutogradNonFunctional")) | set(of("CUDA"))
    explicit = {n for n in of("CompositeExplicitAutograd") if n.startswith("aten::")}
    kept = {n for n in explicit if n.startswith("aten::_foreach_")} | (explicit & _CUDA_KERNELS)
    # Some that come apart elsewhere have a kernel of their own on the CPU and on CUDA, as silu_backward.
    implicit = set(of("CompositeImplicitAutograd")) - set(of("CPU"))
    ours = {n for n in names | kept if n.startswith("aten::")} - implicit - (explicit - kept)
    # A stand-in is also wanted for what has a kernel of its own on CUDA and comes apart on every other device.
    return ours | {n for n in _handlers if n.startswith("aten::")}


# Operators that C++ puts together from others on most devices, while CUDA has a kernel of its own for them (as all of
# ``_foreach_*``). Source: the registrations for CUDA in the CUDA builds of PyTorch 2.6 and 2.14.
_CUDA_KERNELS = frozenset(
    f"aten::{name}"
    for name in (
        "_chunk_cat", "_chunk_cat.out", "_grouped_mm", "addr", "addr.out", "all.dims", "all.dims_out", "any.dims",
        "any.dims_out", "convolution_backward", "linalg__powsum", "native_group_norm", "native_layer_norm",
        "split_with_sizes_copy.out",
    )
)  # fmt: skip


def composed_factories() -> set[str]:
    """Operators that make a tensor on a named device and come apart in C++, into `empty` and a fill on that device.

    They are left to C++, also where PyTorch has a shortcut for ``meta`` that leaves the fill out.
    """
    of: Any = torch._C._dispatch_get_registrations_for_dispatch_key
    return {n for n in of("CompositeExplicitAutograd") if _names_device(n)} - set(_handlers)


def _names_device(name: str) -> bool:
    short, _, overload = name[len("aten::") :].partition(".")
    found = (
        getattr(getattr(torch.ops.aten, short, None), overload or "default", None)
        if name.startswith("aten::")
        else None
    )
    return found is not None and any(argument.name == "device" for argument in found._schema.arguments)


def _composed(name: str) -> Handler:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        overload = operator(name).overload
        return overload._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)

    return kernel


_libraries: list[Any] = []
# C++ makes new tensors with the options of old ones, so a virtual tensor's native device (``meta:1``) arrives at Meta.
_FACTORIES = frozenset({"aten::empty.memory_format", "aten::empty_strided"})


def register() -> None:
    """Register all kernels. They stay until the process ends."""
    library: Any = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a kernel that CUDA builds have is replaced: that is the purpose
        for name in sorted(covered_names()):
            kernel = _kernel(name, _handlers.get(name))
            short = name[len("aten::") :]
            for key in (*KEYS, "Meta") if name in _FACTORIES else KEYS:
                library.m.impl(short, key, kernel, False)
        of: Any = torch._C._dispatch_get_registrations_for_dispatch_key
        for name in composed_factories() & set(of("Meta")):
            library.m.impl(name[len("aten::") :], "Meta", _composed(name), False)
        composite = set(of("CompositeImplicitAutograd"))
        for name, handler in _composites.items():
            if name not in composite:
                continue  # not there, or no composite, in this version
            for key in ("AutogradCUDA", "CUDA"):
                library.m.impl(name[len("aten::") :], key, _kernel(name, handler), False)
    for key in KEYS:
        fallback: Any = torch.library.Library("_", "IMPL", key)
        fallback.fallback(by_shape)
        _libraries.append(fallback)
    _keep_at_exit(_libraries)


def _keep_at_exit(libraries: Sequence[Any]) -> None:
    """Leave the kernels where they are while exit handlers run: threads of the script's may still be at work then.

    PyTorch ties the end of a library to an exit handler of `weakref.finalize`.
    """
    for finalizer in tuple(getattr(weakref.finalize, "_registry", ())):
        alive = finalizer.peek()
        if alive is not None and any(alive[0] is library for library in libraries):
            finalizer.atexit = False


def by_shape(overload: Any, *args: Any, **kwargs: Any) -> Any:
    """Answer an operator that has no kernel of its own by its shape function."""
    schema = overload._schema
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    known = _operators.get(name)
    if known is None:
        known = _operators[name] = Operator(len(_operators), overload)
    machines.current().operations += 1
    return generic(known, args, kwargs)


def script_device(tensor: torch.Tensor) -> torch.device:
    """The device of a tensor as the script sees it."""
    return shown_device(native_device(tensor))


def content(tensor: torch.Tensor) -> Any:
    """The real CPU storage behind a virtual tensor where its content is known, else None."""
    return allocation_of(tensor).values
