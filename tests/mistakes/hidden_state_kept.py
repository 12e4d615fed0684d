"""A language model read in pieces: the hidden state is handed from piece to piece (M4)."""

import torch
from torch import nn

torch.manual_seed(0)
VOCABULARY, WIDTH, BATCH, LENGTH = 200, 64, 8, 8
embedding = nn.Embedding(VOCABULARY, WIDTH)
lstm = nn.LSTM(WIDTH, WIDTH)
head = nn.Linear(WIDTH, VOCABULARY)
parameters = [*embedding.parameters(), *lstm.parameters(), *head.parameters()]
text = torch.randint(0, VOCABULARY, (LENGTH * 80 + 1, BATCH))

hidden = (torch.zeros(1, BATCH, WIDTH), torch.zeros(1, BATCH, WIDTH))
for step in range(80):
    piece = text[LENGTH * step : LENGTH * (step + 1)]
    following = text[LENGTH * step + 1 : LENGTH * (step + 1) + 1]
    output, hidden = lstm(embedding(piece), hidden)  # mistake: FO509
    loss = nn.functional.cross_entropy(head(output).flatten(0, 1), following.flatten())
    for parameter in parameters:
        parameter.grad = None
    loss.backward(retain_graph=True)  # mistake: FO503
    with torch.no_grad():
        for parameter in parameters:
            parameter.data.add_(parameter.grad, alpha=-0.1)
print(f"loss {loss.item():.3f}")
