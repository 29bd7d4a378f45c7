"""When steps were under way, and whether they were so at the same time (flow.md section 6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from onpath.steps.model import Step
from onpath.values.outcome import Truth

NEVER: Final = float("inf")
NS_PER_MS: Final = 1_000_000


class Period(NamedTuple):
    """Nanoseconds; None where a time is not known. What has not ended ends NEVER, an end before the start is one."""

    start: int | None
    end: float | None

    @property
    def shared_end(self) -> float | None:
        """An instant counts as one nanosecond long where a shared one is looked for."""
        return self.end + 1 if self.end is not None and self.end == self.start else self.end


UNTIMED: Final = Period(None, None)


def period(step: Step) -> Period:
    if step.start_ns is None:
        return UNTIMED
    return Period(step.start_ns, NEVER if step.end_ns is None else max(step.start_ns, step.end_ns))


def spanned(steps: list[Period]) -> Period:
    """The period of a chain: from its first start to its latest end, as far as they are known."""
    ends = [step.end for step in steps]
    end = None if None in ends else max(end for end in ends if end is not None)
    return Period(steps[0].start, end) if steps[0].start is not None else UNTIMED


class Overlap(NamedTuple):
    truth: Truth
    gap_ns: float  # latest start less earliest end of what is known: how far apart they are

    @property
    def tolerance_needed(self) -> int:
        """The smallest whole number of milliseconds, at least 1, that would do."""
        return max(1, -(-int(self.gap_ns) // NS_PER_MS))


def overlap(periods: Iterable[Period], tolerance_ns: int) -> Overlap:
    """Whether all share an instant, or come near enough; unknown where times are missing and the others do."""
    listed = list(periods)
    starts = [p.start for p in listed if p.start is not None]
    ends = [p.end for p in listed if p.end is not None]
    if len(listed) < 2 or not starts or not ends:
        return Overlap(Truth.TRUE if len(listed) < 2 else Truth.UNKNOWN, 0)
    latest = max(starts)
    gap = latest - min(ends)
    if tolerance_ns:
        apart = gap > tolerance_ns
    else:
        apart = latest >= min(p.shared_end for p in listed if p.shared_end is not None)
    if apart:
        return Overlap(Truth.FALSE, gap)
    complete = len(starts) == len(ends) == len(listed)
    return Overlap(Truth.TRUE if complete else Truth.UNKNOWN, gap)
