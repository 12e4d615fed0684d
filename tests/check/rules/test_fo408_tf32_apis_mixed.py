from __future__ import annotations

import pytest
from checking import hits, lines

NEW = "import torch\ntorch.backends.cuda.matmul.fp32_precision = 'ieee'\n"


@pytest.mark.parametrize(
    "old",
    [
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.set_float32_matmul_precision('high')",
        "print(torch.get_float32_matmul_precision())",
        "before = torch.backends.cuda.matmul.allow_tf32",
    ],
)
def test_found(old: str) -> None:
    (hit,) = hits("FO408", NEW + old + "\n")
    assert hit.node.lineno == 3
    assert "`torch.backends.cuda.matmul.fp32_precision` (line 2)" in hit.message
    assert (hit.severity == "high") == ("before" in old or "get" in old)


def test_cudnn() -> None:
    source = "import torch\ntorch.backends.cudnn.conv.fp32_precision = 'ieee'\ntorch.backends.cudnn.allow_tf32 = True\n"
    assert lines("FO408", source) == [3]


@pytest.mark.parametrize(
    "source",
    [
        NEW,
        NEW + "torch.backends.cudnn.allow_tf32 = True\n",
        "import torch\nprint(torch.backends.cuda.matmul.fp32_precision)\ntorch.set_float32_matmul_precision('high')\n",
        "import torch\nif hasattr(torch.backends.cuda.matmul, 'fp32_precision'):\n"
        "    torch.backends.cuda.matmul.fp32_precision = 'tf32'\n"
        "else:\n    torch.backends.cuda.matmul.allow_tf32 = True\n",
        "import torch\nif new:\n    torch.backends.cuda.matmul.fp32_precision = 'tf32'\n"
        "else:\n    torch.backends.cuda.matmul.allow_tf32 = True\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO408", source) == []


def test_pytorch_raises() -> None:
    import torch

    matmul = torch.backends.cuda.matmul
    if not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("this PyTorch has no fp32_precision")
    before = matmul.fp32_precision
    try:
        torch.set_float32_matmul_precision("high")
        matmul.fp32_precision = "ieee"
        with pytest.raises(RuntimeError, match="legacy and new APIs"):
            _ = matmul.allow_tf32
    finally:
        torch.set_float32_matmul_precision("highest")
        matmul.fp32_precision = before
