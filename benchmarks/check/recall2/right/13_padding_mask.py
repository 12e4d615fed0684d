import torch
import torch.nn as nn


class SpeechEncoder(nn.Module):
    def __init__(self, n_mels=80, d_model=256, n_heads=4, n_layers=6, n_classes=35):
        super().__init__()
        self.proj = nn.Linear(n_mels, d_model)
        layer = nn.TransformerEncoderLayer(
            d_model, n_heads, dim_feedforward=4 * d_model, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.cls = nn.Linear(d_model, n_classes)

    def forward(self, x, lengths):
        # x: (batch, time, mel) padded to the longest clip
        max_len = x.size(1)
        steps = torch.arange(max_len, device=x.device)
        pad = steps.unsqueeze(0) >= lengths.unsqueeze(1)
        h = self.encoder(self.proj(x), src_key_padding_mask=pad)
        h = h.masked_fill(pad.unsqueeze(-1), 0.0)
        return self.cls(h.sum(1) / lengths.unsqueeze(1))


def fit(model, loader, optimizer, epochs, device):
    model.train()
    ce = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        for mel, lengths, y in loader:
            mel = mel.to(device, non_blocking=True)
            lengths = lengths.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = ce(model(mel, lengths), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(f"[{epoch + 1}/{epochs}] loss: {loss.item():.3f}")
