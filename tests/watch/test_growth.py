"""Names that grow: which, at which line; and those that only look as if they did."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flatout.watch.census import Held, Holder, census
from flatout.watch.counting import is_counted
from flatout.watch.growth import growths, line_of

SOURCE = """
history = []
state = None

class Meter:
    def __init__(self):
        self.sum = 0
        self.seen = {}

    def update(self, value):
        self.sum += value
        self.seen[len(self.seen)] = value

def train():
    total = 0
    for step in range(9):
        state = layer(x, state)
        loss = criterion(state)
        total = total + loss
        history.append(loss)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    return str(path)


@pytest.mark.parametrize(
    ("name", "line", "anew"),
    [("history", 20, False), ("total", 19, False), ("state", 17, True), ("loss", None, False), ("step", None, False)],
)
def test_the_line_that_adds_or_carries_over(script: str, name: str, line: int | None, anew: bool) -> None:
    place, rebound = line_of(Holder(name, script, "train", None))
    assert (place and place.line, rebound) == (line, anew)


def test_a_script_that_cannot_be_read_has_no_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def (")
    for name in ("broken.py", "absent.py"):
        assert line_of(Holder("x", str(tmp_path / name), "<module>", None)) == (None, False)


def counts(*sizes: int) -> list[tuple[int, dict[Holder, Held]]]:
    holder = Holder("history", "absent.py", "<module>", None)
    return [(4 * 2**number, {holder: Held(size, 1, 0)}) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "grows"),
    [
        ((400, 800, 1600, 3200), 100.0),
        ((400, 800), 0.0),  # two counts may differ by chance
        ((400, 800, 500, 3200), 0.0),  # was cleared in between
        ((400, 800, 1600, 1600), 0.0),  # has settled
        ((400, 800, 1600, 9000), 0.0),  # is not even
    ],
)
def test_only_even_growth_is_growth(sizes: tuple[int, ...], grows: float) -> None:
    found = growths(counts(*sizes))
    assert [growth.bytes_per_step for growth in found] == ([grows] if grows else [])


def test_a_name_that_is_gone_at_the_end_does_not_grow() -> None:
    seen = counts(400, 800, 1600)
    assert growths([*seen, (32, {})]) == []


def test_the_census_sees_through_containers_and_counts_graphs() -> None:
    kept = {"a": [torch.zeros(10), (torch.zeros(5),)]}
    weight = torch.ones(3, requires_grad=True)
    total = (weight * 2).sum() + (weight * 3).sum()
    parameter = torch.nn.Parameter(torch.zeros(100))
    by_name = {holder.name: held for holder, held in census().items() if holder.file == __file__}
    assert by_name["kept"] == Held(60, 2, 0)
    assert by_name["total"].tensors == 1
    assert by_name["total"].nodes == 6  # two products, two sums, their sum, and the leaf's end
    assert "parameter" not in by_name
    assert (len(kept), total.requires_grad, parameter.requires_grad) == (1, True, True)


def test_counted_ever_more_rarely() -> None:
    assert [step for step in range(5000) if is_counted(step)] == [4 * 2**n for n in range(11)]
