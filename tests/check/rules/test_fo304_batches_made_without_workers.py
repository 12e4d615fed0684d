from __future__ import annotations

import pytest
from checking import hits, lines

SCRIPT = """
import torch
from PIL import Image
from torchvision.datasets import ImageFolder, MNIST
from torch.utils.data import DataLoader, Dataset
class Pictures(Dataset):
    def __getitem__(self, index):
        return self.load(self.paths[index])
    def load(self, path):
        return {read}
loader = DataLoader({dataset}, batch_size=4{options})
for x in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
"""


def code(*, read: str = "Image.open(path)", dataset: str = "Pictures()", options: str = "") -> str:
    return SCRIPT.format(read=read, dataset=dataset, options=options)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (code(), "`Image.open(path)` (line 9)"),
        (code(options=", num_workers=0"), "has `num_workers=0`"),
        (code(read="torch.load(path)"), "`torch.load(path)`"),
        (code(dataset="ImageFolder(root)"), "the image decoding of `ImageFolder`"),
    ],
)
def test_files_read_by_the_loop_itself(source: str, what: str) -> None:
    (hit,) = hits("FO304", source)
    assert hit.node.lineno == 10
    assert what in hit.message


@pytest.mark.parametrize(
    "source",
    [
        code(options=", num_workers=2"),
        code(options=", num_workers=n"),
        code(options=", **options"),
        code(read="self.rows[path]"),
        code(dataset="MNIST(root)"),  # in memory
        code(dataset="unknown"),
        code().replace("x.cuda()", "x"),  # no GPU that could wait
        code().replace("loss.backward()", "pass").replace("optimizer.step()", "pass"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO304", source) == []
