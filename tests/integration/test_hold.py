"""Inline mode end to end: real exporters, downstreams over gRPC and HTTP, real checks; the agent's span tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from onpath_collector.config import ConfigError, load_settings
from tests.integration.test_result_records import policy_for, run_of
from tests.support.http_sink import HttpSink, serving_http
from tests.support.otlp_sink import OtlpSink
from tests.support.service import Collecting, collecting

SOON = {"settle_delay": "300ms"}
EVALUATION = "onpath.evaluate refund"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(policy_for("pay")), encoding="utf-8")
    return path


@asynccontextmanager
async def downstream(over: str) -> AsyncIterator[tuple[str, Callable[[], list[bytes]]]]:
    """Where it is, and the requests with spans that it has got."""
    if over == "grpc":
        with OtlpSink() as sink:
            yield f"grpc://{sink.address}", lambda: sink.requests("trace")
    else:
        async with serving_http(HttpSink()) as http:
            yield f"http://{http.address}", lambda: [b for path, b in http.requests if path == "/v1/traces"]


def run_agent(exporter: Any, *tools: str) -> None:
    """Each span leaves in a request of its own, the agent's last."""
    provider = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("shop")
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund", "onpath.verdict": "my own"}
    with tracer.start_as_current_span("invoke_agent refund", attributes=agent):
        for tool in tools:
            call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
            with tracer.start_as_current_span(f"execute_tool {tool}", attributes=call):
                pass
    provider.shutdown()


def spans_of(requests: list[bytes]) -> list[Span]:
    groups = [group for body in requests for group in ExportTraceServiceRequest.FromString(body).resource_spans]
    return [span for group in groups for scope in group.scope_spans for span in scope.spans]


def attributes(span: Span) -> dict[str, Any]:
    found = {a.key: a.value for a in span.attributes}
    return {key: getattr(value, value.WhichOneof("value") or "string_value") for key, value in found.items()}


@pytest.mark.parametrize("over", ["grpc", "http"])
async def test_the_agents_own_span_carries_its_verdict(policy: Path, tmp_path: Path, over: str) -> None:
    async with (
        downstream(over) as (endpoint, got),
        collecting(tmp_path, policy, forward={"endpoint": endpoint, "hold": True}, buffer=SOON) as collector,
    ):
        address = collector.addresses[over]
        if over == "grpc":
            exporter: Any = GrpcExporter(endpoint=address, insecure=True)
        else:
            exporter = HttpExporter(endpoint=f"http://{address}/v1/traces")
        await asyncio.to_thread(run_agent, exporter, "delete", "pay")
        assert collector.ledger.spans_queued == 3, "they are held"
        await collector.until(lambda: len(spans_of(got())) == 4)
        (result,) = await collector.until_results(1)
    first, second = got()
    held = spans_of([first])
    assert [span.name for span in held] == ["execute_tool delete", "execute_tool pay", "invoke_agent refund"]
    (evaluation,) = spans_of([second])
    assert evaluation.name == EVALUATION
    marks = attributes(held[2])
    assert {key: marks[key] for key in ("onpath.verdict", "gen_ai.agent.name")} == {
        "onpath.verdict": "fail",
        "gen_ai.agent.name": "refund",
    }
    of_results = {k: v for k, v in attributes(evaluation).items() if k.startswith(("onpath.", "gen_ai.evaluation."))}
    assert of_results.items() <= marks.items()
    assert marks["gen_ai.evaluation.score.value"] in [e["score"] for e in result["evaluations"]]
    assert held[2].status.code == 0, "a verdict is no error of the agent"
    assert all(not attributes(span).keys() & of_results.keys() for span in held[:2])


async def test_without_a_policy_nothing_is_held(tmp_path: Path) -> None:
    with OtlpSink() as sink:
        forward = {"endpoint": f"grpc://{sink.address}", "hold": True}
        async with collecting(tmp_path, None, forward=forward) as collector:
            await collector.send(body := run_of("pay"))
            await collector.until(lambda: sink.requests("trace") == [body])


async def stopped(collector: Collecting) -> None:
    await collector.close()
    await collector.service.stop()


@pytest.mark.parametrize("hurried", [False, True])
async def test_stopping_judges_and_passes_on_what_is_held(policy: Path, tmp_path: Path, hurried: bool) -> None:
    with OtlpSink() as sink:
        forward = {"endpoint": f"grpc://{sink.address}", "hold": True}
        options = {"evaluate": {"workers": 1}, "shutdown_timeout": "10ms" if hurried else "20s"}
        async with collecting(tmp_path, policy, forward=forward, **options) as collector:
            await collector.send(run_of("pay"))
            await stopped(collector)
        spans = [span for span in sink.spans() if span.name != EVALUATION]
    if hurried:  # no time to judge, or even to send: then it is accounted for
        assert collector.ledger.adds_up
    else:
        assert [attributes(span).get("onpath.release_reason") for span in spans] == ["shutdown", None]


def test_holding_needs_somewhere_to_pass_on_to() -> None:
    with pytest.raises(ConfigError, match="hold needs an endpoint"):
        load_settings(None, {"forward": {"hold": True}})
