from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 4)

    def forward(self, x, h):
        out, h = self.rnn(x, h)
        return out, h

def train(loader, criterion):
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    hidden = None
    for x, y in loader:
        out, hidden = net(x, hidden)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward({retain})
        optimizer.step()
        {after}
"""


def loop(retain: str = "", after: str = "pass") -> str:
    return LOOP.format(retain=retain, after=after)


def test_found() -> None:
    (hit,) = hits("FO509", loop())
    assert hit.node.lineno == 18
    assert hit.message.startswith("`hidden` carries the graph from one step to the next: the second backward raises")
    (hit,) = hits("FO509", loop("retain_graph=True"))
    assert "time and memory grow with every step" in hit.message


@pytest.mark.parametrize(
    "source",
    [
        loop(after="hidden = hidden.detach()"),
        loop(after="hidden = hidden.data"),
        loop(after="hidden = tuple(h.detach() for h in hidden)"),
        loop().replace("net(x, hidden)", "net(x, None)"),
        loop().replace("loss.backward()", "pass  # no backward"),
        loop().replace("for x, y in loader:", "for x, y in loader:\n        hidden = None"),
        loop().replace("return out, h", "return out, h.detach()"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO509", source) == []


def test_pytorch_raises() -> None:
    import torch

    rnn, hidden = torch.nn.GRU(2, 2), None
    out, hidden = rnn(torch.randn(3, 1, 2), hidden)
    out.sum().backward()
    out, hidden = rnn(torch.randn(3, 1, 2), hidden)
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()


LAYER = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 4)
        self.hidden = None

    def forward(self, x):
        out, self.hidden = self.lstm(x, self.hidden)
        return out

def train(net, loader, optimizer):
    for x in loader:
        loss = net(x).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
"""


def test_a_state_that_the_layer_keeps() -> None:
    (hit,) = hits("FO509", LAYER)
    assert hit.node.lineno == 10
    assert "`self.hidden` carries the graph from one call to the next" in hit.message
    (hit,) = hits("FO503", LAYER)
    assert hit.node.lineno == 16
    assert "because `self.hidden` carries" in hit.message


def test_a_layer_that_starts_anew_or_detaches() -> None:
    reset = "    def reset(self):\n        self.hidden = None\n\n    def forward"
    assert lines("FO509", LAYER.replace("    def forward", reset)) == []
    assert lines("FO509", LAYER.replace("return out", "self.hidden = [h.detach() for h in self.hidden]")) == []
    assert lines("FO509", LAYER.replace("retain_graph=True", "")) == []
