"""``torch.compile`` and tracing.

Compiled regions run eagerly: what fusion would save is not modelled, and the report says so.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from flatout.errors import UnsupportedError
from flatout.virtual import machine as machines
from flatout.virtual.face import late
from flatout.virtual.face.patches import Patches
from flatout.virtual.tensor import is_virtual

_NOTE = (
    "regions under torch.compile are modelled as eager code: kernels that the compiler would fuse, and the memory that "
    "it would save or take, are not"
)


def _run_eagerly(dynamo: ModuleType) -> Callable[..., Any]:
    """Stands in for ``torch._dynamo.optimize``: the same wrappers around functions and modules, nothing compiled."""

    def optimize(*args: Any, **options: Any) -> Callable[[Any], Any]:
        def wrap(model: Any) -> Any:
            if options.get("disable"):
                return model
            machines.current().assume_that(_NOTE)
            return dynamo.disable(model)

        return wrap

    return optimize


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
            patches.set(module, "optimize", _run_eagerly(module))

    def patch_export(module: Any) -> None:
        for name in ("export", "export_for_training", "draft_export"):
            if hasattr(module, name):
                patches.set(module, name, refuse_virtual(f"torch.export.{name}", getattr(module, name)))

    def patch_onnx(module: Any) -> None:
        patches.set(module, "export", refuse_virtual("torch.onnx.export", module.export))

    late.when_imported("torch._dynamo", patch_dynamo)
    late.when_imported("torch.export", patch_export)
    late.when_imported("torch.onnx", patch_onnx)
    patches.set(torch.jit, "trace", _without_check(torch.jit.trace))
