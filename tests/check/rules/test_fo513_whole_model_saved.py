from __future__ import annotations

import pytest
from checking import hits, lines

HEAD = "import torch\nfrom torch import nn\nmodel = nn.Linear(4, 4)\n"


def test_found() -> None:
    (hit,) = hits("FO513", HEAD + 'torch.save(model, "model.pt")\n')
    assert hit.node.lineno == 4
    assert hit.message.startswith("`torch.save(model, ...)` pickles the whole object")


def test_a_model_that_is_passed_in() -> None:
    source = "import torch\ndef finish(model, path):\n    model.eval()\n    torch.save(model, path)\n"
    assert lines("FO513", source) == [4]
    assert lines("FO513", source.replace("model.eval()", "pass")) == []


@pytest.mark.parametrize(
    "code",
    [
        'torch.save(model.state_dict(), "model.pt")',
        'torch.save({"model": model.state_dict()}, "model.pt")',
        'torch.save(x, "x.pt")',
        'torch.jit.save(model, "model.pt")  # torch.save',
    ],
)
def test_what_looks_like_it_but_is_fine(code: str) -> None:
    assert lines("FO513", HEAD + code + "\n") == []


def test_pytorch_refuses_to_load_it(tmp_path: object) -> None:
    import pickle

    import torch

    torch.save(torch.nn.Linear(2, 2), f"{tmp_path}/model.pt")
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        torch.load(f"{tmp_path}/model.pt")
