"""A `parallel!` block of which steps may not have been seen: a window that grows and moves (flow.md section 11)."""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

from onpath.flow.blocks import BlockPlan
from onpath.flow.pattern import Chain, Named
from onpath.flow.timing import Extent, Moving, spanned
from onpath.flow.windows import Assigning
from onpath.values.outcome import Truth

InOrder: TypeAlias = Literal["prefix", "some"]  # of a branch: its first steps, or any of them in chain order


class HalfBlock:
    """Steps that can be given to different entries, the whole ones among which are not apart.

    `push` takes one more step in if the block stays possible, `shift` lets the first one go. `by_name` leaves values
    and times out. Where a step of the scope has no name, it may be whatever is missing, and anything is possible.
    """

    def __init__(self, plan: BlockPlan, *, by_name: bool, in_order: InOrder) -> None:
        self._plan = plan
        self._by_name = by_name
        self._in_order: InOrder = in_order
        self._steps: deque[int] = deque()
        self._singles = Assigning([item for _, item in plan.singles], self._fits)
        self._times = Moving()
        self._branches: list[list[int]] = [[] for _ in plan.chains]

    def __len__(self) -> int:
        return len(self._steps)

    def push(self, step: int) -> bool:
        if len(self._steps) == self._plan.size:
            return False
        taken = bool(self._plan.board.unnamed)
        if not taken:
            branch = self._plan.branch_of(step)
            taken = self._push_single(step) if branch is None else self._push_branch(step, branch)
        if taken:
            self._steps.append(step)
        return taken

    def shift(self) -> None:
        step = self._steps.popleft()
        if self._plan.board.unnamed:
            return
        branch = self._plan.branch_of(step)
        if branch is not None:
            del self._branches[branch][0]
        else:
            self._singles.drop(step)
            self._times.drop()

    def _push_single(self, step: int) -> bool:
        if len(self._singles) == len(self._plan.singles):
            return False
        self._singles.add(step)
        period = self._plan.board.period(step)
        if not self._singles.all_taken or not self._is_together(self._times.extent.with_period(period)):
            self._singles.drop(step)
            return False
        self._times.add(period)
        return True

    def _push_branch(self, step: int, branch: int) -> bool:
        steps = self._branches[branch]
        steps.append(step)
        if self._is_in_chain(steps, self._plan.chains[branch][1]) and self._is_together(self._times.extent):
            return True
        steps.pop()
        return False

    def _fits(self, item: Named, step: int) -> bool:
        board = self._plan.board
        return (board.name_fit(item.name, step) if self._by_name else board.fit(item, step)) is not Truth.FALSE

    def _is_in_chain(self, steps: list[int], chain: Chain) -> bool:
        if len(steps) > len(chain.items):
            return False
        if self._in_order == "prefix":
            return all(self._fits(item, step) for item, step in zip(chain.items, steps, strict=False))
        items = iter(chain.items)
        return all(any(self._fits(item, step) for item in items) for step in steps)

    def _is_together(self, singles: Extent) -> bool:
        """Whether the entries that are whole are not apart."""
        if self._by_name:
            return True
        whole = singles
        for steps, (_, chain) in zip(self._branches, self._plan.chains, strict=True):
            if len(steps) == len(chain.items):
                whole = whole.with_period(spanned([self._plan.board.period(step) for step in steps]))
        return whole.overlap(self._plan.block.tolerance_ns).truth is not Truth.FALSE
