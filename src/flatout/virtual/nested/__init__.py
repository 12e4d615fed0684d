"""Nested tensors on the virtual GPU: batches of sequences without their padding.

    tensors.py       what a virtual nested tensor is, and how a padded batch becomes one and comes back
    encoder.py       the fast path of ``nn.TransformerEncoder`` in evaluation
    registration.py  all of it, put under PyTorch's dispatcher; what is left is refused by name

Only the strided layout: a tensor of ``layout=torch.jagged`` is a Python class over ordinary tensors.
"""
