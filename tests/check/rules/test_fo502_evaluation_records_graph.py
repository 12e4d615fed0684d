from __future__ import annotations

import pytest
from checking import fixed, hits, lines

VALIDATE = """
import torch

{decorator}
def validate(model, loader, criterion, device):
    {before}
    total = 0
    for x, y in loader:
        out = model(x.to(device))
        {body}
    return total
"""


def validate(before: str = "model.eval()", body: str = "total += 1", decorator: str = "") -> str:
    return VALIDATE.format(before=before, body=body, decorator=decorator)


def test_found() -> None:
    (hit,) = hits("FO502", validate())
    assert hit.node.lineno == 7
    assert hit.message.startswith("`validate` runs `model` with gradients recorded")
    assert hit.severity is None


def test_a_sum_that_keeps_every_graph() -> None:
    (hit,) = hits("FO502", validate(body="total += criterion(out, y)"))
    assert "`total` keeps those of all batches" in hit.message
    assert hit.severity == "high"
    (hit,) = hits("FO502", validate(body="total += criterion(out, y).item()"))
    assert hit.severity is None


def test_by_the_name_of_the_function_alone() -> None:
    assert lines("FO502", validate(before="pass")) == [7]
    assert lines("FO502", validate(before="pass").replace("validate", "run")) == []
    assert lines("FO502", validate(before="model.train(False)").replace("validate", "run")) == [7]


def test_within_one_script() -> None:
    source = """
    import torch
    from torch import nn

    model = nn.Linear(4, 2)
    for epoch in range(3):
        model.train()
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        for x, y in val_loader:
            correct += (model(x).argmax(1) == y).sum()
    """
    assert lines("FO502", source) == [12]
    assert lines("FO502", source.replace("model.eval()", "model.train()")) == []


def test_in_a_class() -> None:
    source = """
    import torch

    class Trainer:
        def validate(self):
            self.model.eval()
            for x, y in self.val_loader:
                out = self.model(x)
                self.meter.update(out)
    """
    assert lines("FO502", source) == [6]


@pytest.mark.parametrize(
    "source",
    [
        validate(decorator="@torch.no_grad()"),
        validate(decorator="@torch.inference_mode()"),
        validate(decorator="@evaluation_mode"),
        validate(before="model.eval(); torch.set_grad_enabled(False)"),
        validate(before="model.eval(); model.requires_grad_(False)"),
        validate(before="model.train()"),
        validate(body="out.sum().backward()"),
        validate(body="yield out"),
        validate(body="g = torch.autograd.grad(out.sum(), x)"),
        validate().replace("for x, y in loader:", "for x, y in loader:\n      with torch.no_grad():"),
        validate().replace("for x, y in loader:", "for x, y in loader:\n      with ctx:"),
        validate().replace("for x, y in loader:", "for x, y in loader:\n      with torch.set_grad_enabled(train):"),
        validate() + "\ndef main():\n    with torch.no_grad():\n        validate(a, b, c, d)\n",
        validate().replace("import torch", "import jax as torch"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO502", source) == []


def test_a_caller_that_does_not_turn_them_off() -> None:
    assert lines("FO502", validate() + "\ndef main():\n    validate(a, b, c, d)\n") == [7]


def test_the_fix_decorates_the_function() -> None:
    source = validate(decorator="@staticmethod").replace("criterion, device", "criterion, device='cpu'")
    after = fixed("FO502", source)
    assert "@staticmethod\n@torch.no_grad()\ndef validate(" in after
    (hit,) = hits("FO502", source)
    assert hit.fix is not None
    assert hit.fix.applicability == "unsafe"


def test_the_fix_computes_the_same() -> None:
    import torch

    source = validate(body="total += criterion(out, y).detach()").replace("device)", "device='cpu')")
    torch.manual_seed(0)
    data = [(torch.randn(4, 3), torch.randint(0, 2, (4,))) for _ in range(3)]
    results = []
    for text in (source, fixed("FO502", source)):
        names: dict[str, object] = {}
        exec(text, names)
        torch.manual_seed(1)
        results.append(names["validate"](torch.nn.Linear(3, 2), data, torch.nn.CrossEntropyLoss()))  # type: ignore[operator]
    assert results[0] == results[1]


def test_a_snippet_without_imports() -> None:
    source = """
    def validate(model, loader):
        model.eval()
        total = 0
        for x, y in loader:
            out = model(x.cuda())
            total += loss_fn(out, y.cuda())
        return total
    """
    (hit,) = hits("FO502", source)
    assert hit.node.lineno == 4
    assert "`total` keeps those of all batches" in hit.message
