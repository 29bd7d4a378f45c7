"""What the collector has done with everything it was sent; the sums that must add up at any time (collector.md 2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class TraceCounts:
    """Of traces: started = judged (by outcome) + dropped (by reason) + open."""

    judged: Counter[str] = field(default_factory=Counter)  # pass, fail, unknown, unmatched, no_policy
    changed: Counter[str] = field(default_factory=Counter)  # by revisions: one verdict less, another more
    dropped: Counter[str] = field(default_factory=Counter)
    releases: Counter[str] = field(default_factory=Counter)  # by release reason, revisions too
    faults: int = 0  # of the buffer: a release that had to be tried again
    unchanged: int = 0  # judged again for late spans, with nothing new to report

    @property
    def standing(self) -> Counter[str]:
        """`judged` as it stands now: a trace counts for its last verdict."""
        return self.judged + self.changed


@dataclass(frozen=True, slots=True)
class Ledger:
    """The two sums, as they stand now."""

    traces_started: int
    traces_judged: int
    traces_dropped: dict[str, int]
    traces_open: int
    spans_received: int
    spans_forwarded: int
    spans_dropped: dict[str, int]
    spans_queued: int

    @property
    def adds_up(self) -> bool:
        traces = self.traces_judged + sum(self.traces_dropped.values()) + self.traces_open
        spans = self.spans_forwarded + sum(self.spans_dropped.values()) + self.spans_queued
        return traces == self.traces_started and spans == self.spans_received

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        return (
            f"traces: {self.traces_started} started = {self.traces_judged} judged + {_told(self.traces_dropped)}"
            f" + {self.traces_open} open; spans: {self.spans_received} received = {self.spans_forwarded} forwarded"
            f" + {_told(self.spans_dropped)} + {self.spans_queued} queued"
        )


def _told(dropped: dict[str, int]) -> str:
    reasons = ", ".join(f"{n} {reason}" for reason, n in sorted(dropped.items()))
    return f"{sum(dropped.values())} dropped" + (f" ({reasons})" if reasons else "")
