import torch
import torch.nn as nn
import torch.nn.functional as F

BPTT = 64
BATCH = 128


class WordLSTM(nn.Module):
    def __init__(self, ntoken, dim=650, layers=2, dropout=0.5):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.embed = nn.Embedding(ntoken, dim)
        self.rnn = nn.LSTM(dim, dim, layers, dropout=dropout)
        self.decoder = nn.Linear(dim, ntoken)

    def forward(self, tokens, hidden):
        out, hidden = self.rnn(self.drop(self.embed(tokens)), hidden)
        return self.decoder(self.drop(out)), hidden


def init_hidden(model, batch):
    weight = model.decoder.weight
    shape = (model.rnn.num_layers, batch, model.rnn.hidden_size)
    return weight.new_zeros(shape), weight.new_zeros(shape)


def train_epoch(model, data, optimizer, epoch):
    """data: (length, BATCH) token ids, already on the GPU."""
    model.train()
    hidden = init_hidden(model, BATCH)
    for i, start in enumerate(range(0, data.size(0) - BPTT - 1, BPTT)):
        x = data[start:start + BPTT]
        y = data[start + 1:start + 1 + BPTT]
        hidden = tuple(h.detach() for h in hidden)
        logits, hidden = model(x, hidden)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        if i % 200 == 0:
            print(f"| epoch {epoch:3d} | {i:5d} batches | loss {loss.item():5.2f}")


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    ids = torch.load("wikitext_ids.pt", weights_only=True)
    n = ids.numel() // BATCH
    data = ids[:n * BATCH].view(BATCH, n).t().contiguous().cuda()
    model = WordLSTM(33278).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(1, 41):
        train_epoch(model, data, optimizer, epoch)
