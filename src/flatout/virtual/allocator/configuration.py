"""What `PYTORCH_ALLOC_CONF` and `PYTORCH_CUDA_ALLOC_CONF` say.

The grammar, the limits and the messages are those of PyTorch 2.13 and 2.14 (`c10/core/AllocatorConfig.h`,
`c10/cuda/CUDAAllocatorConfig.h`, and the answers of `torch._C._accelerator_setAllocatorSettings` to bad input). 2.14
refuses a key that it does not know before it reads on; earlier versions read its value first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata

from flatout.virtual.allocator.sizes import LARGE_SEGMENT_BYTES, MIB, ROUNDUP_INTERVALS

_MIN_SPLIT_MB = 20
_MAX_SPLIT_MB = (1 << 64) // MIB - 1
_MAX_REGISTER_THREADS = 128
_BACKENDS = ("native", "cudaMallocAsync")
# Settings of pinned host memory and of locks: they change nothing in this model, only their values are checked.
_IGNORED_FLAGS = frozenset(
    {
        "graph_capture_record_stream_reuse",
        "pinned_free_catch_all",
        "pinned_use_background_threads",
        "pinned_use_cuda_host_register",
        "pinned_use_hip_host_register",
        "release_lock_on_cudamalloc",
        "release_lock_on_hipmalloc",
        "throw_on_cudamalloc_oom",
    }
)
_IGNORED_SIZES = frozenset(
    {"pinned_max_cached_size_mb", "pinned_max_round_threshold_mb", "pinned_reserve_segment_size_mb"}
)


@dataclass(frozen=True)
class AllocatorConfiguration:
    """Settings of the caching allocator; the defaults are PyTorch's.

    `max_split_size_bytes`: blocks from this size on are never split; None is no limit.
    `max_non_split_rounding_bytes`: how much larger than the request an unsplittable block may be.
    `roundup_power2_divisions`: for each power of two from 1 MiB to 64 GiB, in how many steps sizes round; 0 is off.
    `garbage_collection_threshold`: part (0..1) of the allowed memory above which unused segments go; 0 is off.
    `large_segment_size_bytes`: the segment for requests between 1 and 10 MiB.
    `per_process_memory_fraction`: part of the GPU's memory that the process may use; None where not set.
    """

    max_split_size_bytes: int | None = None
    max_non_split_rounding_bytes: int = LARGE_SEGMENT_BYTES
    roundup_power2_divisions: tuple[int, ...] = (0,) * ROUNDUP_INTERVALS
    garbage_collection_threshold: float = 0.0
    expandable_segments: bool = False
    large_segment_size_bytes: int = LARGE_SEGMENT_BYTES
    per_process_memory_fraction: float | None = None
    backend: str = "native"

    @classmethod
    def parse(cls, text: str) -> AllocatorConfiguration:
        """The settings that `text` gives, such as ``"max_split_size_mb:128,expandable_segments:True"``.

        Raises ValueError with PyTorch's message for an unknown key or a value out of bounds.
        """
        tokens = _Tokens(text)
        settings = cls()
        while not tokens.at_end():
            key = tokens.take()
            if key not in _KNOWN_KEYS and _refuses_keys_first():
                raise ValueError(f"Unrecognized key '{key}' in Accelerator allocator config.")
            tokens.take()  # PyTorch takes whatever stands where the colon should, and so do we
            settings = _apply(settings, key, tokens)
            if not tokens.at_end():
                tokens.take()
        return settings

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> AllocatorConfiguration:
        """The settings of a process with these environment variables.

        `PYTORCH_CUDA_ALLOC_CONF` wins over `PYTORCH_ALLOC_CONF` where both are set, as it does in PyTorch 2.13.
        """
        for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            if name in environment:
                return cls.parse(environment[name])
        return cls()


@cache
def _refuses_keys_first() -> bool:
    major, minor = metadata.version("torch").split(".")[:2]
    return (int(major), int(minor)) >= (2, 14)


def _apply(settings: AllocatorConfiguration, key: str, tokens: _Tokens) -> AllocatorConfiguration:
    reader = _READERS.get(key)
    if reader is not None:
        return reader(settings, tokens)
    if key in _IGNORED_FLAGS:
        tokens.flag()
    elif key in _IGNORED_SIZES:
        tokens.unsigned()
    else:
        raise ValueError(f"Unrecognized key '{key}' in CUDA allocator config.")
    return settings


class _Tokens:
    """The words of a setting string and its separators ``, : [ ]``; white space does not count."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = re.findall(r"[,:\[\]]|[^,:\[\]]+", re.sub(r"\s", "", text))
        self._next = 0

    def at_end(self) -> bool:
        return self._next >= len(self._tokens)

    def peek(self) -> str:
        if self.at_end():
            raise ValueError("Index out of bounds in ConfigTokenizer")
        return self._tokens[self._next]

    def take(self) -> str:
        token = self.peek()
        self._next += 1
        return token

    def unsigned(self) -> int:
        """A whole number as C's `strtoull` reads it: leading digits count, and a minus sign wraps around."""
        match = re.match(r"[+-]?\d+", self.take())
        if match is None:
            raise ValueError("stoull")
        value = int(match.group())
        if abs(value) >= 1 << 64:
            raise ValueError("stoull")
        return value % (1 << 64)

    def number(self) -> float:
        match = re.match(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", self.take())
        if match is None:
            raise ValueError("stod")
        return float(match.group())

    def flag(self) -> bool:
        index = self._next
        token = self.take()
        if token not in ("True", "False"):
            raise ValueError(f"Expected 'True' or 'False' at index {index} in ConfigTokenizer but got '{token}'")
        return token == "True"


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _split_size(key: str, tokens: _Tokens) -> int:
    megabytes = tokens.unsigned()
    if megabytes < _MIN_SPLIT_MB:
        raise ValueError(f"CachingAllocator option {key} too small, must be >= {_MIN_SPLIT_MB}")
    return min(megabytes, _MAX_SPLIT_MB) * MIB


def _max_split_size(settings: AllocatorConfiguration, tokens: _Tokens) -> AllocatorConfiguration:
    return replace(settings, max_split_size_bytes=_split_size("max_split_size_mb", tokens))


def _max_non_split_rounding(settings: AllocatorConfiguration, tokens: _Tokens) -> AllocatorConfiguration:
    return replace(settings, max_non_split_rounding_bytes=_split_size("max_non_split_rounding_mb", tokens))


def _large_segment_size(settings: AllocatorConfiguration, tokens: _Tokens) -> AllocatorConfiguration:
    megabytes = tokens.unsigned()
    if megabytes <= 10:
        raise ValueError("CachingAllocator option large_segment_size_mb must be > 10 MB")
    return replace(settings, large_segment_size_bytes=megabytes * MIB)


def _garbage_collection(settings: AllocatorConfiguration, tokens: _Tokens) -> AllocatorConfiguration:
    threshold = tokens.number()
    if not 0.0 < threshold < 1.0:
        raise ValueError("garbage_collect_threshold is invalid, set it in (0.0, 1.0)")
    return replace(settings, garbage_collection_threshold=threshold)


def _expandable(settings: AllocatorConfiguration, tokens: _Tokens) -> AllocatorConfiguration:
    return replace(settings, expandable_segments=tokens.flag())


def _backend(settings: AllocatorConfiguration, tokens: _Tokens) -> AllocatorConfiguration:
    backend = tokens.take()
    if backend not in _BACKENDS:
        raise ValueError("Unknown allocator backend, options are native and cudaMallocAsync")
    return replace(settings, backend=backend)


def _memory_fraction(settings: AllocatorConfiguration, tokens: _Tokens) -> AllocatorConfiguration:
    fraction = tokens.number()
    if not 0.0 <= fraction <= 1.0:
        raise ValueError("per_process_memory_fraction is invalid, set it in [0.0, 1.0]")
    return replace(settings, per_process_memory_fraction=fraction)


def _register_threads(settings: AllocatorConfiguration, tokens: _Tokens) -> AllocatorConfiguration:
    threads = tokens.unsigned()
    if not _is_power_of_two(threads):
        raise ValueError(f"Number of register threads has to be power of 2, got {threads}")
    if threads > _MAX_REGISTER_THREADS:
        raise ValueError(
            f"Number of register threads should be less than or equal to {_MAX_REGISTER_THREADS}, got {threads}"
        )
    return settings


def _roundup(settings: AllocatorConfiguration, tokens: _Tokens) -> AllocatorConfiguration:
    if tokens.peek() != "[":
        divisions = tokens.unsigned()
        if not _is_power_of_two(divisions):
            raise ValueError("For roundups, the divisions has to be power of 2 ")
        return replace(settings, roundup_power2_divisions=(divisions,) * ROUNDUP_INTERVALS)
    tokens.take()
    table = list(settings.roundup_power2_divisions)
    first, last = True, 0
    while tokens.peek() != "]":
        interval = tokens.take()
        tokens.take()
        divisions = tokens.unsigned()
        if divisions != 0 and not _is_power_of_two(divisions):
            raise ValueError("For roundups, the divisions has to be power of 2 or 0 to disable roundup ")
        if interval == ">":
            table[last:] = [divisions] * (ROUNDUP_INTERVALS - last)
        else:
            last = _interval_index(interval)
            if first:
                table[:last] = [divisions] * last
                first = False
            table[last] = divisions
        if tokens.peek() != "]":
            tokens.take()
    tokens.take()
    return replace(settings, roundup_power2_divisions=tuple(table))


def _interval_index(megabytes: str) -> int:
    if not megabytes.isdigit() or not _is_power_of_two(int(megabytes)):
        raise ValueError("For roundups, the intervals have to be power of 2 ")
    return min(int(megabytes).bit_length() - 1, ROUNDUP_INTERVALS - 1)


_READERS: dict[str, Callable[[AllocatorConfiguration, _Tokens], AllocatorConfiguration]] = {
    "max_split_size_mb": _max_split_size,
    "max_non_split_rounding_mb": _max_non_split_rounding,
    "large_segment_size_mb": _large_segment_size,
    "garbage_collection_threshold": _garbage_collection,
    "roundup_power2_divisions": _roundup,
    "expandable_segments": _expandable,
    "backend": _backend,
    "per_process_memory_fraction": _memory_fraction,
    "pinned_num_register_threads": _register_threads,
}

_KNOWN_KEYS = frozenset(_READERS) | _IGNORED_FLAGS | _IGNORED_SIZES
