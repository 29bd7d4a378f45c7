"""When steps were under way, and whether they were so at the same time (flow.md section 6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
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


class Extent(NamedTuple):
    """What counts of several periods: the latest start and the earliest ends of those that are known."""

    latest: int | None = None
    end: float | None = None
    shared_end: float | None = None
    periods: int = 0
    timed: int = 0  # those of which start and end are known

    def with_period(self, added: Period) -> Extent:
        start, end = added
        shared = added.shared_end
        return Extent(
            start if self.latest is None or (start is not None and start > self.latest) else self.latest,
            end if self.end is None or (end is not None and end < self.end) else self.end,
            shared if self.shared_end is None or (shared is not None and shared < self.shared_end) else self.shared_end,
            self.periods + 1,
            self.timed + (start is not None and end is not None),
        )

    def overlap(self, tolerance_ns: int) -> Overlap:
        """Whether all share an instant, or come near enough; unknown where times are missing and the others do."""
        if self.periods < 2:
            return Overlap(Truth.TRUE, 0)
        if self.latest is None or self.end is None or self.shared_end is None:
            return Overlap(Truth.UNKNOWN, 0)
        gap = self.latest - self.end
        apart = gap > tolerance_ns if tolerance_ns else self.latest >= self.shared_end
        if apart:
            return Overlap(Truth.FALSE, gap)
        return Overlap(Truth.TRUE if self.timed == self.periods else Truth.UNKNOWN, gap)


def extent(periods: Sequence[Period]) -> Extent:
    starts = [start for start, _ in periods if start is not None]
    ends = [end for _, end in periods if end is not None]
    return Extent(
        max(starts, default=None),
        min(ends, default=None),
        min((end + 1 if start == end else end for start, end in periods if end is not None), default=None),
        len(periods),
        sum(start is not None and end is not None for start, end in periods),
    )


class Moving:
    """The extent of a window of periods that grows at one end and shrinks at the other."""

    __slots__ = ("_added", "_dropped", "_ends", "_known", "_shared", "_starts", "_timed")

    def __init__(self) -> None:
        self._starts: deque[tuple[int, float]] = deque()
        self._ends: deque[tuple[int, float]] = deque()
        self._shared: deque[tuple[int, float]] = deque()
        self._timed: deque[bool] = deque()
        self._added = self._dropped = self._known = 0

    def add(self, period: Period) -> None:
        timed = period.start is not None and period.end is not None
        self._timed.append(timed)
        self._known += timed
        for line, value, sign in (
            (self._starts, period.start, 1),
            (self._ends, period.end, -1),
            (self._shared, period.shared_end, -1),
        ):
            if value is not None:
                while line and sign * line[-1][1] <= sign * value:
                    line.pop()
                line.append((self._added, value))
        self._added += 1

    def drop(self) -> None:
        """Lets the oldest go."""
        self._known -= self._timed.popleft()
        self._dropped += 1
        for line in (self._starts, self._ends, self._shared):
            if line and line[0][0] < self._dropped:
                line.popleft()

    @property
    def extent(self) -> Extent:
        def first(line: deque[tuple[int, float]]) -> float | None:
            return line[0][1] if line else None

        latest = first(self._starts)
        return Extent(
            None if latest is None else int(latest),
            first(self._ends),
            first(self._shared),
            len(self._timed),
            self._known,
        )
