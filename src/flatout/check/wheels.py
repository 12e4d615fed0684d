"""Which PyTorch was built for which CUDA, by the index pages of https://download.pytorch.org/whl.

The first and the last minor version on each page, from https://pytorch.org/get-started/previous-versions/ in its state
of May 2026. The last of cu128 is 2.11, and cu132 begins with 2.12: https://dev-discuss.pytorch.org/t/3337 ("Introducing
CUDA 13.2 and Deprecating CUDA 12.8"). The page does not name every old build: where a first version is in doubt the
table has the earlier one, and cu80, cu90, cu100 and cu115 are from general knowledge.

None: the page still gets new versions, or it is not known that it does not.
"""

from __future__ import annotations

from typing import NamedTuple

from flatout.check.versions import TorchVersion


class Index(NamedTuple):
    """The PyTorch versions of one page, both ends inclusive."""

    first: TorchVersion
    last: TorchVersion | None


INDEXES: dict[str, Index] = {
    "cu80": Index((0, 4), (1, 0)),
    "cu90": Index((0, 4), (1, 1)),
    "cu92": Index((0, 4), (1, 7)),
    "cu100": Index((1, 0), (1, 4)),
    "cu101": Index((1, 3), (1, 8)),
    "cu102": Index((1, 5), (1, 12)),
    "cu110": Index((1, 7), (1, 7)),
    "cu111": Index((1, 8), (1, 10)),
    "cu113": Index((1, 10), (1, 12)),
    "cu115": Index((1, 11), (1, 11)),
    "cu116": Index((1, 12), (1, 13)),
    "cu117": Index((1, 13), (2, 0)),
    "cu118": Index((2, 0), (2, 7)),
    "cu121": Index((2, 1), (2, 5)),
    "cu124": Index((2, 4), (2, 6)),
    "cu126": Index((2, 6), None),
    "cu128": Index((2, 7), (2, 11)),
    "cu129": Index((2, 8), None),
    "cu130": Index((2, 9), None),
    "cu132": Index((2, 12), None),
}

# A page is long gone when it has had no new version for a year: 2.9 came in October 2025.
LAST_LONG_GONE = (2, 9)

# PyTorch's own channel of conda packages was closed after this one (pytorch issue 138506).
LAST_ON_CONDA = (2, 5)
# The last one that is built against `cudatoolkit`; then came `pytorch-cuda`.
LAST_WITH_CUDATOOLKIT = (1, 12)

ADVICE = (
    "Take an index that still gets new versions: `cu126` (also for GPUs before Turing) or `cu130` (driver "
    "580 or newer), or none, for PyPI's build with CUDA 13.0."
)


def show(version: TorchVersion) -> str:
    """`2.5`."""
    return f"{version[0]}.{version[1]}"
