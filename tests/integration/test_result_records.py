"""Results are records of the OpenTelemetry SDK; what leaves is what its OTLP exporters send of them, byte for byte."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from onpath import results
from onpath.evaluate import evaluate
from onpath.model import Trace
from onpath.policy.load import load_data
from onpath_collector.judging import Job, Setup, judge
from onpath_collector.otlp import decode
from tests.support.otlp_sink import OtlpSink
from tests.support.requests import traces

JUDGED_AT = 1_700_000_000_000_000_000
RESOURCE = {"service.name": "onpath", "service.instance.id": "test"}
POLICY = {
    "version": 1,
    "workflows": [
        {
            "name": "refund",
            "match": {},
            "adherence": {"expected_steps": ["pay"], "required_steps": ["pay"], "extract_from": "tool_calls"},
        }
    ],
}


def test_the_collector_sends_what_the_sdks_exporters_would_send() -> None:
    policy, spans = load_data(POLICY), traces(1, 2)
    outcome = judge(Job([spans], "root_ended", judged_at_ns=JUDGED_AT), Setup(policy, RESOURCE))

    report = evaluate(Trace(*decode([spans]), release_reason="root_ended"), policy)
    made = results.evaluation_spans(report, Resource(RESOURCE), "clamped", JUDGED_AT)
    events = results.events(report, Resource(RESOURCE), JUDGED_AT)
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
