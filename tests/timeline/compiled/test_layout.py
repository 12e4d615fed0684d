"""When convolutions are turned around to channels-last."""

from __future__ import annotations

import pytest
from compiled_region import Region

from flatout.recording.operation import tensor
from flatout.recording.tape import Inside
from flatout.timeline.compiled.layout import channels_last, turned, turns_channels_last
from flatout.timeline.compiled.node import Node
from flatout.timeline.compiled.reading import Reader


def nodes(outputs: int, inputs: int, groups: int = 1, size: int = 3) -> list[Node]:
    region = Region()
    x, weight = region.tensor((8, inputs * groups, 56, 56), "float16"), region.tensor((outputs, inputs, size, size))
    rest = ((1, 1), (1, 1), (1, 1), False, (0, 0), groups)
    region.run("convolution", x, weight, None, *rest, out=tensor((8, outputs, 56, 56), "float16"))
    event = region.events[0]
    assert isinstance(event, Inside)
    return Reader().nodes(0, event, region.operations[0])


@pytest.mark.parametrize("training", [True, False])
def test_ordinary_convolutions_are_turned(training: bool) -> None:
    assert turns_channels_last(nodes(256, 128), differentiable=training)


@pytest.mark.parametrize("training", [True, False])
def test_grouped_convolutions_are_not(training: bool) -> None:
    assert not turns_channels_last(nodes(256, 8, groups=32), differentiable=training)


def test_small_channels_are_turned_in_inference_alone() -> None:
    assert turns_channels_last(nodes(32, 16), differentiable=False)
    assert not turns_channels_last(nodes(32, 16), differentiable=True)


def test_depthwise_convolutions_are_turned() -> None:
    assert turns_channels_last(nodes(128, 1, groups=128), differentiable=False)


def test_a_region_without_convolutions_has_no_layout() -> None:
    assert not turns_channels_last([], differentiable=False)


def test_turning_leaves_all_but_images_alone() -> None:
    (node,) = nodes(256, 128)
    assert node.operation is not None
    new = turned(node.operation)
    assert new.outputs[0].channels_last
    assert new.tensor(0).channels_last
    assert channels_last(tensor((3, 4))) == tensor((3, 4))
    assert turned(new) == new
