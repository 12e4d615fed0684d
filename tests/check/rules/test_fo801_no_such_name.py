from __future__ import annotations

import pytest
from checking import hits, lines


def test_a_name_that_never_was() -> None:
    (hit,) = hits("FO801", "import torch\ntorch.cuda.asynchronous_executions(True)\n")
    assert hit.node.lineno == 2
    assert hit.message == "PyTorch has no `torch.cuda.asynchronous_executions`"
    assert "asynchronous already" in hit.remedy


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("import torch\nx = torch.cuda.is_avaliable()\n", "torch.cuda.is_avaliable"),
        ("import torch.nn as nn\nnn.Linaer(2, 2)\n", "torch.nn.Linaer"),
        ("from torch import nn\nnn.functional.reluu(x)\n", "torch.nn.functional.reluu"),
        ("from torch.utils.data import DataLoder\n", "torch.utils.data.DataLoder"),
        ("from torch.nn import functional as F\nF.cross_entropyy(a, b)\n", "torch.nn.functional.cross_entropyy"),
        ("import torch\nopt = torch.optim.Adamw(p)\n", "torch.optim.Adamw"),
    ],
)
def test_misspelled(source: str, missing: str) -> None:
    (hit,) = hits("FO801", source)
    assert f"`{missing}`" in hit.message


def test_the_nearest_real_name_is_told() -> None:
    (hit,) = hits("FO801", "import torch\ntorch.cuda.is_avaliable()\n")
    assert "`torch.cuda.is_available`" in hit.remedy


def test_one_message_a_name() -> None:
    assert lines("FO801", "import torch\ntorch.cuda.nope()\ntorch.cuda.nope()\n") == [2]


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.cuda.is_available()\ntorch.nn.functional.scaled_dot_product_attention(q, k, v)\n",
        "import torch\nx = torch.ops.mine.kernel(3)\ntorch.ops.load_library('x')\n",
        "import torch\nif hasattr(torch.cuda, 'nope'):\n    torch.cuda.nope()\n",
        "import torch\ntry:\n    torch.cuda.nope()\nexcept AttributeError:\n    pass\n",
        "import torch\ntorch.cuda.nope = lambda: 3\ntorch.cuda.nope()\n",
        "import torch\nsetattr(torch.cuda, 'nope', 3)\ntorch.cuda.nope\n",
        "try:\n    from torch.nope import x\nexcept ImportError:\n    x = None\n",
        "import torch\nif torch.__version__ >= '9':\n    torch.nope()\n",
        "def f(torch):\n    torch.nope()\n",
        "from torch import *\n",
        "import torch\nx = torch.ones(3)\nx.nope()\n",
        "import torch\ntorch._C._nope()\n",
        "import torchvision\ntorchvision.nope()  # torch\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO801", source) == []
