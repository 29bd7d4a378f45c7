"""JSON values as a plan compares them: equality, types, places in them, canonical text and digests.

Everything here takes what `json.loads` gives. MISSING stands for a place without a value, which is not null.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias

from onpath import json_values

Tail: TypeAlias = tuple[str, ...]

TYPES: Final = ("string", "number", "boolean", "object", "array", "null")
SCALARS: Final = frozenset({"string", "number", "boolean", "null"})
_INDEX: Final = re.compile(r"0|[1-9][0-9]*")  # RFC 6901 array index: no leading zero


class Missing(Enum):
    """No value at that place."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING


def json_type(value: Any) -> str:
    """One of TYPES; true is a boolean, never a number."""
    if isinstance(value, str):
        return "string"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float | Decimal):
        return "number"
    return "object" if isinstance(value, Mapping) else "array"


def equal(a: Any, b: Any) -> bool:
    """Same JSON type and same value (`json_values.equal`); MISSING equals nothing, not even MISSING."""
    if a is MISSING or b is MISSING:
        return False
    kind = json_type(a)
    if kind != json_type(b):
        return False
    return bool(a == b) if kind in SCALARS else json_values.equal(a, b)


def contains(values: Iterable[Any], wanted: Any) -> bool:
    return any(equal(value, wanted) for value in values)


def index_of(token: str) -> int | None:
    """The list position that a token names; None if it is none. Longer than any list, all numbers are alike."""
    return int(token[:19]) if _INDEX.fullmatch(token) else None


def at(value: Any, tail: Sequence[str]) -> Any:
    """The value at a place below `value`; MISSING where there is none. Text has no places, `-` is no index."""
    for token in tail:
        if isinstance(value, Mapping):
            value = value.get(token, MISSING)
        elif isinstance(value, list):
            index = index_of(token)
            value = value[index] if index is not None and index < len(value) else MISSING
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value


def without(value: Any, places: Iterable[Tail]) -> Any:
    """`value` without these places, taken out one after the other; the empty place leaves null."""
    for place in places:
        value = _without(value, place) if place else None
    return value


def _without(value: Any, place: Tail) -> Any:
    head, rest = place[0], place[1:]
    if at(value, (head,)) is MISSING:
        return value
    if isinstance(value, Mapping):
        if not rest:
            return {key: inner for key, inner in value.items() if key != head}
        return {key: _without(inner, rest) if key == head else inner for key, inner in value.items()}
    index = int(head)
    kept = [_without(value[index], rest)] if rest else []
    return [*value[:index], *kept, *value[index + 1 :]]


def canonical(value: Any) -> str:
    """The one spelling of a JSON value: keys by code point, no blanks, unescaped, whole numbers without fraction."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """`sha256:` and 64 hex digits over the canonical text."""
    return digest_bytes(canonical(value).encode("utf-8", "surrogatepass"))


def digest_bytes(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Decimal):  # an integer longer than Python prints
        return str(value)
    return value
