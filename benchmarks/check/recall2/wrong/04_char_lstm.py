# %%
import numpy as np
import torch
from torch import nn

torch.set_float32_matmul_precision("high")
device = torch.device("cuda")

# %% text as bytes, cut in 64 parallel streams
raw = np.fromfile("tinyshakespeare.txt", dtype=np.uint8)
B, T = 64, 128
n = (len(raw) - 1) // (B * T) * (B * T)
inputs = torch.from_numpy(raw[:n].reshape(B, -1)).to(device).long()
targets = torch.from_numpy(raw[1:n + 1].reshape(B, -1)).to(device).long()


# %%
class CharLSTM(nn.Module):
    def __init__(self, vocab=256, hidden=512):
        super().__init__()
        self.emb = nn.Embedding(vocab, 128)
        self.lstm = nn.LSTM(128, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x, state=None):
        h, state = self.lstm(self.emb(x), state)
        return self.out(h), state


# %%
model = CharLSTM().to(device)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(20):
    state = None
    for t in range(0, inputs.size(1), T):
        x, y = inputs[:, t:t + T], targets[:, t:t + T]
        logits, state = model(x, state)
        loss = loss_fn(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward(retain_graph=True)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
    print(epoch, loss.item())
