from __future__ import annotations

import pytest
from checking import hits, lines

SCRIPT = """
import torch
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
def read(index):
    return torch.ones(3).cuda()
def collate(rows):
    return torch.stack(rows){collate}
class Rows(Dataset):
    def __init__(self, x):
        self.x = x{kept}
    def __getitem__(self, index):
        return {sample}
loader = DataLoader(Rows(torch.ones(9)), {options})
"""


WORKERS = "num_workers=4, collate_fn=collate"


def code(sample: str = "self.x[index]", *, kept: str = "", collate: str = "", options: str = WORKERS) -> str:
    return SCRIPT.format(sample=sample, kept=kept, collate=collate, options=options)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (code("self.x[index].cuda()"), 12),
        (code("self.x[index].to(device)"), 12),
        (code("torch.zeros(3, device='cuda')"), 12),
        (code("read(index)"), 5),
        (code(kept=".cuda()"), 10),
        (code(collate=".to(device)"), 7),
        (code("self.x[index].cuda()", options="num_workers=args.workers"), 12),
    ],
)
def test_cuda_in_a_worker(source: str, line: int) -> None:
    assert lines("FO302", source) == [line]


def test_the_message_names_the_workers() -> None:
    (hit,) = hits("FO302", code("self.x[index].cuda()"))
    assert "of `Rows` is used in the workers of the DataLoader on line 13 (`num_workers=4`)" in hit.message


@pytest.mark.parametrize(
    "source",
    [
        code(),
        code("self.x[index].cuda()", options="num_workers=0"),
        code("self.x[index].cuda()", options="batch_size=4"),
        code("self.x[index].cuda()", options="num_workers=4, multiprocessing_context='spawn'"),
        code("self.x[index].to(torch.float16)"),
        code("self.x[index].to('cpu')"),
        code() + "for x in loader:\n    x = x.to(device)\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO302", source) == []
