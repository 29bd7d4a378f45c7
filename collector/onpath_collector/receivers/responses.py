"""What a receiver answers to a request it has taken, as OTLP's message."""

from __future__ import annotations

from typing import TypeAlias

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from onpath_collector.receivers.base import Accepted, Signal

Response: TypeAlias = ExportTraceServiceResponse | ExportMetricsServiceResponse | ExportLogsServiceResponse


def response(signal: Signal, accepted: Accepted) -> Response | None:
    """None for the empty one, with partial_success unset: there is nothing to say."""
    rejected, message = accepted.rejected, accepted.message
    if not rejected and not message:
        return None
    if signal == "traces":
        spans = ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)
        return ExportTraceServiceResponse(partial_success=spans)
    if signal == "metrics":
        points = ExportMetricsPartialSuccess(rejected_data_points=rejected, error_message=message)
        return ExportMetricsServiceResponse(partial_success=points)
    records = ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=message)
    return ExportLogsServiceResponse(partial_success=records)
