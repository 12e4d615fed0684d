from __future__ import annotations

import pytest
from checking import hits, lines

TIMED = """
import time
import torch
x = torch.randn(4096, 4096, device="cuda")
model = torch.nn.Linear(4096, 4096).cuda()
start = time.time()
{work}
print(time.time() - start)
"""


@pytest.mark.parametrize(
    "work", ["y = x @ x", "for _ in range(100): y = model(x)", "y = torch.matmul(x, x)", "y = x.exp()"]
)
def test_work_that_is_only_queued(work: str) -> None:
    assert lines("FO102", TIMED.format(work=work)) == [7]


@pytest.mark.parametrize(
    "work",
    [
        "y = x @ x\ntorch.cuda.synchronize()",
        "print((x @ x).sum().item())",
        "y = (x @ x).cpu()",
        "y = 3 + 4",
        "y = torch.ones(3) @ torch.ones(3)",
        "for batch in loader: y = model(batch)",
    ],
)
def test_work_that_is_waited_for_or_is_none(work: str) -> None:
    assert lines("FO102", TIMED.format(work=work)) == []


def test_in_a_function_with_the_second_reading_in_the_return() -> None:
    source = """
    import time, torch
    def measure():
        x = torch.randn(64, 64, device="cuda")
        start = time.perf_counter()
        y = x @ x
        return time.perf_counter() - start, y
    """
    assert lines("FO102", source) == [6]


def test_a_named_second_reading() -> None:
    source = TIMED.format(work="y = x @ x\nend = time.time()").replace("time.time() - start", "end - start")
    found = hits("FO102", source)
    assert [hit.node.lineno for hit in found] == [8]
    assert "`x @ x`" in found[0].message


def test_steps_timed_from_end_to_end_are_fine_on_average() -> None:
    source = """
    import time, torch
    def train(model, loader, optimizer):
        end = time.time()
        for x in loader:
            model(x.cuda()).sum().backward()
            optimizer.step()
            meter.update(time.time() - end)
            end = time.time()
    """
    assert lines("FO102", source) == []
