"""A model by name from timm, trained as timm's users do: channels_last, AMP with a scaler, SGD with Nesterov momentum."""

import argparse
import time

import timm
import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="resnet50")
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--image-size", type=int, default=0, help="0: the model's own")
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--grad-checkpointing", action="store_true")
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = timm.create_model(args.model, pretrained=False, num_classes=1000)
if args.grad_checkpointing:
    model.set_grad_checkpointing(True)
size = args.image_size or model.default_cfg["input_size"][-1]
layout = torch.channels_last if args.channels_last else torch.contiguous_format
model = model.to(device=device, memory_format=layout)
model.train()
print(f"{args.model}: {sum(p.numel() for p in model.parameters()):,} parameters, {size} x {size}")

optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=2e-5)
criterion = nn.CrossEntropyLoss().to(device)
scaler = torch.amp.GradScaler(device.type, enabled=args.amp and device.type == "cuda")
for step in range(args.steps):
    started = time.perf_counter()
    x = torch.randn(args.batch_size, 3, size, size, device=device).contiguous(memory_format=layout)
    y = torch.randint(0, 1000, (args.batch_size,), device=device)
    with torch.autocast(device.type, enabled=args.amp):
        loss = criterion(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if device.type == "cuda":
        torch.cuda.synchronize()
    print(f"step {step}: loss {loss.item():.4f}, {time.perf_counter() - started:.3f} s")
