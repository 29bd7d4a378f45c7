"""The matching that is kept up, against the largest one found by trying all."""

from __future__ import annotations

from itertools import permutations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onpath.flow.assignment import Matching


class MatchingMachine(RuleBasedStateMachine):
    @initialize(rows=st.lists(st.integers(0, 31), min_size=1, max_size=4))
    def begin(self, rows: list[int]) -> None:
        self.rows = rows
        self.here: list[int] = []
        self.matching = Matching(rows, range(len(rows)))

    @rule(step=st.integers(0, 4))
    def add(self, step: int) -> None:
        if step not in self.here:
            self.here.append(step)
            self.matching.add(step, sum(1 << entry for entry, row in enumerate(self.rows) if row >> step & 1))

    @precondition(lambda self: self.here)
    @rule(at=st.integers(0, 4))
    def drop(self, at: int) -> None:
        self.matching.drop(self.here.pop(at % len(self.here)))

    @invariant()
    def is_largest(self) -> None:
        if not hasattr(self, "matching"):
            return
        taken = [step for step in self.matching.taken if step >= 0]
        assert len(set(taken)) == len(taken) == self.matching.size == self.largest(0, frozenset())
        assert all(self.rows[e] >> step & 1 for e, step in enumerate(self.matching.taken) if step >= 0)
        assert self.matching.spare == sum(1 << step for step in self.here if step not in taken)
        assert self.matching.is_full is (len(taken) == len(self.rows))

    @precondition(lambda self: self.matching.is_full)
    @rule()
    def smallest(self) -> None:
        fitting = [
            list(chosen)
            for chosen in permutations(self.here, len(self.rows))
            if all(row >> step & 1 for row, step in zip(self.rows, chosen, strict=True))
        ]
        assert self.matching.smallest() == min(fitting)

    def largest(self, entry: int, used: frozenset[int]) -> int:
        if entry == len(self.rows):
            return 0
        best = self.largest(entry + 1, used)
        for step in self.here:
            if self.rows[entry] >> step & 1 and step not in used:
                best = max(best, 1 + self.largest(entry + 1, used | {step}))
        return best


TestMatching = MatchingMachine.TestCase
TestMatching.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
