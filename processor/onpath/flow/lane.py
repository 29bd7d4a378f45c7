"""The steps of a board in one order, as bit sets by name.

A lane that is flipped runs from the last step to the first: a pattern laid over it backwards says from which places its
later items reach the end. `surely` asks for what is known to hold, else what is unknown counts as holding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onpath.flow import bits
from onpath.flow.blocks import BlockPlan
from onpath.flow.board import Board
from onpath.flow.names import StepName
from onpath.flow.pattern import AnyOf
from onpath.values.outcome import Truth
from onpath.values.tree import Tree


class Lane:
    """Place p of a lane has the step `order[p]` behind it."""

    def __init__(self, board: Board, order: Sequence[int] | None = None, *, flipped: bool = False) -> None:
        """Without an order, the one of the board."""
        own = order is None
        order = board.order if order is None else order
        self.board = board
        self.flipped = flipped
        self.order: Sequence[int] = order[::-1] if flipped else order
        self.size = len(order)
        self.everything = (1 << self.size) - 1
        self._groups = board.groups if own else board.grouped(board.numbers[index] for index in self.order)
        self._own = own
        self._by_signature: list[int | None] = [None] * len(self._groups)
        self._masks: dict[tuple[str, Truth], int] = {}

    def _mask(self, number: int) -> int:
        """The steps of one signature."""
        found = self._by_signature[number]
        if found is None:
            found = bits.of_places(self._groups[number], self.size)
            if self._own and self.flipped:
                found = bits.mirrored(found, self.size)
            self._by_signature[number] = found
        return found

    def at_least(self, name: StepName, truth: Truth) -> int:
        """The steps that a name fits, with at least this certainty."""
        key = (name.written, truth)
        found = self._masks.get(key)
        if found is None:
            found = self._masks[key] = self.seen_in_order(self._fitting(name, truth))
        return found

    def _fitting(self, name: StepName, truth: Truth) -> int:
        found = 0
        for number, fit in enumerate(self.board.name_fits(name)):
            if fit >= truth:
                found |= self._mask(number)
        return found

    def seen_in_order(self, mask: int) -> int:
        """A set of steps, as far as their order is known; here it is."""
        return mask

    def named(self, name: StepName, surely: bool) -> int:
        return self.at_least(name, Truth.TRUE if surely else Truth.UNKNOWN)

    def union(self, names: Iterable[StepName], truth: Truth) -> int:
        return self.seen_in_order(self._any_of(names, truth))

    def _any_of(self, names: Iterable[StepName], truth: Truth) -> int:
        found = 0
        for name in names:
            found |= self._fitting(name, truth)
        return found

    def allowed(self, item: AnyOf, surely: bool) -> int:
        """The steps that an `any!` may take."""
        wanted, excluded = (Truth.TRUE, Truth.UNKNOWN) if surely else (Truth.UNKNOWN, Truth.TRUE)
        found = self._any_of(item.contains, wanted) if item.contains else self.everything
        return self.seen_in_order(found & ~self._any_of(item.not_contains, excluded))

    def takes(self, tree: Tree, place: int, least: Truth) -> bool:
        """Whether the values of the step at a place hold, with at least this certainty."""
        return self.board.values(tree, self.order[place]) >= least

    def is_block(self, plan: BlockPlan, place: int, least: Truth) -> bool:
        """Whether the steps from a place on are a block."""
        return plan.outcome(self.window(place, plan.size)) >= least

    def window(self, place: int, length: int) -> tuple[int, ...]:
        """The steps from a place on, as they ran."""
        found = tuple(self.order[place : place + length])
        return found[::-1] if self.flipped else found
