"""Whether inductor turns a region's images around to channels-last, and its convolutions then.

Source of the rule: torch/_inductor/graph.py, `decide_layout_opt` (PyTorch 2.9 and later; its multipliers are averages
that its authors measured).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from flatout.costs import cost
from flatout.recording.operation import Argument, Operation, TensorType
from flatout.timeline.compiled.node import Node

_GROUPED, _DEFAULT, _NARROWING, _SMALL = 1.358, 0.823, 0.725, 0.783
_MOST_NODES = 300
_FORWARD = ("aten::convolution", "aten::_convolution")


def turns_channels_last(nodes: Sequence[Node], *, differentiable: bool) -> bool:
    """Whether the region with these nodes is compiled for channels-last images."""
    convolutions = [node.operation for node in nodes if node.operation is not None and node.operation.base in _FORWARD]
    images = [operation for operation in convolutions if len(operation.tensor(1).shape) == 4]
    if not images or len(nodes) >= _MOST_NODES * len(convolutions):
        return False
    kinds = [_kind(operation) for operation in images]
    if not differentiable:
        flops = [cost(operation).flops for operation in images]
        return sum(f * kind for f, kind in zip(flops, kinds)) <= sum(flops)
    small = all(max(operation.tensor(1).shape[:2]) <= 64 for operation in images)
    return not (_GROUPED in kinds or _NARROWING in kinds or small)


def _kind(operation: Operation) -> float:
    outputs, inputs, *window = operation.tensor(1).shape
    groups = operation.argument(8, 1)
    if isinstance(groups, int) and groups > 1 and inputs > 1:
        return _GROUPED
    if outputs <= 64 and inputs <= 64:
        return _SMALL
    return _NARROWING if outputs * 2 <= inputs and window[0] > 1 else _DEFAULT


def turned(operation: Operation) -> Operation:
    """The convolution with all its images laid out channels-last."""
    if "convolution" not in operation.base:
        return operation
    arguments = tuple(_turned(argument) for argument in operation.arguments)
    outputs = tuple(channels_last(output) for output in operation.outputs)
    return msgspec.structs.replace(operation, arguments=arguments, outputs=outputs)


def _turned(argument: Argument) -> Argument:
    return channels_last(argument) if isinstance(argument, TensorType) else argument


def channels_last(tensor: TensorType) -> TensorType:
    """The same images channels-last; anything but images as it is."""
    if len(tensor.shape) != 4:
        return tensor
    _, channels, height, width = tensor.shape
    strides = (channels * height * width, 1, width * channels, channels)
    return msgspec.structs.replace(tensor, strides=strides)
