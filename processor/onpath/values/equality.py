"""Equality of JSON values where some of their texts may be redacted (flow.md sections 1 and 8)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeGuard

from onpath.redaction import is_redacted
from onpath.values.outcome import Truth


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a JSON number; true and false are none. Whole numbers of great length come as Decimal."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | Decimal):
        return "integer"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list | tuple) else "bytes"


def equal(value: Any, wanted: Any) -> Truth:
    """Whether a recorded value is the wanted one; unknown if that hangs on a part that was redacted.

    True is never 1, 1 equals 1.0 at any depth, order counts in lists and not in objects. Does not recurse: values are
    as deep as whoever recorded them made them.
    """
    found = Truth.TRUE
    pairs = [(value, wanted)]
    while pairs:
        seen, asked = pairs.pop()
        if is_redacted(seen):
            found = Truth.UNKNOWN
        elif isinstance(seen, dict) and isinstance(asked, dict):
            if seen.keys() != asked.keys():
                return Truth.FALSE
            pairs += ((seen[key], asked[key]) for key in asked)
        elif isinstance(seen, list | tuple) and isinstance(asked, list | tuple):
            if len(seen) != len(asked):
                return Truth.FALSE
            pairs += zip(seen, asked, strict=True)
        elif not _same_scalar(seen, asked):
            return Truth.FALSE
    return found


def _same_scalar(a: Any, b: Any) -> bool:
    if is_number(a) and is_number(b):
        return bool(a == b)
    return type_name(a) == type_name(b) and bool(a == b)
