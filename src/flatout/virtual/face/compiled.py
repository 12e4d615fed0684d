"""``torch.compile`` and tracing.

Compiled regions run eagerly, and the tape notes which operations are theirs: `flatout.timeline.compiled` makes of them
what a compiler would launch. Their memory is that of eager code. What `fullgraph=True` refuses is not refused here.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from flatout.errors import UnsupportedError
from flatout.steps.imports import when_imported
from flatout.virtual import machine as machines
from flatout.virtual import regions
from flatout.virtual.face.patches import Patches
from flatout.virtual.tensor import is_virtual

_NOTE = (
    "the time of regions under torch.compile is a model of what inductor fuses (docs/timeline.md), and their memory is "
    "that of eager code; nothing is compiled, and what fullgraph refuses is not refused"
)
_EAGER = (
    "regions under torch.compile with this backend are modelled as eager code: what it would fuse, and the memory that "
    "it would save or take, are not"
)
_numbers = itertools.count()


def _region(backend: Any) -> regions.Region | None:
    """What that backend makes of a region; None where it launches what eager code does."""
    name = getattr(backend, "compiler_name", None) or backend
    if name == "inductor":
        config = getattr(backend, "config", {})
        return regions.Region(next(_numbers), graph=bool(config.get("triton.cudagraphs")), fuses=True)
    if name == "cudagraphs":
        return regions.Region(next(_numbers), graph=True, fuses=False)
    return None


def _enters(dynamo: ModuleType, region: regions.Region, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, as a compiled region."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        clock = machines.current().clock
        stance = getattr(getattr(dynamo.eval_frame, "_stance", None), "stance", None)
        if clock is None or stance == "force_eager":
            return function(*args, **kwargs)
        with clock.regions.entered(region, (args, kwargs)):
            result = function(*args, **kwargs)
        if not regions.inside():
            clock.regions.returned(result)
        return result

    run._torchdynamo_wrapper_id = id(run)  # type: ignore[attr-defined]
    return run


def _run_eagerly(dynamo: Any) -> Callable[..., Any]:
    """Stands in for ``torch._dynamo.optimize``: the same wrappers around functions and modules, nothing compiled."""

    class Followed(dynamo.eval_frame.DisableContext):  # type: ignore[misc]
        def __init__(self, region: regions.Region) -> None:
            super().__init__()
            self.region = region

        def __call__(self, fn: Any) -> Any:
            made = super().__call__(fn)
            # A module's wrapper comes here again for its call, a class's for its methods.
            return made if isinstance(made, (torch.nn.Module, type)) else _enters(dynamo, self.region, made)

    def optimize(*args: Any, **options: Any) -> Callable[[Any], Any]:
        def wrap(model: Any) -> Any:
            if options.get("disable"):
                return model
            region = _region(options.get("backend", args[0] if args else "inductor"))
            machines.current().assume_that(_EAGER if region is None else _NOTE)
            if region is None:
                return dynamo.disable(model)
            return Followed(region)(dynamo.eval_frame.innermost_fn(model))

        return wrap

    return optimize


def _disable(plain: Callable[..., Any]) -> Callable[..., Any]:
    """``torch._dynamo.disable``: what it wraps is no part of a region that calls it, unless it is PyTorch's own."""

    def leaves(function: Any) -> Any:
        if isinstance(function, (torch.nn.Module, type)) or _is_torch(getattr(function, "__module__", None)):
            return function

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            clock = machines.current().clock
            breaks = clock is not None and regions.inside()
            if breaks:
                clock.regions.broken()
            with regions.left():
                result = function(*args, **kwargs)
            if breaks:
                clock.regions.broken()
            return result

        run._torchdynamo_wrapper_id = id(run)  # type: ignore[attr-defined]
        return run

    def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
        made = plain(fn, recursive, **options)
        if fn is None:
            return lambda function: leaves(made(function))
        return leaves(made) if recursive else made

    return functools.wraps(plain)(disable)


def _is_torch(name: object) -> bool:
    return isinstance(name, str) and name.partition(".")[0] == "torch"


def _compiling(plain: Callable[[], bool]) -> Callable[[], bool]:
    """Whether a script is being compiled; PyTorch's own code, which really runs eagerly, is told the truth."""

    @functools.wraps(plain)
    def is_compiling() -> bool:
        if regions.inside() and not _is_torch(sys._getframe(1).f_globals.get("__name__")):
            return True
        return plain()

    return is_compiling


def _without_check(plain: Any) -> Any:
    def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        if any_virtual((example_inputs, kwargs.get("example_kwarg_inputs"))):
            kwargs["check_trace"] = False  # it compares values, which are invented
        return plain(func, example_inputs, *args, **kwargs)

    return trace


def any_virtual(value: Any) -> bool:
    """Whether a virtual tensor is in a nest of tuples, lists, dictionaries and modules."""
    if isinstance(value, torch.Tensor):
        return is_virtual(value)
    if isinstance(value, torch.nn.Module):
        return any(is_virtual(p) for p in value.parameters()) or any(is_virtual(b) for b in value.buffers())
    if isinstance(value, dict):
        return any(any_virtual(item) for item in value.values())
    return isinstance(value, (list, tuple)) and any(any_virtual(item) for item in value)


def refuse_virtual(name: str, plain: Any) -> Any:
    """A function that raises UnsupportedError when it is given virtual tensors, instead of failing deep inside."""

    def checked(*args: Any, **kwargs: Any) -> Any:
        if any_virtual(args) or any_virtual(kwargs):
            raise UnsupportedError(
                f"{name} is not supported on the virtual GPU: it traces with tensors of its own kind; "
                "export the model on the CPU, before it is moved to the GPU"
            )
        return plain(*args, **kwargs)

    checked.__name__ = getattr(plain, "__name__", name)
    checked.__doc__ = plain.__doc__
    checked.__wrapped__ = plain  # type: ignore[attr-defined]
    return checked


def install(patches: Patches) -> None:
    """Replace what would compile or trace."""

    def patch_dynamo(module: Any) -> None:
        if hasattr(module, "disable"):
            patches.set(module, "disable", _disable(module.disable))
            patches.set(module, "optimize", _run_eagerly(module))

    def patch_export(module: Any) -> None:
        for name in ("export", "export_for_training", "draft_export"):
            if hasattr(module, name):
                patches.set(module, name, refuse_virtual(f"torch.export.{name}", getattr(module, name)))

    def patch_onnx(module: Any) -> None:
        patches.set(module, "export", refuse_virtual("torch.onnx.export", module.export))

    for name in ("is_compiling", "is_dynamo_compiling"):
        patches.set(torch.compiler, name, _compiling(getattr(torch.compiler, name)))
    when_imported("torch._dynamo", patch_dynamo)
    when_imported("torch.export", patch_export)
    when_imported("torch.onnx", patch_onnx)
    patches.set(torch.jit, "trace", _without_check(torch.jit.trace))
