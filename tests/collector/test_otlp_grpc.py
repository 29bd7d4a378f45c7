"""The gRPC receiver, by raw calls on loopback: every row of the table of answers, limits, bad bytes, start and stop."""

from __future__ import annotations

import asyncio
import gzip
import logging
import random
import resource
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from onpath_collector.listening import ListenError
from onpath_collector.otlp import DecodeError
from onpath_collector.receivers.base import Refused
from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings
from tests.support.consumers import KeepingConsumer
from tests.support.grpc_peers import DETAILS, METHODS, UNLIMITED, RawClient, raw_client
from tests.support.requests import logs, metrics, traces

MIB = 1 << 20


@asynccontextmanager
async def receiving(
    consumer: KeepingConsumer | None = None, **options: Any
) -> AsyncIterator[tuple[GrpcReceiver, RawClient, KeepingConsumer]]:
    consumer = consumer or KeepingConsumer()
    receiver = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0", **options), consumer)
    address = await receiver.start()
    try:
        async with raw_client(address) as client:
            yield receiver, client, consumer
    finally:
        await receiver.stop(5)


# Success


@pytest.mark.parametrize(("signal", "request_"), [("traces", traces(1, 2)), ("metrics", metrics()), ("logs", logs())])
@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_what_is_taken_reaches_the_consumer_as_it_came(
    signal: str, request_: bytes, compression: grpc.Compression | None
) -> None:
    async with receiving() as (receiver, client, consumer):
        reply = await client.send(signal, request_ * 20, compression=compression)
        assert (reply.code, reply.body, reply.metadata) == (StatusCode.OK, b"", {})
        assert consumer.kept == [(signal, request_ * 20)]
        assert receiver.counts[signal].requests == 1  # type: ignore[index]


@pytest.mark.parametrize("signal", list(METHODS))
async def test_an_empty_request_is_a_success(signal: str) -> None:
    async with receiving() as (_, client, _):
        reply = await client.send(signal, b"")
        assert (reply.code, reply.body) == (StatusCode.OK, b"")


async def test_a_span_with_a_wrong_id_is_rejected_alone() -> None:
    request = ExportTraceServiceRequest.FromString(traces(1, 2, 3, 4, 5))
    spans = request.resource_spans[0].scope_spans[0].spans
    spans[0].span_id = b"short"
    spans[1].trace_id = bytes(16)
    spans[2].span_id = bytes(8)
    spans[3].trace_id = b""
    async with receiving() as (receiver, client, consumer):
        reply = await client.send("traces", request.SerializeToString())
        assert reply.code is StatusCode.OK
        partial = ExportTraceServiceResponse.FromString(reply.body).partial_success
        assert partial.rejected_spans == 4
        assert partial.error_message
        assert consumer.requests() == [request.SerializeToString()]
        counts = receiver.counts["traces"]
        assert (counts.items, counts.rejected) == (1, 4)


# The table of errors


async def check_refusal(reply: Any, hint: float) -> None:
    assert reply.code is StatusCode.UNAVAILABLE
    assert reply.hints == [hint, hint]
    assert reply.status.code == StatusCode.UNAVAILABLE.value[0]
    assert reply.status.message == reply.message


@pytest.mark.parametrize("reason", ["memory", "queue_full", "journal_full", "shutting_down"])
@pytest.mark.parametrize(("asked", "told"), [(0.25, 0.25), (1.0, 1.0), (60.0, 3.0)])
async def test_a_refusal_says_when_to_come_back_in_both_places(reason: str, asked: float, told: float) -> None:
    async with receiving(KeepingConsumer(lambda _: Refused(reason, asked))) as (receiver, client, _):
        await check_refusal(await client.send("traces", traces(1)), told)
        assert receiver.counts["traces"].refused == {reason: 1}


@pytest.mark.parametrize("signal", list(METHODS))
async def test_undecodable_bytes_are_an_invalid_argument(signal: str) -> None:
    async with receiving(KeepingConsumer(lambda _: DecodeError("no such message"))) as (receiver, client, _):
        reply = await client.send(signal, b"")
        assert (reply.code, reply.message, reply.hints) == (StatusCode.INVALID_ARGUMENT, "no such message", [])
        assert reply.status.code == StatusCode.INVALID_ARGUMENT.value[0]
        assert receiver.counts[signal].failed == {"undecodable": 1}  # type: ignore[index]


async def test_a_fault_of_our_own_is_internal_and_logged_once_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: bytes) -> Exception | None:
        raise ZeroDivisionError("secret")

    async with receiving(KeepingConsumer(fail)) as (receiver, client, consumer):
        for _ in range(3):
            reply = await client.send("traces", traces(1))
            assert (reply.code, reply.hints) == (StatusCode.INTERNAL, [])
            assert "secret" not in reply.message
        assert receiver.counts["traces"].failed == {"internal": 3}
        (record,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
        assert record.exc_info is not None
        consumer.object_to = lambda _: None
        assert (await client.send("traces", traces(1))).code is StatusCode.OK


@pytest.mark.parametrize(
    "method",
    [
        "/opentelemetry.proto.collector.trace.v1.TraceService/Import",
        "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
        "/nothing/at.all",
    ],
)
async def test_an_unknown_method_is_unimplemented(method: str) -> None:
    async with receiving() as (_, client, _):
        assert (await client.call(method, traces(1))).code is StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("size", [64 * MIB + 1, 65 * MIB])
async def test_a_request_over_the_limit_is_refused_without_a_hint(size: int) -> None:
    async with receiving() as (receiver, client, consumer):
        reply = await client.send("traces", bytes(size))
        assert (reply.code, reply.hints) == (StatusCode.RESOURCE_EXHAUSTED, [])
        assert consumer.kept == []
        assert (await client.send("traces", traces(1))).code is StatusCode.OK
        assert receiver.counts["traces"].failed == {"not_received": 1}


async def test_a_request_of_just_the_limit_is_taken() -> None:
    request = traces(1, padding=MIB)
    async with receiving(max_request=len(request)) as (_, client, consumer):
        assert (await client.send("traces", request)).code is StatusCode.OK
        assert (await client.send("traces", request, compression=grpc.Compression.Gzip)).code is StatusCode.OK
        assert consumer.requests() == [request, request]


# Bad bytes


async def test_truncated_and_random_bytes_harm_nothing() -> None:
    draw = random.Random(7)
    good = traces(*range(1, 30), padding=20)
    bad = [good[: draw.randrange(1, len(good))] for _ in range(40)]
    bad += [draw.randbytes(draw.randrange(1, 400)) for _ in range(80)]
    bad += [bytes(b if draw.random() > 0.02 else draw.randrange(256) for b in good) for _ in range(40)]
    bad += [gzip.compress(good)[:-9], gzip.compress(good) + b"tail", b"\x1f\x8b", b"\x1f\x8b" + bytes(50)]
    bad += [zlib.compress(good)[:-5], b"\x78\x9c" + draw.randbytes(30)]
    async with receiving() as (receiver, client, _):
        codes = [(await client.send("traces", request)).code for request in bad]
        assert set(codes) <= {StatusCode.OK, StatusCode.INVALID_ARGUMENT}
        assert codes[-6:] == [StatusCode.INVALID_ARGUMENT] * 6
        assert not receiver.counts["traces"].failed["internal"]
        assert (await client.send("traces", good)).code is StatusCode.OK


def bomb(size: int) -> bytes:
    """A message that grpcio will not compress again: the client sends it as it is, gzip inside."""
    return gzip.compress(bytes(size), 9)


async def test_a_gzip_bomb_is_too_large() -> None:
    async with receiving() as (receiver, client, consumer):
        reply = await client.send("traces", bytes(65 * MIB), compression=grpc.Compression.Gzip)
        assert (reply.code, reply.hints) == (StatusCode.RESOURCE_EXHAUSTED, [])
        assert "decompression" in reply.message
        assert receiver.counts["traces"].failed == {"too_large": 1}
        assert consumer.kept == []


async def test_a_request_of_empty_messages_is_too_large() -> None:
    """Each takes two bytes on the wire and thirty times that in memory."""
    async with receiving(max_request=4 * MIB, max_in_flight=16 * MIB) as (receiver, client, _):
        reply = await client.send("traces", b"\x0a\x00" * MIB, compression=grpc.Compression.Gzip)
        assert (reply.code, reply.hints) == (StatusCode.RESOURCE_EXHAUSTED, [])
        assert receiver.counts["traces"].failed == {"too_large": 1}
        assert (await client.send("traces", traces(1, padding=3 * MIB))).code is StatusCode.OK


async def test_many_bombs_at_once_cost_the_memory_of_few() -> None:
    request = bomb(128 * MIB)
    async with receiving() as (_, client, _):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        replies = await asyncio.gather(*(client.send("traces", request) for _ in range(16)))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - before
        assert {reply.code for reply in replies} <= {StatusCode.RESOURCE_EXHAUSTED, StatusCode.UNAVAILABLE}
        for reply in replies:
            assert bool(reply.hints) is (reply.code is StatusCode.UNAVAILABLE)
        assert grown < 400
        assert (await client.send("traces", traces(1))).code is StatusCode.OK


# Start, stop, health


async def test_a_taken_port_is_a_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        receiver = GrpcReceiver(GrpcSettings(endpoint=f"127.0.0.1:{port}"), KeepingConsumer())
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port}: Address already in use"):
            await receiver.start()
        await receiver.stop()


async def test_two_receivers_never_share_a_port() -> None:
    first = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0"), KeepingConsumer())
    address = await first.start()
    second = GrpcReceiver(GrpcSettings(endpoint=address), KeepingConsumer())
    with pytest.raises(ListenError, match="in use"):
        await second.start()
    await first.stop()
    assert await second.start() == address
    await second.stop()


async def test_a_host_that_is_not_here_is_a_clear_error() -> None:
    receiver = GrpcReceiver(GrpcSettings(endpoint="192.0.2.1:0"), KeepingConsumer())
    with pytest.raises(ListenError, match=r"192\.0\.2\.1:0: "):
        await receiver.start()


async def test_stopping_is_safe_without_start_and_again() -> None:
    receiver = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0"), KeepingConsumer())
    await receiver.stop()
    await receiver.stop()
    async with receiving() as (started, _, _):
        await started.stop()
        await started.stop()


async def test_health_is_served_and_ends_at_once() -> None:
    async with receiving() as (receiver, _, _):
        address = receiver.address
        async with aio.insecure_channel(address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for service in ("", "opentelemetry.proto.collector.trace.v1.TraceService"):
                answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
            watch = health.Watch(health_pb2.HealthCheckRequest())
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            await receiver.stop(30)
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_request_in_flight_at_stop_is_answered() -> None:
    """Its bytes are still coming when the receiver stops: it is told to come back, not cut off."""
    async with receiving() as (receiver, _, consumer):
        async with aio.insecure_channel(receiver.address, options=UNLIMITED) as channel:
            call = channel.stream_unary(METHODS["traces"])()
            await call.wait_for_connection()
            await asyncio.sleep(0.1)
            stopping = asyncio.create_task(receiver.stop(10))
            await asyncio.sleep(0.1)
            await call.write(traces(1))
            await call.done_writing()
            with pytest.raises(aio.AioRpcError) as caught:
                await call
            await stopping
        assert caught.value.code() is StatusCode.UNAVAILABLE
        assert DETAILS in dict(caught.value.trailing_metadata() or ())
        assert consumer.kept == []


@asynccontextmanager
async def stalling(receiver: GrpcReceiver, count: int) -> AsyncIterator[list[Any]]:
    """Senders that have begun a call and send nothing."""
    async with aio.insecure_channel(receiver.address) as channel:
        calls = [channel.stream_unary(METHODS["traces"])() for _ in range(count)]
        for call in calls:
            await call.wait_for_connection()
        await asyncio.sleep(0.1)
        yield calls


async def test_senders_that_stall_are_put_off() -> None:
    async with receiving(read_timeout=0.2) as (receiver, _, _), stalling(receiver, 2) as stalled:
        for call in stalled:
            assert await call.code() is StatusCode.UNAVAILABLE
        assert receiver.counts["traces"].refused == {"slow_sender": 2}


async def test_senders_that_stall_give_way_to_others() -> None:
    """Long before their own time is over, though all room for requests is theirs."""
    options = {"max_request": MIB, "max_in_flight": 2 * MIB, "read_timeout": 600}
    async with receiving(**options) as (receiver, client, _), stalling(receiver, 2):
        assert (await client.send("traces", traces(1))).code is StatusCode.OK
        counts = receiver.counts["traces"]
        assert (counts.requests, counts.refused) == (1, {"slow_sender": 1})


async def test_many_senders_at_once_share_little_room() -> None:
    async with receiving(max_request=MIB, max_in_flight=2 * MIB) as (_, client, consumer):
        replies = await asyncio.gather(*(client.send("traces", traces(n, padding=MIB // 2)) for n in range(1, 61)))
        assert {reply.code for reply in replies} == {StatusCode.OK}
        assert len(consumer.kept) == 60
