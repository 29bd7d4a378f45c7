"""The three answers of a check, and the two ways in which a value can be absent (flow.md sections 7, 10 and 11)."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final


class Truth(IntEnum):
    """Ordered, so that the least of several is what they come to together."""

    FALSE = 0
    UNKNOWN = 1
    TRUE = 2

    @property
    def negated(self) -> Truth:
        return Truth(2 - self)


class Unseen(Enum):
    """A value that may be there but was not seen; the value of a member is the reason a result gives."""

    NOT_CAPTURED = "not_captured"  # not recorded, or redacted
    NOT_ENDED = "not_ended"  # it may still come: its step or scope has no end yet
    NO_TIMES = "no_times"
    SCOPE_NOT_SEEN = "scope_not_seen"
    NAME_NOT_CAPTURED = "tool_names_not_captured"


class Absence(Enum):
    """A value that is known not to be there."""

    MISSING = "missing"


MISSING: Final = Absence.MISSING
