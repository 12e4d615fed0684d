"""FSDP2: each process keeps its part of every weight, gradient and optimizer state.

Blocks are sharded one by one, so that only one at a time is whole in memory: the children of a `ModuleList` or
`Sequential` of which at least two are of one class and have parameters (the layers of a transformer, the blocks of a
ResNet's stages). What is left (embedding, head) is one group with the root. A block that shares a parameter with
something outside it stays with the root too, since a parameter belongs to one group.

Parameters stay in fp32 and autocast remains the mechanism of mixed precision, so that a run means the same numbers
under DDP and FSDP. Gradients are exchanged at every micro-batch of a window: keeping them back would keep them whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer
from torch.utils.weak import WeakTensorKeyDictionary

from flatout.errors import UsageError

_sharded_as: Any = WeakTensorKeyDictionary()  # a parameter as it was -> the sharded one that took its place


def shard(model: nn.Module, device: torch.device) -> nn.Module:
    """Shard `model` in place over all processes, from the first one's weights and buffers."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    if device.type == "cpu" and not hasattr(torch.cpu.Stream, "record_event"):
        raise UsageError(
            f"Loop(strategy='fsdp'): PyTorch {torch.__version__} shards on GPUs only; give strategy='ddp' on a CPU, or "
            "take a newer PyTorch"
        )
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0)
    before = dict(model.named_parameters(remove_duplicate=False))
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for block in blocks(model):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        _sharded_as[before[name]] = parameter
    return model


def is_sharded(model: nn.Module) -> bool:
    """Whether `shard` has been at it."""
    return any(kind.__name__ == "FSDPModule" for kind in type(model).__mro__)


def reshard(model: nn.Module) -> None:
    """After forward passes that no backward pass follows: nothing of the model is whole any more.

    The root's weights would stay so, and its `parameters()` would be others than those that the optimizer holds.
    """
    for module in model.modules():
        if is_sharded(module):
            module.reshard()  # type: ignore[operator]


def blocks(model: nn.Module) -> list[nn.Module]:
    """The modules of `model` to be sharded one by one, in order."""
    uses = Counter(id(p) for module in _distinct(model) for p in module.parameters(recurse=False))
    return [block for block in _repeated(model) if _alone(block, uses)]


def _distinct(module: nn.Module) -> Iterator[nn.Module]:
    yield from module.modules()  # each module once, however often it is used


def _alone(block: nn.Module, uses: Counter[int]) -> bool:
    inside = Counter(id(p) for module in _distinct(block) for p in module.parameters(recurse=False))
    return all(uses[parameter] == count for parameter, count in inside.items())


def _repeated(module: nn.Module) -> Iterator[nn.Module]:
    containers = (nn.ModuleList, nn.Sequential)
    kinds = Counter(type(c) for c in module.children() if any(True for _ in c.parameters()))
    for child in module.children():  # `children` gives each once
        if isinstance(module, containers) and kinds[type(child)] > 1 and not isinstance(child, containers):
            yield child
        else:
            yield from _repeated(child)


def repoint(optimizer: Optimizer) -> None:
    """Give an optimizer that was made before the model was sharded the parameters that took the places of its own."""
    if not any(p in _sharded_as for group in optimizer.param_groups for p in group["params"]):
        return
    if optimizer.state:
        raise UsageError(
            f"loop.prepare(...): the {type(optimizer).__name__} has a state already, which cannot be cut to "
            "sharded parameters; prepare the model first and make the optimizer from model.parameters() afterwards"
        )
    for group in optimizer.param_groups:
        group["params"] = [_sharded_as.get(p, p) for p in group["params"]]
