"""Results are records of the OpenTelemetry SDK; what leaves is what its OTLP exporters send of them, byte for byte."""

from __future__ import annotations

from typing import Any, Final

import pytest
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from onpath import results, results_records
from onpath.evaluate import evaluate
from onpath.model import Trace
from onpath.policy.load import load_data
from onpath_collector.judging import Job, Setup, judge
from onpath_collector.otlp import decode
from tests.support.otlp_sink import OtlpSink
from tests.support.requests import traces

JUDGED_AT = 1_700_000_000_000_000_000
RESOURCE = {"service.name": "onpath", "service.instance.id": "test"}


def policy_for(expected: str) -> dict[str, Any]:
    steps = {"expected_steps": [expected], "required_steps": [expected], "prohibited_steps": ["delete"]}
    workflow = {"name": "refund", "match": {}, "adherence": {**steps, "extract_from": "tool_calls"}, "seq!": [expected]}
    return {"version": 1, "workflows": [workflow]}


def run_of(*tools: str) -> bytes:
    """A request with one agent run that called these tools."""
    request = ExportTraceServiceRequest.FromString(traces(*range(1, len(tools) + 2)))
    agent, *calls = request.resource_spans[0].scope_spans[0].spans
    agent.end_time_unix_nano = 1000
    agent.attributes.add(key="gen_ai.operation.name").value.string_value = "invoke_agent"
    agent.attributes.add(key="gen_ai.conversation.id").value.string_value = "c-1"
    for call, tool in zip(calls, tools, strict=True):
        call.parent_span_id = agent.span_id
        call.attributes.add(key="gen_ai.operation.name").value.string_value = "execute_tool"
        call.attributes.add(key="gen_ai.tool.name").value.string_value = tool
    return request.SerializeToString()


MODES: Final[list[results.SpanMode]] = ["clamped", "realtime", "linked"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reason", ["root_ended", "idle"])
@pytest.mark.parametrize("tools", [("pay",), ("delete", "log", "delete"), ("\N{POUND SIGN}" * 150, "pay"), ()])
def test_the_collector_sends_what_the_sdks_exporters_would_send(
    tools: tuple[str, ...], reason: str, mode: results.SpanMode
) -> None:
    policy, spans = load_data(policy_for("pay")), run_of(*tools)
    outcome = judge(Job([spans], reason, judged_at_ns=JUDGED_AT), Setup(policy, RESOURCE, mode))

    report = evaluate(Trace(*decode([spans]), release_reason=reason), policy)
    made = results_records.evaluation_spans(report, Resource(RESOURCE), mode, JUDGED_AT)
    events = results_records.events(report, Resource(RESOURCE), JUDGED_AT)
    assert {type(record) for record in (*made, *events)} == {ReadableSpan, ReadableLogRecord}

    with OtlpSink() as sink:
        spans_out = OTLPSpanExporter(endpoint=sink.address, insecure=True)
        logs_out = OTLPLogExporter(endpoint=sink.address, insecure=True)
        assert spans_out.export(made) is SpanExportResult.SUCCESS
        assert logs_out.export(events) is LogRecordExportResult.SUCCESS
        spans_out.shutdown()
        logs_out.shutdown()
    assert sink.requests("trace") == [outcome.spans]
    assert sink.requests("logs") == [outcome.logs]
