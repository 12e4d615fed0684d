import torch
import torch.nn as nn


class CharRNN(nn.Module):
    def __init__(self, n_chars, hidden=512):
        super().__init__()
        self.emb = nn.Embedding(n_chars, 128)
        self.lstm = nn.LSTM(128, hidden, num_layers=2, batch_first=True)
        self.fc = nn.Linear(hidden, n_chars)

    def forward(self, x, state=None):
        out, state = self.lstm(self.emb(x), state)
        return self.fc(out), state


def train_text(model, batches, optimizer, device):
    criterion = nn.CrossEntropyLoss()
    state = None
    model.train()
    for inp, target in batches:
        inp, target = inp.to(device), target.to(device)
        optimizer.zero_grad()
        logits, state = model(inp, state)
        loss = criterion(logits.flatten(0, 1), target.flatten())
        loss.backward(retain_graph=True)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
