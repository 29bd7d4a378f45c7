"""`parallel!` that is not anchored: assignments of entries to steps that were under way together (flow.md section 6).

The clock moves over the starts; at each one the steps and branches under way are known, and one matching is kept up as
they come and go. The first start at which every entry has a step is the earliest latest start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby
from typing import Literal, TypeAlias

from onpath.flow import bits
from onpath.flow.assignment import Matching
from onpath.flow.board import Board
from onpath.flow.pattern import Block, Chain, Named
from onpath.flow.timing import NEVER, UNTIMED, Period, spanned
from onpath.flow.windows import kinds_of
from onpath.values.outcome import Truth

Depth: TypeAlias = Literal["names", "maybe", "surely"]  # what must hold: names, values if unknowns hold, values


@dataclass(frozen=True, slots=True)
class Unit:
    """What one entry can take: a step, or for a branch a run of steps."""

    steps: tuple[int, ...]
    period: Period
    chain: int | None  # None for a step
    takers: int = 0  # the single entries that can take a step


class Underway:
    """The entries' matching while units come and go."""

    def __init__(self, block: Block, adjacency: Sequence[int], kinds: Sequence[int]) -> None:
        self._singles = [at for at, _ in block.singles]
        self._chains = [at for at, _ in block.chains]
        self._matching = Matching(adjacency, kinds)
        self._runs: list[list[Unit]] = [[] for _ in self._chains]
        self._entries = len(block.entries)

    def add(self, unit: Unit) -> None:
        if unit.chain is None:
            self._matching.add(unit.steps[0], unit.takers)
        else:
            self._runs[unit.chain].append(unit)

    def drop(self, unit: Unit) -> None:
        if unit.chain is None:
            self._matching.drop(unit.steps[0])
        else:
            self._runs[unit.chain].remove(unit)

    @property
    def size(self) -> int:
        return self._matching.size + sum(bool(runs) for runs in self._runs)

    @property
    def is_full(self) -> bool:
        return self.size == self._entries

    def assigned(self, *, smallest: bool = False) -> dict[int, list[int]]:
        """Entry to steps, of the entries that have some; the smallest list if all have."""
        taken = self._matching.smallest() if smallest else self._matching.taken
        found = {at: [step] for at, step in zip(self._singles, taken, strict=True) if step >= 0}
        for at, runs in zip(self._chains, self._runs, strict=True):
            if runs:
                found[at] = list(min(unit.steps for unit in runs))
        return dict(sorted(found.items()))


class Sweep:
    """The units of one block over the steps of a board, in one order of the steps, as deep as asked for."""

    def __init__(self, block: Block, board: Board, order: Sequence[int], depth: Depth) -> None:
        self._block = block
        self._board = board
        self._depth: Depth = depth
        self._singles, self._kinds = kinds_of([item for _, item in block.singles])
        self._adjacency: list[int] = []
        takers = self._takers()
        units = [Unit((index,), board.period(index), None, takers[index]) for index in order if index in takers]
        for at, (_, chain) in enumerate(block.chains):
            units += self._runs(at, chain, order)
        alone = len(block.entries) == 1
        self.untimed = [u for u in units if u.period.start is None or u.period.end is None] if not alone else []
        self._timed = units if alone else [u for u in units if u.period.start is not None and u.period.end is not None]
        self._alone = alone

    def _takers(self) -> dict[int, int]:
        """For each step that single entries can take, which; entries that ask for the same are looked at once."""
        takers: dict[int, int] = {}
        for item, entries in self._singles:
            steps = [index for index in self._board.named(item.name) if self._fits(item, index)]
            for index in steps:
                takers[index] = takers.get(index, 0) | entries
            self._adjacency.append(bits.of_places(steps, len(self._board.steps)))
        return takers

    def _fits(self, item: Named, index: int) -> bool:
        if self._depth == "names":
            return self._board.name_fit(item.name, index) is not Truth.FALSE
        return self._board.fit(item, index) >= (Truth.TRUE if self._depth == "surely" else Truth.UNKNOWN)

    def _runs(self, at: int, chain: Chain, order: Sequence[int]) -> Iterator[Unit]:
        """Consecutive steps among those that fit any name of the chain."""
        board, length = self._board, len(chain.items)
        own = [i for i in order if any(board.name_fit(item.name, i) is not Truth.FALSE for item in chain.items)]
        if not board.unnamed.isdisjoint(own):  # they may or may not stand between the others
            if self._depth != "surely":
                yield Unit(tuple(own[:length]), UNTIMED, at)
            return
        for begin in range(len(own) - length + 1):
            run = own[begin : begin + length]
            if all(self._fits(item, index) for item, index in zip(chain.items, run, strict=True)):
                yield Unit(tuple(run), spanned([board.period(index) for index in run]), at)

    def candidates(self) -> dict[int, list[int]]:
        """The steps that each entry could take, whenever they were."""
        found: dict[int, list[int]] = {}
        for (at, _), kind in zip(self._block.singles, self._kinds, strict=True):
            found[at] = list(bits.places(self._adjacency[kind]))
        for number, (at, _) in enumerate(self._block.chains):
            units = (*self._timed, *self.untimed)
            found[at] = sorted({step for unit in units if unit.chain == number for step in unit.steps})
        return found

    def _begin(self) -> Underway:
        """Units without times may have been under way whenever; they don't count where it must be known."""
        underway = Underway(self._block, self._adjacency, self._kinds)
        for unit in self.untimed if self._depth != "surely" else ():
            underway.add(unit)
        return underway

    def everything(self) -> Underway:
        """All units, whenever they were."""
        underway = self._begin()
        for unit in self._timed:
            underway.add(unit)
        return underway

    def moments(self, tolerance_ns: int) -> Iterator[Underway]:
        """The state at each start, from the earliest."""
        underway = self._begin()
        yield underway
        going: list[tuple[float, int, Unit]] = []
        count = 0
        for start, group in groupby(self._by_start(), key=lambda begin: begin[0]):
            for _, unit in group:
                count += 1
                heappush(going, (self._over_at(unit.period, tolerance_ns), count, unit))
                underway.add(unit)
            while going[0][0] <= start:
                underway.drop(heappop(going)[2])
            yield underway

    def _by_start(self) -> list[tuple[int, Unit]]:
        """One entry alone overlaps with nothing: there the order of the steps takes the place of the clock."""
        if self._alone:
            return list(enumerate(self._timed))
        begins = ((unit.period.start, unit) for unit in self._timed)
        return sorted(((start, unit) for start, unit in begins if start is not None), key=lambda begin: begin[0])

    def _over_at(self, period: Period, tolerance_ns: int) -> float:
        """The first latest start that is too late for a unit."""
        if self._alone or period.end is None or period.shared_end is None:
            return NEVER
        return period.end + tolerance_ns + 1 if tolerance_ns else period.shared_end

    def smallest_gap(self) -> tuple[float, dict[int, list[int]]]:
        """How far latest start and earliest end are apart at least, in nanoseconds, over all assignments; and one."""
        underway = self._begin()
        best: tuple[float, dict[int, list[int]]] = (NEVER, {})
        ending: list[tuple[float, int, Unit]] = []
        for count, (start, unit) in enumerate(self._by_start()):
            underway.add(unit)
            heappush(ending, (NEVER if unit.period.end is None else unit.period.end, count, unit))
            while underway.is_full and ending:
                gap = start - ending[0][0]
                if gap < best[0]:
                    best = (gap, underway.assigned())
                underway.drop(heappop(ending)[2])
        return best
