"""Training steps of a timm model on random images: the loop that speed tables of image models are made with.

An ordinary script: it needs torch and timm, and knows nothing of flatout.
"""

import argparse

import timm
import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="resnet50")
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--channels-last", action="store_true")
args = parser.parse_args()

torch.backends.cudnn.benchmark = True
layout = torch.channels_last if args.channels_last else torch.contiguous_format

model = timm.create_model(args.model)
model.to(device="cuda", memory_format=layout)
model.train()
criterion = nn.CrossEntropyLoss().to("cuda")
# One tensor at a time, and gradients kept and zeroed: PyTorch 1.12 did both without being asked.
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, nesterov=True, foreach=False)
images = torch.randn(args.batch_size, 3, args.image_size, args.image_size, device="cuda")
images = images.contiguous(memory_format=layout)

for _ in range(args.steps):
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast("cuda", dtype=torch.float16):
        output = model(images)
        if isinstance(output, tuple):
            output = output[0]
        target = torch.empty(output.shape[0], device="cuda", dtype=torch.long).random_(model.num_classes)
        criterion(output, target).backward()
    optimizer.step()
    torch.cuda.synchronize()
print(f"{args.model}: {args.steps} steps of {args.batch_size} images")
