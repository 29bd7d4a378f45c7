"""Whether another order of steps with equal starts would give another verdict (flow.md section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, permutations, product
from math import prod
from typing import Any, Final, TypeAlias

from onpath.flow.blocks import BlockPlan
from onpath.flow.board import Board
from onpath.flow.lane import Lane
from onpath.flow.pattern import Block, Chain, Item, Named
from onpath.report import Verdict
from onpath.values.outcome import Truth
from onpath.values.tree import Tree

TRIED_IN_FULL: Final = 6  # the size of a group up to which its orders are tried
_WORK: Final = 600_000  # steps times items that all tries together may come to ...
_AT_LEAST: Final = 720  # ... but the orders of one group of six are always tried

Spans: TypeAlias = Sequence[tuple[int, int]]
Judge: TypeAlias = Callable[[Lane], Verdict]
_Units: TypeAlias = list[list[int]]
_Group: TypeAlias = tuple[int, _Units]  # the place of the first step, and the steps that go together


def has_ties(board: Board) -> bool:
    """Whether any two steps have equal starts."""
    starts = [step.start_ns for step in board.steps if step.start_ns is not None]
    return len(set(starts)) < len(starts)


class TiedLane(Lane):
    """The steps where those with equal starts have no order: a bound on what any order of them gives.

    `generous`: a place has whatever one of its group has, so that what does not match here matches in no order. Else it
    has what all of the group have, so that what matches here matches in every order.
    """

    def __init__(self, board: Board, groups: Sequence[_Group], *, generous: bool) -> None:
        super().__init__(board)
        self._generous = generous
        self._group_of: dict[int, tuple[int, int]] = {}
        self._tied: list[int] = []
        for place, units in groups:
            size = sum(map(len, units))
            self._group_of |= dict.fromkeys(range(place, place + size), (place, size))
            self._tied.append(((1 << size) - 1) << place)

    def seen_in_order(self, mask: int) -> int:
        for group in self._tied:
            if self._generous and mask & group:
                mask |= group
            elif not self._generous and mask & group != group:
                mask &= ~group
        return mask

    def takes(self, tree: Tree, place: int, least: Truth) -> bool:
        first, size = self._group_of.get(place, (place, 1))
        found = (Lane.takes(self, tree, at, least) for at in range(first, first + size))
        return any(found) if self._generous else all(found)

    def is_block(self, plan: BlockPlan, place: int, least: Truth) -> bool:
        """A group that lies across an end of the block, or in which order matters, may be anything."""
        end = place + plan.size
        for at in (place, end - 1):
            first, size = self._group_of.get(at, (at, 1))
            if first < place or first + size > end:
                return self._generous
        if plan.chains and not self._group_of.keys().isdisjoint(range(place, end)):
            return self._generous
        return super().is_block(plan, place, least)


class Ties:
    """Groups of neighbouring steps with equal starts, by place. A step without times stays behind the one before it."""

    def __init__(self, board: Board, items: Sequence[Item]) -> None:
        self._board = board
        self._items = items
        self._trees = [item for item in _named(items) if item.tree is not None]
        self.groups: list[_Group] = []
        place = 0
        for start, group in groupby(self._units(), key=lambda unit: board.steps[unit[0]].start_ns):
            units = list(group)
            if start is not None and len(units) > 1:
                self.groups.append((place, units))
            place += sum(map(len, units))

    def _units(self) -> Iterator[list[int]]:
        unit: list[int] = []
        for index, step in enumerate(self._board.steps):
            if step.start_ns is not None and unit:
                yield unit
                unit = []
            unit.append(index)
        if unit:
            yield unit

    def undetermined(self, verdict: Verdict, judge: Judge, taken: Spans = (), *, bounded: bool = False) -> bool:
        """`taken`: the places that each item took in the order of the board, where some did.

        `bounded`: the judge looks at nothing of a lane but what `TiedLane` bounds.
        """
        small = [group for group in self.groups if len(group[1]) <= TRIED_IN_FULL]
        if any(self._taker(group, taken) is None for group in self.groups if group not in small):
            return True
        if verdict is Verdict.PASS and all(self._is_settled(group, taken) for group in small):
            return False
        bounds = (TiedLane(self._board, self.groups, generous=generous) for generous in (False, True))
        if bounded and all(judge(bound) is verdict for bound in bounds):
            return False
        return self._another(small, verdict, judge)

    def _another(self, groups: Sequence[_Group], verdict: Verdict, judge: Judge) -> bool:
        """Whether some order of the groups gives another verdict; so it is taken where there are too many to try."""
        orders = [self._orders(units) for _, units in groups]
        tries = max(_AT_LEAST, _WORK // (max(1, len(self._board.steps)) * len(self._items)))
        if prod(map(len, orders)) > tries:
            return True
        for chosen in product(*orders):
            order = list(self._board.order)
            for (place, _), units in zip(groups, chosen, strict=True):
                steps = [step for unit in units for step in unit]
                order[place : place + len(steps)] = steps
            if judge(Lane(self._board, order)) is not verdict:
                return True
        return False

    def _orders(self, units: _Units) -> list[tuple[list[int], ...]]:
        """The orders of a group that differ in what the pattern can see; the one of the board is the first."""
        found: dict[tuple[Any, ...], tuple[list[int], ...]] = {}
        looks = {unit[0]: tuple(map(self._look, unit)) for unit in units}
        for order in permutations(units):
            found.setdefault(tuple(looks[unit[0]] for unit in order), order)
        return list(found.values())

    def _look(self, index: int) -> tuple[Any, ...]:
        board = self._board
        fits = tuple(board.fit(item, index) for item in self._trees)
        return (board.numbers[index], board.period(index), fits)

    def _taker(self, group: _Group, taken: Spans) -> Item | None:
        """The item that took the whole group."""
        place, units = group
        end = place + sum(map(len, units))
        for item, (first, last) in zip(self._items, taken, strict=False):
            if first <= place and end <= last:
                return item
        return None

    def _is_settled(self, group: _Group, taken: Spans) -> bool:
        """Whether the order of a group can't undo the match: one item took it, and its steps are not of one branch."""
        taker = self._taker(group, taken)
        return taker is not None and not (isinstance(taker, Block) and self._is_in_branch(group, taker))

    def _is_in_branch(self, group: _Group, block: Block) -> bool:
        """Whether two steps of a group could belong to one branch."""
        fit = self._board.name_fit
        steps = [step for unit in group[1] for step in unit]
        return any(
            sum(any(fit(item.name, step) is not Truth.FALSE for item in chain.items) for step in steps) > 1
            for _, chain in block.chains
        )

    def keep_within_branches(self, block: Block) -> None:
        """Leaves out the groups whose order a block that is not anchored does not see."""
        self.groups = [group for group in self.groups if self._is_in_branch(group, block)]


def _named(items: Sequence[Item]) -> Iterator[Named]:
    for item in items:
        if isinstance(item, Named):
            yield item
        elif isinstance(item, Block):
            for entry in item.entries:
                yield from entry.items if isinstance(entry, Chain) else (entry,)
