"""Redaction marks: what instrumentations write in place of content (adherence.md section 9)."""

from __future__ import annotations

import re
from typing import Any, Final

_MARK: Final = re.compile(r"\[REDACTED\]|<REDACTED>|\(REDACTED\)|REDACTED|__REDACTED__|\*{3,}", re.IGNORECASE)


def is_redacted(value: Any) -> bool:
    """Whether a text is nothing but a redaction mark, in any case; any other value is none."""
    return isinstance(value, str) and len(value) < 10_000 and _MARK.fullmatch(value.strip()) is not None
