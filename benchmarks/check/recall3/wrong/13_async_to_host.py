import numpy as np
import torch


@torch.inference_mode()
def extract_features(backbone, loader, out_path):
    backbone.eval().cuda()
    feats = []
    for images, _ in loader:
        emb = backbone(images.cuda(non_blocking=True))
        feats.append(emb)
    feats = torch.nn.functional.normalize(torch.cat(feats), dim=1)
    feats = feats.to("cpu", non_blocking=True)
    np.save(out_path, feats.numpy())
    return feats.shape
