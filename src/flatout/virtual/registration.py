"""Which operators get a kernel of ours at which dispatch key; what PyTorch composes of others is left to C++."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import cuda_errors, observing
from flatout.virtual import machine as machines
from flatout.virtual.dispatch import generic
from flatout.virtual.operators import Operator, operator, operator_of
from flatout.virtual.sparse.registration import register_constructors
from flatout.virtual.stand_ins import Handler, composites, handlers, taken_apart

KEYS = ("CUDA", "HPU")


def _kernel(name: str, handler: Handler | None, *, told: bool = True) -> Handler:
    """What PyTorch calls for that operator. `told`: whether listeners hear of it (see `observing`)."""
    cell: list[Operator] = []

    if handler is not None:

        def kernel(*args: Any, **kwargs: Any) -> Any:
            if not cell:
                cell.append(operator(name))
            began = observing.now()
            result = handler(cell[0], *args, **kwargs)
            if observing.listener is not None and told:
                observing.listener(cell[0], args, kwargs, result, began)
            return result

    else:

        def kernel(*args: Any, **kwargs: Any) -> Any:
            if not cell:
                cell.append(operator(name))
            machines.current().operations += 1
            began = observing.now()
            result = generic(cell[0], args, kwargs)
            if observing.listener is not None:
                observing.listener(cell[0], args, kwargs, result, began)
            return result

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
    return ours | {n for n in handlers if n.startswith("aten::")}


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
    return {n for n in of("CompositeExplicitAutograd") if _names_device(n)} - set(handlers)


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
            # A factory launches nothing, and PyTorch's shape functions call it too.
            told = name not in _FACTORIES and name not in taken_apart
            kernel = _kernel(name, handlers.get(name), told=told)
            short = name[len("aten::") :]
            for key in (*KEYS, "Meta") if name in _FACTORIES else KEYS:
                library.m.impl(short, key, kernel, False)
        of: Any = torch._C._dispatch_get_registrations_for_dispatch_key
        for name in composed_factories() & set(of("Meta")):
            library.m.impl(name[len("aten::") :], "Meta", _composed(name), False)
        composite = set(of("CompositeImplicitAutograd"))
        for name, handler in composites.items():
            if name not in composite:
                continue  # not there, or no composite, in this version
            # What it is put together from is told of.
            for key in ("AutogradCUDA", "CUDA"):
                library.m.impl(name[len("aten::") :], key, _kernel(name, handler, told=False), False)
    for key in KEYS:
        fallback: Any = torch.library.Library("_", "IMPL", key)
        fallback.fallback(by_shape)
        _libraries.append(fallback)
    _libraries.extend(register_constructors())
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
    machines.current().operations += 1
    op = operator_of(overload)
    began = observing.now()
    result = generic(op, args, kwargs)
    if observing.listener is not None:
        observing.listener(op, args, kwargs, result, began)
    return result
