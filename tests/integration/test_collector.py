"""The collector as its users meet it: the command, real exporters in front, a real downstream behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.support import requests
from tests.support.collector import ANY_PORTS, Collector, Result
from tests.support.onpath import COMMAND
from tests.support.otlp_sink import OtlpSink
from tests.support.processes import Child
from tests.support.waiting import until

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
POLICY = """
version: 1
workflows:
  - name: refund
    adherence:
      expected_steps: [lookup_user, check_balance, send_receipt]
      required_steps: [check_balance]
      prohibited_steps: [delete_records]
      extract_from: tool_calls
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def agent_run(endpoint: str, *tools: str) -> str:
    """An agent as an SDK user writes one, under the real gRPC exporter; the trace id."""
    provider = TracerProvider(resource=Resource({"service.name": "refund-agent"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=True)))
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("invoke_agent refund") as root:
        root.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund"})
        for tool in tools:
            with tracer.start_as_current_span(f"execute_tool {tool}") as span:
                span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool})
    provider.shutdown()
    return f"{root.get_span_context().trace_id:032x}"


def raw(endpoint: str, body: bytes) -> bytes:
    with grpc.insecure_channel(endpoint.removeprefix("http://")) as channel:
        answer: bytes = channel.unary_unary(EXPORT)(body, timeout=20)
        return answer


def tool_trace(trace: int, count: int, **changes: Any) -> bytes:
    """`count` tool spans below a root that comes last."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(1, count + 1):
        span = spans.add(trace_id=trace.to_bytes(16), span_id=number.to_bytes(8), name="execute_tool lookup_user")
        if number < count:
            span.parent_span_id = count.to_bytes(8)
        span.start_time_unix_nano, span.end_time_unix_nano = number * 1000, number * 1000 + 500
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "execute_tool"
        span.attributes.add(key="gen_ai.tool.name").value.string_value = "lookup_user"
        for name, value in changes.items():
            setattr(span, name, value)
    return request.SerializeToString()


def of(trace_id: str) -> Any:
    return lambda result: result["trace_id"] == trace_id


def last_ledger(collector: Collector) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(collector.process.lines[-1])
    return found


def test_an_agent_run_is_passed_on_judged_and_reported(policy: Path, tmp_path: Path, sink: OtlpSink) -> None:
    with Collector(policy, tmp_path, "--forward", f"grpc://{sink.address}") as collector:
        good = agent_run(collector.endpoint, "lookup_user", "check_balance", "send_receipt")
        bad = agent_run(collector.endpoint, "lookup_user", "delete_records")
        (passed,) = collector.wait_for(of(good))
        (failed,) = collector.wait_for(of(bad))
    assert (passed["verdict"], failed["verdict"]) == ("pass", "fail")
    assert (passed["complete"], passed["release_reason"], passed["revision"]) == (True, "root_ended", 1)
    assert (passed["service"], passed["agent"], passed["workflow"]) == ("refund-agent", "refund", "refund")
    rules = {f["rule"] for e in failed["evaluations"] for f in e["findings"]}
    assert {"required_missing", "prohibited_called"} <= rules
    ledger = last_ledger(collector)
    assert (ledger["traces_started"], ledger["traces_judged"], ledger["traces_open"]) == (2, 2, 0)
    assert (ledger["spans_received"], ledger["spans_forwarded"], ledger["spans_queued"]) == (7, 7, 0)


def test_results_arrive_downstream_in_the_agents_own_trace(policy: Path, tmp_path: Path, sink: OtlpSink) -> None:
    with Collector(policy, tmp_path, "--forward", f"grpc://{sink.address}") as collector:
        trace_id = agent_run(collector.endpoint, "lookup_user", "delete_records")
        (result,) = collector.wait_for(of(trace_id))
    spans = [s for s in sink.spans() if s.trace_id.hex() == trace_id]
    (judged,) = [s for s in spans if s.name.startswith("onpath.evaluate")]
    (root,) = [s for s in spans if s.name == "invoke_agent refund"]
    assert judged.name == "onpath.evaluate refund"
    assert judged.parent_span_id == root.span_id == bytes.fromhex(result["span_id"])
    assert judged.start_time_unix_nano == judged.end_time_unix_nano == root.end_time_unix_nano
    assert judged.status.code == 0
    prohibited = [s.span_id for s in spans if "delete_records" in s.name]
    assert prohibited[0] in [link.span_id for link in judged.links]
    events = sink.log_records()
    assert {e.event_name for e in events} == {"gen_ai.evaluation.result"}
    assert {e.trace_id.hex() for e in events} == {trace_id}
    names = {a.value.string_value for e in events for a in e.attributes if a.key == "gen_ai.evaluation.name"}
    assert names == {"workflow_adherence", "required_steps", "prohibited_steps"}


def test_requests_go_on_byte_for_byte(policy: Path, tmp_path: Path, sink: OtlpSink) -> None:
    body = tool_trace(1, 3) + b"\xaa\x3e\x03new"  # a field that no version of OTLP has yet
    invalid = requests.traces(1, trace=0)
    with Collector(policy, tmp_path, "--forward", f"grpc://{sink.address}") as collector:
        assert raw(collector.endpoint, body) == b""
        assert b"trace_id all zero" in raw(collector.endpoint, invalid)
        until(lambda: len(sink.requests("trace")) >= 2, lambda: "both requests downstream")
    assert sink.requests("trace")[:2] == [body, invalid]


def test_a_stop_judges_what_is_open_and_loses_nothing(policy: Path, tmp_path: Path, sink: OtlpSink) -> None:
    options = ("--forward", f"grpc://{sink.address}", "--settle-delay", "10m")
    with Collector(policy, tmp_path, *options) as collector:
        trace_id = agent_run(collector.endpoint, "lookup_user", "check_balance", "send_receipt")
    (result,) = [r for r in collector.results if r["trace_id"] == trace_id]
    assert (result["release_reason"], result["complete"], result["verdict"]) == ("shutdown", False, "unknown")
    assert len([s for s in sink.spans() if s.trace_id.hex() == trace_id]) == 5  # four and the evaluation span
    assert last_ledger(collector)["traces_open"] == 0


def test_a_dead_downstream_does_not_hold_up_the_stop(policy: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound, never listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        options = ("--forward", f"grpc://127.0.0.1:{taken.getsockname()[1]}")
        config = tmp_path / "onpath.yaml"
        config.write_text("shutdown_timeout: 3s\n", encoding="utf-8")
        with Collector(policy, tmp_path, *options, "--config", str(config)) as collector:
            trace_id = agent_run(collector.endpoint, "lookup_user")
            collector.wait_for(of(trace_id))
    ledger = last_ledger(collector)
    assert ledger["spans_dropped"] == {"shutdown": 2}
    assert ledger["spans_received"] == 2


def test_spans_over_the_limit_release_their_trace_at_once(policy: Path, tmp_path: Path) -> None:
    with Collector(policy, tmp_path, "--settle-delay", "10m") as collector:
        raw(collector.endpoint, tool_trace(7, 20_001))
        (result,) = collector.wait_for(of(f"{7:032x}"), patience=60)
    assert result["release_reason"] == "span_limit"
    assert result["complete"] is False


def strange(result: Result) -> bool:
    return True


@pytest.mark.parametrize(
    ("changes", "complete"),
    [
        ({"start_time_unix_nano": 2**63 - 1, "end_time_unix_nano": 2**63 - 1}, True),  # the year 2262
        ({"start_time_unix_nano": 2**64 - 1, "end_time_unix_nano": 2**64 - 1}, True),
        ({"start_time_unix_nano": 9_000_000, "end_time_unix_nano": 1}, True),  # end before start
        ({"start_time_unix_nano": 0, "end_time_unix_nano": 0}, True),
    ],
)
def test_strange_times_are_judged(policy: Path, tmp_path: Path, changes: dict[str, int], complete: bool) -> None:
    with Collector(policy, tmp_path) as collector:
        raw(collector.endpoint, tool_trace(3, 4, **changes))
        (result,) = collector.wait_for(of(f"{3:032x}"))
    assert result["complete"] is complete


def test_a_loop_of_spans_is_judged(policy: Path, tmp_path: Path) -> None:
    request = ExportTraceServiceRequest.FromString(tool_trace(5, 3))
    spans = request.resource_spans[0].scope_spans[0].spans
    spans[2].parent_span_id = spans[0].span_id
    with Collector(policy, tmp_path) as collector:
        raw(collector.endpoint, request.SerializeToString())
        # No root will ever come; stopping is sooner than the idle timeout.
    (result,) = collector.results
    assert result["release_reason"] == "shutdown"


def nested(span: Span, depth: int) -> None:
    value = span.attributes.add(key="deep").value
    for _ in range(depth):
        value = value.kvlist_value.values.add(key="k").value.array_value.values.add()
    value.bytes_value = b"\x00\xff"


def test_attributes_of_every_kind_nested_deep_are_judged_and_passed_on(
    policy: Path, tmp_path: Path, sink: OtlpSink
) -> None:
    request = ExportTraceServiceRequest.FromString(tool_trace(6, 2))
    span = request.resource_spans[0].scope_spans[0].spans[0]
    nested(span, 10)
    span.attributes.add(key="none")
    span.attributes.add(key="double").value.double_value = float("nan")
    span.attributes.add(key="bool").value.bool_value = False
    span.attributes.add(key="int").value.int_value = -(2**63)
    body = request.SerializeToString()
    with Collector(policy, tmp_path, "--forward", f"grpc://{sink.address}") as collector:
        raw(collector.endpoint, body)
        collector.wait_for(of(f"{6:032x}"))
    assert sink.requests("trace")[0] == body


def test_random_bytes_stop_nothing(policy: Path, tmp_path: Path) -> None:
    whole = tool_trace(9, 5)
    with Collector(policy, tmp_path) as collector:
        for cut in range(1, len(whole), 37):
            try:
                raw(collector.endpoint, whole[:cut] + os.urandom(5))
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.INVALID_ARGUMENT  # noqa: PT017
        trace_id = agent_run(collector.endpoint, "lookup_user")
        assert collector.wait_for(of(trace_id))


def run(*arguments: str) -> tuple[int, str]:
    """Other ports than those that a test is about are any."""
    child = Child([*COMMAND, "collector", *ANY_PORTS, *arguments])
    code = child.wait()
    return code, child.output


def test_a_port_in_use_is_said_and_ends_with_1() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, output = run("--grpc", address)
    assert code == 1
    assert f"cannot receive OTLP/gRPC on {address}: Address already in use" in output
    assert "Traceback" not in output


def test_a_downstream_that_is_the_collector_itself_is_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code, output = run("--grpc", f"127.0.0.1:{port}", "--forward", f"grpc://localhost:{port}")
    assert code == 2
    assert "is this collector itself" in output


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        ("version: 1\nworkflows: []\n", "workflow"),
        (POLICY.replace("required_steps", "requierd_steps"), "did you mean"),
        (POLICY + "    unheard_of!: [a]\n", "unheard_of!"),
    ],
)
def test_a_bad_policy_is_said_with_its_place_and_ends_with_2(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    code, output = run("--policy", str(path), "--grpc", "127.0.0.1:0")
    assert code == 2
    assert str(path) in output
    assert told in output
    assert "Traceback" not in output


def test_a_bad_configuration_ends_with_2_and_wrong_usage_with_64(tmp_path: Path) -> None:
    config = tmp_path / "onpath.yaml"
    config.write_text("bufer: {}\n", encoding="utf-8")
    code, output = run("--config", str(config))
    assert code == 2
    assert f"{config}:1: /bufer: unknown setting; did you mean buffer?" in output
    assert run("--config", str(tmp_path / "absent.yaml"))[0] == 2
    assert run("--no-such-option")[0] == 64


def test_the_report_file_is_private(policy: Path, tmp_path: Path) -> None:
    with Collector(policy, tmp_path) as collector:
        mode = collector.report_file.stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    code, output = run("--grpc", "127.0.0.1:0", "--report-file", str(tmp_path / "no" / "such" / "folder"))
    assert code == 1
    assert "report file" in output


def test_metrics_and_logs_are_passed_on_too(policy: Path, tmp_path: Path, sink: OtlpSink) -> None:
    metrics, logs = requests.metrics(), requests.logs()
    services = {"metrics": "MetricsService", "logs": "LogsService"}
    with Collector(policy, tmp_path, "--forward", f"grpc://{sink.address}") as collector:
        with grpc.insecure_channel(collector.endpoint.removeprefix("http://")) as channel:
            for signal, body in (("metrics", metrics), ("logs", logs)):
                method = f"/opentelemetry.proto.collector.{signal}.v1.{services[signal]}/Export"
                assert channel.unary_unary(method)(body, timeout=20) == b""
        until(lambda: sink.requests("metrics") and sink.requests("logs"), lambda: "metrics and logs downstream")
    assert sink.requests("metrics") == [metrics]
    assert sink.requests("logs") == [logs]


def test_a_changed_policy_is_taken_and_a_bad_one_is_not(policy: Path, tmp_path: Path) -> None:
    with Collector(policy, tmp_path) as collector:
        first = collector.wait_for(of(agent_run(collector.endpoint, "lookup_user", "check_balance", "send_receipt")))
        policy.write_text(POLICY.replace("[lookup_user, check_balance, send_receipt]", "[]"), encoding="utf-8")
        collector.process.wait_for_line("the policy was not reloaded")
        second = collector.wait_for(of(agent_run(collector.endpoint, "lookup_user", "check_balance", "send_receipt")))
        policy.write_text(POLICY.replace("prohibited_steps: [delete_records]", "prohibited_steps: [send_receipt]")
                          .replace("check_balance, send_receipt]", "check_balance]"), encoding="utf-8")  # fmt: skip
        collector.process.wait_for_line("policy reloaded: 1 workflow")
        third = collector.wait_for(of(agent_run(collector.endpoint, "lookup_user", "check_balance", "send_receipt")))
    assert [r[0]["verdict"] for r in (first, second, third)] == ["pass", "pass", "fail"]
    assert first[0]["policy_fingerprint"] == second[0]["policy_fingerprint"] != third[0]["policy_fingerprint"]


def test_a_hangup_reloads(policy: Path, tmp_path: Path) -> None:
    with Collector(policy, tmp_path) as collector:
        os.kill(collector.process.pid, signal.SIGHUP)
        collector.process.wait_for_line("policy reloaded")
