"""How much workspace cuDNN takes for convolutions and recurrent nets: estimates, each with its reason.

cuDNN picks an algorithm by a heuristic that is not public, so these are rules, not facts: a likely value, and a bound
that larger algorithms rarely pass. Reports of workspaces of gigabytes exist (pytorch issues 49207 and 31500).
"""

from __future__ import annotations

from typing import NamedTuple

MIB = 1 << 20
FLOAT_BYTES = 4
RNN_KEPT = {"lstm": 5, "gru": 6, "tanh": 1, "relu": 1}
"""Numbers kept for backward, in hidden sizes for each step, sample, layer and direction; between layers one more.

Source: reserves of 736,000,000 (LSTM) and 864,000,000 bytes (GRU) reported in pytorch issue 2895 for 4 layers of
320: with 25,000 samples and steps they are 23 and 27 hidden sizes each, that is 4 x 5 + 3 and 4 x 6 + 3. For the
plain net 1 is a guess.
"""
RNN_STEP_NUMBERS = {"lstm": 11, "gru": 8, "tanh": 3, "relu": 3}
"""Numbers in the workspace for each sample and layer, in hidden sizes, beside a copy of the matrices.

Source: 17,730,560 (LSTM) and 13,169,920 bytes (GRU) in the same report, for a batch of 100.
"""
DROPOUT_STATE_BYTES_PER_MULTIPROCESSOR = 2048 * 16
"""One random state of 16 bytes for each resident thread: an estimate of ``cudnnDropoutGetStatesSize``."""
UPPER_FACTOR = 2
"""Winograd's transformed tiles of a 3x3 filter take 2.25 times their input; FFT takes more and is rarely picked."""
UPPER_LIMIT_BYTES = 1024 * MIB
"""Heuristics skip algorithms whose workspace is larger than what is free; a larger one than this was seldom seen."""


class Workspace(NamedTuple):
    """Likely size and upper bound, in bytes."""

    point_bytes: int
    upper_bytes: int


def convolution(
    input_bytes: int,
    weight_bytes: int,
    output_bytes: int,
    itemsize: int,
    *,
    channels_last: bool,
    tensor_cores: bool,
    pointwise: bool,
) -> Workspace:
    """The workspace of one convolution (or of one of its gradients); sizes of the three tensors in bytes.

    Implicit matrix products need next to nothing. Kernels for tensor cores want the channels last: where they are not,
    cuDNN turns the tensors round inside its workspace.
    """
    point = 0 if channels_last or not tensor_cores else input_bytes + weight_bytes + output_bytes
    if pointwise:
        return Workspace(point, point)
    numbers = (input_bytes + output_bytes) // itemsize * FLOAT_BYTES
    return Workspace(point, max(point, min(UPPER_FACTOR * numbers + weight_bytes, UPPER_LIMIT_BYTES)))


def recurrent_reserve(
    mode: str, steps_times_batch: int, hidden: int, layers: int, directions: int, itemsize: int
) -> int:
    """Bytes that cuDNN keeps between forward and backward of a recurrent net (an estimate)."""
    numbers = layers * RNN_KEPT[mode] + layers - 1
    return steps_times_batch * hidden * directions * numbers * itemsize


def recurrent(
    mode: str, weights: int, batch: int, hidden: int, layers: int, directions: int, itemsize: int
) -> Workspace:
    """The workspace of one pass of a recurrent net (an estimate). `weights` counts numbers."""
    point = (weights + batch * hidden * layers * directions * RNN_STEP_NUMBERS[mode]) * itemsize
    return Workspace(point, 2 * point)
