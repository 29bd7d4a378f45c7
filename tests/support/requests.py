"""OTLP requests for tests, small and with ids that tell them apart."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def span_id(number: int) -> bytes:
    return number.to_bytes(8, "big")


def traces(*span_numbers: int, trace: int = 1, name: str = "span", padding: int = 0) -> bytes:
    """One request with a span for each number (from 1) in one trace; `padding` bytes in an attribute of each."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in span_numbers:
        span = spans.add(trace_id=trace.to_bytes(16, "big"), span_id=span_id(number), name=name)
        span.start_time_unix_nano, span.end_time_unix_nano = number, number + 1
        if padding:
            span.attributes.add(key="padding").value.string_value = "x" * padding
    return request.SerializeToString()


def metrics(value: int = 1) -> bytes:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="calls")
    metric.gauge.data_points.add(as_int=value)
    return request.SerializeToString()


def logs(text: str = "hello") -> bytes:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add().body.string_value = text
    return request.SerializeToString()


def span_ids(request: bytes) -> list[bytes]:
    parsed = ExportTraceServiceRequest.FromString(request)
    return [span.span_id for group in parsed.resource_spans for scope in group.scope_spans for span in scope.spans]


def as_json(request: bytes | Any) -> bytes:
    """The OTLP/JSON of a request, serialised spans or a message: protobuf's own JSON, with ids in hex."""
    message = ExportTraceServiceRequest.FromString(request) if isinstance(request, bytes) else request

    def hexed(value: Any) -> Any:
        if isinstance(value, list):
            return [hexed(item) for item in value]
        if isinstance(value, dict):
            return {k: base64.b64decode(v).hex() if k in _IDS else hexed(v) for k, v in value.items()}
        return value

    return json.dumps(hexed(MessageToDict(message, use_integers_for_enums=True))).encode()


_IDS = ("traceId", "spanId", "parentSpanId")
