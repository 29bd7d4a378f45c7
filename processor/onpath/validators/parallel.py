"""`parallel!` at the top: steps of the scope, wherever they are, that were under way together.

Data flow: scope -> Board -> a sweep over the starts, by what is known and with unknowns taken as holding -> verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from onpath.flow.board import Board
from onpath.flow.lane import Lane
from onpath.flow.pattern import Block
from onpath.flow.shown import step_name
from onpath.flow.sweep import Depth, Sweep
from onpath.flow.ties import Ties, has_ties
from onpath.flow.timing import NEVER, NS_PER_MS, spanned
from onpath.flow.verdicts import evaluation
from onpath.report import AlignmentRow, Evaluation, Finding, Move, Verdict
from onpath.steps.model import Scope
from onpath.validators.base import Context
from onpath.values.outcome import Unseen

KEY = "parallel!"


@dataclass(frozen=True, slots=True)
class Parallel:
    """`data` of its evaluations: `matched` (entry to steps), `progress` and, of a fail, `together`; all count from 0.

    `together` are the steps that would have had to run at the same time, `apart_ns` how far apart they were.
    """

    block: Block

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        return (_Judging(self.block, scope, context).evaluation(),)


@dataclass(frozen=True, slots=True)
class _Why:
    """What stands in the way of a match, and what can be given to the entries all the same."""

    said: str
    rule: str
    assigned: Mapping[int, Sequence[int]]  # entry to steps, as far as names and values go
    steps: tuple[int, ...] = ()  # those that show it
    entry: str | None = None
    gap_ns: int | None = None  # of the assigned steps, where times stand in the way

    @property
    def told(self) -> str:
        return f"{KEY}: {self.said}"


class _Judging:
    """One block over one scope."""

    def __init__(self, block: Block, scope: Scope, context: Context) -> None:
        self.block = block
        self.context = context
        self.board = Board(scope, context)

    def _sweep(self, depth: Depth, order: Sequence[int] | None = None) -> Sweep:
        return Sweep(self.block, self.board, self.board.order if order is None else order, depth)

    def _found(self, sweep: Sweep) -> dict[int, list[int]] | None:
        """The assignment whose latest start is earliest."""
        for underway in sweep.moments(self.block.tolerance_ns):
            if underway.is_full:
                return underway.assigned(smallest=True)
        return None

    def _verdict(self, lane: Lane) -> Verdict:
        order = lane.order
        if self._found(self._sweep("surely", order)) is not None and not self._may_be_broken:
            return Verdict.PASS
        if not self.context.complete or self._found(self._sweep("maybe", order)) is not None:
            return Verdict.UNKNOWN
        return Verdict.FAIL

    @property
    def _may_be_broken(self) -> bool:
        """Whether a step that was not seen could stand inside a branch."""
        return not self.context.complete and self.context.missing_parent and bool(self.block.chains)

    def evaluation(self) -> Evaluation:
        maybe = self._sweep("maybe")
        supposed = self._found(maybe)
        if supposed is None and self.context.complete:
            return self._failed(maybe)
        verdict = Verdict.UNKNOWN
        matched = None
        if supposed is not None and not self._may_be_broken:
            matched = self._found(self._sweep("surely")) if self._has_doubts(maybe) else supposed
            verdict = Verdict.UNKNOWN if matched is None else Verdict.PASS
        if verdict is Verdict.UNKNOWN and maybe.untimed:
            self.board.doubts.unseen(Unseen.NO_TIMES)
        shown = matched or supposed or {}
        data = {"matched": matched, "progress": Fraction(1)} if matched is not None else {}
        return evaluation(
            KEY,
            verdict,
            self.board.doubts,
            self.context,
            told="parallel!: all entries were under way at the same time",
            alignment=tuple(self._alignment(shown)),
            order_undetermined=self._undetermined(verdict),
            data=data,
        )

    def _has_doubts(self, sweep: Sweep) -> bool:
        return bool(sweep.untimed or self.board.doubts.reasons)

    def _failed(self, maybe: Sweep) -> Evaluation:
        best = max(self._states(maybe), key=len)
        why = self._why(maybe)
        together = [step for taken in why.assigned.values() for step in taken]
        apart = {"apart_ns": why.gap_ns} if why.gap_ns is not None else {}
        return evaluation(
            KEY,
            Verdict.FAIL,
            self.board.doubts,
            self.context,
            told=why.told,
            findings=(self._finding(why),),
            alignment=tuple(self._broken(why)),
            order_undetermined=self._undetermined(Verdict.FAIL),
            data={"progress": Fraction(len(best), len(self.block.entries)), "together": together, **apart},
        )

    def _states(self, sweep: Sweep) -> Iterator[dict[int, list[int]]]:
        """The states that get further than all before them."""
        most = -1
        for underway in sweep.moments(self.block.tolerance_ns):
            if underway.size > most:
                most = underway.size
                yield underway.assigned()

    def _why(self, maybe: Sweep) -> _Why:
        """What stands in the way first: names, values, times (flow.md section 12)."""
        named = self._sweep("names")
        candidates = named.candidates()
        by_name = named.everything()
        for at, entry in enumerate(self.block.entries):
            if not candidates[at]:
                return _Why(f"no step for {entry.written}", "missing_step", by_name.assigned(), entry=entry.written)
        if not by_name.is_full:
            return _Why("not enough different steps", "missing_step", by_name.assigned())
        with_values = maybe.everything()
        if not with_values.is_full:
            fitting = maybe.candidates()
            lacking = [at for at in candidates if not fitting[at]] or list(candidates)
            steps = sorted({step for at in lacking for step in candidates[at]})
            return _Why("values do not fit", "value", with_values.assigned(), tuple(steps))
        gap, assigned = maybe.smallest_gap()
        needed = max(1, -(-int(gap) // NS_PER_MS))
        steps = sorted(step for taken in assigned.values() for step in taken)
        told = f"never at the same time, would need tolerance {needed}"
        return _Why(told, "not_parallel", assigned, tuple(steps), gap_ns=int(gap))

    def _finding(self, why: _Why) -> Finding:
        return Finding(
            rule=why.rule,
            message=why.told,
            severity=self.context.severity,
            step=why.entry or self.block.written,
            span_ids=self.board.span_ids(why.steps),
        )

    def _undetermined(self, verdict: Verdict) -> bool:
        """Order matters inside branches only."""
        if not self.block.chains or not has_ties(self.board):
            return False
        ties = Ties(self.board, (self.block,))
        ties.keep_within_branches(self.block)
        return ties.undetermined(verdict, self._verdict)

    def _alignment(self, assigned: Mapping[int, Sequence[int]]) -> Iterator[AlignmentRow]:
        for at, entry in enumerate(self.block.entries):
            for index in assigned.get(at, ()):
                yield self._row("same", index, entry.written)

    def _broken(self, why: _Why) -> Iterator[AlignmentRow]:
        """What ran too late for the others is moved; a step whose values don't fit stands beside what it is not."""
        late = self._late(why)
        for at, entry in enumerate(self.block.entries):
            for index in why.assigned.get(at, ()):
                yield self._row("moved" if at in late else "same", index, entry.written)
            if at not in why.assigned:
                yield AlignmentRow(move="missing", expected=entry.written)
        taken = {step for steps in why.assigned.values() for step in steps}
        for index in why.steps:
            if index not in taken:
                yield self._row("extra", index)

    def _late(self, why: _Why) -> set[int]:
        """The entries that began when another one was over."""
        if why.gap_ns is None:
            return set()
        periods = {at: spanned([self.board.period(step) for step in steps]) for at, steps in why.assigned.items()}
        over = min((period.end for period in periods.values() if period.end is not None), default=NEVER)
        tolerance = self.block.tolerance_ns
        return {
            at
            for at, period in periods.items()
            if period.start is not None and (period.start - over > tolerance if tolerance else period.start >= over)
        }

    def _row(self, move: Move, index: int, expected: str | None = None) -> AlignmentRow:
        step = self.board.steps[index]
        return AlignmentRow(move=move, expected=expected, seen=step_name(step), span_ids=step.span_ids)
