"""Which modules are sharded one by one. (That sharding is right is shown in test_distributed.py.)"""

from __future__ import annotations

from torch import nn

from flatout.loop.processes.sharded import blocks, is_sharded


def names(model: nn.Module) -> list[str]:
    of = {id(module): name for name, module in model.named_modules()}
    return [of[id(block)] for block in blocks(model)]


def test_the_layers_of_a_transformer() -> None:
    model = nn.ModuleDict(
        {
            "embed": nn.Embedding(8, 4),
            "body": nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, batch_first=True), 3),
            "head": nn.Linear(4, 8),
        }
    )
    assert names(model) == ["body.layers.0", "body.layers.1", "body.layers.2"]


def test_the_blocks_in_the_stages_of_a_resnet() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))

    model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Sequential(Block(), Block()), nn.Sequential(Block()), nn.Linear(2, 2))
    assert names(model) == ["1.0", "1.1", "2.0.inside.0", "2.0.inside.2"]


def test_a_parameter_that_is_shared_keeps_its_block_with_the_root() -> None:
    model = nn.Module()
    model.embed = nn.Linear(3, 3)
    model.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
    model.layers[1].weight = model.embed.weight
    assert names(model) == ["layers.0", "layers.2"]


def test_one_layer_that_is_used_many_times_is_one_block() -> None:
    layer, other = nn.Linear(3, 3), nn.Linear(3, 3)
    assert names(nn.Sequential(layer, nn.ReLU(), layer, other)) == ["0", "3"]


def test_a_model_without_repetition() -> None:
    assert blocks(nn.Linear(3, 3)) == []
    assert blocks(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.ReLU())) == []
    assert not is_sharded(nn.Linear(3, 3))
