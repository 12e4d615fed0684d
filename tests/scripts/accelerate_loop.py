"""A hand-written loop under Accelerate: prepare, accumulate, clip, gather, save and load the state."""

import argparse
import tempfile

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--depth", type=int, default=4)
parser.add_argument("--length", type=int, default=128)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--batches", type=int, default=8)
parser.add_argument("--accumulate", type=int, default=2)
parser.add_argument("--mixed-precision", default="no", choices=["no", "fp16", "bf16"])
parser.add_argument("--save-state", action="store_true")
args = parser.parse_args()

accelerator = Accelerator(mixed_precision=args.mixed_precision, gradient_accumulation_steps=args.accumulate)
torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, args.width)
        layer = nn.TransformerEncoderLayer(args.width, 8, 4 * args.width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, args.depth, enable_nested_tensor=False)
        self.head = nn.Linear(args.width, 20)

    def forward(self, ids):
        return self.head(self.encoder(self.embed(ids)))


ids = torch.randint(0, 1000, (args.batch_size * args.batches, args.length))
loader = DataLoader(TensorDataset(ids, ids % 20), batch_size=args.batch_size, shuffle=True)
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=args.batches)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
accelerator.print("device", accelerator.device, "mixed precision", accelerator.mixed_precision)

model.train()
for step, (x, y) in enumerate(loader):
    with accelerator.accumulate(model):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    mean = accelerator.gather(loss.detach().repeat(args.batch_size)).mean()
    accelerator.print(f"step {step}: loss {mean.item():.4f}, synchronised {accelerator.sync_gradients}")

if args.save_state:
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        accelerator.load_state(folder)
        accelerator.print("state saved and loaded")
accelerator.wait_for_everyone()
print(sum(p.numel() for p in accelerator.unwrap_model(model).parameters()), "parameters")
