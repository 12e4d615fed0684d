"""What a row of the golden table is, and the words that several rows share.

The texts are written down here once more, apart from the code under test: they are what a GPU printed or what the
sources and libraries of PyTorch contain, never what flatout says.
"""

from __future__ import annotations

from dataclasses import dataclass

Version = tuple[int, int]
Texts = dict[Version, str]
FIRST: Version = (2, 6)


@dataclass(frozen=True)
class Row:
    """One mistake: `code` provokes it, and PyTorch answers with `error` and `texts` (each from its version on).

    `since` and `until`: the versions in which it is an error at all (`until` is the first in which it is not).
    """

    name: str
    code: str
    error: str
    texts: Texts
    source: str
    since: Version = FIRST
    until: Version | None = None

    def text(self, version: Version) -> str:
        """The message in that version of PyTorch."""
        return self.texts[max(known for known in self.texts if known <= version)]

    def applies(self, version: Version) -> bool:
        """Whether that version raises it."""
        return self.since <= version and (self.until is None or version < self.until)


def always(text: str) -> Texts:
    """The same words in all versions."""
    return {FIRST: text}


def iterator(first: str = "cuda:0", second: str = "cpu") -> Texts:
    """``TensorIterator``'s words."""
    return always(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    )


def wrapper(argument: str, method: str, wrong: str = "cpu", right: str = "cuda:0") -> Texts:
    """The words of the check that is generated in front of a kernel; reworded in 2.8."""
    return {
        (2, 6): (
            f"Expected all tensors to be on the same device, but found at least two devices, {right} and {wrong}! "
            f"(when checking argument for argument {argument} in method {method})"
        ),
        (2, 8): (
            f"Expected all tensors to be on the same device, but got {argument} is on {wrong}, different from other "
            f"tensors on {right} (when checking argument in method {method})"
        ),
    }


_LATER = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
)
_ASSERTIONS = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
_MANUAL = "in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
DEVICE_ASSERT: Texts = {
    (2, 6): f"CUDA error: device-side assert triggered\n{_LATER}{_ASSERTIONS}",
    (2, 9): f"CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' {_MANUAL}{_LATER}{_ASSERTIONS}",
    (2, 14): f"CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' {_MANUAL}{_LATER}",
}
_ENOUGH = "GPU device may be out of range, do you have enough GPUs?\n"
INVALID_ORDINAL: Texts = {
    (2, 6): f"CUDA error: invalid device ordinal\n{_LATER}{_ASSERTIONS}",
    (2, 9): f"CUDA error: invalid device ordinal\n{_ENOUGH}{_LATER}{_ASSERTIONS}",
    (2, 14): f"CUDA error: invalid device ordinal\n{_ENOUGH}",
}


def not_deterministic(kernel: str) -> Texts:
    """The words of ``alertNotDeterministic``."""
    return always(
        f"{kernel} does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this "
        "operation, or you can use "
        "the 'warn_only=True' option, if that's acceptable for your application. You can also file an issue at "
        "https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic "
        "support for this operation."
    )


def no_kernel(kernel: str, dtype: str) -> Texts:
    """A kernel that has no instance for an element type."""
    return always(f"\"{kernel}\" not implemented for '{dtype}'")
