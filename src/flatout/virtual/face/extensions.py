"""Code outside PyTorch that would run on a GPU: CUDA extensions, Triton kernels, flash-attn."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch

from flatout.errors import UnsupportedError
from flatout.steps.imports import when_imported
from flatout.virtual.face import flash_attention
from flatout.virtual.face.compiled import any_virtual
from flatout.virtual.face.patches import Patches
from flatout.virtual.registration import by_shape

_WAY_OUT = "wrap it with torch.library.custom_op and give it a shape function with register_fake"


def _triton_run(plain: Any) -> Any:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if any_virtual(args) or any_virtual(kwargs):
            kernel = getattr(self, "fn", self)
            name = getattr(kernel, "__name__", str(kernel))
            raise UnsupportedError(
                f"the Triton kernel `{name}` cannot run on the virtual GPU, which has no content to compute on: "
                f"{_WAY_OUT}"
            )
        return plain(self, *args, **kwargs)

    return run


def _register_kernel(plain: Any) -> Any:
    """A custom operator whose kernel is refused (Triton inside) is answered by its shape function, where it has one."""

    def register_kernel(self: Any, device_types: Any, fn: Any = None, /) -> Any:
        def register(kernel: Any) -> Any:
            @functools.wraps(kernel)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                try:
                    return kernel(*args, **kwargs)
                except UnsupportedError:
                    if self._abstract_fn is None:
                        raise
                    return by_shape(self._opoverload, *args, **kwargs)

            plain(self, device_types, guarded)
            return kernel

        return register if fn is None else register(fn)

    return register_kernel


def _refuse_cuda(name: str, plain: Any) -> Any:
    def load(*args: Any, **kwargs: Any) -> Any:
        sources = kwargs.get("sources", args[1] if len(args) > 1 and name == "load" else ())
        sources = [sources] if isinstance(sources, str) else list(sources or ())
        cuda = kwargs.get("with_cuda") or kwargs.get("cuda_sources") or any(str(s).endswith(".cu") for s in sources)
        if cuda:
            extension = args[0] if args else kwargs.get("name", "?")
            raise UnsupportedError(
                f"the CUDA extension `{extension}` (torch.utils.cpp_extension.{name}) cannot be built for the virtual "
                f"GPU: {_WAY_OUT}"
            )
        return plain(*args, **kwargs)

    load.__name__ = name
    load.__doc__ = plain.__doc__
    return load


def install(patches: Patches) -> None:
    """Watch for them."""

    def patch_triton(module: Any) -> None:
        patches.set(module.JITFunction, "run", _triton_run(module.JITFunction.run))

    custom: Any = torch._library.custom_ops.CustomOpDef
    patches.set(custom, "register_kernel", _register_kernel(custom.register_kernel))

    def patch_extensions(module: Any) -> None:
        for name in ("load", "load_inline"):
            patches.set(module, name, _refuse_cuda(name, getattr(module, name)))

    when_imported("triton.runtime.jit", patch_triton)
    when_imported("torch.utils.cpp_extension", patch_extensions)
    finder = flash_attention.Finder()
    sys.meta_path.append(finder)  # the last one asked: only where the real package is absent

    def remove() -> None:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "flash_attn"]:
            if getattr(sys.modules[name], "__flatout__", False):
                del sys.modules[name]

    patches.on_undo(remove)
