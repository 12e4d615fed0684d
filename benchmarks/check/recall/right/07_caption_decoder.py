import torch
import torch.nn as nn
import torch.nn.functional as F


class CaptionDecoder(nn.Module):
    def __init__(self, vocab_size, dim=512):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.cell = nn.LSTMCell(2 * dim, dim)
        self.head = nn.Linear(dim, vocab_size)

    def forward(self, feats, captions):
        # feats (B, L, D), captions (B, T), padded with 0 to the longest of the batch
        h = feats.mean(dim=1)
        c = torch.zeros_like(h)
        tokens = self.embed(captions)
        outputs = []
        for t in range(captions.size(1) - 1):
            context = F.scaled_dot_product_attention(h.unsqueeze(1), feats, feats).squeeze(1)
            h, c = self.cell(torch.cat([tokens[:, t], context], dim=1), (h, c))
            outputs.append(h)
        return self.head(torch.stack(outputs, dim=1))


def train_epoch(encoder, decoder, loader, optimizer, log_every=100):
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda")
    encoder.eval()
    decoder.train()
    for step, (images, captions, lengths) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        captions = captions.to(device, non_blocking=True)
        lengths = lengths.to(device, non_blocking=True)

        with torch.no_grad():
            feats = encoder(images)
        logits = decoder(feats, captions)
        nll = F.cross_entropy(logits.transpose(1, 2), captions[:, 1:], ignore_index=0, reduction="none")
        loss = (nll.sum(dim=1) / (lengths - 1)).mean()

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % log_every == 0:
            print(step, round(loss.item(), 3))
