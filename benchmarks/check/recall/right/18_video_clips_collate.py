import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class ClipDataset(Dataset):
    """Clips stored as one (N, T, H, W, 3) uint8 memmap."""

    def __init__(self, path, labels_path, n_frames=16):
        self.clips = np.load(path, mmap_mode="r")
        self.labels = np.load(labels_path)
        self.n_frames = n_frames

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        stride = max(1, self.clips.shape[1] // self.n_frames)
        frames = np.array(self.clips[i, ::stride][:self.n_frames])
        return {"frames": frames, "label": self.labels[i]}


def collate(samples):
    frames = torch.from_numpy(np.stack([s["frames"] for s in samples]))
    labels = torch.from_numpy(np.stack([s["label"] for s in samples]))
    return frames.permute(0, 4, 1, 2, 3), labels


def build_loader(path, labels_path, batch_size=32, workers=8):
    dataset = ClipDataset(path, labels_path)
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=True,
        collate_fn=collate,
        num_workers=workers,
        pin_memory=True,
        persistent_workers=workers > 0,
        drop_last=True,
    )
