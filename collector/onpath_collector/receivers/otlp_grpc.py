"""The OTLP/gRPC receiver: messages as bytes to the consumer, its answer or error as OTLP wants it on gRPC.

    connection -> admission (closing? room to read?) -> read -> inflate -> consumer -> response or status

grpcio's own answers are wrong for OTLP (a malformed message is INTERNAL, an exception UNKNOWN, too many calls
RESOURCE_EXHAUSTED), and it inflates a message before anyone can ask how large it will be. So methods are registered
as streams of one raw message: the handler runs before anything is read, and reads when there is room.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import grpc
from grpc import StatusCode, aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from onpath_collector.otlp import DecodeError
from onpath_collector.receivers.base import Accepted, Consumer, ReceiverCounts, Refused, Signal, TooLarge, consume
from onpath_collector.receivers.compression import Inflater, is_compressed
from onpath_collector.rpc_status import trailing_metadata

log = logging.getLogger(__name__)

_PATIENCE: Final = 1.0  # seconds that a request waits for room before the slowest sender is cut off

Context: TypeAlias = "aio.ServicerContext[bytes, bytes]"
Handler: TypeAlias = Callable[[AsyncIterator[bytes], Context], Awaitable[bytes]]

SERVICES: Final[dict[Signal, str]] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """Seconds and bytes. `max_in_flight` bounds what is read and not yet handed on, all connections together."""

    endpoint: str = "127.0.0.1:4317"
    max_request: int = 64 << 20
    max_in_flight: int = 256 << 20
    read_timeout: float = 10.0  # for one message to arrive whole, once it is being read
    max_concurrent_streams: int = 256  # a connection
    keepalive_time: float = 7200.0
    keepalive_timeout: float = 20.0
    keepalive_min_time: float = 10.0  # senders that ping more often are cut off
    max_connection_idle: float | None = None
    max_connection_age: float | None = None
    max_connection_age_grace: float | None = None


class ListenError(OSError):
    """The receiver cannot listen where it was told to; the message says where and why."""


class _NotReceived(TooLarge):
    """The stream ended without a message: grpcio refused it for its size, or the sender went away. It does not say."""


class GrpcReceiver:
    """Serves the three OTLP services and gRPC health on one port.

    `start` may be called once. `stop` may be called at any time and again: health answers NOT_SERVING at once, new
    requests are told to come back, those in flight are finished within the grace period. Owned by one event loop.
    """

    transport: Final = "grpc"

    def __init__(self, settings: GrpcSettings, consumer: Consumer) -> None:
        self._settings = settings
        self._consumer = consumer
        self.address = ""  # HOST:PORT once started
        self._server: aio.Server | None = None
        self._health: health.aio.HealthServicer | None = None
        self._inflater = Inflater(settings.max_request)
        self._places = asyncio.Semaphore(max(1, settings.max_in_flight // settings.max_request))
        self._reading: dict[asyncio.Timeout, float] = {}  # since when, the longest first
        self._closing = False
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._faults: set[tuple[str, str]] = set()
        self.counts: dict[Signal, ReceiverCounts] = {signal: ReceiverCounts() for signal in SERVICES}

    async def start(self) -> str:
        """Listens; the address it got, as HOST:PORT. Raises ListenError."""
        server = aio.server(options=_options(self._settings))
        server.add_generic_rpc_handlers(tuple(self._service(signal) for signal in SERVICES))
        servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        for name in SERVICES.values():
            await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
        address = _listen(server, self._settings.endpoint)
        await server.start()
        self._server, self._health = server, servicer
        self.address = address
        return address

    async def stop(self, grace: float = 5.0) -> None:
        self._closing = True
        server, self._server = self._server, None
        if server is None or self._health is None:
            return
        await self._health.enter_graceful_shutdown()
        try:
            async with asyncio.timeout(grace):
                await self._idle.wait()
        except TimeoutError:
            log.warning("stopped receiving OTLP/gRPC with %d requests unfinished", self._in_flight)
        await server.stop(0.1)  # not the whole grace: a health watch never ends by itself

    def _service(self, signal: Signal) -> grpc.GenericRpcHandler:
        take = consume(self._consumer, signal)

        async def export(_: AsyncIterator[bytes], context: Context) -> bytes:
            return await self._export(signal, take, context)

        behaviour: Any = export  # the stubs know only the handlers of the synchronous server
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_unary_rpc_method_handler(behaviour)
        return grpc.method_handlers_generic_handler(SERVICES[signal], {"Export": method})

    async def _export(self, signal: Signal, take: Callable[[bytes], Accepted], context: Context) -> bytes:
        counts = self.counts[signal]
        self._in_flight += 1
        self._idle.clear()
        try:
            await self._take_place()
            try:
                accepted = take(await self._read(context))
            finally:
                self._places.release()
            counts.accept(accepted)
            return _response(signal, accepted)
        except Refused as refused:
            counts.refused[refused.reason] += 1
            message = f"not now ({refused.reason}), come back later"
            return await _abort(context, StatusCode.UNAVAILABLE, message, refused.retry_after)
        except TooLarge as error:
            counts.failed["not_received" if isinstance(error, _NotReceived) else "too_large"] += 1
            return await _abort(context, StatusCode.RESOURCE_EXHAUSTED, str(error))
        except DecodeError as error:
            counts.failed["undecodable"] += 1
            return await _abort(context, StatusCode.INVALID_ARGUMENT, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the sender gets an answer and we a count
            counts.failed["internal"] += 1
            self._log_fault(error)
            return await _abort(context, StatusCode.INTERNAL, "the collector failed on this request")
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def _take_place(self) -> None:
        """Room for one request of the greatest size. Small ones pass through so fast that none waits for long."""
        if self._closing:
            raise Refused("shutting_down")
        if not self._places.locked():
            await self._places.acquire()
            return
        for _ in range(2):
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._places.acquire()
                return
            except TimeoutError:
                self._cut_off_slowest()
        raise Refused("in_flight")

    def _cut_off_slowest(self) -> None:
        """A sender that stalls must not keep its place while others wait."""
        now = asyncio.get_running_loop().time()
        slowest = next(iter(self._reading), None)
        if slowest is not None and now - self._reading[slowest] >= _PATIENCE:
            del self._reading[slowest]
            slowest.reschedule(now)

    async def _read(self, context: Context) -> bytes:
        try:
            async with asyncio.timeout(self._settings.read_timeout) as limit:
                self._reading[limit] = asyncio.get_running_loop().time()
                message = await context.read()
        except TimeoutError:
            raise Refused("slow_sender") from None
        finally:
            self._reading.pop(limit, None)
        if not isinstance(message, bytes):
            raise _NotReceived(f"no request of at most {self._settings.max_request} bytes was received")
        if is_compressed(message):
            message = await self._inflater.inflate(message)
        if self._closing:
            raise Refused("shutting_down")
        return message

    def _log_fault(self, error: Exception) -> None:
        """Each kind once, with its stack: a fault that comes with every request must not fill the disk."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
        if (type(error).__name__, place) not in self._faults:
            self._faults.add((type(error).__name__, place))
            log.error("a request failed by a fault of the collector; others like it are only counted", exc_info=error)


async def _abort(context: Context, code: StatusCode, message: str, retry_after: float | None = None) -> bytes:
    number: int = code.value[0]
    await context.abort(code, message, trailing_metadata(number, message, retry_after))


def _response(signal: Signal, accepted: Accepted) -> bytes:
    """Empty, with partial_success unset, unless there is something to say."""
    if not accepted.rejected and not accepted.message:
        return b""
    rejected, message = accepted.rejected, accepted.message
    if signal == "traces":
        spans = ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)
        return ExportTraceServiceResponse(partial_success=spans).SerializeToString()
    if signal == "metrics":
        points = ExportMetricsPartialSuccess(rejected_data_points=rejected, error_message=message)
        return ExportMetricsServiceResponse(partial_success=points).SerializeToString()
    records = ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=message)
    return ExportLogsServiceResponse(partial_success=records).SerializeToString()


def _options(settings: GrpcSettings) -> list[tuple[str, int]]:
    milliseconds = {
        "grpc.keepalive_time_ms": settings.keepalive_time,
        "grpc.keepalive_timeout_ms": settings.keepalive_timeout,
        "grpc.http2.min_ping_interval_without_data_ms": settings.keepalive_min_time,
        "grpc.max_connection_idle_ms": settings.max_connection_idle,
        "grpc.max_connection_age_ms": settings.max_connection_age,
        "grpc.max_connection_age_grace_ms": settings.max_connection_age_grace,
    }
    return [
        ("grpc.so_reuseport", 0),  # a port that is taken must fail, not be shared
        ("grpc.per_message_decompression", 0),
        ("grpc.max_receive_message_length", settings.max_request),
        ("grpc.max_concurrent_streams", settings.max_concurrent_streams),
        *((name, round(seconds * 1000)) for name, seconds in milliseconds.items() if seconds is not None),
    ]


def _listen(server: aio.Server, endpoint: str) -> str:
    host, _, port = endpoint.rpartition(":")
    try:
        return f"{host}:{server.add_insecure_port(endpoint)}"
    except RuntimeError:  # it does not say why: the operating system does
        raise ListenError(f"cannot receive OTLP/gRPC on {endpoint}: {_why(host.strip('[]'), int(port))}") from None


def _why(host: str, port: int) -> str:
    try:
        for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen()
    except OSError as error:
        return error.strerror or str(error)
    return "the address is not usable"
