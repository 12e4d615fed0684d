"""Python's view of the virtual GPU: what ``torch.cuda``, tensors, storages and modules answer."""
