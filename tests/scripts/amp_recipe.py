"""Wide linear layers, in float32 and then with float16 autocast in the same process, peak memory printed after each part.

Everything lives at the top level of the module, as in a notebook: the second part starts while `loss` still holds the graph
of the first, and so the first part's network and its gradients.
"""

import argparse
import gc
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=512)
parser.add_argument("--size", type=int, default=4096)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--batches", type=int, default=50)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--only", choices=["fp32", "both"], default="both")
parser.add_argument("--set-to-none", action="store_true", help="zero_grad's default since torch 2.0")
args = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"


def make_model():
    layers = []
    for _ in range(args.layers - 1):
        layers += [torch.nn.Linear(args.size, args.size), torch.nn.ReLU()]
    layers.append(torch.nn.Linear(args.size, args.size))
    return torch.nn.Sequential(*layers).to(device)


def start():
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    return time.time()


def report(name, started):
    if device == "cuda":
        torch.cuda.synchronize()
        print(f"{name}: peak allocated {torch.cuda.max_memory_allocated()} bytes")
    print(f"{name}: {time.time() - started:.3f} s, loss {loss.item():.4f}")


data = [torch.randn(args.batch_size, args.size, device=device) for _ in range(args.batches)]
targets = [torch.randn(args.batch_size, args.size, device=device) for _ in range(args.batches)]
loss_fn = torch.nn.MSELoss().to(device)

net = make_model()
opt = torch.optim.SGD(net.parameters(), lr=0.001)
started = start()
for epoch in range(args.epochs):
    for input, target in zip(data, targets):
        output = net(input)
        loss = loss_fn(output, target)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=args.set_to_none)
report("float32", started)

if args.only == "both":
    use_amp = device == "cuda"
    net = make_model()
    opt = torch.optim.SGD(net.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler(device, enabled=use_amp)
    started = start()
    for epoch in range(args.epochs):
        for input, target in zip(data, targets):
            with torch.autocast(device_type=device, dtype=torch.float16, enabled=use_amp):
                output = net(input)
                loss = loss_fn(output, target)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            opt.zero_grad(set_to_none=args.set_to_none)
    report("autocast", started)
