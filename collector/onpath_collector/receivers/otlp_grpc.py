"""The OTLP/gRPC receiver: messages as bytes to the consumer, its answer or error as OTLP wants it on gRPC.

    connection -> admission (closing? room to read?) -> read -> inflate -> consumer -> response or status

grpcio's own answers are wrong for OTLP (a malformed message is INTERNAL, an exception UNKNOWN, too many calls
RESOURCE_EXHAUSTED), and it inflates a message before anyone can ask how large it will be. So methods are registered
as streams of one raw message: the handler runs before anything is read, and reads when there is room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import grpc
from grpc import StatusCode, aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from onpath_collector.listening import ListenError, bind, fitting
from onpath_collector.otlp import DecodeError
from onpath_collector.receivers.base import (
    Consumer,
    Faults,
    ReceiverCounts,
    Refused,
    Signal,
    Take,
    TooLarge,
    Unauthenticated,
    consume,
)
from onpath_collector.receivers.compression import Inflater, is_compressed
from onpath_collector.receivers.reflection import Reflection
from onpath_collector.receivers.responses import response
from onpath_collector.receivers.room import Room
from onpath_collector.receivers.streams import HealthService
from onpath_collector.receivers.weight import Scales
from onpath_collector.rpc_status import trailing_metadata
from onpath_collector.security import Certificates, Tokens

log = logging.getLogger(__name__)

_TIMES: Final = 6  # the bytes of a request it takes while it is handed on: as gRPC has it, parsed, in parts, joined
_TELLING: Final = 0.5  # seconds to tell those who watch health

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
    max_connections: int = 1024  # fewer where the process may open few files; more are closed at once
    max_concurrent_streams: int = 256  # a connection
    handshake_timeout: float = 10.0  # for a connection to become one of gRPC
    keepalive_time: float = 7200.0
    keepalive_timeout: float = 20.0
    keepalive_min_time: float = 10.0  # senders that ping more often are cut off
    max_connection_idle: float | None = None
    max_connection_age: float | None = None
    max_connection_age_grace: float | None = None


class _NotReceived(TooLarge):
    """The stream ended without a message: grpcio refused it for its size, or the sender went away. It does not say."""


class GrpcReceiver:
    """Serves the three OTLP services, gRPC health and reflection on one port. Only health is open without a token.

    `start` may be called once. `stop` may be called at any time and again: health answers NOT_SERVING at once, new
    requests are told to come back, those in flight are finished within the grace period. Owned by one event loop.
    """

    transport: Final = "grpc"

    def __init__(
        self,
        settings: GrpcSettings,
        consumer: Consumer,
        certificates: Certificates | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        self._settings = settings
        self._consumer = consumer
        self._certificates = certificates
        self._tokens = tokens
        self.address = ""  # HOST:PORT once started
        self._server: aio.Server | None = None
        self._health: health.aio.HealthServicer | None = None
        self._inflater = Inflater(settings.max_request)
        self._room = Room(settings.max_in_flight)
        self._scales = Scales(settings.max_in_flight)
        self._closing = False
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._faults = Faults()
        self.counts: dict[Signal, ReceiverCounts] = {signal: ReceiverCounts() for signal in SERVICES}

    async def start(self) -> str:
        """Listens; the address it got, as HOST:PORT. Raises ListenError."""
        server = aio.server(options=_options(self._settings))
        server.add_generic_rpc_handlers(tuple(self._service(signal) for signal in SERVICES))
        servicer = HealthService()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        for name in SERVICES.values():
            await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
        server.add_generic_rpc_handlers((Reflection((*SERVICES.values(), health.SERVICE_NAME), self._allows),))
        address = _listen(server, self._settings.endpoint, self._certificates)
        await server.start()
        self._server, self._health = server, servicer
        self.address = address
        return address

    async def stop(self, grace: float = 5.0) -> None:
        self._closing = True
        server, self._server = self._server, None
        if server is None or self._health is None:
            return
        with suppress(TimeoutError):  # one that watches health, and does not read what it is told, holds up all others
            await asyncio.wait_for(self._health.enter_graceful_shutdown(), _TELLING)
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

    async def _export(self, signal: Signal, take: Take, context: Context) -> bytes:
        counts = self.counts[signal]
        self._in_flight += 1
        self._idle.clear()
        try:
            self._admit(context)
            with self._room.share() as share:
                await share.take(self._settings.max_request)  # nothing says how large the message will be
                request = await self._read(context)
                await self._scales.weigh(signal, request)
                share.keep(_TIMES * len(request))
                accepted = await take(request)
            counts.accept(accepted)
            answer = response(signal, accepted)
            return b"" if answer is None else answer.SerializeToString()
        except Refused as refused:
            counts.refuse(refused)
            message = f"not now ({refused.reason}), come back later"
            return await _abort(context, StatusCode.UNAVAILABLE, message, refused.retry_after)
        except TooLarge as error:
            counts.failed["not_received" if isinstance(error, _NotReceived) else "too_large"] += 1
            return await _abort(context, StatusCode.RESOURCE_EXHAUSTED, str(error))
        except DecodeError as error:
            counts.failed["undecodable"] += 1
            return await _abort(context, StatusCode.INVALID_ARGUMENT, str(error))
        except Unauthenticated as error:
            counts.failed["unauthenticated"] += 1
            return await _abort(context, StatusCode.UNAUTHENTICATED, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the sender gets an answer and we a count
            counts.failed["internal"] += 1
            self._faults.tell(error)
            return await _abort(context, StatusCode.INTERNAL, "the collector failed on this request")
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    def _admit(self, context: Context) -> None:
        if self._closing:
            raise Refused("shutting_down")
        if not self._allows(dict(context.invocation_metadata() or ()).get("authorization") if self._tokens else None):
            raise Unauthenticated("a bearer token is needed")

    def _allows(self, authorization: str | bytes | None) -> bool:
        return self._tokens is None or self._tokens.allow(authorization)

    async def _read(self, context: Context) -> bytes:
        async with self._room.reading(self._settings.read_timeout):
            message = await context.read()
        if not isinstance(message, bytes):
            raise _NotReceived(f"no request of at most {self._settings.max_request} bytes was received")
        if is_compressed(message):
            message = await self._inflater.inflate(message)
        if self._closing:
            raise Refused("shutting_down")
        return message


async def _abort(context: Context, code: StatusCode, message: str, retry_after: float | None = None) -> bytes:
    number: int = code.value[0]
    await context.abort(code, message, trailing_metadata(number, message, retry_after))


def _options(settings: GrpcSettings) -> list[tuple[str, int]]:
    milliseconds = {
        "grpc.server_handshake_timeout_ms": settings.handshake_timeout,
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
        ("grpc.http2.bdp_probe", 0),  # else many MB of messages that nobody reads yet come in
        ("grpc.max_receive_message_length", settings.max_request),
        ("grpc.max_concurrent_streams", settings.max_concurrent_streams),
        ("grpc.max_allowed_incoming_connections", fitting(settings.max_connections)),
        *((name, round(seconds * 1000)) for name, seconds in milliseconds.items() if seconds is not None),
    ]


def _listen(server: aio.Server, endpoint: str, certificates: Certificates | None) -> str:
    host, _, _ = endpoint.rpartition(":")
    try:
        if certificates is None:
            return f"{host}:{server.add_insecure_port(endpoint)}"
        return f"{host}:{server.add_secure_port(endpoint, certificates.grpc_credentials())}"
    except RuntimeError:  # it does not say why: the operating system does
        for probe in bind(endpoint, "OTLP/gRPC")[1]:
            probe.close()
        raise ListenError(f"cannot receive OTLP/gRPC on {endpoint}: the address is not usable") from None
