"""`seq!`: the steps of a scope must divide into the items of a pattern, names, values and overlap at once.

Data flow: scope -> Board -> rows over the steps, once with unknowns taken as holding and once without -> verdict. A
pass shows what each item took, a fail where the match broke, and both whether the clock left the order open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from onpath.flow.blocks import Blocks
from onpath.flow.board import Board
from onpath.flow.lane import Lane
from onpath.flow.near_miss import NearMiss, near_miss
from onpath.flow.partial import can_pass, must_pass
from onpath.flow.pattern import AnyOf, Block, Gap, Item, Named
from onpath.flow.rows import laid, rows
from onpath.flow.shown import failure_text, step_name, step_text
from onpath.flow.ties import Spans, Ties, has_ties
from onpath.flow.verdicts import evaluation
from onpath.report import AlignmentRow, Evaluation, Finding, Verdict, aligned
from onpath.steps.model import Scope
from onpath.validators.base import Context
from onpath.validators.remembered import Outline

KEY = "seq!"


@dataclass(frozen=True, slots=True)
class Sequential:
    """`data` of its evaluations: `matched` (item to steps), `near_miss`, `progress`; all count from 0.

    Where a `parallel!` item breaks the match by its times, also `together` and `apart_ns` as `Parallel` has them.
    """

    items: tuple[Item, ...]

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        return (_Judging(self.items, scope, context).evaluation(),)

    def outline(self, scope: Scope) -> Outline | None:
        """See `remembered`: without values and `parallel!`, of steps that start one after another, names are all."""
        if not all(isinstance(item, Gap | AnyOf) or (isinstance(item, Named) and not item.tree) for item in self.items):
            return None
        latest = -1
        for step in scope.steps:
            if step.start_ns is None or step.start_ns <= latest or not step.ran:
                return None
            latest = step.start_ns
        return Outline(tuple([(s.kind, s.name, s.agent, s.model) for s in scope.steps]), scope.steps)


class _Judging:
    """One pattern over one scope."""

    def __init__(self, items: tuple[Item, ...], scope: Scope, context: Context) -> None:
        self.items = items
        self.context = context
        self.board = Board(scope, context)
        self.blocks = Blocks(self.board)

    def evaluation(self) -> Evaluation:
        taken = self._laid(surely=False)
        verdict = Verdict.FAIL if taken is None else Verdict.PASS
        if not self.context.complete:
            verdict = self._partial_verdict(Lane(self.board))
        if taken is not None and verdict is Verdict.PASS and self.board.doubts.reasons:
            surely = self._laid(surely=True)
            taken, verdict = (taken, Verdict.UNKNOWN) if surely is None else (surely, verdict)
        if verdict is Verdict.FAIL:
            return self._failed()
        return self._matched(verdict, taken)

    def _laid(self, *, surely: bool) -> Spans | None:
        return laid(self.items, self.blocks, surely=surely)

    def verdict(self, lane: Lane) -> Verdict:
        """That of the steps in another order."""
        if not self.context.complete:
            return self._partial_verdict(lane)

        def matches(surely: bool) -> bool:
            return bool(rows(self.items, lane, self.blocks, surely=surely)[-1] >> lane.size & 1)

        if not matches(False):
            return Verdict.FAIL
        return Verdict.PASS if not self.board.doubts.reasons or matches(True) else Verdict.UNKNOWN

    def _partial_verdict(self, lane: Lane) -> Verdict:
        anywhere = self.context.missing_parent
        if not can_pass(self.items, lane, self.blocks, anywhere=anywhere):
            return Verdict.FAIL
        return Verdict.PASS if must_pass(self.items, lane, self.blocks, anywhere=anywhere) else Verdict.UNKNOWN

    def _undetermined(self, verdict: Verdict, taken: Spans) -> bool:
        if not has_ties(self.board):
            return False
        bounded = self.context.complete or not any(isinstance(item, Block) for item in self.items)
        return Ties(self.board, self.items).undetermined(verdict, self.verdict, taken, bounded=bounded)

    def _matched(self, verdict: Verdict, taken: Spans | None) -> Evaluation:
        """A pass, or an unknown; `taken` are the places of each item, if all items have taken all steps."""
        surely = verdict is Verdict.PASS
        spans = taken or []
        matched = {at: self._assigned(self.items[at], span, surely) for at, span in enumerate(spans)}
        data: dict[str, Any] = {"matched": matched} if taken is not None else {}
        if surely:
            data["progress"] = Fraction(1)
        return evaluation(
            KEY,
            verdict,
            self.board.doubts,
            self.context,
            told=f"seq!: all {len(self.board.steps)} steps fit, item by item",
            alignment=tuple(self._same(spans)),
            order_undetermined=self._undetermined(verdict, spans),
            data=data,
        )

    def _assigned(self, item: Item, span: tuple[int, int], surely: bool) -> list[int]:
        steps = tuple(self.board.order[slice(*span)])
        return self.blocks.plan(item).assigned(steps, surely=surely) if isinstance(item, Block) else list(steps)

    def _failed(self) -> Evaluation:
        miss = near_miss(self.items, self.blocks)
        spans = laid(self.items[: miss.fitted], self.blocks, self.board.order[: miss.begin], surely=False) or []
        told = self._told(miss)
        return evaluation(
            KEY,
            Verdict.FAIL,
            self.board.doubts,
            self.context,
            told=told,
            findings=(self._finding(miss, told),),
            alignment=(*self._same(spans), *self._broken(miss)),
            order_undetermined=self._undetermined(Verdict.FAIL, spans),
            data={
                "near_miss": {"item": miss.item, "step": miss.step, "why": miss.why},
                "progress": Fraction(miss.fitted, len(self.items)),
                **self._apart(miss),
            },
        )

    def _apart(self, miss: NearMiss) -> dict[str, Any]:
        item = None if miss.item is None else self.items[miss.item]
        if miss.why != "timing" or not isinstance(item, Block):
            return {}
        plan = self.blocks.plan(item)
        together = plan.assigned(miss.window, surely=False)
        return {"together": together, "apart_ns": int(plan.overlap(miss.window).gap_ns)}

    def _told(self, miss: NearMiss) -> str:
        """The first line of the explanation (flow.md section 12)."""
        met = "end of steps"
        if miss.step < len(self.board.steps):
            met = step_text(self.board.steps[miss.step], miss.step)
        if miss.item is None:
            return f"seq!: expected end of steps, got {met}"
        item = self.items[miss.item]
        place = f"seq! item {miss.item + 1}"
        if miss.why in ("name", "end"):
            after = f" (after {len(self.board.steps)})" if miss.why == "end" else ""
            return f"{place}: expected {item.written}, got {met}{after}"
        if isinstance(item, Block):
            steps = f"{place} ({item.written}), steps {miss.step + 1}-{miss.step + item.size}"
            if miss.why == "value":
                return f"{steps}: values do not fit"
            needed = self.blocks.plan(item).overlap(miss.window).tolerance_needed
            return f"{steps}: not parallel, would need tolerance {needed}"
        failures = []
        if isinstance(item, Named) and item.tree is not None:
            failures = item.tree.failures(self.board.record(miss.step), self.board.doubts)
        said = failure_text(failures, capture_content=self.context.capture_content)
        return f"{place} ({item.written}), {met}: {said}"

    def _finding(self, miss: NearMiss, told: str) -> Finding:
        rules = {"end": "missing_step", "value": "value", "timing": "not_parallel"}
        return Finding(
            rule=rules.get(miss.why, "unexpected_step"),
            message=told,
            severity=self.context.severity,
            step=None if miss.item is None else self.items[miss.item].written,
            span_ids=self.board.span_ids(self._broken_steps(miss)),
        )

    def _broken_steps(self, miss: NearMiss) -> Sequence[int]:
        return miss.window or self.board.order[miss.step : miss.step + 1]

    def _same(self, spans: Spans) -> Iterator[AlignmentRow]:
        for item, (begin, end) in zip(self.items, spans, strict=False):
            for index in self.board.order[begin:end]:
                yield self._row("same", item, index)
            if begin == end:
                yield AlignmentRow(move="same", expected=item.written)

    def _broken(self, miss: NearMiss) -> Iterator[AlignmentRow]:
        if miss.item is not None:
            for index in self.board.order[miss.begin : miss.step]:
                yield self._row("same", self.items[miss.item], index)
            yield AlignmentRow(move="missing", expected=self.items[miss.item].written)
        for index in self._broken_steps(miss):
            step = self.board.steps[index]
            yield AlignmentRow(move="extra", seen=step_name(step), span_ids=step.span_ids)

    def _row(self, move: Any, item: Item, index: int) -> AlignmentRow:
        step = self.board.steps[index]
        return aligned(move, item.written, step_name(step), step.span_ids)
