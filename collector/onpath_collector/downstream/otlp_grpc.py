"""OTLP over gRPC to the downstream."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

import grpc
from grpc import StatusCode, aio

from onpath_collector.downstream.base import Downstream, Failed, Outcome, Retry, Signal, delivered
from onpath_collector.downstream.endpoint import parse_endpoint
from onpath_collector.rpc_status import retry_delay

_METHODS: Final[dict[Signal, str]] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
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


class GrpcSender:
    """OTLP over one gRPC connection."""

    def __init__(self, downstream: Downstream, signal: Signal) -> None:
        self._timeout = downstream.timeout
        self._signal = signal
        self._headers = tuple((name.lower(), value) for name, value in downstream.headers.items())
        self._channel = _channel(downstream)
        self._export: aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(_METHODS[signal])

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


def _channel(downstream: Downstream) -> aio.Channel:
    endpoint = parse_endpoint(downstream.endpoint)
    options: list[tuple[str, int | str]] = [
        ("grpc.enable_retries", 0),  # retrying is the queue's, which counts it
        ("grpc.max_send_message_length", -1),
        ("grpc.max_reconnect_backoff_ms", 5000),  # a downstream that is back is used soon
        ("grpc.primary_user_agent", f"onpath/{version('onpath')}"),
    ]
    compression = grpc.Compression.Gzip if downstream.compression == "gzip" else None
    if not endpoint.secure:
        return aio.insecure_channel(endpoint.target, options=options, compression=compression)
    tls = downstream.tls
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(
        root_certificates=tls.ca.read_bytes() if tls.ca else None,
        private_key=tls.key.read_bytes() if tls.key else None,
        certificate_chain=tls.cert.read_bytes() if tls.cert else None,
    )
    return aio.secure_channel(endpoint.target, credentials, options=options, compression=compression)
