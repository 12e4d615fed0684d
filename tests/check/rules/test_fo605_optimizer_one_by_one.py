from __future__ import annotations

import pytest
from checking import fixed, hits, lines

IMPORT = "import torch\nmodel = Net().cuda()\n"


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)", "`foreach=False` makes `AdamW`"),
        (
            "torch.optim.SGD(model.parameters(), fused=False)",
            "`fused=False`, which turns `foreach` off, too, makes `SGD`",
        ),
    ],
)
def test_found(call: str, what: str) -> None:
    (hit,) = hits("FO605", IMPORT + call + "\n")
    assert hit.node.lineno == 3
    assert what in hit.message


def test_the_fix() -> None:
    assert fixed("FO605", IMPORT + "o = torch.optim.Adam(p, foreach=False, lr=1)  # foreach\n").endswith(
        "Adam(p, lr=1)  # foreach\n"
    )


@pytest.mark.parametrize(
    "call",
    [
        "torch.optim.AdamW(p, fused=True)",
        "torch.optim.AdamW(p, foreach=False, fused=True)",
        "torch.optim.AdamW(p, foreach=True, fused=False)",
        "torch.optim.AdamW(p, foreach=args.foreach)",
        "torch.optim.AdamW(p, foreach=False, differentiable=True)",
        "mine.AdamW(p, foreach=False)",
    ],
)
def test_what_looks_like_it_but_is_fine(call: str) -> None:
    assert lines("FO605", IMPORT + call + "\n") == []


def test_what_it_does() -> None:
    """The page's claim: `fused=False` is not the default."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        number = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            self.number += 1
            return func(*args, **(kwargs or {}))

    def operations(**options: bool) -> int:
        parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(20)]
        for parameter in parameters:
            parameter.grad = torch.ones(2)
        optimizer = torch.optim.SGD(parameters, lr=0.1, **options)
        with Count() as count:
            optimizer.step()
        return count.number

    assert operations(fused=False) == operations(foreach=False) > 4 * operations(foreach=True)
