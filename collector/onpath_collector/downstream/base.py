"""What senders share: what became of a request, as values, and how a downstream is described.

A sender turns `send(bytes)` into an Outcome by OTLP's rules for its protocol: what is worth another try is decided
there and nowhere else. Requests go out as they are: a sender never decodes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

Signal = Literal["traces", "metrics", "logs"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The downstream has the request, but for `rejected` of its items."""

    rejected: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """Not this time. `after` is the wait in seconds that the downstream asks for, if it does."""

    reason: str
    after: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """Never: the same request would fail again."""

    reason: str
    message: str = ""


Outcome: TypeAlias = Delivered | Retry | Failed


class Sender(Protocol):
    async def send(self, request: bytes) -> Outcome:
        """Whatever happens is an Outcome; only cancellation is raised."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Paths of PEM files; without `ca` the system's authorities are trusted."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None  # when it is not the endpoint's host


@dataclass(frozen=True, slots=True, kw_only=True)
class Downstream:
    """Where to send and how. `endpoint` is grpc://, grpcs://, http:// or https:// HOST[:PORT].

    The scheme names the protocol, unless `protocol` does: http and https then only say whether it is in the clear.
    Over HTTP the endpoint may have a path, to which /v1/traces and so on is added.
    """

    endpoint: str
    protocol: Literal["grpc", "http"] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    compression: Literal["none", "gzip"] = "none"
    timeout: float = 10.0  # seconds for one attempt
    tls: TlsSettings = TlsSettings()


def delivered(signal: Signal, answer: bytes) -> Delivered:
    """Reads a successful answer; one that cannot be read is a success all the same, the status says so."""
    if not answer:
        return Delivered()
    try:
        if signal == "traces":
            spans = ExportTraceServiceResponse.FromString(answer).partial_success
            return Delivered(spans.rejected_spans, spans.error_message)
        if signal == "metrics":
            points = ExportMetricsServiceResponse.FromString(answer).partial_success
            return Delivered(points.rejected_data_points, points.error_message)
        records = ExportLogsServiceResponse.FromString(answer).partial_success
        return Delivered(records.rejected_log_records, records.error_message)
    except DecodeError:
        return Delivered()
