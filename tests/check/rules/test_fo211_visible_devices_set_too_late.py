from __future__ import annotations

import pytest
from checking import hits, lines

SET = 'os.environ["CUDA_VISIBLE_DEVICES"] = "1"\n'
HEAD = "import os\nimport torch\n"


@pytest.mark.parametrize(
    "before",
    [
        "torch.cuda.is_available()\n",
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n",
        "x = torch.zeros(3).cuda()\n",
        "x = torch.zeros(3, device='cuda')\n",
        "torch.cuda.set_device(0)\n",
        "if torch.cuda.is_available():\n    pass\n",
    ],
)
def test_too_late(before: str) -> None:
    (hit,) = hits("FO211", HEAD + before + SET)
    assert hit.node.lineno == HEAD.count("\n") + before.count("\n") + 1
    assert "on line 3 has started CUDA already" in hit.message


def test_in_a_function_behind_the_top_of_the_file() -> None:
    code = HEAD + "device = 'cuda' if torch.cuda.is_available() else 'cpu'\ndef main():\n    " + SET
    assert lines("FO211", code) == [5]


@pytest.mark.parametrize(
    "code",
    [
        HEAD + SET + "torch.cuda.is_available()\n",
        HEAD + SET,  # importing torch does not start CUDA
        HEAD + "def f():\n    torch.cuda.is_available()\n" + SET,
        HEAD + "if flag:\n    torch.cuda.init()\n" + SET,
        HEAD + "torch.cuda.device_count()\n" + SET,
        HEAD + "torch.cuda.is_available()\nos.environ['OTHER'] = '1'  # not CUDA_VISIBLE_DEVICES\n",
        HEAD + "torch.cuda.is_available()\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\n",
    ],
)
def test_what_looks_like_it_but_is_fine(code: str) -> None:
    assert lines("FO211", code) == []
