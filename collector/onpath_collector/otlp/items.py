"""How many items a request holds: spans, data points or log records."""

from __future__ import annotations

from typing import Any, Literal

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from onpath_collector.otlp.wire import parse


def count_items(signal: Literal["metrics", "logs"], data: bytes) -> int:
    """Of an export request of that signal. Raises DecodeError."""
    if signal == "logs":
        logs = parse(ExportLogsServiceRequest, data)
        return sum(len(s.log_records) for r in logs.resource_logs for s in r.scope_logs)
    metrics = parse(ExportMetricsServiceRequest, data)
    return sum(_points(m) for r in metrics.resource_metrics for s in r.scope_metrics for m in s.metrics)


def _points(metric: Any) -> int:
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind else 0
