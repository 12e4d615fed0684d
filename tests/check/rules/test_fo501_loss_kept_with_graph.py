from __future__ import annotations

from typing import Any

import pytest
from checking import fixed, hits, lines

LOOP = """
import torch

def train(model, loader, optimizer, criterion, device):
    {before}
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        {keep}
    {after}
"""


def loop(before: str, keep: str, after: str = "return 0") -> str:
    return LOOP.format(before=before, keep=keep, after=after)


@pytest.mark.parametrize(
    ("before", "keep"),
    [
        ("total = 0", "total += loss"),
        ("total = 0.0", "total = total + loss"),
        ("total = 0.0", "total = loss + total"),
        ("total = torch.zeros(1, device=device)", "total += loss * x.size(0)"),
        ("losses = []", "losses.append(loss)"),
        ("losses = []", "losses += [loss]"),
        ("history = {'loss': []}", "history['loss'].append(loss)"),
        ("sums = {'loss': 0}", "sums['loss'] += loss"),
        ("losses = []", "losses.append(loss.cpu())"),
    ],
)
def test_what_is_kept(before: str, keep: str) -> None:
    assert lines("FO501", loop(before, keep)) == [10]


def test_the_message_names_the_variables() -> None:
    (hit,) = hits("FO501", loop("running = 0", "running += loss"))
    assert hit.message == "`running` sums `loss` with its graph: the graph of every step stays in memory"
    assert "`loss.detach()`" in hit.remedy


@pytest.mark.parametrize(
    ("before", "keep"),
    [
        ("total = 0", "total += loss.item()"),
        ("total = 0", "total += loss.detach()"),
        ("total = 0", "total += float(loss)"),
        ("total = 0", "total += loss.data"),
        ("losses = []", "losses.append(loss.detach().cpu())"),
        ("total = 0", "total += x.size(0)"),
        ("losses = []", "losses = []; losses.append(loss)"),
        ("losses = []", "loss = reduce(loss); losses.append(loss)"),
        ("losses = []", "loss = loss.detach(); losses.append(loss)"),
        ("from collections import deque; losses = deque(maxlen=10)", "losses.append(loss.item())"),
    ],
)
def test_what_is_cut_off_or_not_kept(before: str, keep: str) -> None:
    assert lines("FO501", loop(before, keep)) == []


def test_a_sum_that_backward_runs_through() -> None:
    inside = """
    def train(model, loader, optimizer, criterion):
        for batch in loader:
            loss = 0
            for x, y in batch:
                part = criterion(model(x), y)
                loss += part
            loss.backward()
            optimizer.step()
    """
    assert lines("FO501", inside) == []
    window = """
    def train(model, loader, optimizer, criterion):
        total = 0
        for i, (x, y) in enumerate(loader):
            total += criterion(model(x), y)
            if i % 8 == 7:
                (total / 8).backward()
                optimizer.step()
                total = 0
    """
    assert lines("FO501", window) == []


def test_a_policy_gradient() -> None:
    source = """
    def train(policy, env, optimizer):
        for episode in range(1000):
            log_probs = []
            for t in range(100):
                log_probs.append(policy(env.state()).log())
            loss = -sum(log_probs)
            loss.backward()
            optimizer.step()
    """
    assert lines("FO501", source) == []


def test_outputs_that_are_collected_while_training() -> None:
    source = """
    def train(model, loader, optimizer, criterion):
        outputs = []
        for x, y in loader:
            out = model(x)
            loss = criterion(out, y)
            loss.backward()
            optimizer.step()
            outputs.append(out)
        return outputs
    """
    assert lines("FO501", source) == [8]
    assert lines("FO501", source.replace("append(out)", "append(out.detach())")) == []


def test_outputs_that_the_loss_needs() -> None:
    source = """
    def train(model, loader, optimizer, criterion):
        outputs = []
        for x, y in loader:
            out = model(x)
            outputs.append(out)
            loss = criterion(out, y) + penalty(outputs)
            loss.backward()
            optimizer.step()
    """
    assert lines("FO501", source) == []


METER = """
class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, val, n=1):
        self.sum += {value} * n
        self.count += n

def train(model, loader, optimizer, criterion):
    losses = AverageMeter()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.update(loss, x.size(0))
"""


def test_a_meter_of_this_file() -> None:
    assert lines("FO501", METER.format(value="val")) == [15]
    assert lines("FO501", METER.format(value="val.item()")) == []
    assert lines("FO501", METER.format(value="float(val)")) == []
    assert lines("FO501", METER.format(value="val").replace("update(loss", "update(loss.item()")) == []


def test_a_meter_from_elsewhere_is_not_known() -> None:
    source = METER.format(value="val")
    assert lines("FO501", "from meters import AverageMeter\n" + source[source.index("def train") :]) == []


def test_a_trainer_class() -> None:
    source = """
    class Trainer:
        def __init__(self, model, optimizer):
            self.model, self.optimizer = model, optimizer
            self.losses = []
            self.total = 0

        def step(self, x, y):
            loss = self.model(x, y)
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss)
            self.total += loss

        def fit(self, loader):
            for x, y in loader:
                self.step(x, y)
    """
    assert lines("FO501", source) == [11, 12]


def test_a_script() -> None:
    source = """
    import torch
    from torch import nn

    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for epoch in range(10):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
    """
    assert lines("FO501", source) == [13]


def test_under_no_grad_there_is_no_graph() -> None:
    assert lines("FO501", loop("total = 0", "with torch.no_grad(): total += criterion(model(x), y)")) == []


def test_the_fix_computes_the_same() -> None:
    source = """
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total, parts, losses = 0, 0, []
    for _ in range(5):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss  # the sum
        parts += loss * 2
        losses.append(loss)
    """
    after = fixed("FO501", source)
    assert "total += loss.detach()  # the sum\n" in after
    assert "parts += loss.detach() * 2\n" in after
    assert "losses.append(loss.detach())\n" in after
    results = []
    for text in (after.replace(".detach()", ""), after):
        names: dict[str, Any] = {}
        exec(text, names)
        values = [names["total"], names["parts"], *names["losses"]]
        results.append([value.detach().item() for value in values])
    assert results[0] == results[1]
