from __future__ import annotations

import pytest
from checking import hits, lines

HEAD = """\
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler
sampler = DistributedSampler(ds)
class Stream(IterableDataset):
    def __iter__(self):
        return iter([])
"""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("DataLoader(ds, sampler=sampler, shuffle=True)", "`shuffle=True` and `sampler` exclude each other: it raises"),
        ("DataLoader(ds, 4, True, RandomSampler(ds))", "exclude each other"),
        ("DataLoader(ds, shuffle=True, sampler=sampler if n > 1 else None)", "with the sampler it raises"),
        ("DataLoader(ds, batch_size=4, batch_sampler=MyBatchSampler(ds))", "`batch_size` and `batch_sampler`"),
        ("DataLoader(ds, drop_last=True, batch_sampler=MyBatchSampler(ds))", "`drop_last` and `batch_sampler`"),
        ("DataLoader(Stream(), shuffle=True)", "`Stream` is an IterableDataset"),
    ],
)
def test_what_excludes_each_other(code: str, words: str) -> None:
    (hit,) = hits("FO306", HEAD + code)
    assert hit.node.lineno == 6
    assert words in hit.message
    assert hit.message.endswith("raises ValueError")


def test_a_sampler_on_one_way_only() -> None:
    code = "s = None\nif n > 1:\n    s = DistributedSampler(ds)\nDataLoader(ds, sampler=s, shuffle=True)"
    assert "with the sampler it raises" in hits("FO306", HEAD + code)[0].message


@pytest.mark.parametrize(
    "code",
    [
        "DataLoader(ds, sampler=sampler)",
        "DataLoader(ds, sampler=sampler, shuffle=False)",
        "DataLoader(ds, sampler=None, shuffle=True)",
        "DataLoader(ds, sampler=unknown, shuffle=True)",
        "s = DistributedSampler(ds) if n > 1 else None\nDataLoader(ds, sampler=s, shuffle=s is None)",
        "DataLoader(ds, batch_size=1, batch_sampler=MyBatchSampler(ds))",
        "DataLoader(Stream(), shuffle=False)",
        "def make(sampler=None):\n    DataLoader(ds, sampler=sampler, shuffle=True)",
    ],
)
def test_what_looks_like_it_but_is_fine(code: str) -> None:
    assert lines("FO306", HEAD + code) == []


@pytest.mark.parametrize(
    "options",
    [{"shuffle": True, "sampler": [0]}, {"batch_size": 4, "batch_sampler": [[0]]}],
)
def test_pytorch_raises(options: dict[str, object]) -> None:
    from torch.utils.data import DataLoader

    with pytest.raises(ValueError, match="mutually exclusive"):
        DataLoader([1], **options)  # type: ignore[arg-type]
