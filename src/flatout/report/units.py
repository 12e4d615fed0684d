"""Sizes and times as people read them. The one place where a number gets its unit."""

from __future__ import annotations

_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size_text(size_bytes: int) -> str:
    """A size with three digits (four from 1000 on) and a binary unit: `31.4 GiB`, `1.26 GiB`, `850 MiB`, `512 B`.

    Binary units, because PyTorch's own messages and `nvidia-smi` use them. A negative size keeps its sign.
    """
    sign, magnitude = ("-", -size_bytes) if size_bytes < 0 else ("", size_bytes)
    for factor, unit in _SIZES:
        # What would round to 1024 of the next smaller unit is one of this unit.
        if magnitude >= factor - factor / 2048:
            return f"{sign}{_three_digits(magnitude / factor)} {unit}"
    return f"{sign}{magnitude} B"


def duration_text(seconds: float) -> str:
    """A time with its unit: `850 ms`, `12.3 s`, `4 min 05 s`, `2 h 10 min`."""
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.95:
        return f"{_three_digits(seconds)} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def fine_duration_text(seconds: float) -> str:
    """A time with three digits: `850 us`, `18.3 ms`, `1.25 s`; from a minute on as `duration_text`."""
    if seconds < 999.5e-6:
        return f"{_three_digits(seconds * 1e6)} us"
    if seconds < 0.9995:
        return f"{_three_digits(seconds * 1e3)} ms"
    return duration_text(seconds)


def rate_text(per_second: float) -> str:
    """A rate with three digits: `0.52`, `15.3`, `3,500`, `12,300`."""
    if per_second < 99.95:
        return _three_digits(per_second)
    digits = len(str(round(per_second)))
    return f"{round(per_second, 3 - digits):,.0f}"


def dollars_text(dollars: float) -> str:
    """An amount with three digits: `$0.00352`, `$0.36`, `$15.3`, `$12,300`."""
    return f"${rate_text(dollars)}" if dollars >= 0.0995 else f"${dollars:.3g}"


def count_text(count: int, singular: str, plural: str = "") -> str:
    """A number with its noun: `1 step`, `3 steps`, `12,345 operations`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
