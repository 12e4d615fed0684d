from __future__ import annotations

import pytest
from asking import module

from flatout.check.carried import carried_state

LOOP = """
from torch import nn
rnn = {rnn}
for x, y in loader:
    {step}
    loss = criterion(out, y)
    loss.backward({retain})
    optimizer.step()
    {after}
"""


def names(step: str, after: str = "pass", rnn: str = "nn.LSTM(1, 1)", retain: str = "") -> list[str]:
    source = LOOP.format(step=step, after=after, rnn=rnn, retain=retain)
    return [state.name for state in carried_state(module(source))]


def test_carried() -> None:
    assert names("out, hidden = rnn(x, hidden)") == ["hidden"]
    assert names("out, (h, c) = rnn(x, (h, c))") == ["c", "h"]
    assert names("out, hidden = rnn(x, hx=hidden)") == ["hidden"]
    assert names("out, hidden = rnn(x, hidden)", rnn="make()", retain="retain_graph=True") == ["hidden"]


@pytest.mark.parametrize(
    ("step", "after", "rnn"),
    [
        ("out, hidden = rnn(x, hidden)", "hidden = hidden.detach()", "nn.LSTM(1, 1)"),
        ("out, hidden = rnn(x, hidden)", "hidden.detach_()", "nn.LSTM(1, 1)"),
        ("out, hidden = rnn(x, hidden.detach())", "pass", "nn.LSTM(1, 1)"),
        ("hidden = zeros(); out, hidden = rnn(x, hidden)", "pass", "nn.LSTM(1, 1)"),
        ("out, hidden = rnn(x, hidden)", "hidden = repackage(hidden)", "nn.LSTM(1, 1)"),
        ("out, hidden = rnn(x, hidden)", "pass", "make()"),  # may cut the graph itself
        ("out, other = rnn(x, hidden)", "pass", "nn.LSTM(1, 1)"),
    ],
)
def test_not_carried(step: str, after: str, rnn: str) -> None:
    assert names(step, after, rnn) == []


def test_a_class_that_detaches() -> None:
    source = "class Net(nn.Module):\n    def forward(self, x, h):\n        {0}\n        return x, h\n"
    loop = LOOP.format(step="out, h = rnn(x, h)", after="pass", rnn="Net()", retain="").replace("rnn =", "{0}rnn =", 1)
    for inside, expected in (("h = h.detach()", []), ("h = h + x", ["h"])):
        found = carried_state(module(loop.format(source.format(inside))))
        assert [state.name for state in found] == expected
