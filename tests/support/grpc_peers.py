"""The two ends around the collector, real gRPC on loopback: a downstream that answers as told, and a raw sender."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode, aio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

METHODS = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
DETAILS = "grpc-status-details-bin"
RETRY_INFO = "google.rpc.retryinfo-bin"
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


@dataclass(frozen=True)
class Take:
    """Accept the request; `rejected` and `message` go into partial_success, which stays unset without them."""

    rejected: int = 0
    message: str = ""


@dataclass(frozen=True)
class Refuse:
    """Answer with a status. `hint` in seconds goes into the Status details and, or, the metadata of its own."""

    code: StatusCode = StatusCode.UNAVAILABLE
    hint: float | None = None
    places: Sequence[str] = (DETAILS, RETRY_INFO)


@dataclass(frozen=True)
class Hang:
    """Never answer."""


Behaviour = Take | Refuse | Hang


def hint_metadata(code: StatusCode, seconds: float, places: Sequence[str]) -> list[tuple[str, bytes]]:
    info = RetryInfo(retry_delay=Duration(seconds=int(seconds), nanos=round(seconds % 1 * 1e9)))
    status = Status(code=code.value[0])
    status.details.add().Pack(info)
    found = {DETAILS: status.SerializeToString(), RETRY_INFO: info.SerializeToString()}
    return [(place, found[place]) for place in places]


@dataclass
class Sink:
    """What a downstream got. `behave` decides on each request, given how many came before it and its bytes."""

    behave: Callable[[int, bytes], Behaviour] = lambda number, request: Take()
    requests: list[tuple[str, bytes]] = field(default_factory=list)  # all of them, in order
    taken: list[bytes] = field(default_factory=list)  # those it answered with success
    headers: list[dict[str, str | bytes]] = field(default_factory=list)
    concurrent: int = 0
    most_concurrent: int = 0
    address: str = ""

    async def export(self, signal: str, request: bytes, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        number = len(self.requests)
        self.requests.append((signal, request))
        self.headers.append(dict(context.invocation_metadata() or ()))
        self.concurrent += 1
        self.most_concurrent = max(self.most_concurrent, self.concurrent)
        try:
            return await self._answer(self.behave(number, request), request, context)
        finally:
            self.concurrent -= 1

    async def _answer(self, answer: Behaviour, request: bytes, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        if isinstance(answer, Hang):
            await asyncio.Event().wait()
        if isinstance(answer, Refuse):
            hint = () if answer.hint is None else hint_metadata(answer.code, answer.hint, answer.places)
            await context.abort(answer.code, "told to", tuple(hint))
        assert isinstance(answer, Take)
        self.taken.append(request)
        partial = ExportTracePartialSuccess(rejected_spans=answer.rejected, error_message=answer.message)
        if partial == ExportTracePartialSuccess():
            return b""
        return ExportTraceServiceResponse(partial_success=partial).SerializeToString()


@asynccontextmanager
async def serving(
    sink: Sink,
    address: str = "127.0.0.1:0",
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[Sink]:
    """Runs the sink; its `address` is HOST:PORT."""
    server = aio.server(options=[*UNLIMITED, ("grpc.so_reuseport", 0)])
    for signal, method in METHODS.items():

        async def export(request: bytes, context: aio.ServicerContext[bytes, bytes], signal: str = signal) -> bytes:
            return await sink.export(signal, request, context)

        service = method.split("/")[1]
        handler = grpc.unary_unary_rpc_method_handler(export)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
    host = address.rpartition(":")[0]
    bound = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    sink.address = f"{host}:{bound}"
    await server.start()
    try:
        yield sink
    finally:
        await server.stop(0)


@dataclass(frozen=True)
class Reply:
    """A receiver's answer as it stood on the wire."""

    code: StatusCode
    body: bytes = b""
    message: str = ""
    metadata: dict[str, str | bytes] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """That in the details."""
        value = self.metadata[DETAILS]
        assert isinstance(value, bytes)
        return Status.FromString(value)

    @property
    def hints(self) -> list[float]:
        """Seconds to wait: from the Status, then from the metadata of its own; empty without a hint."""
        found = []
        if DETAILS in self.metadata:
            for detail in self.status.details:
                info = RetryInfo()
                assert detail.Unpack(info)
                found.append(info)
        value = self.metadata.get(RETRY_INFO)
        if isinstance(value, bytes):
            found.append(RetryInfo.FromString(value))
        return [info.retry_delay.ToTimedelta().total_seconds() for info in found]


class RawClient:
    """Sends bytes as they are to any method."""

    def __init__(self, channel: aio.Channel) -> None:
        self._channel = channel

    async def call(
        self,
        method: str,
        request: bytes,
        *,
        compression: grpc.Compression | None = None,
        patience: float = 20,
    ) -> Reply:
        call = self._channel.unary_unary(method)(request, compression=compression, timeout=patience)
        try:
            body = await call
        except aio.AioRpcError as error:
            return Reply(error.code(), b"", error.details() or "", dict(error.trailing_metadata() or ()))
        return Reply(StatusCode.OK, body, "", dict(await call.trailing_metadata()))

    async def send(self, signal: str, request: bytes, *, compression: grpc.Compression | None = None) -> Reply:
        return await self.call(METHODS[signal], request, compression=compression)


@asynccontextmanager
async def raw_client(address: str) -> AsyncIterator[RawClient]:
    async with aio.insecure_channel(address, options=UNLIMITED) as channel:
        yield RawClient(channel)
