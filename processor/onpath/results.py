"""Report -> what leaves onpath: JSON, OpenTelemetry events and spans. The one mapping; every exit uses it.

Ids are computed, never drawn (results.md section 1): the same trace judged again gives the same event and the same span
id, and a revision shares its `key` with the report that it replaces.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from importlib.metadata import version as distribution_version
from typing import Any, Final, Literal, TypeAlias

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from onpath.report import Evaluation, Report, Result, Verdict

SpanMode: TypeAlias = Literal["clamped", "realtime", "linked", "off"]

EVENT_NAME: Final = "gen_ai.evaluation.result"
SCOPE_NAME: Final = "onpath"


@cache
def version() -> str:
    """The version of the installed distribution."""
    return distribution_version("onpath")


def key(result: Result, evaluation: str = "") -> str:
    """What stays the same over revisions: 32 hex digits. The empty name stands for the workflow's evaluation span."""
    return _digest(_identity(result, evaluation))


def revision_id(result: Result, revision: int, evaluation: str = "") -> str:
    """As `key`, of one revision alone."""
    return _digest([*_identity(result, evaluation), revision])


def score(value: Fraction | None) -> float | None:
    """An exact score as the nearest double: the only place where it becomes one."""
    return None if value is None else value.numerator / value.denominator


def result_json(report: Report, result: Result, judged_at_ns: int) -> dict[str, Any]:
    """One object a Result, as results.md section 1 shows it. `judged_at_ns` is nanoseconds since the Unix epoch."""
    judged_at = datetime.fromtimestamp(judged_at_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return {
        "trace_id": result.trace_id,
        "span_id": result.span_id,
        "session": result.session,
        "service": result.service,
        "agent": result.agent,
        "workflow": result.workflow,
        "verdict": str(result.verdict),
        "complete": report.complete,
        "release_reason": report.release_reason,
        "revision": report.revision,
        "supersedes": report.revision - 1 if report.revision > 1 else None,
        "policy_fingerprint": report.policy_fingerprint,
        "version": version(),
        "judged_at": judged_at.replace("+00:00", "Z"),
        "evaluations": [_evaluation_json(report, result, e) for e in result.evaluations],
        "coverage": {
            "root": result.coverage.root,
            "orphans": result.coverage.orphans,
            "content": result.coverage.content,
            "spans": result.coverage.spans,
            "steps": result.coverage.steps,
            "late": result.coverage.late,
            "duplicates": result.coverage.duplicates,
        },
    }


def events(report: Report, resource: Resource, observed_ns: int) -> list[ReadableLogRecord]:
    """One `gen_ai.evaluation.result` log record an evaluation, in the context of the scope's span."""
    return [
        _event(report, result, evaluation, resource, observed_ns)
        for result in report.results
        for evaluation in result.evaluations
    ]


def evaluation_spans(report: Report, resource: Resource, mode: SpanMode, judged_at_ns: int) -> list[ReadableSpan]:
    """One finished span a Result, child of the scope's span; `linked` puts it in a trace of its own with one link."""
    if mode == "off":
        return []
    return [_evaluation_span(report, result, resource, mode, judged_at_ns) for result in report.results]


def signature(report: Report) -> str:
    """Digest of what makes a new revision worth sending: verdicts, scores, labels and findings."""
    return _digest(
        [
            [r.workflow, r.span_id, r.verdict]
            + [
                [e.name, e.label, str(e.score), [[f.rule, f.severity, f.step, *f.span_ids] for f in e.findings]]
                for e in r.evaluations
            ]
            for r in report.results
        ]
    )


def headline(result: Result) -> Evaluation | None:
    """The evaluation that a reader wants first: the first that decided the verdict, else the first at all."""
    for evaluation in result.evaluations:
        if evaluation.label == result.verdict:
            return evaluation
    return result.evaluations[0] if result.evaluations else None


def _identity(result: Result, evaluation: str) -> list[Any]:
    return [result.session or result.trace_id, result.workflow, result.span_id, evaluation]


def _digest(value: Sequence[Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16].hex()


def _evaluation_json(report: Report, result: Result, evaluation: Evaluation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "key": key(result, evaluation.name),
        "id": revision_id(result, report.revision, evaluation.name),
        "name": evaluation.name,
        "score": score(evaluation.score),
        "label": str(evaluation.label),
        "explanation": evaluation.explanation,
        "findings": [
            {
                "rule": f.rule,
                "severity": f.severity,
                "message": f.message,
                "step": f.step,
                "span_ids": list(f.span_ids),
            }
            for f in evaluation.findings
        ],
        "alignment": [
            {"move": row.move, "expected": row.expected, "seen": row.seen, "span_ids": list(row.span_ids)}
            for row in evaluation.alignment
        ],
    }
    if evaluation.reason is not None:
        found["reason"] = evaluation.reason
    if evaluation.order_undetermined:
        found["order_undetermined"] = True
    if evaluation.broken is not None:
        found["error_type"] = evaluation.broken
    return found


def _common(report: Report, result: Result) -> dict[str, Any]:
    found = {
        "onpath.workflow": result.workflow,
        "onpath.verdict": str(result.verdict),
        "onpath.severity": result.severity,
        "onpath.revision": report.revision,
        "onpath.complete": report.complete,
        "onpath.release_reason": report.release_reason,
        "onpath.policy.fingerprint": report.policy_fingerprint,
        "onpath.version": version(),
        "gen_ai.agent.name": result.agent,
        "gen_ai.conversation.id": result.session or result.conversation,
    }
    return {k: v for k, v in found.items() if v is not None}


def _judged(evaluation: Evaluation, label: Verdict) -> dict[str, Any]:
    found = {
        "gen_ai.evaluation.score.label": str(label),
        "gen_ai.evaluation.score.value": score(evaluation.score),
        "gen_ai.evaluation.explanation": evaluation.explanation or None,
        "error.type": evaluation.broken,
    }
    return {k: v for k, v in found.items() if v is not None}


def _event(
    report: Report, result: Result, evaluation: Evaluation, resource: Resource, observed_ns: int
) -> ReadableLogRecord:
    attributes: Mapping[str, Any] = {
        "gen_ai.evaluation.name": evaluation.name,
        **_judged(evaluation, evaluation.label),
        **_common(report, result),
        "onpath.evaluation.id": revision_id(result, report.revision, evaluation.name),
    }
    if evaluation.broken is not None:
        severity = SeverityNumber.ERROR
    else:
        severity = SeverityNumber.WARN if evaluation.label == Verdict.FAIL else SeverityNumber.INFO
    record = LogRecord(
        timestamp=result.end_ns or observed_ns,
        observed_timestamp=observed_ns,
        context=set_span_in_context(NonRecordingSpan(_judged_span(result))),
        severity_number=severity,
        severity_text=severity.name,
        event_name=EVENT_NAME,
        attributes=attributes,
    )
    return ReadableLogRecord(record, resource, InstrumentationScope(SCOPE_NAME, version()))


def _evaluation_span(
    report: Report, result: Result, resource: Resource, mode: SpanMode, judged_at_ns: int
) -> ReadableSpan:
    computed = bytes.fromhex(revision_id(result, report.revision))
    judged = _judged_span(result)
    trace_id = int.from_bytes(computed) if mode == "linked" else judged.trace_id
    start = end = judged_at_ns if mode == "realtime" or result.end_ns is None else result.end_ns
    chosen = headline(result)
    attributes: dict[str, Any] = {
        "gen_ai.evaluation.name": result.workflow,
        **(_judged(chosen, result.verdict) if chosen else {}),
        **_common(report, result),
        "onpath.evaluation.id": computed.hex(),
        "onpath.summary": summary(result),
        "openinference.span.kind": "EVALUATOR",
    }
    return ReadableSpan(
        name=f"onpath.evaluate {result.workflow}",
        context=SpanContext(trace_id, int.from_bytes(computed[:8]), False, TraceFlags(TraceFlags.SAMPLED)),
        parent=None if mode == "linked" else judged,
        resource=resource,
        attributes=attributes,
        links=[Link(judged)] if mode == "linked" else _deciding(result, judged.trace_id),
        start_time=start,
        end_time=end,
        instrumentation_scope=InstrumentationScope(SCOPE_NAME, version()),
    )


def _judged_span(result: Result) -> SpanContext:
    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(result.trace_id, 16), int(result.span_id, 16), is_remote=True, trace_flags=sampled)


def _deciding(result: Result, trace_id: int) -> list[Link]:
    """One link to each span that decided the verdict, in order of the findings."""
    ids = dict.fromkeys(i for e in result.evaluations for f in e.findings for i in f.span_ids)
    return [Link(SpanContext(trace_id, int(i, 16), True)) for i in ids]


def summary(result: Result) -> str:
    """One line: each evaluation with its label and score."""
    return "; ".join(
        f"{e.name} {e.label}" + (f" {score(e.score):.3g}" if e.score is not None else "") for e in result.evaluations
    )
