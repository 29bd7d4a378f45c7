"""The HTTP server against senders that are broken, slow, or mean harm: raw bytes on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from onpath_collector.http_server import Answer, HttpLimits, HttpServer, Receive, Scope, Send
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from tests.support.consumers import KeepingConsumer
from tests.support.http_peers import RawConnection, post, raw_connection
from tests.support.requests import traces

GOOD = b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the body, which it does not read below /ignore."""
    body = b""
    more = not scope["path"].startswith("/ignore")
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        body += message["body"]
        more = message["more_body"]
    await Answer(200, scope["path"].encode() + b" " + body).send(send)


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[HttpServer]:
    server = HttpServer(echo, "127.0.0.1:0", lambda _: Answer(400, b"malformed"), limits=HttpLimits(**limits))
    await server.start("tests")
    try:
        yield server
    finally:
        await server.stop(0.1)
        await asyncio.sleep(0)
        assert not server.connections


async def answer_to(server: HttpServer, *parts: bytes, patience: float = 10) -> bytes:
    """All that comes back for these bytes, until the server hangs up."""
    async with raw_connection(server.address) as connection:
        for part in parts:
            await connection.send(part)
            await asyncio.sleep(0.01)
        return await connection.rest(patience)


async def drip(connection: RawConnection, data: bytes, size: int, pause: float) -> None:
    for start in range(0, len(data), size):
        await connection.send(data[start : start + size])
        await asyncio.sleep(pause)


async def works(server: HttpServer) -> None:
    async with raw_connection(server.address) as connection:
        await connection.send(GOOD)
        assert (await connection.until(b"hello")).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS to a port without
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",  # gRPC to the wrong port
        b"hello\r\n\r\n",
        b"POST /\xff HTTP/1.1\r\n\r\n",
        b"POST /echo HTTP/9.9\r\n\r\n",
        b"CONNECT example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nbad header\r\n\r\n",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"5\r\nhelloXX",
        CHUNKED + b"ffffffffffffffffff\r\n",
    ],
)
async def test_what_is_no_http_is_400_and_the_end_of_the_connection(request_: bytes) -> None:
    async with serving() as server:
        answer = await answer_to(server, request_)
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert answer.endswith(b"\r\n\r\nmalformed")
        await works(server)


async def test_bodies_arrive_whole_however_they_are_cut() -> None:
    async with serving() as server, raw_connection(server.address) as connection:
        for byte in GOOD:
            await connection.send(bytes((byte,)))
            await asyncio.sleep(0)
        await connection.until(b"/echo hello")
        await connection.send(CHUNKED + b"5;extension=1\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\n")
        await connection.until(b"/echo hello!")
        await connection.send(b"\r\n" + GOOD.replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert (await connection.rest()).endswith(b"/echo hello")


@pytest.mark.parametrize("upgrade", [b"h2c", b"websocket"])
async def test_an_upgrade_that_is_offered_is_declined(upgrade: bytes) -> None:
    request = GOOD.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + upgrade + b"\r\n\r\n")
    async with serving() as server, raw_connection(server.address) as connection:
        for _ in range(2):
            await connection.send(request)
            assert b" 200 OK" in await connection.until(b"/echo hello")
        await connection.send(request[:-3])
        await asyncio.sleep(0.02)
        await connection.send(request[-3:] + GOOD)
        await connection.until(b"/echo hello")
        await connection.until(b"/echo hello")


# Slow senders


@pytest.mark.parametrize("beginning", [b"", b"POST", GOOD[:-20], b"\r\n\r\n"])
async def test_a_header_that_does_not_come_in_time_ends_the_connection(beginning: bytes) -> None:
    async with serving(header_time=0.2) as server:
        assert await answer_to(server, beginning) == b""


async def test_a_header_that_drips_ends_the_connection() -> None:
    async with serving(header_time=0.3, idle_time=5) as server, raw_connection(server.address) as connection:
        await connection.send(GOOD)
        await connection.until(b"hello")
        with pytest.raises(ConnectionError):
            await drip(connection, GOOD * 9, 1, 0.02)


async def test_an_idle_connection_is_closed_in_time() -> None:
    async with serving(idle_time=0.2) as server:
        assert (await answer_to(server, GOOD)).endswith(b"/echo hello")


async def test_no_other_time_than_ours_ends_an_idle_connection() -> None:
    async with serving(idle_time=300) as server, raw_connection(server.address) as connection:
        await connection.send(GOOD)
        await connection.until(b"hello")
        (accepted,) = server.connections
        assert accepted.timeout_keep_alive_task is None  # uvicorn's, of five seconds


async def test_the_rest_of_a_request_that_is_answered_is_thrown_away_in_time() -> None:
    request = b"POST /ignore HTTP/1.1\r\nHost: test\r\nContent-Length: 300000\r\n\r\n"
    async with serving(discard_time=0.3, idle_time=60) as server, raw_connection(server.address) as connection:
        await connection.send(request)
        await connection.until(b"/ignore ")
        await connection.send(bytes(300_000))
        await connection.send(GOOD)  # the same connection goes on
        await connection.until(b"/echo hello")
        await connection.send(request + bytes(1000))
        assert (await connection.rest()).endswith(b"/ignore ")


async def test_a_body_that_does_not_come_in_time_is_refused_with_a_hint() -> None:
    consumer = KeepingConsumer()
    receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0", read_timeout=0.2), consumer)
    async with raw_connection(await receiver.start()) as connection:
        await connection.send(post(traces(1), length=1000))
        answer = await connection.until(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in answer
    assert receiver.counts["traces"].refused == {"slow_sender": 1}
    assert consumer.kept == []
    await receiver.stop()


async def test_senders_that_stall_give_way_to_others() -> None:
    """Long before their own time is over, though all room for requests is theirs."""
    settings = HttpSettings(endpoint="127.0.0.1:0", max_request=1 << 20, max_in_flight=1 << 20, read_timeout=600)
    receiver = HttpReceiver(settings, KeepingConsumer())
    await receiver.start()
    async with raw_connection(receiver.address) as slow, raw_connection(receiver.address) as quick:
        await slow.send(post(b"", length=1 << 20))
        await asyncio.sleep(0.05)
        await quick.send(post(traces(1)))
        assert b" 200 " in await quick.until(b"\r\n\r\n")
        assert b" 503 " in await slow.until(b"\r\n\r\n")
    await receiver.stop()


@pytest.mark.parametrize("length", [len(traces(1)) + 1, 10**6])
async def test_a_body_cut_short_is_nothing(length: int) -> None:
    consumer = KeepingConsumer()
    receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0"), consumer)
    await receiver.start()
    async with raw_connection(receiver.address) as connection:
        await connection.send(post(traces(1), length=length))
        await asyncio.sleep(0.05)
    for _ in range(100):
        await asyncio.sleep(0.01)
        if receiver.counts["traces"].failed:
            break
    assert receiver.counts["traces"].failed == {"not_received": 1}
    assert consumer.kept == []
    await receiver.stop(1)


# Senders that mean harm


@pytest.mark.parametrize(
    "endless",
    [
        b"POST /echo HTTP/1.1\r\nName: ",
        b"POST /",
        CHUNKED + b"5\r\nhello\r\n0\r\nTrailer: ",
        CHUNKED + b"5;extension=",
    ],
)
async def test_a_header_without_end_is_cut_off(endless: bytes) -> None:
    async with serving() as server, raw_connection(server.address) as connection:
        await connection.send(endless)
        with pytest.raises(ConnectionError):
            await drip(connection, b"x" * (2 << 20), 4096, 0)


@pytest.mark.parametrize("start", [b"POST /echo HTTP/1.1\r\n", CHUNKED + b"5\r\nhello\r\n0\r\n"])
async def test_too_many_header_fields_are_malformed(start: bytes) -> None:
    async with serving() as server:
        answer = await answer_to(server, start + b"A: b\r\n" * 102)
        assert answer.startswith(b"HTTP/1.1 400 ")
        await works(server)


async def test_requests_sent_ahead_are_answered_in_order_up_to_a_limit() -> None:
    async with serving() as server, raw_connection(server.address) as connection:
        await connection.send(b"".join(GOOD.replace(b"/echo", f"/{n}".encode()) for n in range(4)))
        for number in range(4):
            await connection.until(f"/{number} hello".encode())
        await connection.send(GOOD * 10_000)
        assert (await connection.rest()).count(b" 200 ") <= 6
        await works(server)


async def test_over_the_limit_the_connection_goes_that_finished_nothing_for_longest() -> None:
    async with serving(connections=3) as server, AsyncExitStack() as stack:
        connections: list[RawConnection] = []
        for _ in range(3):
            connections.append(await stack.enter_async_context(raw_connection(server.address)))
            await connections[-1].send(GOOD)
            await connections[-1].until(b"hello")
        await connections[0].send(GOOD)
        await connections[0].until(b"hello")
        newest = await stack.enter_async_context(raw_connection(server.address))
        await newest.send(GOOD)
        await newest.until(b"hello")
        assert await connections[1].rest() == b""
        for other in (connections[0], connections[2]):
            await other.send(GOOD)
            await other.until(b"hello")


async def test_of_many_connections_at_once_no_more_stay_than_the_limit() -> None:
    async with serving(connections=3) as server, AsyncExitStack() as stack:
        opening = [stack.enter_async_context(raw_connection(server.address)) for _ in range(40)]
        connections = await asyncio.gather(*opening)
        closed = [asyncio.create_task(connection.rest()) for connection in connections]
        async with asyncio.timeout(20):
            while sum(task.done() for task in closed) < 37:  # noqa: ASYNC110 - whichever they are
                await asyncio.sleep(0.01)
        assert len(server.connections) == 3
        for task in closed:
            task.cancel()
        newest = await stack.enter_async_context(raw_connection(server.address))
        await newest.send(GOOD)
        await newest.until(b"hello")


async def test_answers_are_sent_without_delay() -> None:
    """Header and body are written one after the other: the second must not wait for the other side's ACK."""
    async with serving() as server, raw_connection(server.address) as connection:
        await connection.send(GOOD)
        await connection.until(b"hello")
        (accepted,) = server.connections
        assert accepted.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_stopping_lets_a_request_finish() -> None:
    async with serving() as server, raw_connection(server.address) as connection:
        await connection.send(GOOD[:-1])
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(server.stop(5))
        await asyncio.sleep(0.05)
        await connection.send(GOOD[-1:])
        answer = await connection.rest()
        assert answer.endswith(b"/echo hello")
        assert b"connection: close\r\n" in answer
        await stopping
