from __future__ import annotations

import pytest
from checking import fixed, lines

SETUP = """\
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("state = torch.load(path)\nmodel.load_state_dict(state)\n", 5),
        ("checkpoint = torch.load(path, weights_only=True)\nmodel.load_state_dict(checkpoint['model'])\n", 5),
        ("model.load_state_dict(torch.load(path)['model'])\n", 5),
    ],
)
def test_found(source: str, line: int) -> None:
    assert lines("FO710", SETUP + source) == [line]


def test_the_fix() -> None:
    after = fixed("FO710", SETUP + "model.load_state_dict(torch.load(path))  # here\n")
    assert after.endswith('model.load_state_dict(torch.load(path, map_location="cpu"))  # here\n')


@pytest.mark.parametrize(
    "source",
    [
        "state = torch.load(path, map_location='cpu')\nmodel.load_state_dict(state)\n",
        "state = torch.load(path, device)\nmodel.load_state_dict(state)\n",
        "data = torch.load(path)\ntrain(data)\n",
        "if rank == 0:\n    model.load_state_dict(torch.load(path))\n",
        "model.load_state_dict(torch.load(path, **options))\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO710", SETUP + source) == []


def test_one_process_alone() -> None:
    source = "import torch\nmodel.load_state_dict(torch.load(path))  # no init_process_group\n"
    assert lines("FO710", source) == []


def test_a_schedule_holds_numbers() -> None:
    source = """
    import torch
    torch.distributed.init_process_group("nccl")
    {owner}.load_state_dict(torch.load("state.pt"))
    """
    assert lines("FO710", source.replace("{owner}", "optimizer")) == [3]
    assert lines("FO710", source.replace("{owner}", "scheduler")) == []
