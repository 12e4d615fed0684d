"""What memory is for, told by the module that it is registered with."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from flatout.virtual.categories import mark
from flatout.virtual.face.patches import Patches


def _registered(module: Any, name: str, tensor: Any) -> None:
    mark(tensor, "parameters")


def _marking(plain: Any) -> Any:
    def _apply(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        result = plain(self, *args, **kwargs)
        for parameter in self._parameters.values():
            if parameter is not None:
                mark(parameter, "parameters")
                if parameter.grad is not None:
                    mark(parameter.grad, "gradients")
        for buffer in self._buffers.values():
            mark(buffer, "parameters")
        return result

    return _apply


def _new_parameter(plain: Any) -> Any:
    def __new__(cls: Any, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        made = plain(cls, data, *args, **kwargs)
        mark(made, "parameters")
        return made

    return __new__


def install(patches: Patches) -> None:
    """Watch modules being moved and built."""
    patches.set(torch.nn.Module, "_apply", _marking(torch.nn.Module._apply))
    parameter: Any = torch.nn.Parameter
    patches.set(parameter, "__new__", staticmethod(_new_parameter(parameter.__new__)))
    for hook in (
        register_module_parameter_registration_hook(_registered),
        register_module_buffer_registration_hook(_registered),
    ):
        patches.on_undo(hook.remove)
