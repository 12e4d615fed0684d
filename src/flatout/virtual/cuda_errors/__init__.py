"""CUDA's own error messages, word for word, where PyTorch on a GPU raises them.

    devices.py       tensors on the CPU and on the GPU in one operation
    dtypes.py        element types that CUDA's kernels refuse and PyTorch's shape rules let pass
    indices.py       indices out of range (a device-side assert on CUDA)
    determinism.py   ``torch.use_deterministic_algorithms``
    replay.py        shapes that do not fit: the text of PyTorch's C++, which its Python shape rules paraphrase
    kernel_checks.py checks that a kernel makes itself, or that C++ makes by native device
    driver.py        what the CUDA driver itself reports
    wording.py       how PyTorch spells types and devices
    shown.py         messages of C++ that name a native device

`check_devices` is called for operations that mix devices, `refuse` and `as_cuda_says` when the shapes of a call are
seen for the first time, `guarded` wraps the few kernels that are looked at on every call.

CUDA is asynchronous: it reports a failed kernel at a later call. Here an error is raised at the operation that causes
it, which is where the user has to look.
"""

from __future__ import annotations

from flatout.virtual.cuda_errors.devices import accepts_host_scalars, check_devices
from flatout.virtual.cuda_errors.driver import invalid_device_ordinal
from flatout.virtual.cuda_errors.dtypes import refuse
from flatout.virtual.cuda_errors.guards import guarded
from flatout.virtual.cuda_errors.replay import as_cuda_says, raise_if_refused
from flatout.virtual.cuda_errors.shown import as_shown, put_right, shown_for

__all__ = [
    "accepts_host_scalars",
    "as_cuda_says",
    "as_shown",
    "check_devices",
    "guarded",
    "invalid_device_ordinal",
    "put_right",
    "raise_if_refused",
    "refuse",
    "shown_for",
]
