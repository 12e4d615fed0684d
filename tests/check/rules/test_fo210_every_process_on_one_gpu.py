from __future__ import annotations

import pytest
from checking import hits, lines

SCRIPT = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
def main(rank):
    dist.init_process_group("nccl")
    {statement}
    model = DDP(Net())
"""


@pytest.mark.parametrize(
    "statement",
    [
        "torch.cuda.set_device(0)",
        'device = torch.device("cuda:0")',
        'model = Net().to("cuda:0")',
        "model = Net().cuda(0)",
        'state = torch.load(path, map_location="cuda:0")',
        "model = DDP(Net(), device_ids=[0])",
        'x = torch.zeros(3, device="cuda:1")',
    ],
)
def test_a_fixed_number(statement: str) -> None:
    (hit,) = hits("FO210", SCRIPT.format(statement=statement))
    assert hit.node.lineno == 6
    assert f"is GPU {1 if 'cuda:1' in statement else 0} in every process" in hit.message


@pytest.mark.parametrize(
    "statement",
    [
        "torch.cuda.set_device(rank)",
        'device = torch.device(f"cuda:{rank}")',
        'device = torch.device("cuda")',
        "model = Net().cuda()",
        'state = torch.load(path, map_location="cpu")  # not cuda',
        'device = "cuda:0" if single else f"cuda:{rank}"',
        "if single:\n        torch.cuda.set_device(0)",
        'map_location = {"cuda:0": f"cuda:{rank}"}',
    ],
)
def test_what_looks_like_it_but_is_fine(statement: str) -> None:
    assert lines("FO210", SCRIPT.format(statement=statement)) == []


def test_a_program_of_one_process() -> None:
    assert lines("FO210", 'import torch\ndevice = torch.device("cuda:0")\nmodel = Net().cuda(0)\n') == []


def test_processes_joined_in_a_helper() -> None:
    code = """
        import torch
        import torch.distributed as dist
        def setup():
            dist.init_process_group("nccl")
        def main():
            setup()
            torch.cuda.set_device(0)
        def alone():
            torch.cuda.set_device(0)
    """
    assert lines("FO210", code) == [7]
