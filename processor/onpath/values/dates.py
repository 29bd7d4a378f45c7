"""ISO dates and times as instants: nanoseconds since the Unix epoch (flow.md section 8)."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

_EPOCH: Final = date(1970, 1, 1).toordinal()
_ISO: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"(?:[Zz]|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?"
)


def instant(text: str) -> int | None:
    """Nanoseconds since 1970 of a text that is a date, or a date and a time; None if the whole text is none.

    Without an offset it is UTC; a bare date is its first instant.
    """
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, away_hours, away_minutes = found.groups(default="0")
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59 or int(away_hours) > 23 or int(away_minutes) > 59:
        return None
    away = (int(away_hours) * 60 + int(away_minutes)) * (-1 if sign == "-" else 1)
    minutes = (days * 24 + int(hour)) * 60 + int(minute) - away
    return (minutes * 60 + int(second)) * 10**9 + int(fraction.ljust(9, "0"))
