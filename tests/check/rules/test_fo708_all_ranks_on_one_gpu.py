from __future__ import annotations

import pytest
from checking import hits, lines

SETUP = """\
import os
import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    "source",
    [
        SETUP + "model = Net().cuda()\n",
        SETUP + "if rank == 0:\n    print(rank)\nmodel = Net().to('cuda')\n",
        SETUP + "device = torch.device('cuda')\nmodel = Net().to(device)\n",
        SETUP + "device = 'cuda' if torch.cuda.is_available() else 'cpu'\nmodel = Net().to(device)\n",
    ],
)
def test_found(source: str) -> None:
    (hit,) = hits("FO708", source)
    assert hit.node.lineno == 6
    assert "means the first one" in hit.message


@pytest.mark.parametrize(
    "source",
    [
        SETUP,  # what moves to a GPU is elsewhere
        SETUP + "torch.cuda.set_device(rank)\nmodel = Net().cuda()\n",
        SETUP + "model = Net().cuda(rank)\nx = x.cuda()\n",
        SETUP + "model = Net().to(f'cuda:{rank}')\nx = x.cuda()\n",
        SETUP + "prepare(rank)\nmodel = Net().cuda()\n",
        SETUP + "model = DDP(Net().cuda(), device_ids=[rank])\n",
        SETUP.replace('"nccl"', '"gloo"') + "model = Net().cuda()\n",
        SETUP.replace('"nccl"', '"nccl", device_id=device') + "model = Net().cuda()\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO708", source) == []
