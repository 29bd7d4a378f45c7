"""Whether the clock settles the order of the steps, as far as the score depends on it (adherence.md section 11).

Steps that overlap could have come in another order. They fall into groups that follow one another in time; a possible
order changes steps within their groups. For each group all possible orders are tried, on what all possible orders of
the groups before it can have led to: an LCS row, held as the bits of an integer, bit i for one more expected step
matched when step i is reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from onpath.validators.adherence.extraction import Entry
from onpath.validators.adherence.lcs import Lcs, longest_common

LARGEST: Final = 6  # steps of a group whose orders are all tried
_WORK: Final = 400_000  # rows computed before the order counts as undetermined
_OPEN: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Interval:
    """A step's name and time; an end before the start is read as an instant, an unfinished step ends after all."""

    name: str
    start: int
    end: float

    def before(self, other: Interval) -> bool:
        """Certainly: two points at one instant have no order."""
        return self.end <= other.start and not other.end <= self.start


def undetermined(expected: Sequence[str], entries: Sequence[Entry], strict: bool) -> bool:
    """Whether another possible order of the steps gives another score. Entries stand in order of their last attempts.

    A group of more than six counts as undetermined if it holds two different expected names.
    """
    if _one_after_another(entries):
        return False
    names = frozenset(expected)
    steps = [step for entry in entries if (step := _interval(entry)) is not None and (strict or step.name in names)]
    groups = list(_groups(steps))
    if any(len(g) > LARGEST and len({s.name for s in g} & names) > 1 for g in groups):
        return True
    small = [g for g in groups if len(g) <= LARGEST]
    if strict:
        return _strict(expected, groups) if len(small) == len(groups) else False
    if all(len({s.name for s in g}) == 1 for g in small):
        return False
    return _Orders(expected, groups).differ()


def _one_after_another(entries: Sequence[Entry]) -> bool:
    """Whether the order is beyond doubt, as it mostly is."""
    started = ended = -_OPEN
    for entry in entries:
        start, end = entry.steps[-1].start_ns, entry.steps[-1].end_ns
        if start is None or end is None or start <= started or start < ended:
            return False
        started, ended = start, end
    return True


def _interval(entry: Entry) -> Interval | None:
    step = entry.steps[-1]
    if entry.name is None or step.start_ns is None:
        return None
    return Interval(entry.name, step.start_ns, _OPEN if step.end_ns is None else max(step.end_ns, step.start_ns))


def _groups(steps: Sequence[Interval]) -> Iterator[list[Interval]]:
    """Steps linked by pairs without a certain order; in order of start, so each group is a stretch of the list."""
    group: list[Interval] = []
    end = -_OPEN
    for step in sorted(steps, key=lambda s: (s.start, s.end)):  # stable: the span ids decide further
        at_one_instant = bool(group) and step.end == step.start == group[-1].start == group[-1].end
        if group and step.start >= end and not at_one_instant:
            yield group
            group, end = [], -_OPEN
        group.append(step)
        end = max(end, step.end)
    if group:
        yield group


def _orders(group: Sequence[Interval]) -> Iterator[tuple[str, ...]]:
    """The possible orders, as names."""
    seen: set[tuple[str, ...]] = set()
    pending: list[tuple[tuple[str, ...], tuple[int, ...]]] = [((), tuple(range(len(group))))]
    while pending:
        taken, left = pending.pop()
        if not left:
            if taken not in seen:
                seen.add(taken)
                yield taken
            continue
        pending += (
            ((*taken, group[i].name), tuple(j for j in left if j != i))
            for i in left
            if not any(group[j].before(group[i]) for j in left if j != i)
        )


def _strict(expected: Sequence[str], groups: Sequence[Sequence[Interval]]) -> bool:
    """The score depends on whether the list is the expected one: whether one possible order is, and another is not."""
    if sum(map(len, groups)) != len(expected):
        return False
    at = 0
    same = other = True  # whether every group can be as expected; whether none can be otherwise
    for group in groups:
        wanted = tuple(expected[at : at + len(group)])
        orders = set(_orders(group))
        same = same and wanted in orders
        other = other and orders <= {wanted}
        at += len(group)
    return same and not other


class _Orders:
    """LCS rows over all possible orders, group by group."""

    def __init__(self, expected: Sequence[str], groups: Sequence[Sequence[Interval]]) -> None:
        self.expected = expected
        self.groups = groups
        self.full = (1 << len(expected)) - 1
        self.places: dict[str, int] = {}
        for i, name in enumerate(expected):
            self.places[name] = self.places.get(name, 0) | 1 << i
        self.work = 0

    def differ(self) -> bool:
        observed = [step.name for group in self.groups for step in group]
        lcs = longest_common(self.expected, observed)
        rows = {0}
        at = 0
        for group in self.groups:
            at += len(group)
            if len({s.name for s in group}) == 1 or len(group) > LARGEST:
                rows = {self._over(row, [s.name for s in group]) for row in rows}
                continue
            rows = self._after(group, rows)
            if self.work > _WORK:
                return True
            if len(rows) > 1 and self._totals(rows, lcs, at) != {len(lcs)}:
                return True
        return False

    def _over(self, row: int, names: Sequence[str]) -> int:
        for name in names:
            row = self._step(row, name)
        return row

    def _step(self, row: int, name: str) -> int:
        """The row after one more step: addition carries each match to the next place where one can be gained."""
        self.work += 1
        zeros = ~row & self.full
        hits = zeros & self.places[name]
        return ~((zeros + hits) | (zeros - hits)) & self.full

    def _after(self, group: Sequence[Interval], rows: set[int]) -> set[int]:
        """The rows after a group in every possible order, by which of its steps have been taken."""
        size = len(group)
        first = [sum(1 << j for j in range(size) if group[j].before(group[i])) for i in range(size)]
        by_taken: dict[int, set[int]] = {0: rows}
        for _ in range(size):
            after: dict[int, set[int]] = {}
            for taken, held in by_taken.items():
                for i in range(size):
                    if not taken >> i & 1 and first[i] & ~taken == 0:
                        name = group[i].name
                        after.setdefault(taken | 1 << i, set()).update(self._step(row, name) for row in held)
                if self.work > _WORK:
                    return rows
            by_taken = after
        return by_taken[(1 << size) - 1]

    def _totals(self, rows: set[int], lcs: Lcs, at: int) -> set[int]:
        """The LCS from each row on, when the rest of the steps follows in the order observed."""
        size = len(self.expected)
        self.work += len(rows) * size // 4
        rest = [lcs.rest(i, at) for i in range(size + 1)]
        totals = set()
        for row in rows:
            best, matched = rest[0], 0
            for i in range(size):
                matched += row >> i & 1
                best = max(best, matched + rest[i + 1])
            totals.add(best)
        return totals
