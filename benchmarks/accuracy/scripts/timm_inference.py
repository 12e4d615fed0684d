"""Inference with a timm model on random images, compiled or not, as speed tables of image models are made.

An ordinary script: it needs torch and timm, and knows nothing of flatout.
"""

import argparse

import timm
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="resnet50")
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--steps", type=int, default=2)
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True
layout = torch.channels_last if args.channels_last else torch.contiguous_format

model = timm.create_model(args.model).to(device="cuda", memory_format=layout).eval()
if args.compile:
    model = torch.compile(model)
images = torch.randn(args.batch_size, 3, args.image_size, args.image_size, device="cuda")
images = images.contiguous(memory_format=layout)
torch.cuda.synchronize()

for _ in range(args.steps):
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
        model(images)
    torch.cuda.synchronize()
print(f"{args.model}: {args.steps} batches of {args.batch_size} images")
