"""A downstream that keeps what it is sent over OTLP gRPC, traces, metrics and logs: each request as received."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeAlias

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SIGNALS = ("trace", "metrics", "logs")
LIMIT = 64 * 1024 * 1024


Answer: TypeAlias = "grpc.StatusCode | bytes | None"
"""A status to refuse with, a serialised response, or None to hang until the call is given up."""


class _Service(grpc.GenericRpcHandler):
    def __init__(self, keep: Callable[[str, bytes], Answer], signals: Iterable[str]) -> None:
        self._handlers = {
            f"/opentelemetry.proto.collector.{name}.v1.{name.capitalize()}Service/Export": self._keeping(name, keep)
            for name in signals
        }

    @staticmethod
    def _keeping(signal: str, keep: Callable[[str, bytes], Answer]) -> grpc.RpcMethodHandler:
        def export(request: bytes, context: grpc.ServicerContext) -> bytes:
            answer = keep(signal, request)
            if isinstance(answer, bytes):
                return answer
            if answer is not None:
                context.abort(answer, "told to")
            given_up = threading.Event()
            context.add_callback(given_up.set)
            given_up.wait(60)
            return b""

        return grpc.unary_unary_rpc_method_handler(export)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._handlers.get(details.method)


class OtlpSink:
    """`with OtlpSink() as sink`: listens at `sink.address` (host:port) and keeps requests; knows `signals` alone.

    `answer` decides on each request by its signal and bytes; only what is answered with a response is kept.
    """

    def __init__(
        self,
        signals: Iterable[str] = SIGNALS,
        answer: Callable[[str, bytes], Answer] = lambda signal, request: b"",  # a full success
        *,
        keeps: bool = True,
    ) -> None:
        self.answer = answer
        self._keeps = keeps
        self._signals = tuple(signals)
        self._lock = threading.Lock()
        self._requests: list[tuple[str, bytes]] = []

    def __enter__(self) -> OtlpSink:
        options = [("grpc.max_receive_message_length", LIMIT), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(ThreadPoolExecutor(16), options=options)
        self._server.add_generic_rpc_handlers([_Service(self._keep, self._signals)])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.stop(grace=2).wait()

    def _keep(self, signal: str, request: bytes) -> Answer:
        with self._lock:
            answer = self.answer(signal, request)
            if self._keeps and isinstance(answer, bytes):
                self._requests.append((signal, request))
        return answer

    def requests(self, signal: str) -> list[bytes]:
        with self._lock:
            return [request for kind, request in self._requests if kind == signal]

    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests("trace")
            for group in ExportTraceServiceRequest.FromString(request).resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    def log_records(self) -> list[LogRecord]:
        return [
            record
            for request in self.requests("logs")
            for group in ExportLogsServiceRequest.FromString(request).resource_logs
            for scope in group.scope_logs
            for record in scope.log_records
        ]
