from __future__ import annotations

from typing import Any

import torch

from flatout.costs.table import formulas

_aten: Any = torch.ops.aten


def test_formulas_are_of_operators_that_exist() -> None:
    # Names come and go with PyTorch's versions; a misspelt one would show as many.
    missing = [
        name for name in formulas if name.startswith("aten::") and not hasattr(_aten, name.removeprefix("aten::"))
    ]
    assert len(missing) < 0.1 * len(formulas), missing


def test_formulas_have_full_names() -> None:
    # What a compiler makes has formulas too, where its module is loaded.
    assert all(name.startswith(("aten::", "compiled::")) for name in formulas)
