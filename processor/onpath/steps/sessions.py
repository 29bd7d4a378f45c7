"""The session of a trace, read from any of its spans (steps.md section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from onpath.conventions.table import READERS
from onpath.model import NOT_CAPTURED, Span

_KEYS: Final = frozenset(key for key, _ in READERS["session"])


def session_of(spans: Iterable[Span]) -> str | None:
    """The value of the best session attribute that any span has; of several, that of the earliest span."""
    best: str | None = None
    readers = READERS["session"]
    for span in spans:
        attributes = span.attributes
        if _KEYS.isdisjoint(attributes):
            continue
        for rank, (key, reader) in enumerate(readers):
            if key in attributes:
                found = reader(attributes[key], attributes)
                if found is not NOT_CAPTURED:
                    best, readers = str(found), readers[:rank]
                    break
        if not readers:
            break
    return best
