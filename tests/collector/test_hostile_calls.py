"""What an attacker may do to the gRPC port, frame by frame: calls without a message, calls that last, windows shut."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings
from onpath_collector.receivers.streams import Streams
from tests.support.consumers import KeepingConsumer
from tests.support.grpc_peers import METHODS, raw_client
from tests.support.http_peers import raw_connection
from tests.support.requests import traces

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS, DATA = 4, 1, 0
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW = 4


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def fields(path: str) -> bytes:
    """POST, http, authority, path, content-type and te, none of them remembered or packed (RFC 7541, 6.2.2)."""

    def literal(name: bytes, value: bytes) -> bytes:
        return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

    start = b"\x83\x86" + b"\x01\x01a" + b"\x04" + bytes([len(path)]) + path.encode()
    return start + literal(b"content-type", b"application/grpc") + literal(b"te", b"trailers")


def call(stream: int, path: str, *messages: bytes, window: int | None = None, ends: bool = True) -> bytes:
    window_told = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW, window)
    found = PREFACE + frame(SETTINGS, 0, 0, window_told) if stream == 1 else b""
    found += frame(HEADERS, END_HEADERS, stream, fields(path))
    for message in messages:
        found += frame(DATA, 0, stream, b"\0" + len(message).to_bytes(4, "big") + message)
    return found + (frame(DATA, END_STREAM, stream, b"") if ends else b"")


@asynccontextmanager
async def receiving(**settings: float) -> AsyncIterator[tuple[KeepingConsumer, str, GrpcReceiver]]:
    consumer = KeepingConsumer()
    receiver = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0", **settings), consumer)  # type: ignore[arg-type]
    address = await receiver.start()
    try:
        yield consumer, address, receiver
    finally:
        await asyncio.wait_for(receiver.stop(1.0), 20)


async def takes(address: str, consumer: KeepingConsumer) -> None:
    async with raw_client(address) as client:
        assert (await client.send("traces", traces(1))).code is StatusCode.OK
    assert consumer.kept.pop() == ("traces", traces(1))


@pytest.mark.parametrize(
    ("messages", "status"),
    [((), b"8"), ((traces(2),), b"0"), ((b"\xff",), b"3"), ((b"",), b"0"), ((traces(2), traces(3)), b"0")],
    ids=["none", "one", "undecodable", "empty", "two"],
)
async def test_each_number_of_messages_has_an_answer(messages: tuple[bytes, ...], status: bytes) -> None:
    async with receiving() as (consumer, address, _):
        async with raw_connection(address) as connection:
            await connection.send(call(1, METHODS["traces"], *messages))
            await connection.until(b"grpc-status" + bytes([len(status)]) + status)
        assert [request for _, request in consumer.kept] == ([messages[0]] if status == b"0" else [])
        consumer.kept.clear()
        await takes(address, consumer)


async def test_a_call_that_never_sends_ends_in_time() -> None:
    async with receiving(read_timeout=0.2) as (consumer, address, receiver), raw_connection(address) as connection:
        await connection.send(call(1, METHODS["traces"], ends=False))
        await connection.until(b"slow_sender")
        assert receiver.counts["traces"].refused == {"slow_sender": 1}
        await takes(address, consumer)


@pytest.mark.parametrize("data", [b"", PREFACE[:10], PREFACE, b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_connection_that_does_not_become_one_of_grpc_is_closed(data: bytes) -> None:
    async with receiving(handshake_timeout=0.3) as (consumer, address, _), raw_connection(address) as connection:
        await connection.send(data)
        await connection.rest()
        await takes(address, consumer)


async def test_connections_over_the_limit_are_closed_and_those_there_are_served() -> None:
    async with receiving(max_connections=4) as (consumer, address, _), AsyncExitStack() as stack:
        client = await stack.enter_async_context(raw_client(address))
        assert (await client.send("traces", traces(1))).code is StatusCode.OK
        others = [await stack.enter_async_context(raw_connection(address)) for _ in range(12)]
        closed = [asyncio.create_task(other.rest()) for other in others]
        async with asyncio.timeout(20):
            while sum(task.done() for task in closed) < 9:  # noqa: ASYNC110 - whichever they are
                await asyncio.sleep(0.01)
        assert (await client.send("traces", traces(2))).code is StatusCode.OK
        for task in closed:
            task.cancel()
        assert len(consumer.kept) == 2


async def test_one_that_watches_health_and_does_not_read_does_not_hold_up_the_stop() -> None:
    async with receiving() as (_, address, receiver), AsyncExitStack() as stack:
        for window in (0, None):
            connection = await stack.enter_async_context(raw_connection(address))
            await connection.send(call(1, "/grpc.health.v1.Health/Watch", b"", window=window))
            await asyncio.sleep(0.3)  # nothing tells when it is being told, and can't be
        async with asyncio.timeout(15):
            await receiver.stop(1.0)


async def test_watches_are_so_many_at_once() -> None:
    async with receiving() as (consumer, address, _), aio.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        calls = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(140)]
        first = await asyncio.gather(*(each.read() for each in calls), return_exceptions=True)
        refused = [each for each in first if isinstance(each, aio.AioRpcError)]
        assert len(refused) == 12
        assert {each.code() for each in refused} == {StatusCode.UNAVAILABLE}
        for each in calls:
            each.cancel()
        answer = await stub.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        await takes(address, consumer)


def test_streams_that_end_make_room() -> None:
    streams = Streams(1)
    for _ in range(3):
        with streams.one() as first, streams.one() as second:
            assert (first, second) == (True, False)
