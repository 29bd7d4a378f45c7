"""Texts: transforms, and whether one is JSON or an address (flow.md section 8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from onpath.json_values import DECODER

# Unicode's White_Space; str.strip() also takes off the separators U+001C to U+001F, which are none.
_BLANKS: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)
_RUN: Final = re.compile(f"[{_BLANKS}]+")
_FENCE: Final = re.compile(r"(?:(`{3,})|(~{3,}))[^`\n]*\n(?P<inside>.*?)\n?[ ]{0,3}(?:(?(1)\1`*|\2~*))", re.DOTALL)

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL: Final = re.compile(
    rf"(?=.{{1,254}}\Z)(?=[^@]{{1,64}}@){_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+(?![0-9]+\Z){_LABEL}"
)


def trim(text: str) -> str:
    return text.strip(_BLANKS)


def collapse_whitespace(text: str) -> str:
    return _RUN.sub(" ", text)


TRANSFORMS: Final[Mapping[str, Callable[[str], str]]] = {
    "lowercase": str.lower,
    "uppercase": str.upper,
    "trim": trim,
    "collapse_whitespace": collapse_whitespace,
}


def transformed(value: Any, transforms: Iterable[str]) -> Any:
    """A text after its transforms, left to right; any other value as it is."""
    if isinstance(value, str):
        for name in transforms:
            value = TRANSFORMS[name](value)
    return value


def is_json(text: str) -> bool:
    """Whether a text is strict JSON once white space and one code fence around it are off.

    Nested deeper than Python's reader goes (about a thousand levels), a text is taken for none.
    """
    text = trim(text)
    fenced = _FENCE.fullmatch(text)
    try:
        DECODER.decode(trim(fenced["inside"]) if fenced else text)
    except (ValueError, RecursionError):
        return False
    return True


def is_email(text: str) -> bool:
    return _EMAIL.fullmatch(trim(text)) is not None
