"""Text from outside, made safe to print: span names and the like come from whoever sends telemetry."""

from __future__ import annotations

import re
from typing import Final

# Control characters, and those that turn, join or hide what stands beside them.
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_SHORT: Final = {9: "\\t", 10: "\\n", 13: "\\r"}


def printable(text: str) -> str:
    """The same text with control, bidirectional and invisible characters as escapes, on one line."""
    return _UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code in _SHORT:
        return _SHORT[code]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
