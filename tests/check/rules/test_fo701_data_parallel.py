from __future__ import annotations

import pytest
from checking import lines


@pytest.mark.parametrize(
    "source",
    [
        "import torch.nn as nn\nmodel = nn.DataParallel(Net()).cuda()\n",
        "import torch\nmodel = torch.nn.DataParallel(net, device_ids=[0, 1])\n",
        "from torch.nn.parallel import DataParallel\nmodel = DataParallel(net)\n",
        "from torch.nn import DataParallel as DP\nmodel = DP(net)  # DataParallel\n",
    ],
)
def test_it_is_found_under_each_name(source: str) -> None:
    assert lines("FO701", source) == [2]


@pytest.mark.parametrize(
    "source",
    [
        "from torch.nn.parallel import DistributedDataParallel\nmodel = DistributedDataParallel(net)\n",
        "import torch.nn as nn\nif isinstance(model, nn.DataParallel):\n    model = model.module\n",
        "from mine import DataParallel\nmodel = DataParallel(net)\n",
    ],
)
def test_what_is_something_else(source: str) -> None:
    assert lines("FO701", source) == []
