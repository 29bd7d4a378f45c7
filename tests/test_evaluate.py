"""The one entry point: which workflows judge a trace, on which scopes, and what becomes of a check that breaks."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.evaluate import evaluate, unjudged
from onpath.matching import as_seen, sampled
from onpath.model import FLAG_REMOTE, FLAG_REMOTE_KNOWN, Resource, Span, Trace
from onpath.policy.load import load_data
from onpath.policy.model import Check, Policy, Workflow
from onpath.report import Evaluation, Report, Verdict
from onpath.steps.model import Scope, Step
from onpath.validators.base import Context

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
REFUND_AGENT = Resource({"service.name": "refund-agent", "deployment.environment.name": "prod"})


def span(number: int, name: str, operation: str | None = None, parent: int | None = 1, **attributes: Any) -> Span:
    found = {key.replace("__", "."): value for key, value in attributes.items()}
    if operation is not None:
        found["gen_ai.operation.name"] = operation
    return Span(
        trace_id=TRACE_ID,
        span_id=f"{number:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        name=name,
        start_ns=number * 1000,
        end_ns=1_000_000 if operation == "invoke_agent" else number * 1000 + 500,
        attributes=found,
        resource=REFUND_AGENT,
    )


def agent(number: int, name: str, parent: int | None = None, **attributes: Any) -> Span:
    return span(number, f"invoke_agent {name}", "invoke_agent", parent, gen_ai__agent__name=name, **attributes)


def tool(number: int, name: str, parent: int = 1, **attributes: Any) -> Span:
    return span(number, f"execute_tool {name}", "execute_tool", parent, gen_ai__tool__name=name, **attributes)


def asked(text: str) -> str:
    return f'[{{"role": "user", "parts": [{{"type": "text", "content": "{text}"}}]}}]'


RUN = (
    agent(1, "refund", gen_ai__input__messages=asked("a refund, please")),
    span(2, "chat m", "chat", 1, gen_ai__request__model="m"),
    tool(3, "kyc"),
    tool(4, "log"),
    agent(5, "billing", parent=1),
    tool(6, "pay", parent=5),
    span(7, "POST /ledger", None, 5, tenant="eu-1"),
)


def judged(entry: Mapping[str, Any], *spans: Span, **options: Any) -> Report:
    return evaluate(Trace(spans or RUN, **options), load_data({"name": "w", **entry}))


def verdicts(report: Report) -> dict[str, str]:
    return {e.name: str(e.label) for result in report.results for e in result.evaluations}


def passes(entry: Mapping[str, Any], *spans: Span) -> bool:
    report = judged(entry, *spans)
    assert report.results, report.unmatched
    return report.verdict is Verdict.PASS


# --- scopes and steps


def test_the_run_is_judged_as_a_whole_unless_an_agent_is_named() -> None:
    assert passes({"seq!": ["llm", "kyc", "log", "billing"]})
    assert passes({"seq!": ["llm", "kyc", "log", "pay"], "nested": "flatten"})
    assert passes({"seq!": ["pay"], "agent": "billing"})
    assert passes({"seq!": ["pay", "POST /ledger"], "agent": "billing", "spans": ["POST *"]})


def test_ignored_steps_never_count_and_aliases_rename() -> None:
    assert passes({"seq!": ["llm", "verify", "billing"], "ignore": ["log"], "aliases": {"verify": ["kyc"]}})
    assert passes({"seq!": ["llm", "log", "billing"], "ignore": ["verify"], "aliases": {"verify": ["kyc"]}})
    assert passes({"seq!": ["kyc", "log", "billing"], "ignore": ["llm"]})


def test_what_is_ignored_is_handed_on_apart() -> None:
    steps = (Step(kind="tool", name="a"), Step(kind="tool", name=None), Step(kind="tool", name="b"))
    scope = Scope(trace_id=TRACE_ID, span_id="1", steps=steps)
    seen = as_seen(scope, Workflow(name="w", ignore=frozenset({"x"}), aliases={"x": ("a",), "y": ("b",)}))
    assert [s.name for s in seen.steps] == [None, "y"]
    assert [s.name for s in seen.ignored] == ["x"]
    assert as_seen(scope, Workflow(name="w")) is scope


def test_each_scope_of_the_agent_is_a_result_of_its_own() -> None:
    report = judged({"seq!": ["pay"], "agent": "billing"}, *RUN, agent(8, "billing", parent=1))
    assert [(r.span_id[-1], r.agent, str(r.verdict)) for r in report.results] == [
        ("5", "billing", "pass"),
        ("8", "billing", "fail"),
    ]


def test_a_check_may_have_a_scope_of_its_own() -> None:
    adherence = {"expected_steps": ["pay"], "extract_from": "tool_calls"}
    report = judged({"seq!": ["..."], "checks": [{"name": "paid", "adherence": {**adherence, "agent": "billing"}}]})
    assert [(r.span_id[-1], [e.name for e in r.evaluations]) for r in report.results] == [
        ("1", ["seq"]),
        ("5", ["paid"]),
    ]
    flat = judged({"seq!": ["...", "billing"], "adherence": {**adherence, "nested": "flatten"}})
    assert verdicts(flat) == {"seq": "pass", "workflow_adherence": "pass"}
    assert len(flat.results) == 1
    absent = judged({"adherence": {**adherence, "agent": "nobody"}})
    assert (absent.results, absent.unmatched) == ((), {"agent": 1})


def test_evaluations_stand_in_the_order_of_the_file_under_their_names() -> None:
    entry = {
        "elapsed": {"gte!": 0},
        "adherence": {"expected_steps": ["kyc"], "required_steps": ["kyc"], "extract_from": "tool_calls"},
        "kyc": {"status": {"ne!": "error"}},
        "checks": [{"name": "two", "seq!": ["..."], "output": {"null!": False}}],
    }
    report = judged(entry)
    names = [e.name for e in report.results[0].evaluations]
    assert names == ["elapsed", "workflow_adherence", "required_steps", "kyc", "two.seq", "two.output"]
    assert report.results[0].evaluations[1].score == Fraction(1)


# --- which traces


MATCHING = [
    ({"service": "refund-*"}, None),
    ({"service": "Refund-*"}, "service"),
    ({"service": "refund"}, "service"),
    ({"root": "invoke_agent *"}, None),
    ({"root": "POST *"}, "root"),
    ({"agent": "billing"}, None),
    ({"agent": "bill*"}, "agent"),
    ({"attributes": {"deployment.environment.name": "pr?d"}}, None),
    ({"attributes": {"deployment.environment.name": "prod", "tenant": {"pattern!": "^eu-"}}}, None),
    ({"attributes": {"deployment.environment.name": "prod", "tenant": {"pattern!": "^us-"}}}, "attributes"),
    ({"attributes": {"nowhere": "*"}}, "attributes"),
    ({"input": {"contains!": "refund"}}, None),
    ({"input": {"contains!": "weather"}}, "input"),
    ({"service": "refund-*", "agent": "nobody"}, "agent"),
    ({}, None),
]


@pytest.mark.parametrize(("match", "fault"), MATCHING)
def test_all_that_match_names_must_hold(match: Mapping[str, Any], fault: str | None) -> None:
    report = judged({"seq!": ["..."], "match": match})
    assert dict(report.unmatched) == ({} if fault is None else {fault: 1})
    assert len(report.results) == (0 if fault else 1)


def test_without_match_a_trace_needs_an_agent_a_model_call_or_a_tool() -> None:
    web = span(1, "GET /health", None, None)
    assert judged({"seq!": ["..."]}, web).unmatched == {"no_agent_activity": 1}
    assert judged({"seq!": ["..."], "match": {}}, web).verdict is Verdict.PASS
    assert judged({"seq!": ["a"], "match": {"service": "*"}}, web).verdict is Verdict.FAIL
    assert judged({"seq!": ["..."]}, web, tool(2, "a")).verdict is Verdict.PASS


def test_a_remote_parent_makes_a_local_root() -> None:
    remote = replace(RUN[0], parent_span_id="f" * 16, flags=FLAG_REMOTE_KNOWN | FLAG_REMOTE)
    entry = {"seq!": ["..."], "match": {"root": "invoke_agent refund"}}
    assert judged(entry, remote, *RUN[1:]).unmatched == {}
    orphan = replace(RUN[0], parent_span_id="f" * 16)
    assert judged(entry, orphan, *RUN[1:]).unmatched == {"root": 1}


def test_an_entry_with_a_prompt_is_for_the_runs_of_that_prompt() -> None:
    entry = {"seq!": ["..."], "params": {"prompt": "a refund, please"}}
    assert judged(entry).verdict is Verdict.PASS
    assert judged({**entry, "params": {"prompt": "a refund"}}).unmatched == {"prompt": 1}
    silent = replace(RUN[0], attributes={k: v for k, v in RUN[0].attributes.items() if "input" not in k})
    assert judged(entry, silent, *RUN[1:]).unmatched == {"prompt_not_captured": 1}
    by_input = {"seq!": ["..."], "match": {"input": {"contains!": "refund"}}}
    assert judged(by_input, silent, *RUN[1:]).unmatched == {"input_not_captured": 1}


def test_an_agent_that_took_no_part_gives_no_result() -> None:
    assert judged({"seq!": ["..."], "agent": "nobody"}).unmatched == {"agent": 1}


def test_reasons_are_counted_over_the_workflows() -> None:
    entries = [{"seq!": ["..."], "match": {"service": "x"}}, {"seq!": ["..."], "sample": 0}] * 2
    report = evaluate(Trace(RUN), load_data([*entries, {"seq!": ["..."]}]))
    assert dict(report.unmatched) == {"sample": 2, "service": 2}
    assert [r.workflow for r in report.results] == ["policy-5"]


@given(st.integers(0, 2**128 - 1), st.floats(0, 1))
def test_a_share_of_traces_is_sampled_by_their_ids(number: int, share: float) -> None:
    trace_id = f"{number:032x}"
    assert sampled(trace_id, share) == (Fraction(number % 2**56, 2**56) < Fraction(share))
    assert sampled(trace_id, 1.0)
    assert not sampled(trace_id, 0.0)


# --- the report


def test_the_report_says_what_was_seen() -> None:
    report = judged({"seq!": ["..."], "severity": "critical"}, *RUN, RUN[3])
    assert (report.trace_id, report.service, report.complete, report.release_reason) == (
        TRACE_ID,
        "refund-agent",
        True,
        "root_ended",
    )
    (result,) = report.results
    assert (result.span_id, result.agent, result.severity) == (f"{1:016x}", "refund", "critical")
    coverage = result.coverage
    assert (coverage.root, coverage.orphans, coverage.spans, coverage.steps, coverage.duplicates) == (True, 0, 7, 4, 1)


def test_an_early_release_is_judged_as_incomplete() -> None:
    report = judged({"seq!": ["llm", "kyc", "..."]}, release_reason="memory")
    assert not report.complete
    assert verdicts(report) == {"seq": "unknown"}


def test_a_trace_without_spans_has_no_results() -> None:
    report = evaluate(Trace(()), load_data({"seq!": ["..."], "match": {}}))
    assert (report.results, report.verdict, report.trace_id) == ((), None, "")


@dataclass(frozen=True)
class Broken:
    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        raise ValueError(f"quotes {scope.input}")


def test_a_check_that_breaks_is_unknown_and_takes_no_other_down() -> None:
    loaded = load_data({"name": "w", "seq!": ["..."]})
    broken = (
        Check(key="output", validator=Broken()),
        Check(key="adherence", validator=Broken(), name="n", makes=("workflow_adherence", "required_steps")),
    )
    workflow = replace(loaded.workflows[0], checks=(*broken, *loaded.workflows[0].checks))
    (result,) = evaluate(Trace(RUN), replace(loaded, workflows=(workflow,))).results
    assert [(e.name, str(e.label), e.broken) for e in result.evaluations] == [
        ("output", "unknown", "ValueError"),
        ("n", "unknown", "ValueError"),
        ("n.required_steps", "unknown", "ValueError"),
        ("seq", "pass", None),
    ]
    assert result.verdict is Verdict.UNKNOWN
    assert "refund, please" not in result.evaluations[0].explanation
    assert result.evaluations[0].explanation.startswith("The check itself failed: ValueError in evaluate, line ")


# --- laws


EVERYTHING = load_data(
    [
        {"seq!": ["llm", "...", {"parallel!": ["kyc", "log"]}, "..."], "kyc": {"status": {"eq!": "ok"}}},
        {"parallel!": ["kyc", "log"], "agent": "billing"},
        {"adherence": {"expected_steps": ["kyc", "pay"], "extract_from": "tool_calls"}, "nested": "flatten"},
        {"plan!": {"id": "x", "steps": [{"step": "a", "tool": "kyc"}]}, "elapsed": {"lt!": 5}},
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.permutations([*RUN, *RUN]), st.sampled_from([None, "idle"]))
def test_order_and_duplicates_of_spans_change_nothing(spans: list[Span], reason: str | None) -> None:
    once = evaluate(Trace(RUN, release_reason=reason), EVERYTHING)
    again = evaluate(Trace(spans, release_reason=reason), EVERYTHING)
    counted = [replace(r, coverage=replace(r.coverage, duplicates=0)) for r in again.results]
    assert replace(again, results=tuple(counted)) == once


def test_a_policy_from_another_process_judges_the_same() -> None:
    received: Policy = pickle.loads(pickle.dumps(EVERYTHING))
    assert evaluate(Trace(RUN), received) == evaluate(Trace(RUN), EVERYTHING)


def test_one_span_has_one_result_of_a_workflow() -> None:
    """The key of an evaluation and the id of the evaluation span are made of the span: two Results would share them."""
    own = {"name": "own", "adherence": {"expected_steps": ["kyc"], "extract_from": "tool_calls", "agent": "refund"}}
    entry = {"name": "w", "match": {}, "seq!": ["..."], "checks": [own]}
    two_roots = (agent(1, "refund"), tool(2, "kyc"), agent(5, "billing"), tool(6, "log", 5))
    report = judged(entry, *two_roots)
    assert len({r.span_id for r in report.results}) == len(report.results)
    assert [e.name for r in report.results for e in r.evaluations] == ["seq", "own"]


def test_a_trace_that_cannot_be_judged_is_unknown_for_every_workflow_that_may_be_about_it() -> None:
    checks = {"adherence": {"expected_steps": ["a"], "required_steps": ["a"], "extract_from": "tool_calls"}}
    matches = [{}, {"service": "refund-*"}, {"agent": "nobody"}, {"service": "other"}]
    policy = load_data([{"name": f"w{i}", "match": m, **checks} for i, m in enumerate(matches)])
    report = unjudged(Trace(RUN, release_reason="span_limit"), policy, "evaluation_timeout")
    assert {r.workflow: str(r.verdict) for r in report.results} == {"w0": "unknown", "w1": "unknown", "w2": "unknown"}
    (first, *_) = report.results
    assert [(e.name, e.reason) for e in first.evaluations] == [
        ("workflow_adherence", "evaluation_timeout"),
        ("required_steps", "evaluation_timeout"),
    ]
    assert (first.span_id, report.release_reason) == (RUN[0].span_id, "span_limit")
    assert unjudged(Trace(()), policy, "x").results == ()


def test_spans_of_a_session_are_told_with_the_trace_they_are_in() -> None:
    elsewhere = replace(tool(3, "kyc", 1), trace_id="b" * 32, parent_span_id=None)
    trace = Trace((agent(1, "refund"), elsewhere), session="s")
    (result,) = evaluate(trace, load_data({"name": "w", "match": {}, "seq!": ["..."]})).results
    assert result.traces == {elsewhere.span_id: "b" * 32}
