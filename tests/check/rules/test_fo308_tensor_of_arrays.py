from __future__ import annotations

import warnings
from textwrap import dedent

import pytest
from checking import fixed, lines

HEAD = "import numpy as np\nimport torch\n"


@pytest.mark.parametrize(
    "statement",
    [
        "torch.tensor([np.zeros(3), np.ones(3)])",
        "torch.tensor([np.array(row) for row in rows])",
        "torch.FloatTensor([np.asarray(row) for row in rows])",
        "torch.as_tensor([np.array(row).astype('float32') for row in rows])",
        "torch.tensor((np.zeros(3), np.ones(3)))",
        "rows = [np.array(x) for x in xs]; torch.tensor(rows)",
        "rows = []; rows.append(np.array(x)); torch.tensor(rows)",
    ],
)
def test_a_list_of_arrays(statement: str) -> None:
    assert lines("FO308", HEAD + statement) == [3]


@pytest.mark.parametrize(
    "statement",
    [
        "torch.tensor(np.array([np.zeros(3), np.ones(3)]))",
        "torch.tensor([1.0, 2.0])",
        "torch.tensor([np.mean(row) for row in rows])",
        "torch.tensor(rows)",
        "rows = []; rows.append(np.array(x)); rows.append(x); torch.tensor(rows)",
        "torch.stack([torch.from_numpy(np.zeros(3))])",
        "torch.tensor(np.zeros(3))",
    ],
)
def test_what_looks_like_it_but_is_fine(statement: str) -> None:
    assert lines("FO308", HEAD + statement) == []


def test_the_fix_gives_the_same_tensor() -> None:
    source = """
        import numpy as np
        import torch
        rows = [np.full(3, i, dtype="int32") for i in range(2)]
        x = torch.tensor(rows)  # all of them
        y = torch.tensor([np.ones(2), np.zeros(2)], dtype=torch.float16)
    """
    import torch

    text = fixed("FO308", source)
    assert "x = torch.tensor(np.array(rows))  # all of them" in text
    before: dict[str, torch.Tensor] = {}
    after: dict[str, torch.Tensor] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own warning of the slow way
        exec(dedent(source), before)
    exec(text, after)
    for name in ("x", "y"):
        assert before[name].dtype == after[name].dtype
        assert torch.equal(before[name], after[name])
