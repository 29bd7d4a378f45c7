"""Durations and sizes as people write them: `500ms`, `2s`, `10m`, `64MiB`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SECONDS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES: Final[Mapping[str, int]] = {
    "": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9,
}  # fmt: skip
_AMOUNT: Final = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*")


def seconds(text: str) -> float:
    """A duration with its unit, or 0. Raises ValueError, which says what is expected."""
    found = _AMOUNT.fullmatch(text)
    unit = found and (_SECONDS.get(found[2]) or (1.0 if float(found[1]) == 0 and not found[2] else None))
    if not found or unit is None:
        raise ValueError(f"{text!r} is not a duration such as 500ms, 2s, 10m or 1h")
    return float(found[1]) * unit


def byte_count(text: str) -> int:
    """A size with its unit, or a number of bytes. Raises ValueError, which says what is expected."""
    found = _AMOUNT.fullmatch(text)
    if not found or found[2] not in _BYTES:
        raise ValueError(f"{text!r} is not a size such as 64MiB or 1GiB")
    return int(float(found[1]) * _BYTES[found[2]])


def duration_text(value: float) -> str:
    """A duration, seconds, that `seconds` reads as the same: in the largest unit of which it is a whole number."""
    for unit in ("h", "m", "s"):
        if value and value % _SECONDS[unit] == 0:
            return f"{value / _SECONDS[unit]:.0f}{unit}"
    return f"{value:.9f}".rstrip("0").rstrip(".") + "s"


def size_text(value: int) -> str:
    """A number of bytes that `byte_count` reads as the same: in the largest unit of which it is a whole number."""
    for unit in ("GiB", "MiB", "KiB"):
        if value and value % _BYTES[unit] == 0:
            return f"{value // _BYTES[unit]}{unit}"
    return str(value)
