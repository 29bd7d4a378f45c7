"""A consumer that keeps what it is given, whole, or refuses it as told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from onpath_collector.otlp import split
from onpath_collector.receivers.base import Accepted


@dataclass
class KeepingConsumer:
    """`object_to` gives the exception to raise for a request's bytes, or None to take it."""

    object_to: Callable[[bytes], Exception | None] = lambda request: None
    kept: list[tuple[str, bytes]] = field(default_factory=list)

    async def traces(self, request: bytes) -> Accepted:
        batch = split(request)
        return self._keep("traces", request, Accepted(batch.spans, batch.rejected.total(), batch.message))

    async def metrics(self, request: bytes) -> Accepted:
        groups = ExportMetricsServiceRequest.FromString(request).resource_metrics
        return self._keep("metrics", request, Accepted(len(groups)))

    async def logs(self, request: bytes) -> Accepted:
        groups = ExportLogsServiceRequest.FromString(request).resource_logs
        return self._keep("logs", request, Accepted(len(groups)))

    def _keep(self, signal: str, request: bytes, accepted: Accepted) -> Accepted:
        if error := self.object_to(request):
            raise error
        self.kept.append((signal, request))
        return accepted

    def requests(self, signal: str = "traces") -> list[bytes]:
        return [request for kind, request in self.kept if kind == signal]
