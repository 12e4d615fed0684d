# %%
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from tqdm.auto import tqdm

from reviews import ReviewDataset, load_vocab, pad_batch

torch.set_float32_matmul_precision("high")
device = torch.device("cuda")
vocab = load_vocab("vocab.txt")

# %%
class BagOfEmbeddings(nn.Module):
    def __init__(self, vocab_size, dim=256, classes=2):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.fc1 = nn.Linear(dim, 512)
        self.fc2 = nn.Linear(512, classes)

    def forward(self, tokens):
        keep = tokens.ne(0).unsqueeze(-1)
        pooled = (self.emb(tokens) * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1)
        return self.fc2(F.relu(self.fc1(pooled)))

# %%
train_loader = DataLoader(
    ReviewDataset("train.csv", vocab), batch_size=512, shuffle=True, collate_fn=pad_batch,
    num_workers=4, pin_memory=True, persistent_workers=True,
)
model = BagOfEmbeddings(len(vocab)).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

# %%
model.train()
for epoch in range(5):
    bar = tqdm(train_loader, desc=f"epoch {epoch}")
    for tokens, labels in bar:
        tokens = tokens.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = F.cross_entropy(model(tokens), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        bar.set_postfix(loss=f"{loss:.3f}")
