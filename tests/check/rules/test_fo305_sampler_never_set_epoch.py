from __future__ import annotations

import pytest
from checking import hits, lines

SCRIPT = """
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
sampler = DistributedSampler(dataset{options})
loader = DataLoader(dataset, sampler=sampler)
for epoch in range(9):
    {first}
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
"""


def test_never_told() -> None:
    (hit,) = hits("FO305", SCRIPT.format(options="", first="pass"))
    assert hit.node.lineno == 5  # the loop over the epochs, where the call is missing
    assert hit.message.startswith("`sampler` is never told the epoch")


def test_through_functions_and_classes() -> None:
    code = """
        import torch
        from torch.utils.data import DataLoader
        def make(ds, rank, n):
            return DataLoader(ds, sampler=torch.utils.data.DistributedSampler(ds, n, rank))
        class Trainer:
            def __init__(self, ds):
                self.loader = make(ds, 0, 2)
            def epoch(self):
                for x in self.loader:
                    self.model(x).backward()
                    self.optimizer.step()
            def fit(self):
                for e in range(10):
                    self.epoch()
    """
    assert lines("FO305", code) == [4]


@pytest.mark.parametrize(
    ("options", "first"),
    [("", "sampler.set_epoch(epoch)"), ("", "loader.sampler.set_epoch(epoch)"), (", shuffle=False", "pass")],
)
def test_told_or_not_shuffling(options: str, first: str) -> None:
    assert lines("FO305", SCRIPT.format(options=options, first=first)) == []


def test_what_looks_like_it_but_is_fine() -> None:
    one_epoch = SCRIPT.format(options="", first="pass").replace("for epoch in range(9):", "if True:")
    assert lines("FO305", one_epoch) == []
    evaluation = SCRIPT.format(options="", first="pass").replace("loss.backward()", "").replace("optimizer.step()", "")
    assert lines("FO305", evaluation) == []
    assert lines("FO305", "from torch.utils.data import DistributedSampler\ns = DistributedSampler(dataset)\n") == []


def test_the_order_is_the_same_without_it() -> None:
    from torch.utils.data import DistributedSampler

    sampler = DistributedSampler(range(64), num_replicas=2, rank=0)  # type: ignore[var-annotated, arg-type]
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
