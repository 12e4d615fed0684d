from __future__ import annotations

from checking import hits, lines

IMPORT = "from torch.utils.data import DataLoader\n"


def test_options_that_need_workers() -> None:
    found = hits("FO301", IMPORT + "DataLoader(ds, 4, num_workers=0, persistent_workers=True, prefetch_factor=2)\n")
    assert [hit.node.lineno for hit in found] == [2]
    assert "`persistent_workers` and `prefetch_factor` need worker" in found[0].message


def test_zero_workers_by_default_and_through_a_name() -> None:
    assert lines("FO301", IMPORT + "DataLoader(ds, prefetch_factor=4)\n") == [2]
    assert lines("FO301", IMPORT + "workers = 0\nDataLoader(ds, num_workers=workers, persistent_workers=True)\n") == [3]


def test_what_looks_like_it_but_is_fine() -> None:
    for options in (
        "num_workers=2, persistent_workers=True",
        "num_workers=args.workers, prefetch_factor=4",
        "num_workers=0, persistent_workers=False",
        "num_workers=0, prefetch_factor=None",
        "num_workers=workers, persistent_workers=workers > 0",
        "prefetch_factor=2, **options",
    ):
        assert lines("FO301", IMPORT + f"DataLoader(ds, {options})\n") == [], options
