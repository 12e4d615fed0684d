from __future__ import annotations

import pytest
from checking import fixed, hits, lines

LOOP = """
def train(model, loader, optimizer, criterion):
    {before}
    for x, y in loader:
        optimizer.zero_grad()
        {body}
        optimizer.step()
"""


def loop(*body: str, before: str = "pass") -> str:
    return LOOP.format(body="\n        ".join(body), before=before)


PLAIN = ("loss = criterion(model(x), y)", "loss.backward(retain_graph=True)")


def test_found() -> None:
    (hit,) = hits("FO503", loop(*PLAIN))
    assert hit.node.lineno == 6
    assert "nothing in the loop uses them again" in hit.message
    assert lines("FO503", loop(PLAIN[0], "scaler.scale(loss).backward(None, True)")) == [6]


def test_the_last_of_two() -> None:
    two = ("out = model(x)", "a = out.sum()", "b = out.mean()", "a.backward(retain_graph=True)")
    assert lines("FO503", loop(*two, "b.backward()")) == []
    assert lines("FO503", loop(*two, "b.backward(retain_graph=True)")) == [9]


def test_a_hidden_state_is_named() -> None:
    body = ("out, hidden = rnn(x, hidden)", "loss = criterion(out, y)", "loss.backward(retain_graph=True)")
    source = loop(*body, before="hidden = None").replace("(model,", "(rnn,")
    (hit,) = [hit for hit in hits("FO503", source) if "hidden" in hit.message]
    assert hit.node.lineno == 7
    assert hit.remedy.startswith("Detach `hidden` between steps")


@pytest.mark.parametrize(
    "source",
    [
        loop(PLAIN[0], "loss.backward()  # retain_graph"),
        loop(PLAIN[0], "loss.backward(retain_graph=again)"),
        loop(PLAIN[0], "loss.backward(retain_graph=True, create_graph=True)"),
        loop(*PLAIN, "g = torch.autograd.grad(loss, x)").replace("def", "import torch\ndef", 1),
        loop("loss = criterion(out, y)", PLAIN[1], before="out = model(data)"),
        loop("out = model(x)", "for k in range(3):", "    out[k].backward(retain_graph=True)"),
        "loss = model(x).sum()\nloss.backward(retain_graph=True)\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO503", source) == []


def test_the_fix() -> None:
    assert fixed("FO503", loop(*PLAIN)) == loop(PLAIN[0], "loss.backward()").lstrip()


def test_the_fix_computes_the_same() -> None:
    import torch

    results = []
    for text in (loop(*PLAIN), fixed("FO503", loop(*PLAIN))):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        data = [(torch.randn(4, 3), torch.randint(0, 2, (4,))) for _ in range(3)]
        names: dict[str, object] = {}
        exec(text, names)
        names["train"](model, data, torch.optim.SGD(model.parameters(), 0.1), torch.nn.CrossEntropyLoss())  # type: ignore[operator]
        results.append(model.weight.detach())
    assert torch.equal(*results)
