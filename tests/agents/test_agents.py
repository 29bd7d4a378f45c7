"""Real agents, each with its own instrumentation and exporter, get the verdict from the collector that they deserve.

Each program runs each scenario once against one collector; the tests look at the same runs from several sides. What
the spans say is read from what the collector passed on, and held against the ledger that the tools themselves kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.agents.conftest import ResultOf, StepsOf
from tests.agents.programs import refund
from tests.agents.support.programs import FRAMEWORKS, Run
from tests.support.otlp_sink import OtlpSink
from tests.support.waiting import until

EVENT = "gen_ai.evaluation.result"

pytestmark = pytest.mark.agents

Runs = Callable[[str], dict[str, Run]]


@dataclass(frozen=True)
class Deserved:
    verdict: str
    labels: tuple[str, str, str] = ("pass", "pass", "pass")  # workflow_adherence, required_steps, prohibited_steps
    findings: tuple[tuple[str, str], ...] = ()  # rule, step


MISSING = Deserved("fail", ("pass", "fail", "pass"), (("required_missing", "check_balance"),))
DESERVED = {
    "good": Deserved("pass"),
    "skipped": MISSING,
    "prohibited": Deserved("fail", ("pass", "pass", "fail"), (("prohibited_called", "override_limit"),)),
    "parallel": Deserved("pass"),
    "retry": Deserved("pass"),
    "failed": MISSING,
}

everywhere = pytest.mark.parametrize("framework", FRAMEWORKS)
always = pytest.mark.parametrize("scenario", refund.SCENARIOS)


@always
@everywhere
def test_it_runs_and_its_exporter_has_nothing_to_complain_about(runs_of: Runs, framework: str, scenario: str) -> None:
    run = runs_of(framework)[scenario]
    assert run.code == 0, str(run)
    assert run.stderr == "", str(run)


@always
@everywhere
def test_it_gets_the_verdict_it_deserves(
    runs_of: Runs, result_of: ResultOf, steps_of: StepsOf, framework: str, scenario: str
) -> None:
    run, deserved = runs_of(framework)[scenario], DESERVED[scenario]
    result = result_of(run)
    evaluations = {e["name"]: e for e in result["evaluations"]}
    labels = tuple(evaluations[name]["label"] for name in ("workflow_adherence", "required_steps", "prohibited_steps"))
    findings = [finding for e in result["evaluations"] for finding in e["findings"]]
    assert (result["verdict"], labels) == (deserved.verdict, deserved.labels), result
    assert tuple((finding["rule"], finding["step"]) for finding in findings) == deserved.findings, result
    assert (result["workflow"], result["complete"], result["release_reason"]) == ("refund", True, "root_ended")
    culprits = [step for step in steps_of(run)["steps"] if step["name"] in {step for _, step in deserved.findings}]
    named = {span_id for finding in findings for span_id in finding["span_ids"]}
    assert named == {span_id for step in culprits for span_id in step["span_ids"]}


@always
@everywhere
def test_its_spans_say_what_its_tools_did(runs_of: Runs, steps_of: StepsOf, framework: str, scenario: str) -> None:
    run = runs_of(framework)[scenario]
    steps = steps_of(run)["steps"]
    tools = [step for step in steps if step["kind"] == "tool"]
    assert _groups(tools, "name") == _groups(run.ledger, "tool")
    expected = sorted((c["tool"], c["start_ns"], c["args"], c["error"] is not None) for c in run.ledger)
    seen = sorted((s["name"], s["start_ns"], s["input"], s["status"] == "error") for s in tools)
    assert [(name, *rest) for name, _, *rest in seen] == [(name, *rest) for name, _, *rest in expected]
    results = {c["tool"]: c["result"] for c in run.ledger if c["error"] is None}
    assert {s["name"]: s["output"] for s in tools if s["status"] != "error"} == results
    assert sum(step["kind"] == "llm" for step in steps) == run.model_calls


@everywhere
def test_calls_asked_for_at_once_ran_at_once(runs_of: Runs, framework: str) -> None:
    assert ["check_balance", "check_fraud"] in _groups(runs_of(framework)["parallel"].ledger, "tool")


@everywhere
def test_a_retry_is_a_second_attempt_at_one_call(runs_of: Runs, steps_of: StepsOf, framework: str) -> None:
    steps = steps_of(runs_of(framework)["retry"])["steps"]
    first, second = (step["attempt"] for step in steps if step["name"] == "check_balance")
    assert first["group"] == second["group"]
    assert (first["number"], second["number"]) == (1, 2)


@everywhere
def test_its_results_follow_its_spans_downstream(
    runs_of: Runs, result_of: ResultOf, downstream: OtlpSink, framework: str
) -> None:
    result = result_of(runs_of(framework)["skipped"])
    trace_id = bytes.fromhex(result["trace_id"])

    def events() -> dict[str, str]:
        records = [r for r in downstream.log_records() if r.event_name == EVENT and r.trace_id == trace_id]
        attributes = [{a.key: a.value.string_value for a in record.attributes} for record in records]
        return {a["gen_ai.evaluation.name"]: a["gen_ai.evaluation.score.label"] for a in attributes}

    labels = {e["name"]: e["label"] for e in result["evaluations"]}
    until(lambda: events() == labels, lambda: f"{labels}; there are {events()}")
    until(
        lambda: [s for s in downstream.spans() if s.trace_id == trace_id and s.name == "onpath.evaluate refund"],
        lambda: "the evaluation span",
    )


def _groups(calls: Iterable[dict[str, Any]], name: str) -> Sequence[list[str]]:
    """Names of calls in order of time, those that overlapped together in one group, sorted."""
    groups: list[list[str]] = []
    until = 0
    for call in sorted(calls, key=lambda call: call["start_ns"]):
        if call["start_ns"] < until:
            groups[-1].append(call[name])
        else:
            groups.append([call[name]])
        until = max(until, call["end_ns"])
    return [sorted(group) for group in groups]
