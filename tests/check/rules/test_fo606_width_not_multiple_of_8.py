from __future__ import annotations

import pytest
from checking import hits, lines

AMP = "import torch\nfrom torch import nn\nwith torch.autocast('cuda', dtype=torch.bfloat16):\n    run()\n"


@pytest.mark.parametrize(
    ("source", "size", "padded"),
    [
        ("head = nn.Linear(768, 50257, bias=False)\n", 50257, 50304),
        ("VOCAB = 30522\nhead = nn.Linear(768, VOCAB)\n", 30522, 30528),
        ("decode = nn.Linear(50257, 768)\n", 50257, 50304),
    ],
)
def test_found(source: str, size: int, padded: int) -> None:
    (hit,) = hits("FO606", AMP + source)
    assert f"is {size} wide" in hit.message
    assert f"Make it {padded};" in hit.remedy
    assert padded % 8 == 0


@pytest.mark.parametrize(
    "source",
    [
        AMP + "head = nn.Linear(768, 50304)\n",
        AMP + "head = nn.Linear(768, 10)\n",
        AMP + "head = nn.Linear(768, config.vocab_size)\n",
        AMP + "embedding = nn.Embedding(50257, 768)  # Linear\n",  # looked up, not multiplied
        "from torch import nn\nhead = nn.Linear(768, 50257)\n",  # 32-bit
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO606", source) == []
