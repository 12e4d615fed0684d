from __future__ import annotations

import pytest
from checking import hits, lines


def loop(statement: str, over: str = "loader", before: str = "preds = torch.empty(0)") -> str:
    return f"import torch\n{before}\nfor x in {over}:\n    {statement}\n"


@pytest.mark.parametrize(
    "statement",
    [
        "preds = torch.cat([preds, f(x)])",
        "preds = torch.cat((preds, f(x)), dim=0)",
        "preds = torch.vstack([preds, f(x)])",
        "preds = f(x) if preds is None else preds; preds = torch.cat([preds, f(x)])",
        "preds = torch.cat([preds, model(x)])",
    ],
)
def test_found(statement: str) -> None:
    found = hits("FO510", loop(statement))
    if "if preds is None" in statement:
        assert found == []  # set twice a round: not understood
        return
    (hit,) = found
    assert hit.node.lineno == 4
    assert hit.message.startswith("`preds = torch.")


def test_the_first_round() -> None:
    source = "if preds is None:\n        preds = f(x)\n    else:\n        preds = torch.cat([preds, f(x)])"
    assert lines("FO510", loop(source, before="preds = None")) == [7]


def test_over_what() -> None:
    for over in ("enumerate(train_loader)", "range(1000)", "range(n)", "tqdm(dataset)", "image_paths"):
        assert lines("FO510", loop("preds = torch.cat([preds, f(x)])", over)) == [4], over


def test_in_a_class() -> None:
    assert lines("FO510", loop("self.preds = torch.cat([self.preds, f(x)])", "range(1000)")) == [4]


@pytest.mark.parametrize(
    "source",
    [
        loop("preds = torch.cat([f(x), g(x)])"),
        loop("preds = torch.cat([preds, f(x)]); y = g(preds)"),
        loop("preds = torch.cat([preds, f(x)])", "range(3)"),
        loop("preds = torch.cat([preds, f(x)])", "(a, b)"),
        loop("preds = torch.cat([preds, f(x)])", "self.levels"),
        loop("preds = torch.cat([preds, f(x)], dim=2)", "range(1, len(encoders))"),
        loop("preds = torch.cat([preds, model(x)])", "range(new_tokens)"),
        loop("preds = torch.cat([preds, self(x)], dim=1)", "range(new_tokens)"),
        loop("preds = torch.cat([preds, f(x)])[-100:]"),
        loop("preds = None; preds = torch.cat([preds, f(x)])"),
        "import torch\npreds = torch.cat([preds, x])\n",
        "import torch\nwhile True:\n    preds = torch.cat([preds, x])\n    break\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO510", source) == []
