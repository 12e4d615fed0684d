from __future__ import annotations

import pytest
from checking import fixed, lines

TRAIN = """
import torch
for inputs, labels in train_loader:
    {statement}
    loss = model(inputs)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("statement", ["inputs.to('cuda')", "labels.cuda()", "inputs.to(device)", "inputs.half()"])
def test_dropped(statement: str) -> None:
    assert lines("FO206", TRAIN.format(statement=statement)) == [3]


@pytest.mark.parametrize(
    "statement",
    ["inputs = inputs.to('cuda')", "model.to('cuda')", "thing.to('cuda')", "inputs.zero_()  # .to(", "writer.half()"],
)
def test_kept_or_in_place(statement: str) -> None:
    assert lines("FO206", TRAIN.format(statement=statement)) == []


def test_a_batch_that_may_move_itself_is_left_alone() -> None:
    assert lines("FO206", "import torch\nfor batch in train_loader:\n    batch.to('cuda')\n") == []


def test_a_part_of_the_batch() -> None:
    source = """
    import torch
    for batch in train_loader:
        src, tgt = batch["src"], batch["tgt"]
        src.to(device)
        mask = batch[1]
        mask.to(device)
        loss = model(src, tgt)
        loss.backward()
        optimizer.step()
    """
    assert lines("FO206", source) == [4, 6]


def test_a_tensor_of_the_module() -> None:
    assert lines("FO206", "import torch\nx = torch.ones(3)\nx.to('cuda')\n") == [3]


def test_the_fix_keeps_it() -> None:
    assert "    inputs = inputs.to(device)  # move" in fixed(
        "FO206", TRAIN.format(statement="inputs.to(device)  # move")
    )
