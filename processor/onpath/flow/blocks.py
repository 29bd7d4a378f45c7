"""Inside a `parallel!` block of a `seq!`: which steps are whose, whether their values hold, whether they overlap.

A step that fits a branch of two or more items fits no other entry, so the branches' steps are known by name and only
the single entries need an assignment; when things were under way does not hang on it either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from onpath.flow.assignment import Matching
from onpath.flow.board import Board
from onpath.flow.names import StepName
from onpath.flow.pattern import Block, Chain, Named
from onpath.flow.timing import Overlap, extent, spanned
from onpath.flow.windows import Assigning, Fits
from onpath.values.outcome import Truth, Unseen

Window: TypeAlias = tuple[int, ...]  # indexes of consecutive steps, as they ran


_KEPT: Final = 16  # the largest blocks whose outcomes are kept by window, since orders that are tried differ little


class _Split(NamedTuple):
    """A window's steps by entry: those of each branch in order, and the rest for the single entries."""

    branches: list[list[int]]
    rest: Sequence[int]


class Blocks:
    """The plans of a pattern's blocks over one board."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._plans: dict[int, BlockPlan] = {}

    def plan(self, block: Block) -> BlockPlan:
        found = self._plans.get(id(block))
        if found is None:
            found = self._plans[id(block)] = BlockPlan(block, self.board)
        return found


class BlockPlan:
    """One block over one board."""

    def __init__(self, block: Block, board: Board) -> None:
        self.block = block
        self.board = board
        self.size = block.size
        self.singles: list[tuple[int, Named]] = list(block.singles)
        self.chains: list[tuple[int, Chain]] = list(block.chains)
        self.names: list[StepName] = [item.name for _, item in self.singles]
        self.names += (item.name for _, chain in self.chains for item in chain.items)
        self._outcomes: dict[Window, Truth] = {}
        self._by_name = self._assigning(lambda item, step: board.name_fit(item.name, step) is Truth.TRUE)
        self._maybe = self._assigning(lambda item, step: board.fit(item, step) is not Truth.FALSE)
        self._surely = self._assigning(lambda item, step: board.fit(item, step) is Truth.TRUE)

    def _assigning(self, fits: Fits) -> Assigning:
        return Assigning([item for _, item in self.singles], fits)

    def outcome(self, window: Window) -> Truth:
        """Whether the steps can be the block: names, values and overlap at once."""
        if self.size > _KEPT:
            return self._judge(window)
        found = self._outcomes.get(window)
        if found is None:
            found = self._outcomes[window] = self._judge(window)
        return found

    def _judge(self, window: Window) -> Truth:
        if self._is_blurred(window):
            return Truth.UNKNOWN if self._fits_blurred(window) else Truth.FALSE
        split = self._split(window)
        if split is None:
            return Truth.FALSE
        together = self._overlap(split).truth
        if together is Truth.FALSE:
            return together
        found = min(together, self._values(split))
        if found is Truth.UNKNOWN and together is found:
            self.board.doubts.unseen(Unseen.NO_TIMES)
        return found

    def fits_by_name(self, window: Window) -> bool:
        if self._is_blurred(window):
            return self._fits_blurred(window)
        split = self._split(window)
        return split is not None and self._by_name.move_to(split.rest)

    def values(self, window: Window) -> Truth:
        """Whether an assignment exists in which all values hold."""
        if self._is_blurred(window):
            return Truth.UNKNOWN if self._fits_blurred(window) else Truth.FALSE
        split = self._split(window)
        return Truth.FALSE if split is None else self._values(split)

    def _values(self, split: _Split) -> Truth:
        found = Truth.TRUE
        for steps, (_, chain) in zip(split.branches, self.chains, strict=True):
            for item, step in zip(chain.items, steps, strict=True):
                found = min(found, self.board.fit(item, step))
        if found is Truth.FALSE or not self._maybe.move_to(split.rest):
            return Truth.FALSE
        if found is Truth.TRUE and self.board.doubts.reasons and not self._surely.move_to(split.rest):
            return Truth.UNKNOWN
        return found

    def overlap(self, window: Window) -> Overlap:
        """Of the entries of a window that is the whole block."""
        split = None if self._is_blurred(window) else self._split(window)
        return Overlap(Truth.UNKNOWN, 0) if split is None else self._overlap(split)

    def _overlap(self, split: _Split) -> Overlap:
        period = self.board.period
        periods = [period(step) for step in split.rest]
        periods += (spanned([period(step) for step in steps]) for steps in split.branches)
        return extent(periods).overlap(self.block.tolerance_ns)

    def assigned(self, window: Window, *, surely: bool) -> list[int]:
        """The steps in the order of the entries, a branch's in chain order: the smallest list there is."""
        split = None if self._is_blurred(window) else self._split(window)
        if split is None:
            return list(window)
        least = Truth.TRUE if surely else Truth.UNKNOWN
        by_entry = dict(zip((at for at, _ in self.chains), split.branches, strict=True))
        chosen = self._smallest(split.rest, least)
        by_entry |= {at: [step] for (at, _), step in zip(self.singles, chosen, strict=True)}
        return [step for entry in sorted(by_entry) for step in by_entry[entry]]

    def _smallest(self, steps: Sequence[int], least: Truth) -> list[int]:
        fits = [[self.board.fit(item, step) >= least for step in steps] for _, item in self.singles]
        matching = Matching([sum(1 << at for at, fit in enumerate(row) if fit) for row in fits], range(len(fits)))
        for at in range(len(steps)):
            matching.add(at, sum(1 << entry for entry, row in enumerate(fits) if row[at]))
        return [steps[at] for at in matching.smallest()]

    def _split(self, window: Window) -> _Split | None:
        """None if a branch's steps are not the branch, in order and by name."""
        if not self.chains:
            return _Split([], window)
        fit = self.board.name_fit
        branches: list[list[int]] = [[] for _ in self.chains]
        rest: list[int] = []
        for step in window:
            own = self.branch_of(step)
            (rest if own is None else branches[own]).append(step)
        for steps, (_, chain) in zip(branches, self.chains, strict=True):
            if len(steps) != len(chain.items):
                return None
            if not all(fit(item.name, step) is Truth.TRUE for item, step in zip(chain.items, steps, strict=True)):
                return None
        return _Split(branches, rest)

    def branch_of(self, step: int) -> int | None:
        """The branch that a step belongs to by name, as its number among the branches."""
        fit = self.board.name_fit
        for at, (_, chain) in enumerate(self.chains):
            if any(fit(item.name, step) is Truth.TRUE for item in chain.items):
                return at
        return None

    def _is_blurred(self, window: Window) -> bool:
        """A step without a name may belong to any entry, so branches can't be told apart."""
        return bool(self.board.unnamed) and not self.board.unnamed.isdisjoint(window)

    def _fits_blurred(self, window: Window) -> bool:
        """Every item of every branch as an entry of its own: whatever could possibly fit."""
        items = [item for _, item in self.singles]
        items += (item for _, chain in self.chains for item in chain.items)
        return Assigning(items, lambda item, step: self.board.fit(item, step) is not Truth.FALSE).move_to(window)
