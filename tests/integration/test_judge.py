"""A judge behind the collector: a model's answers decide, off the way of everything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.support.collector import Collector
from tests.support.judge_endpoint import Reply, endpoint, judged
from tests.support.onpath import COMMAND
from tests.support.processes import Child

pytest.importorskip("openai")

POLICY = "version: 1\nworkflows:\n  - {name: polite, match: {}, output: {prompt!: greets the customer}}\n"


def answered(endpoint: str, output: str) -> str:
    """One agent run with this output; its trace id."""
    provider = TracerProvider(resource=Resource({"service.name": "greeter"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=True)))
    with provider.get_tracer("agent").start_as_current_span("invoke_agent greeter") as span:
        said = [{"role": "assistant", "parts": [{"type": "text", "content": output}]}]
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": json.dumps(said)})
    provider.shutdown()
    return f"{span.get_span_context().trace_id:032x}"


def configured(folder: Path, base_url: str, **more: str) -> tuple[Path, Path]:
    policy, config = folder / "policy.yaml", folder / "onpath.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    settings = {"base_url": base_url, "model": "judge-1", **more}
    config.write_text(json.dumps({"judge": settings, "shutdown_timeout": "20s"}), encoding="utf-8")
    return policy, config


def test_answers_of_a_model_decide_and_the_ready_line_says_where_values_go(tmp_path: Path) -> None:
    with endpoint(lambda body: judged("yes" if "Good day" in body["messages"][1]["content"] else "no")) as served:
        policy, config = configured(tmp_path, served.base_url)
        with Collector(policy, tmp_path, "--config", str(config)) as collector:
            collector.process.wait_for_line("judged values go to " + served.base_url)
            polite, rude = answered(collector.endpoint, "Good day!"), answered(collector.endpoint, "What?")
            (first,) = collector.wait_for(lambda result: result["trace_id"] == polite)
            (second,) = collector.wait_for(lambda result: result["trace_id"] == rude)
    assert (first["verdict"], second["verdict"]) == ("pass", "fail")
    assert first["revision"] == 1


def test_without_a_judge_the_check_is_unknown_and_says_so(tmp_path: Path) -> None:
    policy, _ = configured(tmp_path, "http://127.0.0.1:1/v1")
    with Collector(policy, tmp_path) as collector:
        trace = answered(collector.endpoint, "Good day!")
        (result,) = collector.wait_for(lambda result: result["trace_id"] == trace)
    assert result["verdict"] == "unknown"
    assert result["evaluations"][0]["reason"] == "no judge configured"


def test_a_judge_that_never_answers_holds_up_neither_the_verdict_for_ever_nor_the_stop(tmp_path: Path) -> None:
    with endpoint(lambda _: Reply("", delay=30)) as served:
        policy, config = configured(tmp_path, served.base_url, timeout="20s")
        with Collector(policy, tmp_path, "--config", str(config)) as collector:
            trace = answered(collector.endpoint, "Good day!")
            collector.process.wait_for_line("ready")
    (result,) = [r for r in collector.results if r["trace_id"] == trace]
    assert result["verdict"] == "unknown"


def test_validate_says_where_judged_values_go(tmp_path: Path) -> None:
    _, config = configured(tmp_path, "https://judge.example/v1")
    child = Child([*COMMAND, "validate", str(config)])
    assert child.wait() == 0
    assert "judged values go to https://judge.example/v1 (model judge-1)" in child.output
    config.write_text('{"judge": {"base_url": "https://judge.example/v1"}}', encoding="utf-8")
    child = Child([*COMMAND, "validate", str(config)])
    assert child.wait() == 2
    assert "base_url and model go together" in child.output
