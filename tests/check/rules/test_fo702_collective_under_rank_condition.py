from __future__ import annotations

import pytest
from checking import hits, lines

IMPORT = "import torch.distributed as dist\n"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("if rank == 0:\n    dist.barrier()\n", 3),
        ("if dist.get_rank() == 0:\n    save()\n    dist.all_reduce(x)\n", 4),
        ("def f(args):\n    if args.rank != 0:\n        return\n    dist.broadcast(x, 0)\n", 5),
        ("def f(rank):\n    for x in data:\n        if rank != 0:\n            return\n        dist.barrier()\n", 6),
        ("if accelerator.is_main_process:\n    accelerator.wait_for_everyone()\n", 3),
        ("if rank == 0:\n    pass\nelse:\n    dist.barrier()\n", 5),
        ("def evaluate():\n    dist.all_reduce(x)\nif is_main_process():\n    evaluate()\n", 5),
    ],
)
def test_found(source: str, line: int) -> None:
    assert lines("FO702", IMPORT + source) == [line]


def test_the_message_names_the_call_and_the_condition() -> None:
    (hit,) = hits("FO702", IMPORT + "if rank == 0:\n    dist.all_reduce(loss)\n")
    assert "`dist.all_reduce(loss)` is reached only where `rank == 0`" in hit.message
    (hit,) = hits("FO702", IMPORT + "def f():\n    dist.barrier()\nif rank == 0:\n    f()\n")
    assert "calls `dist.barrier` (line 3)" in hit.message


@pytest.mark.parametrize(
    "source",
    [
        "if rank == 0:\n    save()\ndist.barrier()\n",
        "if rank == 0:\n    save()\n    dist.barrier()\nelse:\n    dist.barrier()\n",
        "if rank != 0:\n    dist.barrier()\nload()\nif rank == 0:\n    dist.barrier()\n",
        "if rank == 0:\n    dist.destroy_process_group()\n",
        "if tp_rank == 0:\n    dist.all_reduce(x, group=data_group)\n",
        "if rank == 0:\n    dist.send(x, 1)\n",
        "if distributed:\n    dist.barrier()\n",
        "if local_rank == -1:\n    dist.barrier()\n",
        "def f(rank):\n    if rank != 0:\n        dist.barrier()\n        return\n    dist.barrier()\n",
        "def f():\n    dist.barrier()\nif rank == 0:\n    f()\nelse:\n    f()\n",
        "def f():\n    dist.barrier()\nif rank == 0:\n    f()\nif rank != 0:\n    f()\n",
        "def f():\n    if rank == 0:\n        return 1\n    return 2\ndist.barrier()\n",
        "class Once:\n    def __enter__(self):\n        if rank != 0:\n            dist.barrier()\n"
        "    def __exit__(self, *_):\n        if rank == 0:\n            dist.barrier()\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO702", IMPORT + source) == []
