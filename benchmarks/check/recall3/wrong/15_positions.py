import torch
from torch import nn


class TinyGPT(nn.Module):
    def __init__(self, vocab, dim=256, ctx=512, heads=8, layers=4):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(ctx, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, idx):
        t = idx.shape[1]
        positions = torch.arange(t)
        mask = nn.Transformer.generate_square_subsequent_mask(t, device=idx.device)
        h = self.tok(idx) + self.pos(positions)
        return self.head(self.blocks(h, mask=mask, is_causal=True))


model = TinyGPT(vocab=50304).to("cuda")
