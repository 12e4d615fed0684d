from __future__ import annotations

import pytest
from checking import hits, lines

SCRIPT = """
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(4, 4)){model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    {batch}
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""
NET = """class Net(nn.Module):
    def __init__(self): super().__init__(); self.fc = nn.Linear(2, 2)
    def forward(self, x): return self.fc(x)
"""


def test_a_device_that_nothing_is_put_on() -> None:
    (hit,) = hits("FO209", SCRIPT.format(model="", batch="print(f'on {device}')"))
    assert hit.node.lineno == 3
    assert hit.message.startswith("`device` is picked here and nothing is put on it")


def test_a_device_that_is_handed_down_and_not_used() -> None:
    code = """
        import torch
        def train(model, loader, optimizer, device):
            for x, y in loader:
                model(x).sum().backward()
                optimizer.step()
        def main():
            device = "cuda" if torch.cuda.is_available() else "cpu"
            train(model, loader, optimizer, device)
    """
    assert lines("FO209", code) == [7]
    assert lines("FO209", code.replace("model(x)", "model(x.to(device))")) == []


def test_a_model_that_is_left_behind() -> None:
    code = SCRIPT.format(model="", batch="x, y = x.to(device), y.to(device)").replace("nn.Sequential", "Net", 1)
    code = code.replace("device =", NET + "device =")
    (hit,) = hits("FO209", code)
    assert hit.node.lineno == 7
    assert "`model` stays on the CPU, and `model(x)` on line 11 gives it `x`" in hit.message


def test_a_model_that_is_left_behind_and_handed_down() -> None:
    code = """
        import torch
        from torch import nn
        def train(model, loader, optimizer, device):
            for x, y in loader:
                x = x.to(device)
                model(x).sum().backward()
                optimizer.step()
        def main():
            device = torch.device("cuda")
            model = nn.Linear(2, 2)
            train(model, loader, torch.optim.SGD(model.parameters()), device)
    """
    assert lines("FO209", code) == [10]
    for call in ("model.to(device)", "prepare(model)"):
        assert lines("FO209", code.replace("nn.Linear(2, 2)", f"nn.Linear(2, 2)\n            {call}")) == []


@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (".to(device)", "x, y = x.to(device), y.to(device)"),
        (".cuda()", "pass"),
        ("", "model.to(device)"),
        ("", "x = put(x, device)"),
        ("", "state = torch.zeros(3, device=device)"),
    ],
)
def test_a_gpu_that_is_used(model: str, batch: str) -> None:
    assert lines("FO209", SCRIPT.format(model=model, batch=batch)) == []


def test_what_looks_like_it_but_is_fine() -> None:
    unused = SCRIPT.format(model="", batch="pass")
    assert lines("FO209", unused.replace("import torch\n", "import torch, accelerate\n", 1)) == []
    assert lines("FO209", unused + "torch.set_default_device('cuda')\n") == []
    assert lines("FO209", unused.replace("loss.backward()", "").replace("optimizer.step()", "")) == []  # no training
    module = 'import torch\ndevice = "cuda" if torch.cuda.is_available() else "cpu"\ndef train():\n    for x in l:\n'
    assert lines("FO209", module + "        f(x).backward()\n") == []  # other files may use it


def test_a_layer_without_weights_may_stay_on_the_cpu() -> None:
    source = """
    import torch
    from torch import nn
    class L1(nn.Module):
        def forward(self, a, b):
            return (a - b).abs().mean()
    criterion = L1()
    model = nn.Linear(1, 1).cuda()
    for x, y in train_loader:
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
    """
    assert lines("FO209", source) == []
