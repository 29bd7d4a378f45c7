"""Names on evaluation spans and events are those of OpenTelemetry's semantic conventions, or onpath's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, service_attributes
from opentelemetry.semconv.attributes import error_attributes, exception_attributes
from opentelemetry.semconv.resource import ResourceAttributes

from onpath import results
from onpath.report import Coverage, Evaluation, Finding, Report, Result, Verdict

OWN = "onpath."
OPENINFERENCE = {"openinference.span.kind"}  # which Phoenix reads; not OpenTelemetry's


def constants(*modules: object) -> set[str]:
    values = (getattr(module, name) for module in modules for name in dir(module) if name.isupper())
    return {value for value in values if isinstance(value, str)}


CONVENTIONS = constants(
    gen_ai_attributes, error_attributes, exception_attributes, service_attributes, ResourceAttributes
)


def report() -> Report:
    evaluations = (
        Evaluation(
            name="seq",
            label=Verdict.FAIL,
            score=Fraction(1, 2),
            explanation="half",
            findings=(Finding(rule="missing_step", message="no", severity="material", step="a", span_ids=("1" * 16,)),),
        ),
        Evaluation(name="plan", label=Verdict.UNKNOWN, broken="ValueError", reason="broken"),
    )
    result = Result(
        trace_id="1" * 32,
        span_id="2" * 16,
        session="s-1",
        service="shop",
        agent="refund",
        workflow="refund",
        verdict=Verdict.FAIL,
        severity="material",
        end_ns=1,
        evaluations=evaluations,
        coverage=Coverage(root=True, orphans=0, content="full", spans=1, steps=1),
    )
    return Report(
        trace_id="1" * 32,
        session="s-1",
        service="shop",
        complete=True,
        release_reason="root_ended",
        policy_fingerprint="f",
        results=(result,),
    )


def foreign(attributes: Mapping[str, Any]) -> list[str]:
    return [name for name in attributes if not name.startswith(OWN) and name not in CONVENTIONS | OPENINFERENCE]


def assert_all(found: Iterable[Mapping[str, Any]], names: set[str]) -> None:
    for attributes in found:
        assert foreign(attributes) == []
        names -= set(attributes)
    assert not names, f"never there: {names}"


REQUIRED = {
    gen_ai_attributes.GEN_AI_EVALUATION_NAME,
    gen_ai_attributes.GEN_AI_EVALUATION_SCORE_VALUE,
    gen_ai_attributes.GEN_AI_EVALUATION_SCORE_LABEL,
    gen_ai_attributes.GEN_AI_EVALUATION_EXPLANATION,
    gen_ai_attributes.GEN_AI_AGENT_NAME,
    gen_ai_attributes.GEN_AI_CONVERSATION_ID,
}


def test_events() -> None:
    (leaving,) = [results.Leaving(report(), result) for result in report().results]
    events = list(leaving.events())
    assert_all((event.attributes for event in events), REQUIRED | {error_attributes.ERROR_TYPE})
    assert results.EVENT_NAME == "gen_ai.evaluation.result"  # no constant names events


@pytest.mark.parametrize("mode", ["clamped", "realtime", "linked"])
def test_spans(mode: results.SpanMode) -> None:
    (leaving,) = [results.Leaving(report(), result) for result in report().results]
    assert_all([leaving.span(mode).attributes], set(REQUIRED))
