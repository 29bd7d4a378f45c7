"""A `parallel!` block of which steps may not have been seen: a window that grows and moves (flow.md section 11)."""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

from onpath.flow.assignment import Matching
from onpath.flow.blocks import BlockPlan
from onpath.flow.pattern import Chain, Named
from onpath.flow.timing import overlap, spanned
from onpath.values.outcome import Truth

InOrder: TypeAlias = Literal["prefix", "some"]  # of a branch: its first steps, or any of them in chain order


class HalfBlock:
    """Steps that can be given to different entries, the whole ones among which are not apart.

    `push` takes one more step in if the block stays possible, `shift` lets the first one go. `by_name` leaves values
    and times out.
    """

    def __init__(self, plan: BlockPlan, *, by_name: bool, in_order: InOrder) -> None:
        self._plan = plan
        self._by_name = by_name
        self._in_order: InOrder = in_order
        self._steps: deque[int] = deque()
        self._adjacency = [0] * len(plan.singles)
        self._matching = Matching(self._adjacency)
        self._loose: list[int] = []  # steps that single entries must take
        self._unnamed = 0
        self._branches: list[list[int]] = [[] for _ in plan.chains]

    def push(self, step: int) -> bool:
        if len(self._steps) == self._plan.size:
            return False
        branch = self._branch_of(step)
        self._take(step, branch)
        if self._is_possible(branch):
            return True
        self._steps.pop()
        self._give_back(step, branch, -1)
        return False

    def shift(self) -> None:
        step = self._steps.popleft()
        self._give_back(step, self._branch_of(step), 0)

    def __len__(self) -> int:
        return len(self._steps)

    def _branch_of(self, step: int) -> int | None:
        name_fit = self._plan.board.name_fit
        for at, (_, chain) in enumerate(self._plan.chains):
            if any(name_fit(item.name, step) is Truth.TRUE for item in chain.items):
                return at
        return None

    def _take(self, step: int, branch: int | None) -> None:
        self._steps.append(step)
        if self._plan.board.is_unnamed(step):
            self._unnamed += 1
        elif branch is not None:
            self._branches[branch].append(step)
        else:
            for at, (_, item) in enumerate(self._plan.singles):
                if self._fits(item, step):
                    self._adjacency[at] |= 1 << step
            self._loose.append(step)
            self._matching.add(step)

    def _give_back(self, step: int, branch: int | None, at: int) -> None:
        if self._plan.board.is_unnamed(step):
            self._unnamed -= 1
        elif branch is not None:
            del self._branches[branch][at]
        else:
            del self._loose[at]
            self._matching.drop(step)

    def _fits(self, item: Named, step: int) -> bool:
        board = self._plan.board
        return (board.name_fit(item.name, step) if self._by_name else board.fit(item, step)) is not Truth.FALSE

    def _is_possible(self, branch: int | None) -> bool:
        if self._unnamed:
            return True  # a step without a name may be whatever is missing
        if self._matching.size < len(self._loose):
            return False
        if branch is not None and not self._in_chain(self._branches[branch], self._plan.chains[branch][1]):
            return False
        return self._by_name or self._overlap() is not Truth.FALSE

    def _in_chain(self, steps: list[int], chain: Chain) -> bool:
        if self._in_order == "prefix":
            return len(steps) <= len(chain.items) and all(
                self._fits(item, step) for item, step in zip(chain.items, steps, strict=False)
            )
        items = iter(chain.items)
        return all(any(self._fits(item, step) for item in items) for step in steps)

    def _overlap(self) -> Truth:
        periods = self._plan.board.periods
        whole = [periods[step] for step in self._loose]
        for steps, (_, chain) in zip(self._branches, self._plan.chains, strict=True):
            if len(steps) == len(chain.items):
                whole.append(spanned([periods[step] for step in steps]))
        return overlap(whole, self._plan.block.tolerance_ns).truth
