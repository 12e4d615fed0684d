from __future__ import annotations

import pytest
from asking import module, probes


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("probe(torch.cat)\n", "torch.cat"),
        ("probe(nn.Linear)\n", "torch.nn.Linear"),
        ("probe(F.relu)\n", "torch.nn.functional.relu"),
        ("probe(np.zeros)\n", "numpy.zeros"),
        ("probe(Dataset)\n", "torch.utils.data.Dataset"),
        ("from datasets import Dataset\nprobe(Dataset)\n", "datasets.Dataset"),
        ("from jax import nn\nprobe(nn.relu)\n", "jax.nn.relu"),
        ("def f(nn):\n    probe(nn.Linear)\n", None),
        ("probe(other.Linear)\n", None),
    ],
)
def test_names_that_a_snippet_does_not_import(source: str, expected: str | None) -> None:
    parsed = module(source)
    assert parsed.qualified(probes(parsed)[0].args[0]) == expected
