from __future__ import annotations

import pytest
from checking import hits, lines

IMPORT = "import logging\nimport time\nimport torch\nimport numpy as np\nfrom torch import nn\n"
FUNCTION = IMPORT + "@torch.compile{options}\ndef step(x, flag):\n    {body}\n    return x + 1\n"


def function(body: str, options: str = "") -> str:
    return FUNCTION.format(body=body, options=options)


@pytest.mark.parametrize(
    "body",
    [
        "print(x)",
        "n = x.sum().item()",
        "values = x.tolist()",
        "n = float(torch.sum(x))",
        "start = time.time()",
        "logging.info('a')",
        "if x.sum() > 0: x = x * 2",
        "while x.norm() > 1: x = x / 2",
        "torch.save(x, 'x.pt')",
    ],
)
def test_found(body: str) -> None:
    (hit,) = hits("FO602", function(body))
    assert hit.node.lineno == 8
    assert "`step`, which is compiled, ends one graph and begins another" in hit.message


def test_what_is_passed_to_compile() -> None:
    assert lines("FO602", IMPORT + "def f(x):\n    print(x)\n    return x\nfast = torch.compile(f)\n") == [7]
    layer = "class Net(nn.Module):\n    def forward(self, x):\n        print(x)\n        return x\n"
    assert lines("FO602", IMPORT + layer + "net = torch.compile(Net())\n") == [8]
    assert lines("FO602", IMPORT + layer + "net = Net()\nnet.compile()\n") == [8]


def test_with_fullgraph_it_raises() -> None:
    (hit,) = hits("FO602", function("print(x)", "(fullgraph=True)"))
    assert hit.severity == "high"
    assert "raises there" in hit.message
    assert lines("FO602", function("n = x.sum().item()", "(fullgraph=True)")) == []  # newer PyTorch takes it in


@pytest.mark.parametrize(
    "source",
    [
        function("print(x)").replace("@torch.compile", "# compile"),
        function("if flag: print(x)"),
        function("if flag: x = x * 2"),
        function("if x.shape[0] > 2: x = x * 2"),
        function("if x is None: return x"),
        function("x = x * np.sqrt(2.0)"),
        function("if not torch.compiler.is_compiling(): print(x)"),
        function("x = x.cpu()"),
        "import re\npattern = re.compile('a')\nprint(pattern)\n",
        IMPORT + "torch._dynamo.config.capture_scalar_outputs = True\n" + function("n = x.sum().item()"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO602", source) == []


def test_what_it_does() -> None:
    """The page's claim, on the calls that the rule has in its table."""
    import torch

    def printing(x: torch.Tensor) -> torch.Tensor:
        print("x")
        return x + 1

    def reading(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()

    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(printing, backend="eager", fullgraph=True)(torch.ones(2))
    torch._dynamo.reset()
    assert torch._dynamo.explain(reading)(torch.ones(2)).graph_break_count == 1
