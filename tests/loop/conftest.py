"""What the tests of the loop share: a small training set, a model with a fixed start."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@pytest.fixture
def make() -> Callable[..., tuple[nn.Module, torch.optim.Optimizer, DataLoader]]:
    """A model, its optimizer and a loader, always from the same start."""

    def made(
        samples: int = 44, batch_size: int = 4, optimizer: str = "AdamW", **loader: object
    ) -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
        generator = torch.Generator().manual_seed(1)
        data = TensorDataset(torch.randn(samples, 8, generator=generator), torch.randn(samples, 1, generator=generator))
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        made_optimizer = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2)
        return model, made_optimizer, DataLoader(data, batch_size=batch_size, **{"shuffle": True, **loader})

    return made
