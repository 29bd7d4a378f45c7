"""Value trees as checks of their own: on every step of a name, and on the scope's own record (flow.md sections 2, 7,
10).
"""

from __future__ import annotations

from dataclasses import dataclass

from onpath.flow.board import Board
from onpath.flow.names import StepName
from onpath.flow.shown import failure_text, step_text
from onpath.flow.verdicts import evaluation
from onpath.report import Evaluation, Finding, Verdict
from onpath.steps.model import Scope
from onpath.validators.base import Context
from onpath.values.outcome import Truth
from onpath.values.record import Record
from onpath.values.tree import Doubts, Tree

_VERDICTS = {Truth.TRUE: Verdict.PASS, Truth.FALSE: Verdict.FAIL, Truth.UNKNOWN: Verdict.UNKNOWN}


@dataclass(frozen=True, slots=True)
class ScopeValues:
    """A tree on one property of the scope's record."""

    key: str
    tree: Tree

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        doubts = Doubts(context.answers)
        record = Record(scope, open_ended=not context.complete)
        verdict = _VERDICTS[self.tree.outcome(record, doubts)]
        told = f"{self.key}: all values hold"
        findings: tuple[Finding, ...] = ()
        if verdict is Verdict.FAIL:
            told = failure_text(self.tree.failures(record, doubts), capture_content=context.capture_content)
            findings = (
                Finding(
                    rule="value", message=told, severity=context.severity, step=self.key, span_ids=(scope.span_id,)
                ),
            )
        return (evaluation(self.key, verdict, doubts, context, told=told, findings=findings),)


@dataclass(frozen=True, slots=True)
class StepValues:
    """A tree that must hold for every step of a name, of which there must be at least one."""

    name: StepName
    tree: Tree

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        board = Board(scope, context)
        named = [index for index in range(len(board.steps)) if board.name_fit(self.name, index) is Truth.TRUE]
        perhaps = [index for index in range(len(board.steps)) if board.name_fit(self.name, index) is Truth.UNKNOWN]
        failed = [index for index in named if board.values(self.tree, index) is Truth.FALSE]
        if failed or not (named or perhaps or not context.complete):
            findings = self._findings(failed, board, context)
            return (self._evaluation(Verdict.FAIL, board, context, findings[0].message, findings),)
        sure = context.complete and all(board.values(self.tree, index) is Truth.TRUE for index in (*named, *perhaps))
        verdict = Verdict.PASS if named and sure else Verdict.UNKNOWN
        return (self._evaluation(verdict, board, context, f"{self.name.written}: holds for all {len(named)} steps"),)

    def _evaluation(
        self, verdict: Verdict, board: Board, context: Context, told: str, findings: tuple[Finding, ...] = ()
    ) -> Evaluation:
        return evaluation(self.name.written, verdict, board.doubts, context, told=told, findings=findings)

    def _findings(self, failed: list[int], board: Board, context: Context) -> tuple[Finding, ...]:
        name = self.name.written
        if not failed:
            told = f"{name}: no step of that name"
            return (Finding(rule="missing_step", message=told, severity=context.severity, step=name),)
        return tuple(
            Finding(
                rule="value",
                message=f"{name}, {step_text(board.steps[index], index)}: {self._said(index, board, context)}",
                severity=context.severity,
                step=name,
                span_ids=board.span_ids([index]),
            )
            for index in failed
        )

    def _said(self, index: int, board: Board, context: Context) -> str:
        failures = self.tree.failures(board.record(index), board.doubts)
        return failure_text(failures, capture_content=context.capture_content)
