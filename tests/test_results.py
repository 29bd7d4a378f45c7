"""The one mapping: ids that are computed, JSON as documented, events and spans as backends join them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from fractions import Fraction

import pytest
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import StatusCode

from onpath import results, results_records
from onpath.report import AlignmentRow, Coverage, Evaluation, Finding, Report, Result, Severity, Verdict

TRACE, SPAN, TOOL = "71141c0f791e2c46ece55e88fa3ba37e", "29600a636076edaa", "00000000000000ab"
RESOURCE = Resource({"service.name": "onpath"})
END, NOW = 1_700_000_000_000_000_000, 1_700_000_009_000_000_000

FAILED = Evaluation(
    name="workflow_adherence",
    label=Verdict.FAIL,
    score=Fraction(11, 20),
    explanation="Extracted (1, spans): a.",
    findings=(Finding(rule="moved_step", message="move a", step="a", span_ids=(TOOL,)),),
    alignment=(AlignmentRow(move="moved", expected="a", seen="a", span_ids=(TOOL,)),),
)
UNKNOWN = Evaluation(name="output", label=Verdict.UNKNOWN, reason="no judge configured", explanation="no judge")
PASSED = Evaluation(name="required_steps", label=Verdict.PASS, score=Fraction(1))


def report(*evaluations: Evaluation, revision: int = 1, severity: Severity = "material") -> Report:
    result = Result(
        trace_id=TRACE,
        span_id=SPAN,
        session=None,
        service="refund-agent",
        agent="refund",
        workflow="refund",
        verdict=Verdict.of([e.label for e in evaluations]),
        severity=severity,
        end_ns=END,
        evaluations=evaluations,
        coverage=Coverage(root=True, orphans=0, content="full", spans=12, steps=9),
        conversation="conv-42",
    )
    return Report(
        trace_id=TRACE,
        session=None,
        service="refund-agent",
        complete=True,
        release_reason="root_ended",
        policy_fingerprint="f1",
        results=(result,),
        revision=revision,
    )


def test_ids_are_digests_of_a_json_array() -> None:
    judged = report(FAILED, revision=2)
    (made,) = results.result_json(judged, judged.results[0], NOW)["evaluations"]
    assert made["key"] == digest(f'["{TRACE}","refund","{SPAN}","workflow_adherence"]')
    assert made["id"] == digest(f'["{TRACE}","refund","{SPAN}","workflow_adherence",2]')
    assert results.Leaving(judged, judged.results[0]).key == digest(f'["{TRACE}","refund","{SPAN}",""]')


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def test_a_session_takes_the_place_of_the_trace_in_ids() -> None:
    judged = report(FAILED)
    (result,) = judged.results
    joined = replace(result, session="s1")
    elsewhere = replace(joined, trace_id="0" * 31 + "1")
    keys = [results.Leaving(judged, each).key for each in (result, joined, elsewhere)]
    assert keys[0] != keys[1] == keys[2]


def test_json_is_as_documented() -> None:
    judged = report(FAILED, revision=2)
    found = results.result_json(judged, judged.results[0], NOW)
    assert json.loads(json.dumps(found)) == found
    assert list(found) == [
        "trace_id", "span_id", "session", "service", "agent", "workflow", "verdict", "complete", "release_reason",
        "revision", "supersedes", "policy_fingerprint", "version", "judged_at", "evaluations", "coverage",
    ]  # fmt: skip
    assert (found["revision"], found["supersedes"]) == (2, 1)
    assert found["judged_at"] == "2023-11-14T22:13:29.000Z"
    (evaluation,) = found["evaluations"]
    assert evaluation["score"] == 0.55
    assert evaluation["findings"] == [
        {"rule": "moved_step", "severity": "material", "message": "move a", "step": "a", "span_ids": [TOOL]}
    ]
    assert evaluation["alignment"] == [{"move": "moved", "expected": "a", "seen": "a", "span_ids": [TOOL]}]
    assert found["coverage"]["spans"] == 12


@pytest.mark.parametrize(
    ("evaluation", "severity"),
    [
        (PASSED, SeverityNumber.INFO),
        (FAILED, SeverityNumber.WARN),
        (UNKNOWN, SeverityNumber.INFO),
        (replace(UNKNOWN, broken="ZeroDivisionError"), SeverityNumber.ERROR),
    ],
)
def test_one_event_an_evaluation_in_the_context_of_the_scope(evaluation: Evaluation, severity: SeverityNumber) -> None:
    (event,) = results_records.events(report(evaluation), RESOURCE, NOW)
    record = event.log_record
    assert record.event_name == "gen_ai.evaluation.result"
    assert (record.trace_id, record.span_id) == (int(TRACE, 16), int(SPAN, 16))
    assert record.severity_number == severity
    attributes = dict(record.attributes or {})
    assert attributes["gen_ai.evaluation.name"] == evaluation.name
    assert attributes["gen_ai.evaluation.score.label"] == str(evaluation.label)
    assert attributes["gen_ai.agent.name"] == "refund"
    assert attributes["gen_ai.conversation.id"] == "conv-42"
    assert attributes["onpath.workflow"] == "refund"
    assert ("gen_ai.evaluation.score.value" in attributes) == (evaluation.score is not None)
    assert attributes.get("error.type") == evaluation.broken
    assert None not in attributes.values()


def test_a_clamped_span_stands_at_the_end_of_what_it_judges() -> None:
    judged = report(FAILED, PASSED)
    (span,) = results_records.evaluation_spans(judged, RESOURCE, "clamped", NOW)
    assert span.name == "onpath.evaluate refund"
    assert span.context is not None
    assert span.parent is not None
    assert span.context.trace_id == int(TRACE, 16)
    assert span.parent.span_id == int(SPAN, 16)
    assert span.start_time == span.end_time == END
    assert span.status.status_code is StatusCode.UNSET
    assert f"{span.context.span_id:016x}" == digest(f'["{TRACE}","refund","{SPAN}","",1]')[:16]
    assert [link.context.span_id for link in span.links] == [int(TOOL, 16)]
    attributes = dict(span.attributes or {})
    assert attributes["openinference.span.kind"] == "EVALUATOR"
    assert attributes["onpath.summary"] == "workflow_adherence fail 0.55; required_steps pass 1"
    assert attributes["gen_ai.evaluation.score.label"] == "fail"


def test_other_span_modes() -> None:
    judged = report(FAILED)
    assert results_records.evaluation_spans(judged, RESOURCE, "off", NOW) == []
    (real,) = results_records.evaluation_spans(judged, RESOURCE, "realtime", NOW)
    assert real.start_time == real.end_time == NOW
    (linked,) = results_records.evaluation_spans(judged, RESOURCE, "linked", NOW)
    assert linked.context is not None
    assert linked.parent is None
    assert linked.context.trace_id != int(TRACE, 16)
    assert [link.context.span_id for link in linked.links] == [int(SPAN, 16)]


def test_the_same_report_gives_the_same_ids_and_a_revision_others() -> None:
    first, again, later = report(FAILED), report(FAILED), report(FAILED, revision=2)
    ids = [results_records.evaluation_spans(r, RESOURCE, "clamped", NOW)[0].context for r in (first, again, later)]
    assert ids[0] == ids[1] != ids[2]


def test_the_signature_changes_with_what_makes_a_revision() -> None:
    base = results.signature(report(FAILED))
    assert results.signature(report(replace(FAILED, explanation="other words"), revision=2)) == base
    assert results.signature(report(replace(FAILED, score=Fraction(1, 2)))) != base
    assert results.signature(report(replace(FAILED, findings=()))) != base
    assert results.signature(report(FAILED, PASSED)) != base


def test_scores_leave_as_the_nearest_double() -> None:
    assert results.score(Fraction(1)) == 1.0
    assert results.score(Fraction(1, 3)) == 1 / 3
    assert results.score(None) is None


def test_links_lead_to_the_trace_that_a_span_is_in() -> None:
    judged = report(FAILED)
    moved = replace(judged, results=(replace(judged.results[0], traces={TOOL: "b" * 32}),))
    (span,) = results_records.evaluation_spans(moved, RESOURCE, "clamped", NOW)
    (link,) = span.links
    assert (link.context.trace_id, link.context.span_id) == (int("b" * 32, 16), int(TOOL, 16))


def test_a_span_whose_end_was_not_recorded_is_judged_at_the_time_of_judging() -> None:
    judged = report(FAILED)
    open_span = replace(judged, results=(replace(judged.results[0], end_ns=0),))
    (span,) = results_records.evaluation_spans(open_span, RESOURCE, "clamped", NOW)
    assert span.start_time == span.end_time == NOW
