"""What the engine knows of values, and where it must stay silent."""

from __future__ import annotations

from textwrap import dedent

import pytest
from asking import probed, probed_all

PICK = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
IMPORTS = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


@pytest.mark.parametrize(
    ("code", "kind", "device"),
    [
        ("x = torch.zeros(3)", "Tensor", "cpu"),
        ("x = torch.zeros(3, device='cuda')", "Tensor", "cuda"),
        ("x = torch.zeros(3, device='cuda:1')", "Tensor", "cuda"),
        ("x = torch.zeros(3, device=0)", "Tensor", "cuda"),
        ("x = torch.zeros(3, device=None)", "Tensor", "cpu"),
        ("x = torch.zeros(3, device=somewhere)", "Tensor", None),
        (PICK + "x = torch.ones(2, device=device)", "Tensor", "cuda"),
        ("device = 'cuda' if torch.cuda.is_available() else 'cpu'\nx = torch.ones(2).to(device)", "Tensor", "cuda"),
        ("x = torch.ones(2).to(torch.float16)", "Tensor", "cpu"),
        ("x = torch.ones(2).to(whatever)", "Tensor", None),
        ("y = torch.ones(2).cuda()\nx = torch.ones(2).to(y)", "Tensor", "cuda"),
        ("y = torch.ones(2).cuda()\nx = torch.ones(2).to(y.device)", "Tensor", "cuda"),
        ("y = torch.ones(2).cuda()\nx = torch.zeros_like(y)", "Tensor", "cuda"),
        ("x = torch.ones(2).cuda().cpu()", "Tensor", "cpu"),
        ("x = torch.ones(2).cuda().sum() * 2", "Tensor", "cuda"),
        ("x = 1 / torch.ones(2).cuda()", "Tensor", "cuda"),
        ("x = torch.ones(2).cuda().sum().item()", "number", None),
        ("x = torch.ones(2).cuda() > 0", "Tensor", "cuda"),
        ("x = torch.ones(2).cuda() is None", "bool", None),
        ("y = torch.ones(2).cuda()\nx = (y > 0) & (y < 1)", "Tensor", "cuda"),
        ("x = torch.ones(2).cuda().shape", "size", None),
        ("x = torch.ones(2).cuda().max(dim=0)", "tuple", None),
        ("x = torch.cat([torch.ones(2).cuda(), y])", "Tensor", "cuda"),
        ("x = F.relu(torch.ones(2).cuda())", "Tensor", "cuda"),
        ("x = torch.from_numpy(a)", "Tensor", "cpu"),
        ("x = torch.tensor(y)", "Tensor", None),  # y may be a tensor on the GPU
        ("x = torch.tensor([1.0])", "Tensor", "cpu"),
        ("x = nn.Linear(2, 2)", "Module", "cpu"),
        ("x = nn.Linear(2, 2)\nx.cuda()", "Module", "cuda"),
        ("x = nn.Linear(2, 2).to('cuda')", "Module", "cuda"),
        ("m = nn.Linear(2, 2).cuda()\nx = m(data)", "Tensor", "cuda"),
        ("m = nn.LSTM(2, 2).cuda()\nx = m(data)", None, None),  # a tuple
        ("x = unknown(3)", None, None),
        ("import numpy as np\nx = np.zeros(3).astype('int32')", "ndarray", None),
        ("import numpy as np\nx = np.mean(y)", None, None),  # a number or an array
        ("x = data.cuda()", None, "cuda"),  # a tensor or a layer
        ("for x in range(3): pass", "int", None),
        ("x = torch.load('f')", None, None),
    ],
)  # fmt: skip
def test_what_is_known(code: str, kind: str | None, device: str | None) -> None:
    fact = probed(f"{IMPORTS}{code}\nprobe(x)")
    assert (fact.kind, fact.device) == (kind, device)


def test_the_last_assignment_counts() -> None:
    assert [fact.device for fact in probed_all(IMPORTS + "x = torch.ones(2)\nprobe(x)\nx = x.cuda()\nprobe(x)")] == [
        "cpu",
        "cuda",
    ]


def test_two_branches_that_differ_are_not_known() -> None:
    fact = probed(IMPORTS + "x = torch.ones(2)\nif flag:\n    x = x.cuda()\nprobe(x)")
    assert (fact.kind, fact.device) == ("Tensor", None)


def test_both_branches_hide_what_was_before() -> None:
    code = "x = 1\nif flag:\n    x = torch.ones(2).cuda()\nelse:\n    x = torch.zeros(2).cuda()\nprobe(x)"
    # Straight-line reasoning sees the first assignment, too: not known is right, another kind would not be.
    assert probed(IMPORTS + code).device in ("cuda", None)


def test_a_loop_brings_later_assignments_back() -> None:
    fact = probed(IMPORTS + "h = torch.zeros(2)\nfor x in data:\n    probe(h)\n    h = step(x, h)")
    assert (fact.kind, fact.device) == (None, None)


def test_functions_give_and_take() -> None:
    assert probed(IMPORTS + "def put(x):\n    return x.to('cuda')\nprobe(put(1))").device == "cuda"
    assert probed(IMPORTS + "def f(x):\n    probe(x)\nf(torch.ones(1).cuda())").device == "cuda"
    assert probed(IMPORTS + "def f(x):\n    probe(x)\nf(torch.ones(1).cuda())\nf(torch.ones(1))").device is None
    assert probed(IMPORTS + "def f(*x):\n    probe(x)\nf(torch.ones(1).cuda())").device is None
    assert probed(IMPORTS + "def f(x, y):\n    probe(y)\nf(*z)").kind is None


def test_a_method_is_given_its_arguments_behind_self() -> None:
    code = "class T:\n    def f(self, x):\n        probe(x)\n    def g(self):\n        self.f(torch.ones(1).cuda())"
    assert probed(IMPORTS + code).device == "cuda"


def test_attributes_of_self() -> None:
    code = """
class T:
    def __init__(self):
        self.m = nn.Linear(1, 1)
        self.m.cuda()
    def f(self, x):
        probe(self.m(x))
"""
    assert probed(IMPORTS + code).device == "cuda"


def test_a_local_layer_and_what_it_returns() -> None:
    layer = "class Net(nn.Module):\n    def forward(self, x):\n        return F.relu(x)\n"
    assert probed(IMPORTS + layer + "net = Net().cuda()\nprobe(net(x))").is_tensor
    pair = "class Net(nn.Module):\n    def forward(self, x):\n        return x, x\n"
    assert probed(IMPORTS + pair + "net = Net().cuda()\nprobe(net(x))").kind is None


def test_a_sum_of_tensors_is_a_tensor() -> None:
    fact = probed(IMPORTS + "total = 0\nfor x in data:\n    total += torch.ones(1).cuda()\n    probe(total)")
    assert fact.kind == "Tensor"


def test_a_loss_of_what_is_not_known_has_a_graph() -> None:
    code = IMPORTS + "def train(x, y):\n    loss = F.mse_loss(compute(x), y)\n    loss.backward()\n    probe(loss)"
    fact = probed(code)
    assert (fact.kind, fact.has_graph) == ("Tensor", True)


def test_forward_called_directly_gives_what_the_layer_gives() -> None:
    fact = probed(IMPORTS + "m = nn.Linear(2, 2).cuda()\nx = m.forward(data)\nprobe(x)")
    assert (fact.kind, fact.device, fact.has_graph) == ("Tensor", "cuda", True)


def test_what_backward_is_called_on_is_a_loss() -> None:
    fact = probed("import torch\ndef train(x):\n    loss = compute(x.cuda())\n    loss.backward()\n    probe(loss)")
    assert (fact.kind, fact.device, fact.has_graph) == ("Tensor", "cuda", True)
    assert (
        probed("def train(x):\n    loss = compute(x)\n    loss.backward()\n    probe(loss)").device is None
    )  # no GPU here


def test_arguments_with_everybodys_names() -> None:
    names = ("model", "optimizer", "device", "thing")
    kinds = f"def f({', '.join(names)}):\n" + "".join(f"    probe({name})\n" for name in names)
    assert [fact.kind for fact in probed_all(kinds)] == ["Module", "Optimizer", "device", None]


def test_a_default_device_makes_factories_unknown() -> None:
    assert probed(IMPORTS + "torch.set_default_device('cuda')\nprobe(torch.ones(1))").device is None


def test_a_list_holds_what_is_appended() -> None:
    fact = probed(IMPORTS + "xs = []\nfor y in data:\n    xs.append(torch.ones(2).cuda())\nprobe(xs[0])")
    assert (fact.kind, fact.device) == ("Tensor", "cuda")
    mixed = "xs = []\nxs.append(torch.ones(2).cuda())\nxs.append(1)\nprobe(xs[0])"
    assert probed(IMPORTS + mixed).kind is None


def test_questions_that_go_round_or_deep_end() -> None:
    assert probed("x = x\nprobe(x)").kind is None
    assert probed("def f():\n    return f()\nprobe(f())").kind is None
    assert probed("x = " + "+".join(["1"] * 900) + "\nprobe(x)").kind in (None, "number")
    assert probed("import torch\nx = torch.ones(1)" + ".add(1)" * 900 + "\nprobe(x)").kind in (None, "Tensor")


def test_what_is_computed_without_gradients_hangs_on_no_graph() -> None:
    source = """
        def f(model, x):
            y = model(x)
            with torch.no_grad():
                z = y * 2
                w = torch.relu(y)
            probe(y)
            probe(z)
            probe(w)
    """
    assert [fact.has_graph for fact in probed_all("import torch\n" + dedent(source))] == [True, False, False]


def test_second_names_of_a_dtype() -> None:
    assert probed("import torch\nprobe(torch.half)\n").dtype == "torch.float16"
    assert probed("from torch import double\nprobe(double)\n").dtype == "torch.float64"


def test_a_layer_that_a_snippet_does_not_define() -> None:
    assert probed("probe(model(x))\n").has_graph
    assert probed("probe(open(x))\n").kind is None


def test_the_type_of_a_device_is_a_string() -> None:
    fact = probed("import torch\nprobe(torch.device('cuda:1').type)\n")
    assert (fact.kind, fact.device) == ("str", "cuda")


def test_masks_joined_are_a_mask() -> None:
    joined = IMPORTS + "y = torch.ones(2).cuda()\nprobe((y > 0) & ~(y > 1))\nprobe((y > 0) & y.long())"
    assert [fact.dtype for fact in probed_all(joined)] == ["torch.bool", None]


def test_an_argument_of_forward_that_may_be_a_number_is_not_known() -> None:
    layer = "class Net(nn.Module):\n    def forward(self, x, epoch):\n        probe(epoch > 3)\n        return x\n"
    assert probed(IMPORTS + layer + "net = Net().cuda()\n").kind == "bool"


def test_what_forward_is_given_lives_where_the_model_does() -> None:
    body = "probe(x); probe(scale); probe(x * 2); x.view(-1)"
    layer = f"class Net(nn.Module):\n    def forward(self, x, scale=None):\n        {body}\n"
    assert [fact.device for fact in probed_all(IMPORTS + layer)] == [None, None, None]
    with_gpu = IMPORTS + layer + "net = Net().cuda()\n"
    assert [(fact.kind, fact.device) for fact in probed_all(with_gpu)] == [
        (None, "cuda"),
        (None, None),
        ("Tensor", "cuda"),
    ]
