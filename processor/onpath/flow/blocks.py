"""Inside a `parallel!` block of a `seq!`: which steps are whose, whether their values hold, whether they overlap.

A step that fits a branch of two or more items fits no other entry, so the branches' steps are known by name and only
the single entries need an assignment; when things were under way does not hang on it either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from onpath.flow.assignment import Matching
from onpath.flow.board import Board
from onpath.flow.names import StepName
from onpath.flow.pattern import Block, Chain, Named
from onpath.flow.timing import Overlap, overlap, spanned
from onpath.values.outcome import Truth, Unseen

Window: TypeAlias = tuple[int, ...]  # indexes of consecutive steps, as they ran


@dataclass(frozen=True, slots=True)
class _Split:
    """A window's steps by entry: those of each branch in order, and the rest for the single entries."""

    branches: list[list[int]]
    rest: list[int]


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
    """One block; outcomes are kept by window, since orders that are tried differ little."""

    def __init__(self, block: Block, board: Board) -> None:
        self.block = block
        self.board = board
        self.size = block.size
        self.singles: list[tuple[int, Named]] = list(block.singles)
        self.chains: list[tuple[int, Chain]] = list(block.chains)
        self.names: list[StepName] = [item.name for _, item in self.singles]
        self.names += (item.name for _, chain in self.chains for item in chain.items)
        self._outcomes: dict[Window, Truth] = {}

    def outcome(self, window: Window) -> Truth:
        """Whether the steps can be the block: names, values and overlap at once."""
        found = self._outcomes.get(window)
        if found is None:
            found = self._outcomes[window] = self._judge(window)
        return found

    def _judge(self, window: Window) -> Truth:
        if not self.fits_by_name(window):
            return Truth.FALSE
        if self._is_blurred(window):
            return Truth.UNKNOWN
        together = self.overlap(window).truth
        if together is Truth.UNKNOWN:
            self.board.doubts.unseen(Unseen.NO_TIMES)
        return min(together, self.values(window)) if together is not Truth.FALSE else together

    def fits_by_name(self, window: Window) -> bool:
        if self._is_blurred(window):
            return self._blurred(window).is_full
        split = self._split(window)
        if split is None:
            return False
        return all(
            len(steps) == len(chain.items)
            and all(
                self.board.name_fit(item.name, step) is Truth.TRUE
                for item, step in zip(chain.items, steps, strict=True)
            )
            for steps, (_, chain) in zip(split.branches, self.chains, strict=True)
        ) and self._assign_by_name(split.rest)

    def values(self, window: Window) -> Truth:
        """Whether an assignment exists in which all values hold; the window fits by name."""
        split = self._split(window)
        if split is None or self._is_blurred(window):
            return Truth.UNKNOWN
        found = Truth.TRUE
        for steps, (_, chain) in zip(split.branches, self.chains, strict=True):
            for item, step in zip(chain.items, steps, strict=True):
                found = min(found, self.board.fit(item, step))
        for truth in (Truth.TRUE, Truth.UNKNOWN):
            if found >= truth and self._assign(split.rest, truth).is_full:
                return truth
        return Truth.FALSE

    def overlap(self, window: Window) -> Overlap:
        """Of entries that are whole in the window; all are, if it is the whole block."""
        periods = self.board.periods
        split = self._split(window)
        if split is None or self._is_blurred(window):
            return Overlap(Truth.UNKNOWN, 0)
        whole = [periods[step] for step in split.rest]
        for steps, (_, chain) in zip(split.branches, self.chains, strict=True):
            if len(steps) == len(chain.items):
                whole.append(spanned([periods[step] for step in steps]))
        return overlap(whole, self.block.tolerance_ns)

    def assigned(self, window: Window, *, surely: bool) -> list[int]:
        """The steps in the order of the entries, a branch's in chain order: the smallest list there is."""
        split = self._split(window)
        if split is None:
            return list(window)
        truth = Truth.TRUE if surely else Truth.UNKNOWN
        by_entry: dict[int, list[int]] = {}
        chosen = self._assign(split.rest, truth).smallest()
        for (entry, _), place in zip(self.singles, chosen, strict=True):
            by_entry[entry] = [split.rest[place]]
        for (entry, _), steps in zip(self.chains, split.branches, strict=True):
            by_entry[entry] = steps
        return [step for entry in sorted(by_entry) for step in by_entry[entry]]

    def _split(self, window: Window) -> _Split | None:
        """None if more steps are left for the single entries than there are."""
        if not self.chains:
            return _Split([], list(window))
        branches: list[list[int]] = [[] for _ in self.chains]
        rest: list[int] = []
        for step in window:
            for steps, (_, chain) in zip(branches, self.chains, strict=True):
                if any(self.board.name_fit(item.name, step) is Truth.TRUE for item in chain.items):
                    steps.append(step)
                    break
            else:
                rest.append(step)
        return _Split(branches, rest) if len(rest) <= len(self.singles) else None

    def _assign(self, steps: Sequence[int], truth: Truth) -> Matching:
        fit = self.board.fit
        return self._matching(
            [[fit(item, step) >= truth for step in steps] for _, item in self.singles],
            len(steps),
        )

    def _assign_by_name(self, steps: Sequence[int]) -> bool:
        fit = self.board.name_fit
        return self._matching(
            [[fit(item.name, step) is Truth.TRUE for step in steps] for _, item in self.singles],
            len(steps),
        ).is_full

    @staticmethod
    def _matching(fits: list[list[bool]], steps: int) -> Matching:
        return Matching([sum(1 << at for at, fit in enumerate(row) if fit) for row in fits], (1 << steps) - 1)

    def _is_blurred(self, window: Window) -> bool:
        """A step without a name may belong to any entry, so branches can't be told apart."""
        return any(self.board.is_unnamed(step) for step in window)

    def _blurred(self, window: Window) -> Matching:
        """Every item of every branch as an entry of its own: fits whatever could possibly fit."""
        fit = self.board.fit
        items = [item for _, item in self.singles]
        items += (item for _, chain in self.chains for item in chain.items)
        return self._matching([[fit(item, step) is not Truth.FALSE for step in window] for item in items], len(window))
