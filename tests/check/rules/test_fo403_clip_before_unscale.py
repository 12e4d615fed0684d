from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
import torch
from torch.nn.utils import clip_grad_norm_

def train(model, loader, optimizer, scaler, args):
    for i, (x, y) in enumerate(loader):
        loss = model(x, y)
        scaler.scale(loss).backward()
        {body}
        scaler.step(optimizer)
        scaler.update()
"""


def loop(*body: str) -> str:
    return LOOP.format(body="\n        ".join(body))


CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


@pytest.mark.parametrize("clip", [CLIP, "clip_grad_norm_(model.parameters(), 1.0)", CLIP.replace("norm", "value")])
def test_found(clip: str) -> None:
    (hit,) = hits("FO403", loop(clip))
    assert hit.node.lineno == 8
    assert "still multiplied by the scale of `scaler`" in hit.message
    assert hit.remedy.startswith("Call `scaler.unscale_(optimizer)` before `clip_grad_")


def test_unscaled_too_late_and_under_a_flag_of_clipping() -> None:
    assert lines("FO403", loop(CLIP, "scaler.unscale_(optimizer)")) == [8]
    assert lines("FO403", loop("if args.clip > 0:", "    " + CLIP)) == [9]


def test_a_window_of_accumulation() -> None:
    source = loop(CLIP).replace("        scaler.step", "        if (i + 1) % 4 == 0:\n            scaler.step")
    assert lines("FO403", source.replace("        scaler.update", "            scaler.update")) == [8]


@pytest.mark.parametrize(
    "source",
    [
        loop("scaler.unscale_(optimizer)", CLIP),
        loop("if args.clip:", "    scaler.unscale_(optimizer)", "    " + CLIP),
        loop("if not args.amp:", "    " + CLIP),
        loop("if scaler is None:", "    " + CLIP),
        loop("unscale(scaler, optimizer)", CLIP) + "def unscale(s, o):\n    s.unscale_(o)\n",
        loop("pass").replace("scaler.scale(loss).backward()", "loss.backward(); " + CLIP),
        "import torch\ndef train(model, scaler, loss, optimizer):\n"
        "    if scaler:\n        scaler.scale(loss).backward()\n        scaler.step(optimizer)\n"
        f"    else:\n        loss.backward()\n        {CLIP}\n        optimizer.step()\n",
        "import torch\nfrom sklearn.preprocessing import StandardScaler\nscaler = StandardScaler()\n"
        f"for x in loader:\n    scaler.scale(x).backward()\n    {CLIP}\n    scaler.step(optimizer)\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO403", source) == []


def test_what_it_does() -> None:
    """The page's claim, run: clipped in the wrong place, the model hardly learns."""
    import torch

    def loss_after(unscale_first: bool) -> float:
        torch.manual_seed(0)
        model = torch.nn.Linear(64, 10)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu")
        x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
        for _ in range(50):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            if unscale_first:
                scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        return loss.item()

    assert loss_after(False) > 5 * loss_after(True)
