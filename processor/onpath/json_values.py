"""JSON as values: reading texts strictly and comparing what they hold.

Arguments and answers come as decoded values or as JSON in texts. `parse` reads a text by RFC 8259, `decoded` opens a
text that holds an object or a list and leaves every other value alone, `canonical` gives equal values one hashable key.
Nothing here recurses: what is compared was written by others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 100  # nested deeper, a text is not read as JSON (adherence.md section 6)
_INT_DIGITS: Final = 4000  # Python refuses longer integers, JSON does not
_BRACKETS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
_OPEN: Final = ("{", "[")


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < _INT_DIGITS else Decimal(digits)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_constant=_no_constant)


def too_deep(text: str, start: int = 0, end: int | None = None) -> bool:
    """Whether brackets nest more than MAX_DEPTH deep between two places; brackets in strings do not count."""
    end = len(text) if end is None else end
    if text.count("[", start, end) + text.count("{", start, end) <= MAX_DEPTH:
        return False
    depth = 0
    for match in _BRACKETS.finditer(text, start, end):
        token = match[0]
        if token in _OPEN:
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif token[0] != '"':
            depth -= 1
    return False


def parse(text: str) -> Any:
    """The value of a JSON text. Raises ValueError: not JSON by RFC 8259 (NaN is none), or nested over MAX_DEPTH."""
    if too_deep(text):
        raise ValueError(f"nested over {MAX_DEPTH} deep")
    return DECODER.decode(text)


def decoded(value: Any) -> Any:
    """What a text holds if it is a JSON object or list, or a JSON string that holds one; any other value unchanged."""
    if not isinstance(value, str):
        return value
    inner: Any = value
    for _ in range(2):
        start = inner.lstrip()[:1]
        if start not in ("{", "[", '"'):
            return value
        try:
            inner = parse(inner)
        except ValueError:
            return value
        if not isinstance(inner, str):
            return inner
    return value


def canonical(value: Any, *, decode_texts: bool = False) -> Hashable:
    """A key that equal JSON values share, and no others.

    Order counts in lists and not in objects, 1 equals 1.0, true is not 1. With `decode_texts` a text that holds a JSON
    object or list equals that value, wherever it stands. The key is flat: each value is written as a tag and what
    belongs to it, lists and objects with their length, so that no two values are written alike.
    """
    out: list[Hashable] = []
    pending: list[Any] = [value]
    while pending:
        at = pending.pop()
        if type(at) is _Key:
            out.append(at.text)
            continue
        if decode_texts:
            at = decoded(at)
        if isinstance(at, Mapping):
            out += ("{", len(at))
            for key in sorted(at, key=str, reverse=True):
                pending += (at[key], _Key(str(key)))
        elif isinstance(at, Sequence) and not isinstance(at, str | bytes):
            out += ("[", len(at))
            pending += reversed(at)
        else:
            out += _scalar(at)
    return tuple(out)


def equal(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same, by the rules of `canonical`."""
    return canonical(a) == canonical(b)


class _Key:
    """An object's key among the values still to be written."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _scalar(value: Any) -> tuple[Hashable, ...]:
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float | Decimal):
        return ("number", value) if value == value else ("nan",)  # NaN alone differs from itself
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, bytes):
        return ("bytes", value)
    return ("other", repr(value))
