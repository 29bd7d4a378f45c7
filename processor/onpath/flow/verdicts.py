"""The evaluation that a flow or value validator gives: label, score, reason and questions go together in one way."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from onpath.report import AlignmentRow, Evaluation, Finding, Verdict, one_line
from onpath.validators.base import Context
from onpath.values.tree import NO_JUDGE, Doubts

INCOMPLETE: Final = "incomplete_trace"

_SCORES: Final[Mapping[Verdict, Fraction | None]] = {
    Verdict.PASS: Fraction(1),
    Verdict.FAIL: Fraction(0),
    Verdict.UNKNOWN: None,
}
_WORDS: Final = {
    INCOMPLETE: "the trace is not complete",
    NO_JUDGE: NO_JUDGE,
    "not_captured": "a value was not captured",
    "not_ended": "a value may still come",
    "no_times": "times are missing",
    "scope_not_seen": "the span of the agent was not seen",
    "tool_names_not_captured": "the name of a tool was not captured",
}


def evaluation(
    key: str,
    label: Verdict,
    doubts: Doubts,
    context: Context,
    *,
    told: str,
    findings: tuple[Finding, ...] = (),
    alignment: tuple[AlignmentRow, ...] = (),
    order_undetermined: bool = False,
    data: Mapping[str, Any] | None = None,
) -> Evaluation:
    """`key` as in the policy. `told` is the first line of a pass or a fail; what is unknown says why."""
    unknown = label is Verdict.UNKNOWN
    reason = _reason(doubts, context) if unknown else None
    lines = [f"{key}: undecided, {_WORDS.get(reason, reason)}" if reason is not None else one_line(told)]
    if order_undetermined:
        lines.append("Order undetermined: steps with equal starts in another order would give another verdict.")
    if not context.complete:
        lines.append("Incomplete trace.")
    return Evaluation(
        name=key.removesuffix("!"),
        label=label,
        score=_SCORES[label],
        explanation="\n".join(lines),
        reason=reason,
        findings=findings,
        alignment=alignment,
        order_undetermined=order_undetermined,
        questions=tuple(doubts.questions.values()) if unknown else (),
        data=data or {},
    )


def _reason(doubts: Doubts, context: Context) -> str:
    if doubts.questions or (context.complete and doubts.reason):
        return doubts.reason or NO_JUDGE
    return INCOMPLETE if not context.complete else "not_captured"
