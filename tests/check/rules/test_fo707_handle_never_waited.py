from __future__ import annotations

import pytest
from checking import hits, lines

IMPORT = "import torch.distributed as dist\n"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("dist.all_reduce(x, async_op=True)\n", 2),
        ("dist.isend(x, 1)\n", 2),
        ("dist.irecv(x, 1)\nuse(x)\n", 2),
        ("def f(x):\n    work = dist.all_reduce(x, async_op=True)\n    return x / 2\n", 3),
    ],
)
def test_found(source: str, line: int) -> None:
    assert lines("FO707", IMPORT + source) == [line]


def test_the_message_names_the_handle() -> None:
    (hit,) = hits("FO707", IMPORT + "def f(x):\n    work = dist.all_reduce(x, async_op=True)\n    return x\n")
    assert "`work` is never waited for" in hit.message


@pytest.mark.parametrize(
    "source",
    [
        "dist.all_reduce(x)  # async_op\n",
        "dist.all_reduce(x, async_op=False)\n",
        "dist.all_reduce(x, async_op=True).wait()\n",
        "work = dist.all_reduce(x, async_op=True)\nwork.wait()\n",
        "handles.append(dist.isend(x, 1))\n",
        "def f(x):\n    return dist.isend(x, 1)\n",
        "def f(x):\n    dist.isend(x, 1)\n    torch.cuda.synchronize()\n",
        "dist.all_reduce(x, async_op=is_async)\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO707", IMPORT + source) == []
