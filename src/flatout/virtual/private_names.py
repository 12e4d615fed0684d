"""Every name of PyTorch's that is not part of its public interface and that the virtual GPU stands on.

PyTorch may rename any of them in any release. At start-up the missing ones are named, in one error, instead of a wrong
answer later.
"""

from __future__ import annotations

from typing import Any

from flatout.errors import UnsupportedError

# name: what needs it.
NAMES = {
    "torch._C.TensorBase": "attributes of virtual tensors",
    "torch._C._dispatch_get_registrations_for_dispatch_key": "finding the operators that need a kernel",
    "torch._C._ExcludeDispatchKeyGuard": "making virtual tensors",
    "torch._C.DispatchKeySet": "making virtual tensors",
    "torch._C.DisableTorchFunction": "asking PyTorch for output shapes",
    "torch._C._DisableTorchDispatch": "asking PyTorch for output shapes",
    "torch.Tensor._make_subclass": "making virtual tensors",
    "torch.Tensor._make_wrapper_subclass": "making virtual tensors",
    "torch._C.StorageBase": "the memory behind tensors",
    "torch._C._to_dlpack": "DLPack",
    "torch._C._set_default_tensor_type": "torch.set_default_tensor_type",
    "torch._C._has_cuda": "torch.backends.cuda",
    "torch._C._get_cudnn_enabled": "torch.backends.cudnn",
    "torch.cuda._lazy_init": "when the script first uses CUDA",
    "torch.cuda._initialized": "when the script first uses CUDA",
    "torch.cuda._is_in_bad_fork": "forked children",
    "torch.cuda._exchange_device": "torch.cuda.device",
    "torch.cuda._maybe_exchange_device": "torch.cuda.device",
    "torch.cuda._cudart": "torch.cuda.cudart",
    "torch.cuda.streams.Stream": "CUDA streams",
    "torch.cuda.graphs.CUDAGraph": "CUDA graphs",
    "torch._tensor_str._tensor_str": "printing tensors",
    "torch.utils._device._device_constructors": "torch.device as a context",
    "torch.utils._device.DeviceContext": "torch.device as a context",
    "torch.jit._builtins._get_builtin_table": "torch.jit.script",
    "torch.nn.Module._apply": "moving modules",
    "torch.nn.parallel.comm": "torch.nn.DataParallel",
    "torch.library.Library": "registering kernels",
    "torch._C._group_tensors_by_device_and_dtype": "optimizers that take many tensors at once",
    "torch._library.custom_ops.CustomOpDef": "custom operators",
    "torch.nn.parameter.UninitializedTensorMixin": "lazy modules",
    "torch.nn.modules.module.register_module_parameter_registration_hook": "memory by category",
}


def _resolve(name: str) -> Any:
    import importlib

    parts = name.split(".")
    value: Any = None
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            value = getattr(value, part)
        return value
    raise AttributeError(name)


def missing(names: dict[str, str]) -> list[str]:
    """Those of the names that the installed PyTorch does not have."""
    found = []
    for name in names:
        try:
            _resolve(name)
        except AttributeError:
            found.append(name)
    return found


def check() -> None:
    """Raises UnsupportedError with all missing names and what needs them."""
    absent = missing(NAMES)
    if absent:
        import torch

        lines = "".join(f"\n  {name} ({NAMES[name]})" for name in absent)
        raise UnsupportedError(
            f"PyTorch {torch.__version__} lacks private names that the virtual GPU stands on; "
            f"use a PyTorch from 2.6 to 2.14, or a newer flatout:{lines}"
        )
