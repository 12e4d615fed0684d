import argparse
import os

import torch

p = argparse.ArgumentParser()
p.add_argument("--gpu", default="0")
p.add_argument("--ckpt", required=True)
args = p.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu
print("using", torch.cuda.device_count(), "gpu(s)")
net = torch.nn.Linear(128, 10)
net.load_state_dict(torch.load(args.ckpt, map_location="cpu", weights_only=True))
net = net.to(device)
