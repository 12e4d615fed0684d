import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class DriveClips(Dataset):
    """Front camera clip, ego speed and steering for one second."""

    def __init__(self, path):
        self.frames = np.load(f"{path}/frames.npy", mmap_mode="r")
        self.speed = np.load(f"{path}/speed.npy")
        self.steer = np.load(f"{path}/steer.npy")

    def __len__(self):
        return len(self.speed)

    def __getitem__(self, i):
        clip = self.frames[i].astype(np.float32) / 127.5 - 1.0
        return {"clip": clip, "speed": self.speed[i], "steer": self.steer[i]}


def collate(samples):
    clips = torch.from_numpy(np.stack([s["clip"] for s in samples]))
    speed = torch.from_numpy(np.array([s["speed"] for s in samples], dtype=np.float32))
    steer = torch.from_numpy(np.array([s["steer"] for s in samples], dtype=np.float32))
    return clips, speed, steer


def make_loader(path, batch_size=32, workers=6):
    return DataLoader(DriveClips(path), batch_size=batch_size, shuffle=True,
                      collate_fn=collate, num_workers=workers, pin_memory=True,
                      persistent_workers=True, drop_last=True)


def train(policy, path, epochs, device):
    loader = make_loader(path)
    policy.to(device).train()
    opt = torch.optim.AdamW(policy.parameters(), lr=3e-4)
    for epoch in range(epochs):
        for clips, speed, steer in loader:
            clips = clips.to(device, non_blocking=True)
            speed = speed.to(device, non_blocking=True)
            steer = steer.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                pred = policy(clips, speed)
                loss = torch.nn.functional.smooth_l1_loss(pred, steer)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch}: {loss.item():.4f}")
