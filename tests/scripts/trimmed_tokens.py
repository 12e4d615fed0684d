"""A tokenised batch, padded on the CPU, trimmed on the device to its own longest text, and masked: sizes come from values."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--texts", type=int, default=256)
parser.add_argument("--longest", type=int, default=256)
parser.add_argument("--vocabulary", type=int, default=8000)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
PAD = 0


class Texts(Dataset):
    """Texts of 3 to `longest` tokens; the label of a token is whether it repeats the one before."""

    def __init__(self):
        g = torch.Generator().manual_seed(7)
        lengths = torch.randint(3, args.longest // 2 + 1, (args.texts,), generator=g)
        self.texts = [torch.randint(1, args.vocabulary, (int(n),), generator=g) for n in lengths]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return self.texts[index]


def collate(texts):
    # As tokenizers do: everything padded to one fixed length.
    ids = torch.full((len(texts), args.longest), PAD)
    padded = pad_sequence(texts, batch_first=True, padding_value=PAD)
    ids[:, : padded.shape[1]] = padded
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "lengths": torch.tensor([len(t) for t in texts])}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(args.vocabulary, args.width, padding_idx=PAD)
        layer = nn.TransformerEncoderLayer(args.width, 4, 4 * args.width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.rnn = nn.GRU(args.width, args.width, batch_first=True)
        self.head = nn.Linear(args.width, 2)

    def forward(self, ids, mask, lengths):
        x = self.encoder(self.embed(ids), src_key_padding_mask=mask == 0)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=ids.shape[1])
        return self.head(x)


model = Tagger().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(Texts(), batch_size=args.batch_size, collate_fn=collate)
for epoch in range(args.epochs):
    for step, batch in enumerate(loader):
        batch = {k: v.to(device) for k, v in batch.items()}
        longest = batch["lengths"].max().item()
        ids, mask = batch["input_ids"][:, :longest], batch["attention_mask"][:, :longest]
        labels = torch.zeros_like(ids)
        labels[:, 1:] = (ids[:, 1:] == ids[:, :-1]).long()
        logits = model(ids, mask, batch["lengths"])
        real = mask.bool()
        loss = F.cross_entropy(logits[real], labels[real])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept = int(real.sum())
        positives = torch.nonzero(labels[real]).numel()
        print(f"step {step}: trimmed to {longest}, {kept} tokens, {positives} repeats, loss {loss.item():.4f}")
        assert kept == int(batch["lengths"].sum()) and logits[real].shape[0] == kept
