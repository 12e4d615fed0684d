from __future__ import annotations

import pytest
from checking import hits, lines

TRAIN = """
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
def train(model, loader, optimizer, criterion):
    total = 0.0
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        {statement}
"""
LINE = 11


@pytest.mark.parametrize(
    "statement",
    [
        "total += loss.item()",
        "print('loss', loss)",
        "print(f'{loss:.3f}')",
        "print('loss: %f' % loss.item())",
        "losses.append(float(loss))",
        "pbar.set_postfix(loss=loss.item())",
        "losses.append(loss.detach().cpu())",
        "losses.append(loss.detach().to('cpu'))",
        "correct += (out.argmax(1) == y).sum().item()",
        "if loss > 100: break",
        "if torch.isnan(loss): break",
        "assert not torch.isnan(loss).any()",
        "logger.info('loss %s', loss)",
        "history = loss.tolist()",
    ],
)
def test_reads_every_step(statement: str) -> None:
    assert lines("FO101", TRAIN.format(statement=statement)) == [LINE]


@pytest.mark.parametrize(
    "statement",
    [
        "total += loss.detach()",
        "if i % 100 == 0: print(loss.item())",
        "print(i)",
        "print(loss.shape)",
        "print(x.size(0), len(loader))",
        "if loss is None: break",
        "if x.dim() == 2: break",
        "n += y.numel()",
        "print(torch.rand(1).item())",
        "done = loss.to('cpu', non_blocking=True)",
        "loss = loss.float()",
    ],
)
def test_what_does_not_wait(statement: str) -> None:
    assert lines("FO101", TRAIN.format(statement=statement)) == []


def test_one_finding_a_statement_that_names_the_first() -> None:
    found = hits("FO101", TRAIN.format(statement="print(loss.item(), out.mean().item())"))
    assert [hit.message for hit in found] == ["`loss.item()` makes the host wait for the GPU on every step"]


def test_an_evaluation_loop_weighs_less() -> None:
    source = """
    import torch
    def evaluate(model, test_loader, device):
        correct = 0
        with torch.no_grad():
            for x, y in test_loader:
                pred = model(x.to(device)).argmax(1)
                correct += (pred == y.to(device)).sum().item()
        return correct
    """
    assert [(hit.node.lineno, hit.severity) for hit in hits("FO101", source)] == [(7, "low")]


def test_after_the_loop_and_once_an_epoch_is_fine() -> None:
    source = TRAIN.format(statement="total += loss.detach()") + "    print(total.item())\n"
    assert lines("FO101", source) == []


def test_a_script_that_uses_no_gpu_is_left_alone() -> None:
    source = (
        "import torch\ndevice = None\nfor x in data:\n    loss = f(x)\n    loss.backward()\n    print(loss.item())\n"
    )
    assert lines("FO101", source) == []


def test_what_forward_is_given_is_where_the_model_is() -> None:
    source = """
    import torch
    from torch import nn
    class Net(nn.Module):
        def forward(self, x, device):
            if x.sum() > 0:
                x = x + 1
            y = x.cuda()
            return y * y.max().item()
    """
    assert lines("FO101", source) == [5, 8]
    assert lines("FO101", source.replace("x.cuda()", "x  # device")) == []  # a layer for no device in particular
