from __future__ import annotations

import pytest
from checking import fixed, hits, lines

SCRIPT = """
from torch.utils.data import DataLoader
loader = DataLoader(ds, batch_size=4, {options})
for epoch in range(10):
    for x in loader:
        step(x)
"""


def test_workers_that_die_each_epoch() -> None:
    (hit,) = hits("FO303", SCRIPT.format(options="num_workers=4"))
    assert hit.node.lineno == 2
    assert hit.message == "the 4 worker processes are stopped and started again each time the loop on line 4 begins"


def test_in_a_function_of_its_own() -> None:
    code = """
        from torch.utils.data import DataLoader
        def train(loader, model):
            for i, x in enumerate(loader):
                step(x)
        def main():
            loader = DataLoader(ds, num_workers=2)
            for epoch in range(10):
                train(loader, model)
    """
    assert lines("FO303", code) == [6]


@pytest.mark.parametrize(
    "options",
    ["num_workers=0", "num_workers=4, persistent_workers=True", "num_workers=n", "num_workers=4, **options"],
)
def test_no_workers_or_lasting_ones(options: str) -> None:
    assert lines("FO303", SCRIPT.format(options=options)) == []


def test_what_looks_like_it_but_is_fine() -> None:
    once = "from torch.utils.data import DataLoader\nloader = DataLoader(ds, num_workers=4)\n"
    assert lines("FO303", once + "for x in loader:\n    f(x)\n") == []
    # A loader for each epoch: its workers cannot outlive it.
    made = "from torch.utils.data import DataLoader\nfor e in range(9):\n    loader = DataLoader(ds, num_workers=4)\n"
    assert lines("FO303", made + "    for x in loader:\n        f(x)\n") == []


def test_the_fix_keeps_them() -> None:
    text = fixed("FO303", SCRIPT.format(options="num_workers=4"))
    assert "DataLoader(ds, batch_size=4, num_workers=4, persistent_workers=True)" in text
