"""What is trained in the parity tests: small models with everything that a wrong loop would disturb.

Each task is made anew under a seed, so that two runs start from the same weights, order and dropout masks.

Shapes: B samples of a batch, T tokens of a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

IGNORED = -100  # the label of a position without a token; what `cross_entropy` leaves out by default
VOCABULARY = 17


class Task(NamedTuple):
    """A model, its data in training and evaluation, and its mean loss over a batch's samples (or tokens)."""

    model: nn.Module
    train: DataLoader[Any]
    held_out: DataLoader[Any]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Convnet(nn.Module):
    """Images of shape (B, 1, 8, 8) to 5 classes, with BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.classifier = nn.Linear(8 * 16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.convolution(x))), 2)
        return self.classifier(x.flatten(1))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Token numbers of shape (B, T) to logits of shape (B, VOCABULARY, T)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.block = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.1, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.block(self.tokens(ids), src_mask=mask, is_causal=True)).transpose(1, 2)  # type: ignore[no-any-return]


def _loaders(inputs: torch.Tensor, targets: torch.Tensor, batch_size: int, **options: Any) -> list[DataLoader[Any]]:
    held_out = len(inputs) // 5
    train = TensorDataset(inputs[held_out:], targets[held_out:])
    rest = TensorDataset(inputs[:held_out], targets[:held_out])
    return [DataLoader(train, batch_size, shuffle=True, **options), DataLoader(rest, 2 * batch_size)]


def mlp(samples: int = 88, batch_size: int = 8, **options: Any) -> Task:
    """A perceptron with dropout. By default 71 samples to train on: 9 batches, the last of 7."""
    inputs, targets = torch.randn(samples, 20), torch.randint(5, (samples,))
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 5))
    return Task(model, *_loaders(inputs, targets, batch_size, **options), F.cross_entropy)


def cnn(samples: int = 88, batch_size: int = 8, **options: Any) -> Task:
    """A convnet with BatchNorm, on as many samples."""
    inputs, targets = torch.randn(samples, 1, 8, 8), torch.randint(5, (samples,))
    return Task(Convnet(), *_loaders(inputs, targets, batch_size, **options), F.cross_entropy)


def transformer(samples: int = 40, batch_size: int = 4, **options: Any) -> Task:
    """A language model on texts of 3 to 12 tokens, padded: the loss is the mean over the tokens that are there."""
    ids = torch.randint(VOCABULARY, (samples, 13))
    lengths = torch.randint(3, 13, (samples, 1))
    targets = ids[:, 1:].masked_fill(torch.arange(12) >= lengths, IGNORED)
    return Task(Transformer(), *_loaders(ids[:, :-1], targets, batch_size, **options), F.cross_entropy)


TASKS = {"mlp": mlp, "cnn": cnn, "transformer": transformer}


def full(samples_per_window: int, windows: int, task: Callable[..., Task], batch_size: int, **options: Any) -> Task:
    """`task` with so many samples to train on that every batch and every window is full."""
    train = samples_per_window * windows
    made = task(train + (train + 3) // 4, batch_size, **options)
    assert len(made.train.dataset) == train  # type: ignore[arg-type]
    return made
