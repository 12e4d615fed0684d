"""Sine waves continued by an LSTM of cells in float64, fitted by LBFGS: the optimizer calls the closure many times a step."""

import argparse

import numpy as np
import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--waves", type=int, default=100)
parser.add_argument("--length", type=int, default=200)
parser.add_argument("--hidden", type=int, default=51)
parser.add_argument("--max-iter", type=int, default=20)
args = parser.parse_args()

np.random.seed(0)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

period = 20
shift = np.random.randint(-4 * period, 4 * period, args.waves).reshape(args.waves, 1)
data = np.sin((np.arange(args.length) + shift) / 1.0 / period).astype("float64")
held = max(1, args.waves // 33)
inputs = torch.from_numpy(data[held:, :-1]).to(device)
target = torch.from_numpy(data[held:, 1:]).to(device)
test_inputs = torch.from_numpy(data[:held, :-1]).to(device)
test_target = torch.from_numpy(data[:held, 1:]).to(device)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, args.hidden)
        self.lstm2 = nn.LSTMCell(args.hidden, args.hidden)
        self.linear = nn.Linear(args.hidden, 1)

    def forward(self, x, future=0):
        outputs = []
        zeros = dict(dtype=torch.double, device=x.device)
        h_t, c_t = torch.zeros(x.size(0), args.hidden, **zeros), torch.zeros(x.size(0), args.hidden, **zeros)
        h_t2, c_t2 = torch.zeros(x.size(0), args.hidden, **zeros), torch.zeros(x.size(0), args.hidden, **zeros)
        for input_t in x.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs.append(output)
        for _ in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs.append(output)
        return torch.cat(outputs, dim=1)


seq = Sequence().double().to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.8, max_iter=args.max_iter)
calls = 0
for step in range(args.steps):

    def closure():
        global calls
        calls += 1
        optimizer.zero_grad()
        loss = criterion(seq(inputs), target)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print(f"STEP {step}: loss {loss.item():.6f} after {calls} closures")
    with torch.no_grad():
        future = 20
        pred = seq(test_inputs, future=future)
        print("test loss:", criterion(pred[:, :-future], test_target).item())
        y = pred.detach().cpu().numpy()
print(y.dtype, y.shape)
