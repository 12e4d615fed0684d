from __future__ import annotations

import pytest
from checking import hits, lines

HEAD = "import numpy as np\nimport torch\nfrom torch import nn\nmodel = nn.Linear(4, 4)\n"


@pytest.mark.parametrize(
    ("code", "where"),
    [
        ("x = torch.from_numpy(np.random.randn(8, 4)).cuda()", "to the GPU"),
        ('x = torch.tensor(np.zeros((8, 4))).to("cuda")', "to the GPU"),
        ("x = torch.from_numpy(np.linspace(0, 1, 8)); x = x.cuda()", "to the GPU"),
        ("y = model(torch.from_numpy(np.random.rand(8, 4)))", "into `model`"),
        ("x = torch.from_numpy(np.random.rand(8, 4)); d = torch.utils.data.TensorDataset(x)", "into a `TensorDataset`"),
        ("d = torch.utils.data.TensorDataset(torch.tensor(np.random.rand(8, 4)))", "into a `TensorDataset`"),
        ("data = np.ones((8, 4)); x = torch.from_numpy(data); y = model(x)", "into `model`"),
    ],
)
def test_found(code: str, where: str) -> None:
    (hit,) = hits("FO412", HEAD + code + "\n")
    assert hit.node.lineno == 5
    assert hit.message.endswith(f"and goes {where}")


@pytest.mark.parametrize(
    "code",
    [
        "x = torch.from_numpy(np.random.randn(8, 4)).float().cuda()",
        "x = torch.from_numpy(np.random.randn(8, 4).astype(np.float32)).cuda()",
        "x = torch.from_numpy(np.zeros((8, 4), dtype=np.float32)).cuda()",
        "x = torch.from_numpy(np.zeros((8, 4), np.float32)).cuda()",
        "x = torch.tensor(np.zeros((8, 4)), dtype=torch.float32).cuda()",
        "x = torch.tensor(np.zeros((8, 4)), device='cuda').float()",
        "x = torch.from_numpy(np.random.randint(0, 4, 8)).cuda()",
        "x = torch.from_numpy(np.arange(8)).cuda()",
        "x = torch.from_numpy(np.zeros(8)); y = model(x.float())",
        "x = torch.from_numpy(np.zeros(8)).to('cuda', torch.float32)",
        "x = torch.from_numpy(np.zeros(8)); print(x.sum())",
        "model.double(); y = model(torch.from_numpy(np.zeros(8)))",
        "x = torch.from_numpy(load('x')).cuda()",
        "x = torch.from_numpy(np.zeros(8)); d = torch.utils.data.TensorDataset(x)\nfor (b,) in d: model(b.float())",
    ],
)
def test_what_looks_like_it_but_is_fine(code: str) -> None:
    assert lines("FO412", HEAD + code + "\n") == []


def test_the_default_of_numpy() -> None:
    import numpy as np
    import torch

    from flatout.check.rules.fo412_float64_by_accident import MAKERS

    arguments = {"numpy.linspace": (0, 1), "numpy.geomspace": (1, 2), "numpy.logspace": (0, 1)}
    for name in MAKERS:
        make = np
        for part in name.split(".")[1:]:
            make = getattr(make, part)
        given = arguments.get(
            name, (0, 1, 3) if name.endswith(("normal", "uniform")) and "standard" not in name else (3,)
        )
        array = make(*given)  # type: ignore[operator]
        assert torch.from_numpy(array).dtype == torch.float64, name
