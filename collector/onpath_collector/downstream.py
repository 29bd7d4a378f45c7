"""The downstream as one call: a request's bytes out, what became of them back.

    Target (an endpoint, understood) -> Sender.send(bytes) -> Delivered | Retry | Failed

What is worth another try is decided here, by OTLP's own table, and nowhere else. Requests go out as they are: a sender
never decodes one.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

import grpc
from google.protobuf.message import DecodeError
from grpc import StatusCode, aio
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from onpath_collector.rpc_status import retry_delay

Signal = Literal["traces", "metrics", "logs"]

_METHODS: Final[dict[Signal, str]] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_PORTS: Final = {"grpc": 4317, "grpcs": 4317, "http": 80, "https": 443}
_RETRYABLE: Final = frozenset(
    {
        StatusCode.CANCELLED,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.ABORTED,
        StatusCode.OUT_OF_RANGE,
        StatusCode.UNAVAILABLE,
        StatusCode.DATA_LOSS,
    }
)


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
    """Where to send and how. `endpoint` is grpc://, grpcs://, http:// or https:// HOST[:PORT]."""

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict)
    compression: Literal["none", "gzip"] = "none"
    timeout: float = 10.0  # seconds for one attempt
    tls: TlsSettings = TlsSettings()


@dataclass(frozen=True, slots=True)
class Endpoint:
    host: str  # without the brackets of IPv6
    port: int
    secure: bool


def parse_endpoint(endpoint: str) -> Endpoint:
    """Raises ValueError, whose message says what an endpoint looks like."""
    url = urlsplit(endpoint)
    if url.scheme not in _PORTS or not url.hostname:
        raise ValueError(
            f"{endpoint!r} is not an endpoint such as grpc://HOST:PORT, http://HOST:PORT or https://HOST:PORT"
        )
    try:
        port = url.port
    except ValueError as error:
        raise ValueError(f"{endpoint!r} has no usable port: {error}") from error
    return Endpoint(url.hostname, port or _PORTS[url.scheme], url.scheme in ("grpcs", "https"))


class GrpcSender:
    """OTLP over one gRPC connection."""

    def __init__(self, downstream: Downstream, signal: Signal) -> None:
        self._timeout = downstream.timeout
        self._signal = signal
        self._headers = tuple((name.lower(), value) for name, value in downstream.headers.items())
        self._channel = _channel(downstream)
        self._export = self._channel.unary_unary(_METHODS[signal])

    async def send(self, request: bytes) -> Outcome:
        try:
            answer = await self._export(request, timeout=self._timeout, metadata=self._headers)
        except aio.AioRpcError as error:
            return grpc_outcome(error.code(), error.details() or "", retry_delay(error.trailing_metadata()))
        return delivered(self._signal, answer)

    async def close(self) -> None:
        await self._channel.close()


def grpc_outcome(code: StatusCode, message: str, hint: float | None) -> Retry | Failed:
    """OTLP's table for gRPC: what a sender may try again."""
    reason = code.name.lower()
    if code in _RETRYABLE or (code is StatusCode.RESOURCE_EXHAUSTED and hint is not None):
        return Retry(reason, hint, message)
    return Failed(reason, message)


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


def _channel(downstream: Downstream) -> aio.Channel:
    endpoint = parse_endpoint(downstream.endpoint)
    target = f"[{endpoint.host}]:{endpoint.port}" if ":" in endpoint.host else f"{endpoint.host}:{endpoint.port}"
    options: list[tuple[str, int | str]] = [
        ("grpc.enable_retries", 0),  # retrying is the queue's, which counts it
        ("grpc.max_send_message_length", -1),
        ("grpc.max_reconnect_backoff_ms", 5000),  # a downstream that is back is used soon
        ("grpc.primary_user_agent", f"onpath/{version('onpath')}"),
    ]
    compression = grpc.Compression.Gzip if downstream.compression == "gzip" else None
    if not endpoint.secure:
        return aio.insecure_channel(target, options=options, compression=compression)
    tls = downstream.tls
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(
        root_certificates=tls.ca.read_bytes() if tls.ca else None,
        private_key=tls.key.read_bytes() if tls.key else None,
        certificate_chain=tls.cert.read_bytes() if tls.cert else None,
    )
    return aio.secure_channel(target, credentials, options=options, compression=compression)


def is_own_endpoint(endpoint: str, own_addresses: Iterable[str]) -> bool:
    """Whether `endpoint` (a URL) leads to one of `own_addresses` (HOST:PORT), by whatever name.

    Names are resolved. An own address of 0.0.0.0 or [::] is reached by every address of this machine. A name that does
    not resolve leads nowhere, so not here.
    """
    downstream = parse_endpoint(endpoint)
    target = {_loopback_if_any(ip) for ip in _resolve(downstream.host)}
    for address in own_addresses:
        own_host, _, own_port = address.rpartition(":")
        if int(own_port) != downstream.port:
            continue
        own = _resolve(own_host.strip("[]"))
        if target & own or (own & {"0.0.0.0", "::"} and any(_is_local(ip) for ip in target)):
            return True
    return False


def _resolve(host: str) -> set[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(address[0]).removeprefix("::ffff:") for *_, address in found}


def _loopback_if_any(ip: str) -> str:
    """Connecting to the unspecified address reaches loopback."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(ip, ip)


def _is_local(ip: str) -> bool:
    """Whether the address is one of this machine's: only such can be bound."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, 0))
        except OSError:
            return False
    return True
