"""Which conditions only some ranks fulfil, and which calls all must make."""

from __future__ import annotations

import ast

import pytest
from asking import module

from flatout.check.ranks import collective, holds_on_one


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("rank == 0", True),
        ("args.local_rank != 0", False),
        ("dist.get_rank() == 0", True),
        ("int(os.environ['RANK']) == 0", True),
        ("not is_main_process()", False),
        ("self.accelerator.is_main_process", True),
        ("ready and rank == 0", True),
        ("args.local_rank in [-1, 0]", True),
        ("args.local_rank not in (-1, 0)", False),
        ("rank > 0", False),
        ("main", True),  # main = rank == 0
        ("local_rank == -1", None),  # not distributed at all
        ("rank == 0 or single", None),
        ("rank == 0 and world_size == 1", None),
        ("dist.get_rank(group) == 0", None),
        ("tp_rank == 0", None),
        ("rank % 8 == 0", None),
        ("step == 0", None),
    ],
)
def test_what_holds_on_one_rank(test: str, expected: bool | None) -> None:
    parsed = module(f"import torch.distributed as dist\nimport os\nmain = rank == 0\nif {test}:\n    pass\n")
    assert holds_on_one(parsed, parsed.tree.nodes(ast.If)[0].test) is expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("dist.barrier()", "barrier"),
        ("dist.all_reduce(x, op=dist.ReduceOp.SUM)", "all_reduce"),
        ("dist.all_reduce(x, group=None)", "all_reduce"),
        ("accelerator.wait_for_everyone()", "wait_for_everyone"),
        ("dcp.save(state)", "save"),
        ("FSDP(net).state_dict()", "state_dict"),
        ("dist.all_reduce(x, group=some)", None),
        ("dist.broadcast(x, 0, some)", None),
        ("dist.barrier(**options)", None),
        ("dist.send(x, 1)", None),
        ("dist.destroy_process_group()", None),
        ("net.state_dict()", None),
        ("pool.barrier()", None),
    ],
)
def test_what_is_a_collective(call: str, expected: str | None) -> None:
    parsed = module(
        "import torch.distributed as dist\nimport torch.distributed.checkpoint as dcp\n"
        f"from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n{call}\n"
    )
    (statement,) = parsed.tree.nodes(ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert collective(parsed, statement.value) == expected


def test_a_snippet_without_imports() -> None:
    parsed = module("dist.barrier()\n")
    assert collective(parsed, parsed.tree.nodes(ast.Call)[0]) == "barrier"
