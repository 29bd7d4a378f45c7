"""Result metrics for OTLP: what is counted of results, as requests for the metrics signal.

Outcome.points -> instruments of the OpenTelemetry SDK -> collected every so often -> serialised request

The SDK counts, keeps exemplars and encodes. Sending is left to the forward queue rather than to the SDK's periodic
exporter: so all three signals share one set of endpoints, certificates, retries and counts, and no thread is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics import MeterProvider, TraceBasedExemplarFilter
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource

from onpath.results import SCOPE_NAME, version
from onpath.results_metrics import Instruments, Point

_EXEMPLARS: Final = TraceBasedExemplarFilter()  # whatever the environment says: those of judged spans


class ResultMetrics:
    """Cumulative since the start. Owned by one event loop."""

    def __init__(self, resource: Mapping[str, str]) -> None:
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader], Resource(dict(resource)), _EXEMPLARS, shutdown_on_exit=False)
        self._instruments = Instruments(self._provider.get_meter(SCOPE_NAME, version()))

    def record(self, points: Iterable[Point]) -> None:
        self._instruments.record(points)

    def collect(self) -> tuple[bytes, int]:
        """A serialised ExportMetricsServiceRequest and how many data points it has; nothing before the first result."""
        data = self._reader.get_metrics_data()
        if data is None:
            return b"", 0
        count = sum(
            len(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        )
        request: Any = encode_metrics(data)
        return request.SerializeToString(), count

    def close(self) -> None:
        self._provider.shutdown()
