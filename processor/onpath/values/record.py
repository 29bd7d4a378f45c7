"""The record of a step or a scope as a value that paths lead into (flow.md section 7).

Values are read as data only: a path goes through keys of objects and indexes of lists, never through attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from onpath.redaction import is_redacted
from onpath.steps.model import NOT_CAPTURED, Scope, Step
from onpath.usage import amount
from onpath.values.outcome import MISSING, Unseen

Path: TypeAlias = tuple[str, ...]

PROPERTIES: Final = ("input", "output", "elapsed", "usage", "status", "error", "attempt")


class Record:
    """`Record(...)(path)` is the value at the path, MISSING, or why it is not known.

    `open_ended`: steps or values may still come, so what an unfinished step or scope lacks is not known.
    """

    __slots__ = ("pending", "seen", "source")

    def __init__(self, source: Step | Scope, *, open_ended: bool) -> None:
        self.source = source
        self.seen = not isinstance(source, Scope) or source.recorded
        self.pending = open_ended and source.end_ns is None

    def __call__(self, path: Path) -> Any:
        if not self.seen:
            return Unseen.SCOPE_NOT_SEEN
        value = self._property(path)
        return Unseen.NOT_ENDED if value is MISSING and self.pending else value

    def _property(self, path: Path) -> Any:
        name = path[0]
        if name in ("input", "output"):
            value = getattr(self.source, name)
            return Unseen.NOT_CAPTURED if value is NOT_CAPTURED else part(value, path[1:])
        if name == "usage":
            found = amount(self.source.usage, path[1])
            return MISSING if found is None else found
        if name == "error":
            return self._error(path[1:])
        if name == "elapsed":
            return self._elapsed()
        if name == "status":
            status = self.source.status
            return Unseen.NOT_ENDED if self.pending and status == "unset" else status
        attempt = self.source.attempt if isinstance(self.source, Step) else None
        return attempt.number if attempt else 1

    def _error(self, keys: Path) -> Any:
        error = self.source.error
        if error is None:
            return MISSING
        known = {"type": error.type, "message": error.message}
        return part({key: text for key, text in known.items() if text is not None}, keys)

    def _elapsed(self) -> Any:
        start, end = self.source.start_ns, self.source.end_ns
        if start is None:
            return Unseen.NO_TIMES
        return MISSING if end is None or end < start else (end - start) / 1e6


def part(value: Any, keys: Sequence[str]) -> Any:
    """What the keys lead to: MISSING where there is nothing, not captured at and below a text that is a redaction."""
    for key in keys:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list | tuple) and _is_index(key, len(value)):
            value = value[int(key)]
        else:
            return Unseen.NOT_CAPTURED if is_redacted(value) else MISSING
    return Unseen.NOT_CAPTURED if is_redacted(value) else value


def _is_index(key: str, length: int) -> bool:
    digits = key.lstrip("0") or "0"
    return key.isascii() and key.isdigit() and len(digits) < 19 and int(digits) < length
