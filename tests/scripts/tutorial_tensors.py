"""First lesson: tensors go to the GPU and come back."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--n", type=int, default=1000)
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
print(f"Using {device} device")

a = torch.randn(args.n, args.n)
b = torch.randn(args.n, args.n, device=device)
c = a.to(device) @ b
print(c.shape, c.dtype, c.device)

ones = torch.ones(3, 4).to(device)
ones[:, 1] = 0
ones.add_(5)
print(ones)
print(torch.cat([ones, ones], dim=1).shape)

# A line through noisy points, by hand.
x = torch.linspace(-1, 1, args.n, device=device).unsqueeze(1)
y = 3 * x + 0.5 + 0.1 * torch.randn_like(x)
w = torch.zeros(1, 1, device=device, requires_grad=True)
bias = torch.zeros(1, device=device, requires_grad=True)
for step in range(args.steps):
    loss = ((x @ w + bias - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.5 * w.grad
        bias -= 0.5 * bias.grad
    w.grad.zero_()
    bias.grad.zero_()
    print(f"step {step}: loss {loss.item():.4f}")

back = c.cpu().numpy()
print(back.shape, back.dtype, type(loss.item()))
