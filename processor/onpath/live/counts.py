"""What the processor counts of itself; the sums add up at any time that nothing is under way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Counts:
    """Since the start, or since the fork that made this process.

    `traces_started` = `judged` (by verdict, or `unmatched`) + `handed_on` + `dropped` (by reason) + those still open.
    """

    traces_started: int = 0
    judged: Counter[str] = field(default_factory=Counter)
    handed_on: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # traces: evaluation_failed, handing_on_failed
    released: Counter[str] = field(default_factory=Counter)  # by reason, also of traces that late spans re-opened
    revised: int = 0
    spans_dropped: Counter[str] = field(default_factory=Counter)  # queue, late, own
    late_spans: int = 0
    duplicates: int = 0
    faults: Counter[str] = field(default_factory=Counter)  # on_start, on_end, on_report, on_violation, thread, outlet

    def sums(self) -> dict[str, Any]:
        """For logs and tests."""
        return {
            "traces_started": self.traces_started,
            "judged": dict(self.judged),
            "handed_on": self.handed_on,
            "dropped": dict(self.dropped),
            "spans_dropped": dict(self.spans_dropped),
            "faults": dict(self.faults),
        }
