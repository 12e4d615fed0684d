"""A word-level LSTM language model trained by hand-written SGD, hidden state carried from segment to segment."""

import argparse
import math

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--emsize", type=int, default=650)
parser.add_argument("--nhid", type=int, default=650)
parser.add_argument("--nlayers", type=int, default=2)
parser.add_argument("--vocabulary", type=int, default=10_000)
parser.add_argument("--tokens", type=int, default=20_000)
parser.add_argument("--bptt", type=int, default=35)
parser.add_argument("--batch-size", type=int, default=20)
parser.add_argument("--lr", type=float, default=20.0)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--dropout", type=float, default=0.2)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--tied", action="store_true")
parser.add_argument("--max-batches", type=int, default=10, help="0: all")
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(1111)


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(args.dropout)
        self.encoder = nn.Embedding(args.vocabulary, args.emsize)
        self.rnn = nn.LSTM(args.emsize, args.nhid, args.nlayers, dropout=args.dropout)
        self.decoder = nn.Linear(args.nhid, args.vocabulary)
        if args.tied:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, ids, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(ids)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, args.vocabulary)
        return nn.functional.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(args.nlayers, bsz, args.nhid), weight.new_zeros(args.nlayers, bsz, args.nhid))


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous().to(device)


def repackage_hidden(h):
    """Cut the hidden state off from its history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


# Words follow each other with a rule and some noise, so that there is something to learn.
words = torch.cumsum(torch.randint(1, 4, (args.tokens,)), 0) % args.vocabulary
train_data = batchify(words, args.batch_size)
val_data = batchify(words[: args.tokens // 5], 10)
model = RNNModel().to(device)
criterion = nn.NLLLoss()


def evaluate(source):
    model.eval()
    total = 0.0
    hidden = model.init_hidden(10)
    with torch.no_grad():
        starts = range(0, min(source.size(0) - 1, 4 * args.bptt), args.bptt)
        for i in starts:
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            hidden = repackage_hidden(hidden)
            total += criterion(output, targets).item()
    return total / len(starts)


for epoch in range(args.epochs):
    model.train()
    total_loss = 0.0
    hidden = model.init_hidden(args.batch_size)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-args.lr)
        total_loss += loss.item()
        if batch % 5 == 4:
            cur = total_loss / 5
            print(f"| epoch {epoch} | batch {batch + 1} | loss {cur:5.2f} | ppl {math.exp(min(cur, 50)):8.2f}")
            total_loss = 0.0
        if args.max_batches and batch + 1 == args.max_batches:
            break
    print(f"| end of epoch {epoch} | valid loss {evaluate(val_data):5.2f}")
