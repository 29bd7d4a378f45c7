"""Report -> metrics: each trace once, revisions as changes, names from the policy alone."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from onpath.evaluate import evaluate
from onpath.policy.load import load_data
from onpath.report import Report, Verdict
from onpath.results_metrics import SCORE_BOUNDARIES, Instruments, points, step_names
from onpath.testing import together, tool, trace

POLICY = load_data(
    {
        "version": 1,
        "workflows": [
            {
                "name": "refund",
                "match": {},
                "adherence": {
                    "expected_steps": ["look_up", "pay"],
                    "required_steps": ["pay"],
                    "prohibited_steps": ["override"],
                    "strict_order": True,
                    "extract_from": "tool_calls",
                },
            },
            {"name": "order", "match": {}, "seq!": ["look_up", {"parallel!": ["check", "fraud"]}, "pay"]},
        ],
    }
)
STEPS = step_names(POLICY)


def counted(report: Report, before: Mapping[tuple[str, str], Verdict] | None = None) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for point in points(report, STEPS, before):
        found.setdefault(point.instrument, []).append(dict(point.attributes))
    return found


def only(report: Report, workflow: str) -> Report:
    return replace(report, results=tuple(r for r in report.results if r.workflow == workflow))


def test_a_report_counts_its_verdicts_evaluations_scores_and_findings() -> None:
    report = only(evaluate(trace(tool("look_up"), tool("override")), POLICY), "refund")
    found = counted(report)
    assert found["onpath.verdicts"] == [{"workflow": "refund", "verdict": "fail"}]
    assert found["onpath.evaluations"] == [
        {"workflow": "refund", "evaluation": name, "label": "fail"}
        for name in ("workflow_adherence", "required_steps", "prohibited_steps")
    ]
    assert {(f["rule"], f["step"]) for f in found["onpath.findings"]} == {
        ("missing_step", "pay"),
        ("extra_step", "override"),
        ("required_missing", "pay"),
        ("prohibited_called", "override"),
    }
    assert "onpath.revised" not in found
    root = report.results[0]
    assert {(p.trace_id, p.span_id) for p in points(report, STEPS)} == {(root.trace_id, root.span_id)}


def test_names_of_steps_that_no_policy_knows_are_not_counted_by_name() -> None:
    report = only(evaluate(trace(tool("look_up"), tool("customer 4711"), tool("pay")), POLICY), "refund")
    [finding] = counted(report)["onpath.findings"]
    assert finding == {"workflow": "refund", "rule": "extra_step", "step": "other"}


def test_blocks_are_named_as_the_policy_writes_them() -> None:
    report = only(evaluate(trace(tool("look_up"), tool("check"), tool("fraud"), tool("pay")), POLICY), "order")
    [finding] = counted(report)["onpath.findings"]
    assert finding == {"workflow": "order", "rule": "not_parallel", "step": "parallel!(check, fraud)"}
    good = evaluate(trace(tool("look_up"), together(tool("check"), tool("fraud")), tool("pay")), POLICY)
    assert counted(only(good, "order"))["onpath.verdicts"] == [{"workflow": "order", "verdict": "pass"}]


def test_a_revision_counts_only_what_has_changed() -> None:
    report = only(evaluate(trace(tool("look_up"), tool("pay")), POLICY), "refund")
    place = ("refund", report.results[0].span_id)
    assert counted(report, {place: Verdict.PASS}) == {}
    assert counted(report, {place: Verdict.UNKNOWN}) == {
        "onpath.verdicts": [{"workflow": "refund", "verdict": "pass"}],
        "onpath.revised": [{"workflow": "refund", "from": "unknown", "to": "pass"}],
    }


def test_points_pass_between_processes() -> None:
    made = points(evaluate(trace(tool("pay")), POLICY), STEPS)
    assert pickle.loads(pickle.dumps(made)) == made


def test_instruments_carry_exemplars_of_the_judged_span() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    Instruments(provider.get_meter("onpath")).record(points(evaluate(trace(tool("look_up")), POLICY), STEPS))
    data: Any = reader.get_metrics_data()
    metrics = {m.name: m.data.data_points for m in data.resource_metrics[0].scope_metrics[0].metrics}
    assert set(metrics) == {"onpath.verdicts", "onpath.evaluations", "onpath.evaluation.score", "onpath.findings"}
    exemplars = {(e.trace_id, e.span_id) for found in metrics.values() for point in found for e in point.exemplars}
    assert exemplars == {(1, 1)}
    assert metrics["onpath.evaluation.score"][0].explicit_bounds == SCORE_BOUNDARIES
    provider.shutdown()
