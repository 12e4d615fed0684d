from __future__ import annotations

import pytest
from checking import hits, lines

HEAD = "import math\nimport torch\nimport torch.nn.functional as F\n\n"


def attention(*body: str) -> str:
    return HEAD + "def attend(self, q, k, v, mask=None):\n" + "".join(f"    {line}\n" for line in body)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (attention("return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(64), dim=-1) @ v"), 6),
        (attention("att = (q @ k.transpose(-2, -1)) * 0.125", "att = att.softmax(dim=-1)", "return att @ v"), 8),
        (
            attention(
                "scores = torch.matmul(q, k.mT) / 8",
                "if mask is not None:",
                "    scores = scores.masked_fill(mask == 0, -1e9)",
                "p = self.dropout(F.softmax(scores, dim=-1))",
                "return torch.matmul(p, v)",
            ),
            10,
        ),
        (
            attention(
                "kt = k.permute(0, 2, 1)", "w = torch.bmm(q, kt)", "w /= 8", "w = self.softmax(w)", "return w.bmm(v)"
            ),
            10,
        ),
        (
            attention(
                "sim = torch.einsum('bhid,bhjd->bhij', q, k)",
                "return torch.einsum('bhij,bhjd->bhid', sim.softmax(-1), v)",
            ),
            7,
        ),
    ],
)
def test_found(source: str, line: int) -> None:
    (hit,) = hits("FO607", source)
    assert hit.node.lineno == line
    assert "attention of `q`, `k" in hit.message


def test_the_remedy_is_the_call() -> None:
    source = attention("w = F.softmax(q @ k.transpose(1, 2) + mask, -1)", "w = F.dropout(w)", "return w @ v")
    (hit,) = hits("FO607", source)
    assert "F.scaled_dot_product_attention(q, k, v, attn_mask=..., dropout_p=...)" in hit.remedy


@pytest.mark.parametrize(
    "body",
    [
        ("w = F.softmax(q @ k.transpose(1, 2), -1)", "return w @ v, w"),  # the weights are wanted
        ("w = F.softmax(q @ k.transpose(1, 2), -1)", "self.last = w", "return w @ v"),
        ("w = F.softmax(q @ k, -1)", "return w @ v"),  # not turned: any two matrices
        ("w = torch.sigmoid(q @ k.transpose(1, 2))  # softmax", "return w @ v"),
        ("w = F.softmax(q, -1)", "return w @ v"),
        ("w = F.softmax(q @ k.transpose(1, 2) * self.temperature, -1)", "return w @ v"),
        ("w = F.softmax(torch.tanh(q @ k.transpose(1, 2)), -1)", "return w @ v"),
        ("w = F.softmax(q @ k.transpose(1, 2), dim=0)", "return w @ v"),
        (
            "w = F.softmax(q @ k.transpose(1, 2), -1)",
            "return w @ v if old else F.scaled_dot_product_attention(q, k, v)",
        ),
    ],
)
def test_what_looks_like_it_but_is_fine(body: tuple[str, ...]) -> None:
    assert lines("FO607", attention(*body)) == []


def test_before_there_was_a_fused_one() -> None:
    assert lines("FO607", attention("return F.softmax(q @ k.mT, -1) @ v"), torch=(1, 13)) == []


def test_what_it_computes() -> None:
    import math

    import torch
    import torch.nn.functional as F

    q, k, v = torch.randn(3, 2, 16, 8).unbind()
    by_hand = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(8), dim=-1) @ v
    assert torch.allclose(by_hand, F.scaled_dot_product_attention(q, k, v), atol=1e-5)
