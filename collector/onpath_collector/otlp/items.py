"""How many data points a request of metrics holds."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from onpath_collector.otlp.steps import Pace, Steps, slices
from onpath_collector.otlp.wire import parse


def counting_points(data: bytes) -> Steps[int]:
    """Of an ExportMetricsServiceRequest. Raises DecodeError."""
    points, pace = 0, Pace()
    for scope in (s for r in parse(ExportMetricsServiceRequest, data).resource_metrics for s in r.scope_metrics):
        for some in slices(scope.metrics):
            points += sum(map(_points, some))
            if pace.over(1 + len(some)):
                yield
    return points


def _points(metric: Any) -> int:
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind else 0
