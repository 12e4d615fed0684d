from __future__ import annotations

import pytest
from checking import lines


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.autograd.set_detect_anomaly(True)\n",
        "import torch\ntorch.autograd.set_detect_anomaly(mode=True)\n",
        "from torch import autograd\nwith autograd.detect_anomaly(): train()\n",
        "import os\nos.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n",
        "import os\nos.environ.setdefault('CUDA_LAUNCH_BLOCKING', '1')\n",
        "import torch\nif __name__ == '__main__':\n  torch.autograd.set_detect_anomaly(True)\n".replace("\n  ", " "),
    ],
)
def test_left_on(source: str) -> None:
    assert len(lines("FO802", source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.autograd.set_detect_anomaly(False)\n",
        "import torch\ntorch.autograd.set_detect_anomaly(args.debug)  # set_detect_anomaly\n",
        "import torch\nif args.debug:\n    torch.autograd.set_detect_anomaly(True)\n",
        "import os\nos.environ['CUDA_LAUNCH_BLOCKING'] = '0'\n",
        "import os\nif os.environ.get('CUDA_LAUNCH_BLOCKING') == '1': print('slow')\n",
        "import os\nif debug: os.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n",
    ],
)
def test_off_or_asked_for(source: str) -> None:
    assert lines("FO802", source) == []
