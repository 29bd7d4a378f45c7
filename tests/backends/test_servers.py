"""A real agent's trace goes through onpath to a real backend, and its score appears there, by the backend's own API.

The evaluation span is in the trace too, and the trace is as long as without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.agents.conftest import POLICY
from tests.agents.support import programs
from tests.backends.conftest import had
from tests.backends.support.servers import MLflow, Phoenix
from tests.support.collector import PATIENCE, Collector, Result
from tests.support.waiting import until

pytestmark = pytest.mark.backends

PROJECT = "shop"
FRAMEWORK = "langgraph"
EXPERIMENT = {"x-mlflow-experiment-id": "0"}
SWITCHED_OFF = "they are no longer sent there"

Report = tuple[Result, Collector]


def scores_of(result: Result) -> dict[str, float]:
    return {e["name"]: e["score"] for e in result["evaluations"]}


def judged(folder: Path, settings: Mapping[str, Any], openai: str, resource: str = "") -> tuple[Result, Collector]:
    """One run of an agent that skips a required step, through a collector that is stopped at the end."""
    config = folder / "onpath.yaml"
    config.write_text(yaml.safe_dump(dict(settings)))
    with Collector(POLICY, folder, "--config", str(config)) as collector:
        run = had(FRAMEWORK, lambda: programs.run(FRAMEWORK, "skipped", collector.endpoint, openai, resource=resource))
        assert run.code == 0, str(run)
        (result,) = collector.wait_for(lambda result: result["service"] == run.service, PATIENCE)
        until(lambda: SWITCHED_OFF in collector.output, lambda: f"logs to be off:\n{collector.output}", PATIENCE)
    return result, collector


@pytest.mark.parametrize("over", ["grpc", "http"])
def test_phoenix_shows_the_score(phoenix: Phoenix, openai: str, tmp_path: Path, over: str) -> None:
    settings = {
        "forward": {"endpoint": phoenix.grpc if over == "grpc" else phoenix.url},
        "results": {"sinks": [{"type": "phoenix", "url": phoenix.url}], "metrics": {"interval": "1s"}},
    }
    result, collector = judged(tmp_path, settings, openai, resource=f"openinference.project.name={PROJECT}")
    trace_id = result["trace_id"]
    path = f"/v1/projects/{PROJECT}/trace_annotations?trace_ids={trace_id}"
    annotations = until(lambda: phoenix.get(path)["data"], lambda: f"annotations:\n{collector.output}")
    assert {a["name"]: a["result"]["score"] for a in annotations} == scores_of(result)
    assert {a["annotator_kind"] for a in annotations} == {"CODE"}
    spans = phoenix.get(f"/v1/projects/{PROJECT}/spans?trace_id={trace_id}&limit=100")["data"]
    assert "onpath.evaluate refund" in {span["name"] for span in spans}
    traces = phoenix.get(f"/v1/projects/{PROJECT}/traces?limit=100")["data"]
    (trace,) = [trace for trace in traces if trace["trace_id"] == trace_id]
    own = [span for span in spans if not span["name"].startswith("onpath.")]
    assert _at(trace["start_time"]) == min(_at(span["start_time"]) for span in own)
    assert _at(trace["end_time"]) == max(_at(span["end_time"]) for span in own)
    for signal in ("logs", "metrics"):
        assert collector.output.count(f"the backend takes no OTLP {signal}") == 1, collector.output
    assert "is dropped" not in collector.output


PLACES = """
version: 1
workflows:
  - name: refund
    agent: refund
    adherence: {expected_steps: [pay], required_steps: [pay], extract_from: tool_calls}
"""


def run_agents(collector: Collector, *agents: str, session: str) -> str:
    """Each agent within the one before it; the innermost pays. The span id of that one."""
    resource = Resource({"service.name": "shop", "openinference.project.name": PROJECT})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(collector.endpoint, insecure=True)))
    tracer = provider.get_tracer("shop")
    with ExitStack() as open_spans:
        for agent in agents:
            told = {"openinference.span.kind": "AGENT", "agent.name": agent, "session.id": session}
            span = open_spans.enter_context(tracer.start_as_current_span(agent, attributes=told))
        with tracer.start_as_current_span("pay", attributes={"openinference.span.kind": "TOOL", "tool.name": "pay"}):
            pass
    provider.shutdown()
    return f"{span.get_span_context().span_id:016x}"


@pytest.mark.parametrize("place", ["span", "session"])
def test_phoenix_has_annotations_of_spans_and_sessions(phoenix: Phoenix, tmp_path: Path, place: str) -> None:
    policy, config = tmp_path / "policy.yaml", tmp_path / "onpath.yaml"
    policy.write_text(PLACES)
    joined = {"group_by": "session.id", "session_idle": "2s"} if place == "session" else {}
    sinks = [{"type": "phoenix", "url": phoenix.url}]
    settings = {"forward": {"endpoint": phoenix.grpc}, "buffer": joined, "results": {"sinks": sinks}}
    config.write_text(yaml.safe_dump(settings))
    with Collector(policy, tmp_path, "--config", str(config)) as collector:
        if place == "session":
            run_agents(collector, "refund", session="s-1")
            run_agents(collector, "refund", session="s-1")
            asked = "session_annotations?session_ids=s-1"
        else:
            asked = f"span_annotations?span_ids={run_agents(collector, 'desk', 'refund', session='s-2')}"
        (result, *_) = collector.wait_for(lambda result: result["workflow"] == "refund", PATIENCE)
        path = f"/v1/projects/{PROJECT}/{asked}"
        found = until(lambda: (phoenix.get(path) or {"data": []})["data"], lambda: collector.output, PATIENCE)
    assert {a["name"] for a in found} == {e["name"] for e in result["evaluations"]}
    assert {a["annotator_kind"] for a in found} == {"CODE"}
    assert {a["result"]["label"] for a in found} == {"pass"}
    assert (result["session"] == "s-1") == (place == "session")


def test_phoenix_has_the_verdict_on_the_agents_own_span(phoenix: Phoenix, tmp_path: Path) -> None:
    policy, config = tmp_path / "policy.yaml", tmp_path / "onpath.yaml"
    policy.write_text(PLACES)
    config.write_text(yaml.safe_dump({"forward": {"endpoint": phoenix.grpc, "hold": True}}))
    with Collector(policy, tmp_path, "--config", str(config)) as collector:
        agent = run_agents(collector, "desk", "refund", session="s-3")
        (result,) = collector.wait_for(lambda result: result["workflow"] == "refund", PATIENCE)
        path = f"/v1/projects/{PROJECT}/spans?trace_id={result['trace_id']}&limit=100"

        def own() -> dict[str, Any] | None:
            spans = (phoenix.get(path) or {"data": []})["data"]
            return next((span["attributes"] for span in spans if span["context"]["span_id"] == agent), None)

        attributes = until(own, lambda: f"the span; the collector said:\n{collector.output}", PATIENCE)
    assert attributes["agent.name"] == "refund"
    marks = {name: attributes[f"onpath.{name}"] for name in ("workflow", "verdict", "release_reason")}
    assert marks == {"workflow": "refund", "verdict": "pass", "release_reason": "root_ended"}
    assert attributes["gen_ai.evaluation.score.value"] == 1.0


def test_mlflow_shows_the_score(mlflow: MLflow, openai: str, tmp_path: Path) -> None:
    settings = {
        "forward": {"endpoint": mlflow.url, "headers": EXPERIMENT},
        "results": {"sinks": [{"type": "mlflow", "url": mlflow.url, "timeout": "30s"}], "metrics": {"interval": "1s"}},
    }
    result, collector = judged(tmp_path, settings, openai)
    info = _trace_info(mlflow, result, lambda info: len(info.get("assessments", ())) == len(result["evaluations"]))
    assert {a["assessment_name"]: a["feedback"]["value"] for a in info["assessments"]} == scores_of(result)
    assert {a["source"]["source_type"] for a in info["assessments"]} == {"CODE"}
    trace = mlflow.get(f"/api/3.0/mlflow/traces/get?trace_id=tr-{result['trace_id']}")["trace"]
    spans = trace["spans"]
    assert "onpath.evaluate refund" in {span["name"] for span in spans}
    own = [span for span in spans if not span["name"].startswith("onpath.")]
    start = min(int(span["start_time_unix_nano"]) for span in own)
    end = max(int(span["end_time_unix_nano"]) for span in own)
    assert abs(float(info["execution_duration"].removesuffix("s")) - (end - start) / 1e9) < 0.002  # in milliseconds
    for signal in ("logs", "metrics"):
        assert collector.output.count(f"the backend takes no OTLP {signal}") == 1, collector.output


def test_mlflow_keeps_one_assessment_an_evaluation(mlflow: MLflow, openai: str, tmp_path: Path) -> None:
    """Sent twice, by a second sink with the same url: what is there is found and changed."""
    sink = {"type": "mlflow", "url": mlflow.url, "timeout": "30s"}
    settings = {
        "forward": {"endpoint": mlflow.url, "headers": EXPERIMENT},
        "results": {"sinks": [sink], "metrics": {"interval": "1s"}},
    }
    result, _ = judged(tmp_path, settings, openai)
    first = _trace_info(mlflow, result, lambda info: len(info.get("assessments", ())) == len(result["evaluations"]))
    from_report = json.loads((tmp_path / "reports.jsonl").read_text().splitlines()[0])
    assert from_report == result
    send_again(mlflow.url, from_report)
    again = _trace_info(mlflow, result, lambda info: _scored(info, "required_steps") == [0.25])
    ids = [{a["assessment_id"] for a in info["assessments"]} for info in (first, again)]
    assert ids[0] == ids[1]


def send_again(url: str, result: Result) -> None:
    """As a revision, with another score."""
    import asyncio

    from onpath_collector.exporters.sinks import SinkSettings, open_sinks
    from tests.collector.sinks.backend import outcome

    changed = {**result, "revision": 2, "evaluations": [dict(e) for e in result["evaluations"]]}
    for evaluation in changed["evaluations"]:
        if evaluation["name"] == "required_steps":
            evaluation["score"] = 0.25

    async def send() -> None:
        (sink,) = open_sinks([SinkSettings(type="mlflow", url=url, timeout=30)], {})
        sink.export(outcome(changed))
        await sink.close(sink._clock() + 60)
        assert sink.counts.sent == len(changed["evaluations"])

    asyncio.run(send())


def _scored(info: Mapping[str, Any], name: str) -> list[float]:
    return [a["feedback"]["value"] for a in info["assessments"] if a["assessment_name"] == name]


def _trace_info(mlflow: MLflow, result: Result, wanted: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
    path = f"/api/3.0/mlflow/traces/tr-{result['trace_id']}"

    def found() -> Mapping[str, Any] | None:
        answer = mlflow.get(path)
        info: Mapping[str, Any] | None = answer and answer["trace"]["trace_info"]
        return info if info and wanted(info) else None

    return until(found, lambda: f"the trace's assessments; there are {mlflow.get(path)}\n{mlflow.log}", 60) or {}


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)
