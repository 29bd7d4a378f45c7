"""Why checks are unknown, as few words as a metric may have: those that the product has itself, and one for the rest.

A reason may be a model's own text, and so come from outside; what is not in the table is counted as `other`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import Final

from onpath.report import Evaluation, Report, Verdict

JUDGE: Final = "judge"  # a model was to say, and has not
OTHER: Final = "other"

_WORDS: Final = {
    "incomplete": "incomplete",
    "incomplete_trace": "incomplete",
    "not_ended": "not_ended",
    "not_captured": "not_captured",
    "no_times": "no_times",
    "scope_not_seen": "scope_not_seen",
    "tool_names_not_captured": "tool_names_not_captured",
    "tool_calls_not_captured": "tool_calls_not_captured",
    "output_not_captured": "output_not_captured",
    "output_redacted": "output_redacted",
    "no_steps": "no_steps",
    "step-unknown": "plan_step_unknown",
    "step-blocked": "plan_step_blocked",
    "check-blocked": "plan_check_blocked",
    "evaluation_timeout": "evaluation_timeout",
    "evaluation_failed": "evaluation_failed",
    "earlier_spans_gone": "earlier_spans_gone",
    "no judge configured": JUDGE,
}


def unknown_checks(report: Report, counted: Container[tuple[str, str]] = ()) -> Mapping[tuple[str, str], int]:
    """How many checks are unknown, by workflow and word; but for results (workflow, span id) that were `counted`."""
    return Counter(
        (result.workflow, word_of(evaluation))
        for result in report.results
        if (result.workflow, result.span_id) not in counted
        for evaluation in result.evaluations
        if evaluation.label is Verdict.UNKNOWN
    )


def word_of(evaluation: Evaluation) -> str:
    """Of an unknown evaluation."""
    return JUDGE if evaluation.questions else _WORDS.get(evaluation.reason or "", OTHER)
