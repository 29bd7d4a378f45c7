"""The admin port of a running collector: probes by command and by HTTP, and metrics that agree with the last words."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.collector import Collector
from tests.support.onpath import onpath
from tests.support.otlp_sink import OtlpSink
from tests.support.tls import Authority, secret
from tests.support.waiting import until

POLICY = """
version: 1
workflows:
  - name: refund
    adherence: {expected_steps: [lookup_user], required_steps: [lookup_user], extract_from: tool_calls}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def agent_run(collector: Collector, *tools: str) -> str:
    """Over HTTP; the trace id."""
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = OTLPSpanExporter(f"http://{collector.ports['OTLP/HTTP']}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("invoke_agent") as root:
        root.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund"})
        for tool in tools:
            with tracer.start_as_current_span(f"execute_tool {tool}") as span:
                span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool})
    provider.shutdown()
    return f"{root.get_span_context().trace_id:032x}"


def metrics(collector: Collector) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{collector.ports['admin']}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return {" ".join([s.name, *sorted(s.labels.values())]): s.value for family in families for s in family.samples}


def test_metrics_agree_with_the_ledger(policy: Path, tmp_path: Path) -> None:
    with OtlpSink() as sink, Collector(policy, tmp_path, "--forward", f"grpc://{sink.address}") as collector:
        good, bad = agent_run(collector, "lookup_user"), agent_run(collector, "delete_user")
        collector.wait_for(lambda result: result["trace_id"] == good)
        collector.wait_for(lambda result: result["trace_id"] == bad)
        until(lambda: metrics(collector)["onpath_spans_queued"] == 0, lambda: "an empty queue")
        until(lambda: metrics(collector).get("onpath_exporter_sent_spans_total results") == 2, lambda: "results sent")
        page = metrics(collector)
    ledger = json.loads(collector.process.lines[-1])
    assert page["onpath_traces_started_total"] == ledger["traces_started"] == 2
    assert page["onpath_traces_judged_total pass"] == page["onpath_traces_judged_total fail"] == 1
    assert page["onpath_traces_open"] == 0
    assert page["onpath_spans_received_total"] == ledger["spans_received"] == 4
    assert page["onpath_receiver_accepted_spans_total http"] == page["onpath_spans_forwarded_total"] == 4
    assert page["onpath_exporter_sent_spans_total forward"] == 4
    assert page["onpath_exporter_sent_spans_total results"] == 2
    assert page["onpath_verdicts_total pass refund"] == page["onpath_verdicts_total fail refund"] == 1
    assert page["onpath_evaluation_duration_seconds_count adherence refund"] == 2
    assert page["onpath_buffer_releases_total root_ended"] == 2
    assert page["onpath_buffer_deadline_lag_seconds_count"] == 2


def test_health_says_ready_until_the_collector_stops(policy: Path, tmp_path: Path) -> None:
    with Collector(policy, tmp_path, "--settle-delay", "10m") as collector:
        admin = collector.ports["admin"]
        done = onpath("health", "--admin", admin)
        assert (done.returncode, json.loads(done.stdout)) == (0, {"status": "ready"})
        with urllib.request.urlopen(f"http://{admin}/livez", timeout=10) as answer:
            assert answer.status == 200
    done = onpath("health", "--admin", admin)
    assert done.returncode == 1
    assert re.search(r"no answer from 127\.0\.0\.1:\d+: Connection refused", done.stderr)


def test_health_is_not_ready_at_once_when_the_collector_stops(policy: Path, tmp_path: Path) -> None:
    """Its queue can't be emptied, so that stopping takes its time."""
    config = tmp_path / "onpath.yaml"
    config.write_text("shutdown_timeout: 5s\n", encoding="utf-8")
    options = ("--forward", "grpc://127.0.0.1:9", "--config", str(config))
    with Collector(policy, tmp_path, *options) as collector:
        agent_run(collector)
        collector.process.send(signal.SIGTERM)
        collector.process.wait_for_line("stopping")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{collector.ports['admin']}/healthz", timeout=10)
        assert refused.value.code == 503
        assert json.loads(refused.value.read()) == {"status": "stopping"}
        refused.value.close()


def test_every_port_is_guarded_by_its_settings(policy: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue()
    token = secret(tmp_path / "token", "letmein")
    guard = f"{{tls: {{cert: {cert}, key: {key}, client_ca: {authority.path}}}, bearer_token_files: [{token}]}}"
    config = tmp_path / "onpath.yaml"
    config.write_text(f"receivers: {{grpc: {guard}, http: {guard}}}\nadmin: {guard}\n", encoding="utf-8")
    with Collector(policy, tmp_path, "--config", str(config)) as collector:
        context = authority.client_context((cert, key))
        admin = f"https://{collector.ports['admin']}"
        with urllib.request.urlopen(f"{admin}/healthz", context=context, timeout=10) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            urllib.request.urlopen(f"{admin}/metrics", context=context, timeout=10)
        refused.value.close()
        done = onpath("health", "--admin", collector.ports["admin"], "--config", str(config))
        assert done.returncode == 0, done.stderr
