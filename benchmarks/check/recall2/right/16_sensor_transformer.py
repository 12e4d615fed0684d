import torch
from torch import nn


class SensorTransformer(nn.Module):
    """Activity recognition from three-axis accelerometer windows."""

    def __init__(self, max_len=1024, dim=192, depth=6, heads=6, classes=12):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.03, -0.01, 9.79]))
        self.register_buffer("std", torch.tensor([2.41, 2.38, 2.96]))
        self.inp = nn.Linear(3, dim)
        self.pos_emb = nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.1,
                                           activation="gelu", batch_first=True,
                                           norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        # x: (batch, time, axis), any time up to max_len
        x = (x - self.mean) / self.std
        positions = torch.arange(x.size(1), device=x.device)
        h = self.inp(x) + self.pos_emb(positions)
        return self.head(self.norm(self.blocks(h)).mean(dim=1))


def build(device):
    model = SensorTransformer().to(device)
    decay = [p for p in model.parameters() if p.ndim >= 2]
    no_decay = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.05}, {"params": no_decay, "weight_decay": 0.0}],
        lr=1e-3,
    )
    return model, optimizer
